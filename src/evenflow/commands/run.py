"""``evenflow run``: a complete pipeline on Spark, from source to sink, with live worker loads."""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.commands.dashboard import beside
from evenflow.commands.schemes import complete_scheme
from evenflow.commands.terminal import PLAIN_LINE_SECONDS, Json, notify, print_json, whole
from evenflow.errors import EvenflowError, first_line
from evenflow.kafka.address import KafkaAddress, is_kafka, without_secrets
from evenflow.spec import parameters_of, spell_value

if TYPE_CHECKING:
    from evenflow.apps import App
    from evenflow.runner.pipeline import Progress

_BAR = 30
_MOST_WORKERS = 16  # shown in the table


def complete_app(incomplete: str) -> list[str]:
    """Return the matching apps, for shell completion."""
    from evenflow.apps import apps

    return [name for name in apps() if name.startswith(incomplete)]


def _show_apps(wanted: bool) -> None:
    """Print every app with its parameters and exit."""
    if not wanted:
        return
    from evenflow.apps import apps
    from evenflow.report.tables import Table, show

    rows = [
        (name, kind.summary, ", ".join(f"{f.name}={spell_value(f.default)}" for f in parameters_of(kind)))
        for name, kind in apps().items()
    ]
    note = "Parameters follow a colon: --app vwap:price=close,size=volume"
    show([Table("Apps", ("app", "description", "parameters and defaults"), rows, note)])
    raise typer.Exit


def run(
    source: Annotated[
        str | None,
        typer.Option(
            help="Files (path or path#column), a generator (zipf:z=1.4,messages=1e6; documents, points, "
            "trades), 'rate', or a topic (kafka://HOST:9092/TOPIC?startingOffsets=latest&value=text). "
            "Default: rows generated for the app."
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(help="Key column; repeat for a composite key. Text files: the words."),
    ] = None,
    workers: Annotated[
        int, typer.Option(parser=whole, metavar="COUNT", help="Number of workers (partitions).")
    ] = 8,
    scheme: Annotated[
        str, typer.Option(help="Scheme, with parameters after a colon.", autocompletion=complete_scheme)
    ] = "fill",
    mode: Annotated[
        str, typer.Option(help="auto, planned, online, or repartition: as Spark does, with --scheme key.")
    ] = "auto",
    app: Annotated[
        str,
        typer.Option(
            help="count, top-k, naive-bayes, decision-tree, heavy-hitters, vwap or windowed-join; parameters "
            "after a colon (see --apps).",
            autocompletion=complete_app,
        ),
    ] = "count",
    top: Annotated[
        int, typer.Option(parser=whole, metavar="COUNT", help="How many keys (or classes) to keep and show.")
    ] = 10,
    master: Annotated[
        str, typer.Option(help="Spark master: local[*], spark://host:7077, or sc://host for Connect.")
    ] = "local[*]",
    checkpoint: Annotated[
        str | None,
        typer.Option(help="Folder to resume from after a stop; must be writable by every executor."),
    ] = None,
    sink: Annotated[
        str | None,
        typer.Option(
            help="Folder or topic (kafka://HOST:9092/TOPIC) for the results of every micro-batch. "
            "Default: only the top."
        ),
    ] = None,
    bad_records: Annotated[
        str,
        typer.Option(
            metavar="refuse|FOLDER", help="Kafka: stop at a record that cannot be decoded, or keep it here."
        ),
    ] = "refuse",
    packages: Annotated[
        str | None,
        typer.Option(help="Packages for Spark, such as org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0."),
    ] = None,
    at_once: Annotated[
        bool, typer.Option("--at-once", help="Read all rows in one batch job instead of streaming.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Files, topics: keep waiting for new rows until Ctrl-C.")
    ] = False,
    batch: Annotated[
        int | None,
        typer.Option(
            parser=whole,
            metavar="COUNT",
            help="Generators, topics: rows per micro-batch. Default: 100,000, or a tenth of a generator.",
        ),
    ] = None,
    rate: Annotated[int, typer.Option(parser=whole, metavar="COUNT", help="rate: rows per second.")] = 10_000,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Also show the run in a browser while it lasts.")
    ] = False,
    dashboard_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the dashboard; 0 takes a free one.")
    ] = 8700,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Serve metrics for Prometheus on this port while the run lasts."),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(help="Address of the metrics; 0.0.0.0 lets other machines scrape them.")
    ] = "127.0.0.1",
    as_json: Json = False,
    list_apps: Annotated[
        bool,
        typer.Option(
            "--apps", callback=_show_apps, is_eager=True, help="List the apps and their parameters."
        ),
    ] = False,
) -> None:
    """Process a keyed stream on balanced Spark workers, showing the load of each worker live.

    Example: `evenflow run --source zipf:z=1.4,messages=1e6 --app top-k --workers 8`

    Example: `evenflow run --source trades.csv --key symbol --app vwap:price=close,size=volume`

    Example: `evenflow run --source kafka://localhost:9092/clicks --key user --sink kafka://localhost:9092/counts`

    Ctrl-C stops it; with `--checkpoint` the same command resumes where it stopped, and every row is
    processed exactly once.
    """
    from evenflow.extras import require

    require("pyspark", "spark", "evenflow run")
    from evenflow.apps import parse_app
    from evenflow.schemes.spelling import parse_scheme

    chosen, wanted = parse_scheme(scheme), parse_app(app)
    for name, value in (("--workers", workers), ("--batch", batch), ("--rate", rate), ("--top", top)):
        if value is not None and value < 1:
            raise EvenflowError(f"{name} is {value}; it must be at least 1.")
    from evenflow.runner.pipeline import Job
    from evenflow.runner.pipeline import run as run_job
    from evenflow.runner.sources import check_source, open_input

    rows = source or wanted.source
    check_source(rows)
    if sink is not None and is_kafka(sink):
        KafkaAddress.parse_sink(sink)
        check_source(sink)
    with (
        beside(dashboard, dashboard_port, "evenflow run --dashboard") as show,
        _measured(metrics_port, metrics_host) as measure,
        session(master, workers, packages=packages) as spark,
        _shown(wanted, top) as watch,
    ):
        watch.status(f"Spark started; running {wanted.name} on {without_secrets(rows)}")
        opened = open_input(
            spark, rows, key or [], rate=rate, rows_per_batch=batch, follow=follow, keys=wanted.keys,
            bad_records=bad_records,
        )  # fmt: skip
        job = Job(
            opened, wanted, workers, chosen, mode, top, checkpoint, sink, at_once, bad_records,
            on_control=lambda control: (show(control, wanted.name), measure(control, wanted.name)),
        )  # fmt: skip
        with _deferred_interrupts(watch):
            stopped = False
            try:
                run_job(job, watch)
            except KeyboardInterrupt:
                stopped = True
    _report(watch.seen, wanted, top, as_json)
    seen = watch.seen
    if stopped:
        again = "a new run starts from the first row" if at_once else "use --checkpoint to be able to resume"
        again = "run the same command again to resume" if checkpoint else again
        notify(f"stopped after {seen.batches if seen else 0} batches; {again}.")
        raise typer.Exit(130)


@contextmanager
def session(master: str, workers: int, java: str = "", packages: str | None = None) -> Iterator[Any]:
    """Run one command in a quiet session of its own.

    Standard error of Spark and its workers goes to a log file, which is named in the error if the command
    fails. ``java`` has options for a JVM started here, ``packages`` the coordinates of jars for it.
    """
    from pyspark.sql import SparkSession

    from evenflow.spark.monitoring.switches import COMPARED

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("evenflow run").config("spark.sql.shuffle.partitions", workers)
    if master.startswith("sc://"):
        builder = builder.remote(master)
    else:
        if master.startswith("local"):
            for name in ("spark.driver.bindAddress", "spark.driver.host"):
                builder = builder.config(name, "127.0.0.1")
        for name, value in _QUIET.items():
            builder = builder.config(name, value)
        if packages:
            builder = builder.config("spark.jars.packages", packages)
        if java:
            builder = builder.config("spark.driver.extraJavaOptions", java)
        builder = builder.master(master)
    file, log = tempfile.mkstemp(prefix="evenflow-spark-", suffix=".log")
    try:
        with _standard_error_to(file):
            spark = builder.getOrCreate()
        if spark.conf.get(COMPARED, None) is None:
            spark.conf.set(COMPARED, "1")  # its figures show every batch
        try:
            yield spark
        finally:
            spark.stop()
    except EvenflowError:
        raise
    except Exception as error:
        kept = Path(log).with_suffix(".failed.log")
        Path(log).rename(kept)
        missing = unresolved(kept.read_text(errors="replace")) if packages else None
        if missing is not None:
            raise EvenflowError(
                f"--packages is {packages!r}, but {missing} was not found in any repository; use the version "
                f"of your Spark if it is there, or jars that you have, with spark.jars (log: {kept})."
            ) from error
        raise EvenflowError(f"{first_line(error)} (Spark at {master}; log: {kept})") from error
    finally:
        Path(log).unlink(missing_ok=True)


def unresolved(log: str) -> str | None:
    """Return the first package that Spark did not find, by the log of its start; None if it found all.

    >>> unresolved("  :: org.apache.spark#spark-sql-kafka-0-10_2.13;9.9: not found")
    'org.apache.spark:spark-sql-kafka-0-10_2.13:9.9'
    """
    found = re.search(r":: (\S+)#(\S+);(\S+): not found", log)
    return None if found is None else ":".join(found.groups())


_QUIET = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def _standard_error_to(file: int) -> Iterator[None]:
    """Give processes started in this context ``file`` as their standard error."""
    sys.stderr.flush()
    own = os.dup(2)
    os.dup2(file, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(own, 2)
        os.close(own)
        os.close(file)


@contextmanager
def _measured(port: int | None, host: str) -> Iterator[Any]:
    """Serve metrics, if there is a port for them; yield the function that adds a path to them."""
    if port is None:
        yield lambda path, name: None
        return
    from evenflow.extras import require

    require("prometheus_client", "metrics", "evenflow run --metrics-port")
    from evenflow.history.watch import Watched
    from evenflow.metrics.collector import Metrics, serve

    metrics = Metrics([])
    stop = serve(metrics, port, host)
    notify(f"metrics: http://{host}:{port}/metrics")
    try:
        yield lambda path, name: metrics.watch(Watched(path, name))
    finally:
        stop()


class Watch:
    """Shows the progress of a run: a live table on a terminal, otherwise a line every few seconds."""

    def __init__(self, app: App, top: int, live: Any = None):
        self.app = app
        self.top = top
        self.live = live
        self.seen: Progress | None = None
        self.interrupted = False
        self._last = 0.0
        self._batches = -1

    def status(self, what: str) -> None:
        """Show a message before there is progress."""
        if self.live is not None:
            self.live.update(what, refresh=True)
        else:
            notify(f"run: {what}")

    def __call__(self, seen: Progress) -> None:
        """Show new progress; this is also where a run is interrupted."""
        self.seen = seen
        if self.interrupted:
            raise KeyboardInterrupt
        if self.live is not None:
            self._draw(seen)
        elif seen.batches > self._batches and time.monotonic() - self._last >= PLAIN_LINE_SECONDS:
            self._last, self._batches = time.monotonic(), seen.batches
            notify(f"run: {seen.line()}")

    def _draw(self, seen: Progress) -> None:
        from rich.console import Group

        if seen.batches > self._batches or not seen.batches:  # results change only with a batch
            self._batches = seen.batches
            tables = [table_of(seen), *(self.app.tables(seen.view, self.top) if seen.view else [])]
            self.live.update(Group(*(table.framed() for table in tables)), refresh=True)


@contextmanager
def _deferred_interrupts(watch: Watch) -> Iterator[None]:
    """Defer Ctrl-C to the next progress update: during a call to Spark it would break the connection.

    A second Ctrl-C interrupts at once.
    """

    def interrupt(number: int, frame: Any) -> None:
        watch.interrupted = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _shown(app: App, top: int) -> Iterator[Watch]:
    if not sys.stderr.isatty():
        yield Watch(app, top)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), transient=True, auto_refresh=False) as live:
        yield Watch(app, top, live)


def table_of(seen: Progress) -> Any:
    """Return rows and busy seconds per worker; for many workers only the fullest and the emptiest."""
    from evenflow.report.tables import Table

    order = sorted(range(seen.workers), key=lambda worker: (-seen.rows[worker], worker))
    if len(order) > _MOST_WORKERS:
        order = [*order[: _MOST_WORKERS // 2], *order[-_MOST_WORKERS // 2 :]]
    mean = max(1e-9, seen.total / seen.workers)
    full = max(1, *seen.rows)
    busy = seen.busy
    rows = [
        (
            worker,
            seen.rows[worker],
            seen.rows[worker] / mean,
            busy[worker],
            "█" * round(_BAR * seen.rows[worker] / full),
        )
        for worker in order
    ]
    return Table("Rows per worker", ("worker", "rows", "rows / mean", "busy (s)", ""), rows, note=seen.line())


def _report(seen: Progress | None, app: App, top: int, as_json: bool) -> None:
    if seen is None:
        return
    if as_json:
        print_json(
            {
                "app": app.name,
                "batches": seen.batches,
                "rows": seen.total,
                "rows_per_worker": seen.rows,
                "max_over_mean": seen.max_over_mean,
                "last_max_over_mean": seen.last_max_over_mean,
                "busy_seconds": [round(seconds, 6) for seconds in seen.busy],
                **(app.answer(seen.view) if seen.view else {}),
            }
        )
        return
    from evenflow.report.tables import show

    show([table_of(seen), *(app.tables(seen.view, top) if seen.view else [])])
