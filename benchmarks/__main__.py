"""Command line of the studies: ``python -m benchmarks NAME``, as tables or ``--json``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenflow.cli import Commands
from evenflow.commands.bench import Quick, measure, measure_all, show
from evenflow.commands.terminal import Json

HERE = "benchmarks"

main = typer.Typer(
    name="python -m benchmarks",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Internal studies of evenflow, as ratios between interleaved runs.\n\n"
    "Example: `python -m benchmarks hashing --quick`",
)


@main.command()
def sketches(as_json: Json = False, quick: Quick = False) -> None:
    """SpaceSaving against the frequent-items sketch of Apache DataSketches: speed, and error at equal size.

    Example: `python -m benchmarks sketches --json`
    """
    show("sketches", measure("sketches", HERE, quick=quick), as_json, HERE)


@main.command()
def hashing(as_json: Json = False, quick: Quick = False) -> None:
    """hash_keys on strings, against hashing one string at a time.

    Example: `python -m benchmarks hashing`
    """
    show("hashing", measure("hashing", HERE, quick=quick), as_json, HERE)


@main.command()
def peers(as_json: Json = False, quick: Quick = False) -> None:
    """Replicas, imbalance, head sizes and speed against published numbers of other implementations.

    Example: `python -m benchmarks peers --quick`
    """
    show("peers", measure("peers", HERE, quick=quick), as_json, HERE)


@main.command()
def streams(as_json: Json = False, quick: Quick = False) -> None:
    """Every generator and file format, against routing the same messages.

    Example: `python -m benchmarks streams`
    """
    show("streams", measure("streams", HERE, quick=quick), as_json, HERE)


@main.command()
def simulator(as_json: Json = False, quick: Quick = False) -> None:
    """The simulator against routing alone.

    Example: `python -m benchmarks simulator`
    """
    show("simulator", measure("simulator", HERE, quick=quick), as_json, HERE)


@main.command()
def topics(as_json: Json = False, quick: Quick = False) -> None:
    """Kafka's own partitioner against evenflow's: lag per partition with equal consumers.

    Example: `python -m benchmarks topics --quick`
    """
    show("topics", measure("topics", HERE, quick=quick), as_json, HERE)


@main.command()
def watching(as_json: Json = False, quick: Quick = False) -> None:
    """What it costs to compare a stream with hashing and to log the values of its hot keys.

    Example: `python -m benchmarks watching --quick`
    """
    show("watching", measure("watching", HERE, quick=quick), as_json, HERE)


@main.command()
def batches(
    as_json: Json = False,
    quick: Quick = False,
    figure: Annotated[Path | None, typer.Option(help="Also draw them to this file.")] = None,
) -> None:
    """A thousand tiny micro-batches in a row: what one costs, and whether time, memory or files grow.

    Example: `python -m benchmarks batches --quick`
    """
    from benchmarks.batches import figure as draw

    rows = measure("batches", HERE, quick=quick)
    if figure is not None:
        draw(rows, figure)
    show("batches", rows, as_json, HERE)


@main.command()
def migration(as_json: Json = False, quick: Quick = False) -> None:
    """State that moves when a worker joins, with one owner per key, for every scheme that does this.

    Example: `python -m benchmarks migration --quick`
    """
    show("migration", measure("migration", HERE, quick=quick), as_json, HERE)


@main.command()
def fill(
    as_json: Json = False,
    quick: Quick = False,
    data: Annotated[
        str | None,
        typer.Option(help="Folder of real streams (Parquet, column 'key').", envvar="EVENFLOW_DATA"),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Also write tables and figure to this Markdown page.")
    ] = None,
) -> None:
    """Fill against every other scheme: balance, memory, capacities, elasticity, speed, ablation.

    Example: `python -m benchmarks fill --data streams/ --page docs/fill.md`
    """
    from benchmarks.fill import write_page

    rows = measure("fill", HERE, quick=quick, data=data)
    if page is not None:
        write_page(rows, page)
    show("fill", rows, as_json, HERE)


@main.command("fill_latency")
def fill_latency(
    as_json: Json = False,
    quick: Quick = False,
    data: Annotated[
        str | None,
        typer.Option(help="Folder of real streams (Parquet, column 'key').", envvar="EVENFLOW_DATA"),
    ] = None,
    figure: Annotated[Path | None, typer.Option(help="Also draw memory against p99 to this file.")] = None,
) -> None:
    """Fill's latency: against other schemes, with unequal workers, on streams made to hurt.

    Example: `python -m benchmarks fill_latency --data streams/ --figure docs/figures/fill-latency.png`
    """
    from benchmarks.fill_latency import figure as draw

    rows = measure("fill_latency", HERE, quick=quick, data=data)
    if figure is not None:
        draw(rows, figure)
    show("fill_latency", rows, as_json, HERE)


@main.command("fill_scale")
def fill_scale(
    as_json: Json = False,
    quick: Quick = False,
    rows: Annotated[float, typer.Option(help="Rows to route.")] = 1e7,
    keys: Annotated[float, typer.Option(help="Distinct keys.")] = 1e8,
    workers: Annotated[
        str, typer.Option(help="Numbers of workers, separated by commas.")
    ] = "10,100,1000,10000",
    figure: Annotated[Path | None, typer.Option(help="Also draw the growth to this file.")] = None,
) -> None:
    """Fill with up to 10^4 workers: time per row, memory and imbalance.

    Example: `python -m benchmarks fill_scale --rows 1e9 --workers 10000`
    """
    from benchmarks.fill_scale import figure as draw

    numbers = [int(number) for number in workers.split(",")]
    found = measure("fill_scale", HERE, quick=quick, rows=int(rows), keys=int(keys), workers=numbers)
    if figure is not None:
        draw(found, figure)
    show("fill_scale", found, as_json, HERE)


@main.command("fill_sources")
def fill_sources(
    as_json: Json = False,
    quick: Quick = False,
    data: Annotated[
        str | None,
        typer.Option(help="Folder of real streams (Parquet, column 'key').", envvar="EVENFLOW_DATA"),
    ] = None,
) -> None:
    """Fill with 5, 20 and 100 sources, without talking and with an exchange of homes.

    Example: `python -m benchmarks fill_sources --data streams/`
    """
    show("fill_sources", measure("fill_sources", HERE, quick=quick, data=data), as_json, HERE)


@main.command("fill_theorems")
def fill_theorems(as_json: Json = False, quick: Quick = False) -> None:
    """Fill's theorems against measurement.

    Example: `python -m benchmarks fill_theorems --quick`
    """
    show("fill_theorems", measure("fill_theorems", HERE, quick=quick), as_json, HERE)


@main.command()
def causes(
    names: Annotated[list[str] | None, typer.Argument(help="Studies to run. Default: all.")] = None,
    as_json: Json = False,
    quick: Quick = False,
    data: Annotated[
        str | None,
        typer.Option(help="Folder of real streams (Parquet, column 'key').", envvar="EVENFLOW_DATA"),
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Also write the tables to this Markdown page.")] = None,
) -> None:
    """Why claims of the papers differ: for each cause that docs/reproduction.md blames, a study of it.

    Example: `python -m benchmarks causes found-late same-width`
    """
    from benchmarks.causes import write_page

    rows = measure("causes", HERE, quick=quick, names=names or [], data=data)
    if page is not None:
        write_page(rows, page)
    show("causes", rows, as_json, HERE)


@main.command("all")
def everything(as_json: Json = False, quick: Quick = False) -> None:
    """Run all studies, printing each as it finishes; JSON is one object with a list per study.

    Example: `python -m benchmarks all > results.md`
    """
    import benchmarks

    measure_all(benchmarks.STUDIES, quick, as_json, HERE)


if __name__ == "__main__":
    main()
