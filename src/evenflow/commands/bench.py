"""``evenflow bench``: performance, as ratios between interleaved runs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from evenflow.commands.terminal import Json, print_json, progress, whole

bench = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Measure performance, as ratios between interleaved runs.\n\n"
    "Example: `evenflow bench routers --quick`",
)

Quick = Annotated[bool, typer.Option("--quick", help="Fewer, smaller runs: rough numbers within seconds.")]


@bench.command()
def routers(
    as_json: Json = False,
    workers: Annotated[
        int, typer.Option(parser=whole, metavar="COUNT", help="Number of workers; the limits apply to 100.")
    ] = 100,
    messages: Annotated[
        int, typer.Option(parser=whole, metavar="COUNT", help="Messages per stream, such as 1e7.")
    ] = 10_000_000,
    quick: Quick = False,
) -> None:
    """Compare every scheme with key grouping: time, scaling with workers, memory.

    Example: `evenflow bench routers --workers 1000 --messages 1e6`
    """
    show("routers", measure("routers", workers=workers, messages=messages, quick=quick), as_json)


@bench.command()
def spark(
    as_json: Json = False,
    quick: Quick = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Measure only this: balance, planning, sleep, cpu, slices or stream; may be repeated."
        ),
    ] = None,
) -> None:
    """On Spark: compare balance with repartition, and aggregate and apply with hand-written equivalents.

    Example: `evenflow bench spark --quick --only balance`
    """
    _needs_spark("spark")
    show("spark", measure("spark", quick=quick, only=only or ()), as_json)


@bench.command()
def join(
    as_json: Json = False,
    quick: Quick = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Measure only this: bare, kinds, stream-table, stream-stream, or a case such as "
            "'full outer'; may be repeated."
        ),
    ] = None,
) -> None:
    """Joins of skewed tables: evenflow's compared with Spark's, adaptive execution and salting by hand.

    The tables of each part come as soon as it is measured.

    Example: `evenflow bench join --quick --only inner`
    """
    _needs_spark("join")
    from evenflow.bench.join import measured

    rows: list[dict[str, Any]] = []
    with progress("bench join") as bar:
        for part in measured(quick, bar, only or ()):
            rows += part
            if not as_json:
                show("join", part, as_json)
                sys.stdout.flush()
    if as_json:
        print_json(rows)


@bench.command()
def stateful(
    as_json: Json = False,
    quick: Quick = False,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Measure only this: moved, cost, uniform, skew, slow or storage; may be repeated."),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="An object store, such as s3://bucket/bench, to compare with a folder."
        ),
    ] = None,
) -> None:
    """Keyed state on Spark: moving it when a worker joins, cost per batch, throughput against Spark's state.

    With `--storage`, also the time per batch with its state in an object store.

    Example: `evenflow bench stateful --quick`
    """
    _needs_spark("stateful")
    show("stateful", measure("stateful", quick=quick, only=only or (), storage=storage), as_json)


@bench.command("all")
def everything(as_json: Json = False, quick: Quick = False) -> None:
    """Run all benchmarks, printing each as it finishes; JSON is one object with a list per benchmark.

    Example: `evenflow bench all > results.md`
    """
    from evenflow.bench import BENCHMARKS

    for name in BENCHMARKS:
        _needs_spark(name)
    measure_all(BENCHMARKS, quick, as_json)


def measure_all(names: Sequence[str], quick: bool, as_json: bool, package: str = "evenflow.bench") -> None:
    """Run the benchmarks in order; print tables as they finish, or JSON at the end."""
    results = {}
    for name in names:
        results[name] = measure(name, package, quick=quick)
        if not as_json:
            show(name, results[name], as_json, package)
            typer.echo()
    if as_json:
        print_json(results)


def measure(name: str, package: str = "evenflow.bench", **options: Any) -> list[dict[str, Any]]:
    """Run one benchmark, with progress on standard error, and return its rows."""
    module = importlib.import_module(f"{package}.{name}")
    with progress(f"bench {name}") as bar:
        rows: list[dict[str, Any]] = module.run(**options, progress=bar)
    return rows


def show(name: str, rows: list[dict[str, Any]], as_json: bool, package: str = "evenflow.bench") -> None:
    """Print the rows of a benchmark as tables or as JSON."""
    if as_json:
        print_json(rows)
        return
    from evenflow.report import tables

    tables.show(importlib.import_module(f"{package}.{name}").tables(rows))


def _needs_spark(name: str) -> None:
    """Report a missing extra up front, not after minutes of measuring."""
    from evenflow.extras import require

    if name in {"spark", "join", "stateful"}:
        require("pyspark", "spark", f"evenflow bench {name}")
    if name == "stateful":
        require("deltalake", "state", f"evenflow bench {name}")
