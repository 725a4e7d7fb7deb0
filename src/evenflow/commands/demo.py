"""``evenflow demo``: two skewed streams through plain hashing and through evenflow, on Spark."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.commands.run import session
from evenflow.commands.terminal import Json, print_json, say
from evenflow.java import SHORT_RUNS

if TYPE_CHECKING:
    from evenflow.report.tables import Table
    from evenflow.runner.pipeline import Progress

SCHEMES = ("key", "fill")
NAMES = {"key": "hashing", "fill": "evenflow"}
WORDS = Path("examples/data/sotu_words.parquet")
DRIFT = "drift:z=1.2,keys=1e5,share=0.3,steps=6,seed=3"
BATCHES = 5
BAR = 24


@dataclass
class Ran:
    """One stream through one scheme: how far it is, and how it ended."""

    scheme: str
    rows: list[int]
    busy: list[float] = field(default_factory=list)
    batches: int = 0
    seconds: float | None = None  # until it ended

    @property
    def max_over_mean(self) -> float:
        """What the fullest worker got, relative to the mean."""
        return max(self.rows) * len(self.rows) / max(1, sum(self.rows))

    @property
    def title(self) -> str:
        """How far it is, in a few words."""
        if self.seconds is not None:
            return f"{NAMES[self.scheme]}: {self.seconds:.1f} s"
        return f"{NAMES[self.scheme]}: batch {self.batches} of {BATCHES}" if self.batches else "..."


@dataclass
class Stream:
    """One stream through both schemes."""

    name: str
    source: str
    ran: dict[str, Ran] = field(default_factory=dict)


def demo(
    words: Annotated[
        Path, typer.Option(help="A Parquet file with a column key; without it, only the generated stream.")
    ] = WORDS,
    workers: Annotated[int, typer.Option(help="Number of workers, each a Python process.")] = 16,
    rows: Annotated[int, typer.Option(help="Rows of each micro-batch.")] = 32_000,
    work: Annotated[float, typer.Option(help="Microseconds that a row costs its worker.")] = 400.0,
    html: Annotated[Path, typer.Option(help="The page to write.")] = Path("demo/index.html"),
    figure: Annotated[
        Path | None, typer.Option(help="Also draw the first stream's loads into this file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Stream skewed keys through plain hashing and through evenflow on local Spark, and compare.

    Example: `evenflow demo --workers 8`
    """
    from evenflow.extras import require
    from evenflow.report.page import check_page_path
    from evenflow.report.tables import show

    require("pyspark", "spark", "evenflow demo")
    require("matplotlib", "plots", "evenflow demo")
    html.parent.mkdir(parents=True, exist_ok=True)
    check_page_path(html)
    with tempfile.TemporaryDirectory(prefix="evenflow-demo-") as folder:
        streams = [Stream("a drifting stream", _cut(_drifting(rows), Path(folder) / "drift"))]
        if words.is_file():
            streams.insert(
                0, Stream("words of the State of the Union", _cut(_read(words, rows), Path(folder) / "words"))
            )
        else:
            say(f"there is no {words}; going on with a generated stream alone.")
        with _watched(streams, workers) as watch, session(f"local[{workers}]", 2, SHORT_RUNS) as spark:
            for scheme in SCHEMES:
                warm_up = f"zipf:z=1,keys=1000,messages={2 * workers}"
                _run(spark, Stream("warm-up", warm_up), scheme, workers, 0.0, rows, lambda stream: None)
            for stream in streams:
                for scheme in SCHEMES:
                    _run(spark, stream, scheme, workers, work, rows, watch)
    from evenflow.report.demo import draw_before_and_after, write_demo
    from evenflow.report.style import save

    write_demo(streams, work, html)
    if figure is not None:
        save(lambda: draw_before_and_after(streams[0]), figure)
    if as_json:
        print_json([_as_json(stream, ran) for stream in streams for ran in stream.ran.values()])
        return
    show([compared(streams, work)])
    say(f"the same with figures: {html}")


def _read(words: Path, rows: int) -> Iterator[Any]:
    """Yield the keys of a file, as many as a micro-batch has at a time."""
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(words).iter_batches(rows, columns=["key"]):
        yield batch.column(0)


def _drifting(rows: int) -> Iterator[Any]:
    """Yield the keys of a generated stream whose hot keys change."""
    from evenflow.streams import open_stream

    for chunk in open_stream(f"{DRIFT},messages={rows * BATCHES}").chunks(rows):
        yield chunk.ids


def _cut(batches: Iterator[Any], folder: Path) -> str:
    """Write the first keys of a stream as one file per micro-batch."""
    import os

    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    for number, keys in zip(range(BATCHES), batches, strict=False):
        path = folder / f"{number:04}.parquet"
        pq.write_table(pa.table({"key": keys}), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))  # read in this order
    return str(folder)


def _run(spark: Any, stream: Stream, scheme: str, workers: int, work: float, rows: int, watch: Any) -> None:
    """Send a stream through a scheme."""
    from evenflow.apps.counting import Counting
    from evenflow.runner.pipeline import Job
    from evenflow.runner.pipeline import run as run_job
    from evenflow.runner.sources import open_input
    from evenflow.schemes.registry import scheme as scheme_named

    ran = stream.ran[scheme] = Ran(scheme, [0] * workers)

    def look(seen: Progress) -> None:
        ran.rows, ran.batches, ran.busy = list(seen.rows), seen.batches, seen.busy
        watch(stream)

    opened = open_input(spark, stream.source, ["key"], rows_per_batch=rows)
    start = time.perf_counter()
    mode = "planned" if scheme == "key" else "online"  # online routers know from the first row on
    run_job(Job(opened, Counting(work=work), workers, scheme_named(scheme), mode), look)
    ran.seconds = time.perf_counter() - start
    watch(stream)


def compared(streams: list[Stream], work: float) -> Table:
    """Return the comparison as a table."""
    from evenflow.report.tables import Table

    lines = [
        (
            stream.name if scheme == SCHEMES[0] else "",
            NAMES[scheme],
            sum(ran.rows),
            ran.max_over_mean,
            max(ran.busy, default=0.0),
            ran.seconds,
        )
        for stream in streams
        for scheme, ran in stream.ran.items()
    ]
    return Table(
        f"The same rows, each costing its worker {work:g} microseconds",
        ("stream", "placed by", "rows", "fullest / mean", "busiest worker s", "whole run s"),
        lines,
        note="Hashing is what repartition(n, key) does.",
    )


def _as_json(stream: Stream, ran: Ran) -> dict[str, Any]:
    return {
        "stream": stream.name,
        "scheme": ran.scheme,
        "rows_per_worker": ran.rows,
        "max_over_mean": ran.max_over_mean,
        "busy_seconds": ran.busy,
        "seconds": ran.seconds,
    }


@contextmanager
def _watched(streams: list[Stream], workers: int) -> Iterator[Any]:
    """Show the load of every worker live on a terminal, else a line per run."""
    if not sys.stderr.isatty():
        shown: set[str] = set()

        def tell(stream: Stream) -> None:
            for ran in stream.ran.values():
                line = f"demo: {stream.name}, {ran.title}, fullest worker {ran.max_over_mean:.2f} of the mean"
                if ran.seconds is not None and line not in shown:
                    shown.add(line)
                    say(line)

        say("demo: starting Spark")
        yield tell
        return
    from rich.console import Console
    from rich.live import Live

    with Live(
        "Spark is starting ...", console=Console(stderr=True), transient=True, auto_refresh=False
    ) as live:
        yield lambda stream: live.update(_bars(stream, workers), refresh=True)


def _bars(stream: Stream, workers: int) -> Any:
    """Return rows per worker of both schemes, side by side."""
    import rich.table
    from rich.text import Text

    table = rich.table.Table(title=f"Rows per worker: {stream.name}", title_justify="left")
    table.add_column("worker", justify="right")
    shown = [stream.ran[scheme] for scheme in SCHEMES if scheme in stream.ran]
    for ran in shown:
        table.add_column(ran.title, min_width=BAR + 14)
    full = max(1, *(max(ran.rows) for ran in shown))
    colours = {"key": "red", "fill": "blue"}
    for worker in range(workers):
        cells = [
            Text("█" * round(BAR * ran.rows[worker] / full), colours[ran.scheme])
            + Text(f" {ran.rows[worker]:,}", "default")
            for ran in shown
        ]
        table.add_row(str(worker), *cells)
    return table
