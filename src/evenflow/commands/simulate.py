"""``evenflow simulate``: route a stream through schemes and measure the result, without a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.commands.terminal import (
    Json,
    announce_compilation,
    columns,
    notify,
    number,
    print_json,
    progress,
    whole,
)
from evenflow.errors import EvenflowError
from evenflow.files import check_output
from evenflow.spec import read_whole

if TYPE_CHECKING:
    from evenflow.schemes import Scheme
    from evenflow.simulator import Aggregation, Configuration, Queueing, Result
    from evenflow.simulator.events import Event

WORTH_A_PROCESS = 2e7  # messages in total; below that, starting a process costs more than it saves
queue_option = partial(typer.Option, rich_help_panel="Queues")
event_option = partial(typer.Option, rich_help_panel="Events")


def simulate(
    scheme: Annotated[
        str,
        typer.Option(
            help="Schemes, with parameters after a colon: key,d-choices:epsilon=1e-3,distinct=no,fill; "
            "or 'all'."
        ),
    ],
    stream: Annotated[
        str,
        typer.Option(help="A generator, zipf:z=1.4,keys=1e5,messages=1e7,seed=1, or a file, path#column."),
    ],
    workers: Annotated[str, typer.Option(metavar="N[,N2..]", help="Numbers of workers.")] = "100",
    sources: Annotated[
        int, typer.Option(parser=whole, metavar="COUNT", help="Number of sources, each with its own router.")
    ] = 5,
    seed: Annotated[
        int,
        typer.Option(
            parser=whole,
            metavar="SEED",
            help="Seed of hashes, feed and arrivals; generators take their own seed=.",
        ),
    ] = 0,
    key: Annotated[
        list[str] | None, typer.Option(help="Files: key column; repeat for a composite key.")
    ] = None,
    time: Annotated[str | None, typer.Option(help="Files: time column.")] = None,
    feed: Annotated[
        str, typer.Option(help="How messages reach the sources: shuffle, key, skewed or skewed:1.5.")
    ] = "shuffle",
    head: Annotated[
        float | None,
        typer.Option(
            parser=number,
            metavar="NUMBER",
            help="Also measure the head: keys with at least this share of the messages.",
        ),
    ] = None,
    resources: Annotated[
        str | None,
        typer.Option(
            help="One-owner schemes: cost of state, computation and communication, each C, L or Q: LCL."
        ),
    ] = None,
    capacity: Annotated[
        str | None,
        queue_option(help="Worker capacities, such as 3x5,7x1, or a file of numbers."),
    ] = None,
    rate: Annotated[
        float | None,
        queue_option(
            parser=number,
            metavar="NUMBER",
            help="Messages per second. Default: the stream's own times, or 10000.",
        ),
    ] = None,
    load: Annotated[
        str | None,
        queue_option(help="Scale capacities to this utilisation (0.8); 'none' uses them as given."),
    ] = None,
    arrivals: Annotated[str | None, queue_option(help="regular or poisson.")] = None,
    cost: Annotated[
        float | None, queue_option(parser=number, metavar="NUMBER", help="Work per message (1).")
    ] = None,
    service: Annotated[str | None, queue_option(help="constant or exponential.")] = None,
    warm_up: Annotated[
        int | None,
        queue_option(parser=whole, metavar="COUNT", help="Exclude the first COUNT messages from latencies."),
    ] = None,
    feedback_delay: Annotated[
        float | None,
        queue_option(parser=number, metavar="NUMBER", help="Seconds until worker reports reach the sources."),
    ] = None,
    rescale: Annotated[
        str | None,
        event_option(metavar="AT:N[,AT:N..]", help="Change to N workers at message AT."),
    ] = None,
    capacity_at: Annotated[
        list[str] | None,
        event_option(
            metavar="AT:CAPACITIES",
            help="Change capacities at message AT, such as 6e6:7x1,3x5; may be repeated.",
        ),
    ] = None,
    aggregate_every: Annotated[
        int | None,
        event_option(
            parser=whole, metavar="COUNT", help="Workers send partial results every COUNT messages."
        ),
    ] = None,
    aggregate_cost: Annotated[
        float | None,
        event_option(parser=number, metavar="NUMBER", help="Seconds to merge one partial result."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            parser=whole, metavar="COUNT", help="Number of processes. Default: depends on the amount of work."
        ),
    ] = None,
    as_json: Json = False,
    csv: Annotated[
        Path | None, typer.Option(help="Also write the results to a file (.csv, .json, .parquet, .arrow).")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Also plot the results (.png, .svg, .pdf).")] = None,
) -> None:
    """Route a stream through schemes and measure balance, memory, migration and, with queues, latency.

    Example: `evenflow simulate --scheme key,partial-key,fill --stream zipf:z=1.4,messages=1e6 --workers
    10,100`

    Setting any of the queue options turns queueing on.
    """
    from evenflow.schemes.spelling import parse_schemes
    from evenflow.simulator import Configuration
    from evenflow.streams import open_stream

    schemes = parse_schemes(scheme)
    numbers = _numbers(workers)
    _check_files(csv, plot)
    queueing = _queueing(
        load, wanted=bool(capacity_at), rate=rate, arrivals=arrivals, capacity=capacity, cost=cost,
        service=service, warm_up=warm_up, feedback_delay=feedback_delay,
    )  # fmt: skip
    events = _events(rescale, capacity_at)
    opened = open_stream(stream, key=columns(key), time=time)
    configuration = partial(
        Configuration, stream=opened, sources=sources, seed=seed, feed=feed, queueing=queueing,
        events=events, head=head, aggregation=_aggregation(aggregate_every, aggregate_cost),
        resources=resources,
    )  # fmt: skip
    configurations = [configuration(chosen, workers=number) for number in numbers for chosen in schemes]
    for each in configurations:
        _check(each)
    results, complete = _run(configurations, _jobs(jobs, configurations, opened.messages))
    if results:
        _show(results, _labels(configurations, results), as_json, csv, plot)
    if not complete:
        notify(f"interrupted after {len(results)} of {len(configurations)} simulations.")
        raise typer.Exit(130)


def _numbers(text: str) -> list[int]:
    try:
        return list(dict.fromkeys(read_whole(part) for part in text.split(",")))
    except ValueError:
        raise EvenflowError(f"--workers is {text!r}; it must be whole numbers such as 10,50,100.") from None


def _check_files(csv: Path | None, plot: Path | None) -> None:
    if plot is not None:
        from evenflow.extras import require

        require("matplotlib", "plots", "--plot")
        from evenflow.report.style import SUFFIXES

        check_output(plot, SUFFIXES)
    if csv is not None:
        check_output(csv, (".csv", ".json", ".parquet", ".arrow"))


def _queueing(load: str | None, wanted: bool, **options: Any) -> Queueing | None:
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if load is not None:
        try:
            given["load"] = None if load.strip().lower() == "none" else float(load)
        except ValueError:
            raise EvenflowError(
                f"--load is {load!r}; it must be a utilisation such as 0.8, or 'none'."
            ) from None
    if not given and not wanted:
        return None
    from evenflow.simulator import Queueing

    return Queueing(**given)


def _events(rescale: str | None, capacity_at: list[str] | None) -> list[Event]:
    """Parse AT:N and AT:CAPACITIES."""
    from evenflow.simulator import Capacities, Rescale

    found: list[Event] = []
    text = rescale
    try:
        for at, _, number in (part.partition(":") for part in (rescale or "").split(",") if rescale):
            found.append(Rescale(read_whole(at), read_whole(number)))
        for text in capacity_at or ():
            at, _, capacities = text.partition(":")
            found.append(Capacities(read_whole(at if capacities else ""), capacities))
    except ValueError:
        option, rule = ("--rescale", "workers, such as 5e5:12")
        if text is not rescale:
            option, rule = ("--capacity-at", "capacities, such as 6e6:7x1,3x5")
        raise EvenflowError(f"{option} is {text!r}; it must be message:{rule}.") from None
    return found


def _aggregation(every: int | None, cost: float | None) -> Aggregation | None:
    if every is None:
        if cost is not None:
            raise EvenflowError("--aggregate-cost needs --aggregate-every, the messages per period.")
        return None
    from evenflow.simulator import Aggregation

    return Aggregation(every, cost or 0.0)


def _check(configuration: Configuration) -> None:
    """Reject unsupported configurations before the first simulation runs."""
    from evenflow.simulator import Rescale, parse_capacities
    from evenflow.simulator.migration import as_costs

    scheme: Scheme = configuration.scheme  # type: ignore[assignment]
    router = scheme.router(configuration.workers, configuration.seed, sources=configuration.sources)
    for event in configuration.events:
        if isinstance(event, Rescale):
            router.rescale(event.workers)
    as_costs(configuration.resources, scheme)
    if configuration.queueing is not None:
        parse_capacities(configuration.queueing.capacity, configuration.workers)


def _jobs(given: int | None, configurations: Sequence[Configuration], messages: int | None) -> int:
    if given is not None:
        if given < 1:
            raise EvenflowError(f"--jobs is {given}; it must be at least 1.")
        return given
    if messages is not None and messages * len(configurations) < WORTH_A_PROCESS:
        return 1
    from evenflow.advisor.compare import own_cores

    return min(own_cores(), len(configurations))


def _run(configurations: Sequence[Configuration], jobs: int) -> tuple[list[Result], bool]:
    """Return the results, in order, and whether they are complete."""
    from evenflow.simulator import Interrupted, simulate_many

    with progress("simulate") as watch:

        def done(number: int, total: int, result: Result) -> None:
            watch(number, total, result.scheme)

        def during(index: int, messages: int, of: int) -> None:
            watch(index * of + messages, len(configurations) * of, str(configurations[index].scheme))

        try:
            if jobs == 1:
                with announce_compilation():
                    return simulate_many(configurations, during=during), True
            watch(0, len(configurations), f"in {jobs} processes")
            return simulate_many(configurations, jobs, done), True
        except Interrupted as stopped:
            return [result for result in stopped.results if result is not None], False


def _labels(configurations: Sequence[Configuration], results: Sequence[Result]) -> list[str]:
    """Return the spelling of each result's scheme."""
    from evenflow.schemes.spelling import spell

    spellings = {str(configuration.scheme): spell(configuration.scheme) for configuration in configurations}  # type: ignore[arg-type]
    return [spellings[result.parameters] for result in results]


def _show(
    results: Sequence[Result], labels: Sequence[str], as_json: bool, csv: Path | None, plot: Path | None
) -> None:
    if csv is not None:
        from evenflow.simulator import results_table, write_table

        write_table(results_table(results), csv)
    if plot is not None:
        from evenflow.report.figures import draw_simulation
        from evenflow.report.style import save

        save(lambda: draw_simulation(results, labels), plot)
    if as_json:
        from evenflow.simulator.result import plain

        print_json([plain(result.row()) for result in results])
        return
    from evenflow.report.simulation import tables
    from evenflow.report.tables import show

    show(tables(results, labels))
