"""``evenflow demo``: compare plain hashing with evenflow on two skewed streams, on Spark."""

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

from evenflow.commands.dashboard import beside
from evenflow.commands.run import session
from evenflow.commands.terminal import Json, notify, number, print_json, whole
from evenflow.errors import EvenflowError
from evenflow.files import check_output
from evenflow.java import SHORT_RUNS

if TYPE_CHECKING:
    from evenflow.report.tables import Table
    from evenflow.runner.pipeline import Progress

SCHEMES = ("key", "fill")
NAMES = {"key": "hashing", "fill": "evenflow"}
HASHING = "Hashing is Spark's own, as in repartition(n, key)."
WORDS = Path("examples/data/sotu_words.parquet")
DRIFT = "drift:z=1.2,keys=1e5,share=0.3,steps=6,seed=3"
BATCHES = 5
BAR = 24


@dataclass
class Run:
    """One stream through one scheme: its progress, and its time once it is done."""

    scheme: str
    seen: Progress
    seconds: float | None = None

    @property
    def title(self) -> str:
        """Scheme and progress, for a heading."""
        if self.seconds is not None:
            return f"{NAMES[self.scheme]}: {self.seconds:.1f} s"
        return f"{NAMES[self.scheme]}: batch {self.seen.batches} of {BATCHES}" if self.seen.batches else "..."


@dataclass
class Stream:
    """One stream through both schemes."""

    name: str
    source: str
    runs: dict[str, Run] = field(default_factory=dict)


def demo(
    words: Annotated[
        Path,
        typer.Option(help="Parquet file with a column 'key'; if missing, only the generated stream runs."),
    ] = WORDS,
    workers: Annotated[
        int, typer.Option(parser=whole, metavar="COUNT", help="Number of workers, each a Python process.")
    ] = 16,
    rows: Annotated[int, typer.Option(parser=whole, metavar="COUNT", help="Rows per micro-batch.")] = 32_000,
    work: Annotated[
        float, typer.Option(parser=number, metavar="NUMBER", help="Microseconds of work per row.")
    ] = 400.0,
    rounds: Annotated[
        int,
        typer.Option(
            parser=whole,
            metavar="COUNT",
            help="Runs of each, taken in turn; the fastest counts (busy machines).",
        ),
    ] = 1,
    html: Annotated[Path, typer.Option(help="HTML report to write.")] = Path("demo/index.html"),
    figure: Annotated[
        Path | None, typer.Option(help="Also plot the loads of both streams to this file.")
    ] = None,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Also show the runs in a browser while they last.")
    ] = False,
    dashboard_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the dashboard; 0 takes a free one.")
    ] = 8700,
    as_json: Json = False,
) -> None:
    """Compare plain hashing with evenflow on streams of skewed keys, on local Spark.

    Example: `evenflow demo --workers 8`
    """
    from evenflow.extras import require
    from evenflow.report.tables import show

    if rounds < 1:
        raise EvenflowError(f"--rounds is {rounds}; run each at least once.")
    require("pyspark", "spark", "evenflow demo")
    require("matplotlib", "plots", "evenflow demo")
    from evenflow.report.page import SUFFIXES

    html.parent.mkdir(parents=True, exist_ok=True)
    check_output(html, SUFFIXES)
    with tempfile.TemporaryDirectory(prefix="evenflow-demo-") as folder:
        streams = [Stream("a drifting stream", _cut(_drifting(rows), Path(folder) / "drift"))]
        if words.is_file():
            streams.insert(
                0, Stream("words of the State of the Union", _cut(_read(words, rows), Path(folder) / "words"))
            )
        else:
            notify(f"{words} not found; using the generated stream only.")
        with (
            beside(dashboard, dashboard_port, "evenflow demo --dashboard") as show_control,
            _watched(streams, workers) as watch,
            session(f"local[{workers}]", 2, SHORT_RUNS) as spark,
        ):
            for scheme in SCHEMES:
                warm_up = f"zipf:z=1,keys=1000,messages={2 * workers}"
                _run(spark, Stream("warm-up", warm_up), scheme, workers, 0.0, rows, lambda stream: None)
            for stream in streams:
                for scheme in SCHEMES * rounds:
                    before = stream.runs.get(scheme)
                    _run(spark, stream, scheme, workers, work, rows, watch, show_control)
                    stream.runs[scheme] = _fastest(before, stream.runs[scheme])
    from evenflow.report.demo import draw_before_and_after, write_demo
    from evenflow.report.style import save

    write_demo(streams, work, html, HASHING)
    if figure is not None:
        save(lambda: draw_before_and_after(streams), figure)
    if as_json:
        print_json([_as_json(stream, run) for stream in streams for run in stream.runs.values()])
        return
    show([comparison(streams, work)])
    notify(f"wrote the report with figures to {html}")


def _fastest(before: Run | None, now: Run) -> Run:
    """Return the faster of two runs of the same rows: other processes can only add to the time of one."""
    if before is None or before.seconds is None or now.seconds is None:
        return now
    return min(before, now, key=lambda run: run.seconds or 0.0)


def _read(words: Path, rows: int) -> Iterator[Any]:
    """Yield the keys of a file, one micro-batch at a time."""
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(words).iter_batches(rows, columns=["key"]):
        yield batch.column(0)


def _drifting(rows: int) -> Iterator[Any]:
    """Yield the keys of a generated stream with drifting hot keys."""
    from evenflow.streams import open_stream

    for chunk in open_stream(f"{DRIFT},messages={rows * BATCHES}").chunks(rows):
        yield chunk.ids


def _cut(batches: Iterator[Any], folder: Path) -> str:
    """Write one file per micro-batch."""
    import os

    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    for batch, keys in zip(range(BATCHES), batches, strict=False):
        path = folder / f"{batch:04}.parquet"
        pq.write_table(pa.table({"key": keys}), path)
        os.utime(path, (1_700_000_000 + batch, 1_700_000_000 + batch))  # read in this order
    return str(folder)


def _run(
    spark: Any,
    stream: Stream,
    scheme: str,
    workers: int,
    work: float,
    rows: int,
    watch: Any,
    show_control: Any = lambda control, name: None,
) -> None:
    """Run a stream through a scheme."""
    from evenflow.apps.counting import Counting
    from evenflow.runner.pipeline import Job, Progress
    from evenflow.runner.pipeline import run as run_job
    from evenflow.runner.sources import open_input
    from evenflow.schemes.registry import scheme as scheme_named
    from evenflow.spark.versions.known import lacking, version_of

    state = stream.runs[scheme] = Run(scheme, Progress(workers, rows=[0] * workers))

    def update(seen: Progress) -> None:
        state.seen = seen
        watch(stream)

    opened = open_input(spark, stream.source, ["key"], rows_per_batch=rows)
    start = time.perf_counter()
    adaptive = (
        "planned" if lacking(version_of(spark)) else "online"
    )  # online routers adapt from the first row
    mode = "repartition" if scheme == "key" else adaptive
    name = f"{stream.name}, {NAMES[scheme]}"
    job = Job(
        opened, Counting(work=work), workers, scheme_named(scheme), mode,
        on_control=lambda control: show_control(control, name),
    )  # fmt: skip
    run_job(job, update)
    state.seconds = time.perf_counter() - start
    watch(stream)


def comparison(streams: list[Stream], work: float) -> Table:
    """Return the comparison as a table."""
    from evenflow.report.tables import Table

    lines = [
        (
            stream.name if scheme == SCHEMES[0] else "",
            NAMES[scheme],
            run.seen.total,
            run.seen.max_over_mean,
            max(run.seen.busy, default=0.0),
            run.seconds,
        )
        for stream in streams
        for scheme, run in stream.runs.items()
    ]
    return Table(
        f"The same rows, {work:g} microseconds of work each",
        ("stream", "placed by", "rows", "max/mean load", "busiest worker (s)", "total (s)"),
        lines,
        note=HASHING,
    )


def _as_json(stream: Stream, run: Run) -> dict[str, Any]:
    found: dict[str, Any] = {"stream": stream.name, "scheme": run.scheme, "rows_per_worker": run.seen.rows}
    found |= {"max_over_mean": run.seen.max_over_mean, "busy_seconds": run.seen.busy}
    return found | {"seconds": run.seconds}


@contextmanager
def _watched(streams: list[Stream], workers: int) -> Iterator[Any]:
    """Show the load of every worker live on a terminal, otherwise print a line per run."""
    if not sys.stderr.isatty():
        shown: set[str] = set()

        def print_finished(stream: Stream) -> None:
            for run in stream.runs.values():
                line = f"demo: {stream.name}, {run.title}, max/mean load {run.seen.max_over_mean:.2f}"
                if run.seconds is not None and line not in shown:
                    shown.add(line)
                    notify(line)

        notify("demo: starting Spark")
        yield print_finished
        return
    from rich.console import Console
    from rich.live import Live

    with Live("Starting Spark ...", console=Console(stderr=True), transient=True, auto_refresh=False) as live:
        yield lambda stream: live.update(_bars(stream, workers), refresh=True)


def _bars(stream: Stream, workers: int) -> Any:
    """Return the rows per worker of both schemes, side by side."""
    import rich.table
    from rich.text import Text

    table = rich.table.Table(title=f"Rows per worker: {stream.name}", title_justify="left")
    table.add_column("worker", justify="right")
    runs = [stream.runs[scheme] for scheme in SCHEMES if scheme in stream.runs]
    for run in runs:
        table.add_column(run.title, min_width=BAR + 14)
    full = max(1, *(max(run.seen.rows) for run in runs))
    colours = {"key": "red", "fill": "blue"}
    for worker in range(workers):
        cells = [
            Text("█" * round(BAR * run.seen.rows[worker] / full), colours[run.scheme])
            + Text(f" {run.seen.rows[worker]:,}", "default")
            for run in runs
        ]
        table.add_row(str(worker), *cells)
    return table
