"""``evenflow bench``: how fast, as ratios within one run."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

from evenflow.commands.terminal import Json, print_json, progress, whole

bench = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Measure speed, as ratios within one run.\n\nExample: `evenflow bench routers --quick`",
)

Quick = Annotated[bool, typer.Option("--quick", help="Smaller and fewer runs: rough numbers in seconds.")]


@bench.command()
def routers(
    as_json: Json = False,
    workers: Annotated[int, typer.Option(help="Number of workers; the limits are for 100.")] = 100,
    messages: Annotated[
        int, typer.Option(parser=whole, metavar="COUNT", help="Messages of each stream, such as 1e7.")
    ] = 10_000_000,
    quick: Quick = False,
) -> None:
    """Every scheme against key grouping: time, growth with workers, memory, other implementations.

    Example: `evenflow bench routers --workers 1000 --messages 1e6`
    """
    _run("routers", as_json, workers=workers, messages=messages, quick=quick)


@bench.command()
def sketches(as_json: Json = False, quick: Quick = False) -> None:
    """SpaceSaving beside the frequent-items sketch of Apache DataSketches: speed, and error at equal size.

    Example: `evenflow bench sketches --json`
    """
    _run("sketches", as_json, quick=quick)


@bench.command()
def hashing(as_json: Json = False, quick: Quick = False) -> None:
    """Strings through hash_keys, against hashing them one by one.

    Example: `evenflow bench hashing`
    """
    _run("hashing", as_json, quick=quick)


@bench.command()
def peers(as_json: Json = False, quick: Quick = False) -> None:
    """Replicas, imbalance, head sizes and speed beside what other implementations published.

    Example: `evenflow bench peers --quick`
    """
    _run("peers", as_json, quick=quick)


@bench.command()
def streams(as_json: Json = False, quick: Quick = False) -> None:
    """Every generator and every kind of file, against routing what they yield.

    Example: `evenflow bench streams`
    """
    _run("streams", as_json, quick=quick)


@bench.command()
def simulator(as_json: Json = False, quick: Quick = False) -> None:
    """The simulator against routing alone.

    Example: `evenflow bench simulator`
    """
    _run("simulator", as_json, quick=quick)


@bench.command()
def fill(
    as_json: Json = False,
    quick: Quick = False,
    data: Annotated[
        str | None, typer.Option(help="Folder of real streams (Parquet, column key).", envvar="EVENFLOW_DATA")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Also write tables and figure into this Markdown page.")
    ] = None,
) -> None:
    """Fill against every other scheme: balance, memory, capacities, elasticity, speed, each rule's worth.

    Example: `evenflow bench fill --data streams/ --page docs/fill.md`
    """
    rows = _measure("fill", quick=quick, data=data)
    if page is not None:
        _module("fill").write_page(rows, page)
    _show("fill", rows, as_json)


@bench.command()
def spark(as_json: Json = False, quick: Quick = False) -> None:
    """On Spark: balance beside repartition, aggregate and apply beside what one writes by hand.

    Example: `evenflow bench spark --quick`
    """
    _run("spark", as_json, quick=quick)


@bench.command()
def stateful(as_json: Json = False, quick: Quick = False) -> None:
    """Keyed state on Spark: what moves when workers join, cost of a batch, throughput beside Spark's state.

    Example: `evenflow bench stateful --quick`
    """
    _run("stateful", as_json, quick=quick)


@bench.command("all")
def everything(as_json: Json = False, quick: Quick = False) -> None:
    """All of these, each shown when it is done; JSON is one object with a list for each.

    Example: `evenflow bench all > results.md`
    """
    from evenflow.bench import BENCHMARKS
    from evenflow.report.tables import show

    found = {}
    for name in BENCHMARKS:
        found[name] = _measure(name, quick=quick)
        if not as_json:
            show(_module(name).tables(found[name]))
            typer.echo()
    if as_json:
        print_json(found)


def _module(name: str) -> Any:
    return importlib.import_module(f"evenflow.bench.{name}")


def _measure(name: str, **options: Any) -> list[dict[str, Any]]:
    with progress(f"bench {name}") as say:
        rows: list[dict[str, Any]] = _module(name).run(**options, say=say)
    return rows


def _run(name: str, as_json: bool, **options: Any) -> None:
    _show(name, _measure(name, **options), as_json)


def _show(name: str, rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    from evenflow.report.tables import show

    show(_module(name).tables(rows))
