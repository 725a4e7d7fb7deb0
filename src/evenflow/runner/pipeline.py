"""The pipeline of `evenflow run`: a source, balanced workers, an app, a sink, and progress reports.

Besides Spark's state, only the app's view is carried from one micro-batch to the next. It is a file in the
checkpoint, not a variable: on Spark Connect, batches are written by a different process than the one that
started the query.
"""

from __future__ import annotations

import json
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenflow.apps import parse_app
from evenflow.apps.base import VIEW_FILE, App, AppSetup, View
from evenflow.control.directory import Control
from evenflow.errors import EvenflowError, own_sentence
from evenflow.files import replace_file
from evenflow.kafka.address import is_kafka
from evenflow.plan import Plan
from evenflow.runner.sources import Input, open_input
from evenflow.schemes.base import Scheme
from evenflow.schemes.spelling import parse_scheme
from evenflow.spark.grouped.streaming_merge import PROVIDER, ROCKS_DB
from evenflow.spark.kafka.sink import KafkaSink
from evenflow.spark.kafka.source import REFUSE
from evenflow.spark.operators.place import place
from evenflow.spark.replanning.batch_stats import BatchStats
from evenflow.spark.replanning.listener import OBSERVATION_PREFIX
from evenflow.spark.routing.key_columns import quoted
from evenflow.spark.routing.options import PlacementOptions
from evenflow.storage import locate, open_storage

CHECK_SECONDS = 0.25
FIRST_PLAN = "first-plan.json"
DATA_LOSS = "failOnDataLoss"
_TAG = "evenflow-run"
_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception): ")  # how Python ends a traceback


@dataclass(frozen=True)
class Job:
    """What to run: input, app, placement and output.

    ``sink`` is a folder or a topic. Every micro-batch writes the keys that received rows, with their current
    results, as Parquet files in ``batch=N``, which Spark writes; apps with a single answer write a JSON file,
    also to the URL of an object store. Writes are idempotent: a repeated batch replaces its own output. Into
    a topic of Kafka, results are written as JSON with the row's key, exactly once.

    ``bad_records`` is the folder for records that cannot be decoded, if they are not refused.

    ``at_once`` reads all current rows in one batch job instead of streaming.
    """

    input: Input
    app: App
    workers: int
    scheme: Scheme
    mode: str = "auto"
    top: int = 10
    checkpoint: str | None = None
    sink: str | None = None
    at_once: bool = False
    bad_records: str = REFUSE
    on_control: Callable[[Path], object] = lambda control: None  # gets the control directory

    def __post_init__(self) -> None:
        if self.top < 1:
            raise EvenflowError(f"top is {self.top}; it must be at least 1.")
        if self.at_once and self.input.table is None:
            raise EvenflowError("this source is unbounded; omit --at-once, or read a file or a generator.")
        if self.at_once and self.checkpoint is not None:
            raise EvenflowError("--at-once and --checkpoint are mutually exclusive; choose one.")
        if self.checkpoint is not None and not locate(self.checkpoint, "--checkpoint").is_local:
            raise EvenflowError(
                f"--checkpoint is {self.checkpoint!r}, but Spark's own checkpoint is in it, too; pass a "
                "folder that the driver and all executors have mounted."
            )
        if self.sink is not None and not is_kafka(self.sink) and not self.app.writes_rows:
            open_storage(self.sink, "--sink")


@dataclass
class Progress:
    """Progress of a run: batches (or passes over all rows), rows and busy seconds per worker, the view."""

    workers: int
    batches: int = 0
    rows: list[int] = field(default_factory=list)
    last: BatchStats | None = None
    seconds: float = 0.0  # of the last batch
    view: View = field(default_factory=dict)
    worked: dict[tuple[Any, ...], tuple[int, float]] = field(default_factory=dict)  # rows, seconds
    began: float = field(default_factory=time.time)

    @property
    def total(self) -> int:
        """Rows so far."""
        return sum(self.rows)

    @property
    def max_over_mean(self) -> float:
        """Rows of the fullest worker so far, relative to the mean."""
        return self._fullest(self.rows)

    def _fullest(self, rows: Sequence[int]) -> float:
        return max(rows, default=0) * self.workers / max(1, sum(rows))

    @property
    def last_max_over_mean(self) -> float | None:
        """The same for the last batch alone; None before the first and where there are no batches."""
        return None if self.last is None else self._fullest(self.last.rows.tolist())

    @property
    def busy(self) -> list[float]:
        """Busy seconds per worker."""
        return [
            sum(seconds for (*_, at), (_, seconds) in self.worked.items() if at == worker)
            for worker in range(self.workers)
        ]

    @property
    def busy_over_mean(self) -> float | None:
        """Busy time of the busiest worker, relative to the mean; None if it was not measured."""
        total = sum(self.busy)
        return max(self.busy) * self.workers / total if total else None

    def line(self) -> str:
        """Return the progress as one line."""
        busy = "" if self.busy_over_mean is None else f", busy time {self.busy_over_mean:.3f}"
        total = f"total {self.total:,} rows, max/mean load {self.max_over_mean:.3f}{busy}"
        if self.last is None:
            return f"pass {self.batches} over all rows: {total}" if self.batches else "waiting for rows"
        speed = self.last.total / max(self.seconds, 1e-9)
        load = f"max/mean load {self.last_max_over_mean:.3f}"
        return (
            f"batch {self.last.batch}: {int(self.last.total):,} rows at {speed:,.0f} rows/s, {load}; {total}"
        )


def run(job: Job, watch: Callable[[Progress], None]) -> Progress:
    """Run until the source ends or an error occurs; KeyboardInterrupt stops the query, then propagates.

    ``watch`` is called after every batch and a few times per second; an exception it raises ends the run.
    """
    with tempfile.TemporaryDirectory(prefix="evenflow-run-", ignore_cleanup_errors=True) as own:
        folder = locate(job.checkpoint or own, "--checkpoint").path
        folder.mkdir(parents=True, exist_ok=True)
        setup = AppSetup(
            job.input.key, job.workers, job.scheme, job.mode, folder, job.top, at_once=job.at_once
        )
        _check_app(job, folder)
        control = Path(setup.control)
        control.mkdir(parents=True, exist_ok=True)
        job.on_control(control)
        seen = Progress(job.workers, rows=[0] * job.workers)
        seen.view = _saved_view(folder).view
        watch(seen)
        try:
            setup = replace(setup, exam=job.app.exam(job.input.table, job.input.key))
            setup = replace(setup, plan=_first_plan(job, setup))
        except PySparkException as error:
            raise EvenflowError(f"the rows of the first plan could not be read: {reason(error)}") from error
        (_read_at_once if job.at_once else _stream)(job, setup, seen, watch)
        watch(seen)
        return seen


def run_app(
    spark: SparkSession,
    app: str,
    source: str | None = None,
    *,
    key: Sequence[str] = (),
    workers: int = 8,
    scheme: str = "fill",
    batch: int | None = None,
    **options: Any,
) -> Progress:
    """Run an app given as text, like the command; ``options`` are those of a Job.

    ``run_app(spark, "vwap:price=close", "trades.csv", key=["symbol"]).view`` has the results.
    """
    wanted = parse_app(app)
    rows = open_input(
        spark,
        source or wanted.source,
        list(key),
        rows_per_batch=batch,
        keys=wanted.keys,
        bad_records=options.get("bad_records", REFUSE),
    )
    return run(Job(rows, wanted, workers, parse_scheme(scheme), **options), lambda seen: None)


def _check_app(job: Job, folder: Path) -> None:
    """Reject the checkpoint of a different app."""
    file = folder / "app.txt"
    if file.exists() and file.read_text() != repr(job.app):
        raise EvenflowError(
            f"checkpoint {folder} belongs to {file.read_text()}, not to {job.app!r}; use another folder."
        )
    file.write_text(repr(job.app))


def _first_plan(job: Job, setup: AppSetup) -> Plan | None:
    """Return a plan for the first micro-batch, made from the rows that the source has now.

    A resumed run starts from the same plan, since the homes of buckets are part of the query.
    """
    plannable = job.scheme.plannable and job.scheme.counts_keys and job.mode != "online"
    present = job.input.recent if job.input.recent is not None else job.input.table
    if job.at_once or present is None or not plannable:
        return None
    file = setup.folder / FIRST_PLAN
    if not file.exists():
        if (setup.folder / "query").exists():
            return None  # started without one
        rows, by = job.app.rows(present, setup)
        plan = place(rows, by, PlacementOptions(job.workers, job.scheme, "planned")).plan
        assert plan is not None
        replace_file(file, plan.to_json().encode())
    return Plan.from_json(file.read_text())


def _stream(job: Job, setup: AppSetup, seen: Progress, watch: Callable[[Progress], None]) -> None:
    aside = _start_aside(job, setup)
    query = _start(job, setup)
    try:
        while query.isActive and not _is_over(job, query):
            _update(query, seen, setup)
            watch(seen)
            query.awaitTermination(CHECK_SECONDS)
            _check_aside(aside)
        if aside is not None and not job.input.endless:
            aside.awaitTermination()  # or records that it has not reached would be kept nowhere
    except StreamingQueryException as error:
        raise EvenflowError(f"the query failed: {reason(error)}") from error
    finally:
        query.stop()
        if aside is not None:
            aside.stop()
        _update(query, seen, setup)
    if query.exception() is not None:
        raise EvenflowError(f"the query failed: {reason(query.exception())}")


def _start(job: Job, setup: AppSetup) -> Any:
    app, sink = job.app, job.sink  # Connect pickles these for another process; a DataFrame cannot be
    with _state_store(job.input.frame.sparkSession):
        writer = (
            job.app.results(job.input.frame, setup)
            .writeStream.outputMode("update")
            .option("checkpointLocation", str(setup.folder / "query"))
            .foreachBatch(lambda frame, batch: _write(app, sink, setup, frame, batch))
        )
        if job.input.batches is None and not job.input.endless:
            writer = writer.trigger(availableNow=True)
        return writer.start()


def _start_aside(job: Job, setup: AppSetup) -> Any:
    """Start the query that keeps undecodable records in a folder; None if they are refused."""
    if job.input.bad is None:
        return None
    writer = (
        job.input.bad.writeStream.format("parquet")
        .option("checkpointLocation", str(setup.folder / "bad-records"))
        .option("path", job.bad_records)
    )
    return (writer if job.input.endless else writer.trigger(availableNow=True)).start()


def _check_aside(aside: Any) -> None:
    """Raise an error if the query that keeps undecodable records has failed."""
    if aside is not None and aside.exception() is not None:
        raise EvenflowError(f"undecodable records could not be kept: {reason(aside.exception())}")


@contextmanager
def _state_store(spark: SparkSession) -> Iterator[None]:
    """Use RocksDB for the state of queries started in this context: merging in Python needs it."""
    before = spark.conf.get(PROVIDER, None)
    spark.conf.set(PROVIDER, ROCKS_DB)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(PROVIDER)
        else:
            spark.conf.set(PROVIDER, before)


def _read_at_once(job: Job, setup: AppSetup, seen: Progress, watch: Callable[[Progress], None]) -> None:
    """Read all rows, repeatedly if the app needs it; the main thread stays free for interrupts."""
    table = job.input.table
    if table is None:
        raise EvenflowError("this source is unbounded; omit --at-once, or read a file or a generator.")
    failed: list[Exception] = []

    def work() -> None:
        try:
            table.sparkSession.addTag(_TAG)
            _write(job.app, job.sink, setup, job.app.results(table, setup), seen.batches)
        except Exception as error:
            failed.append(error)

    while True:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                watch(seen)
                thread.join(CHECK_SECONDS)
        except BaseException:
            table.sparkSession.interruptTag(_TAG)
            raise
        if failed:
            own = isinstance(failed[0], EvenflowError)
            raise failed[0] if own else EvenflowError(f"the job failed: {reason(failed[0])}")
        seen.batches += 1
        seen.view = _saved_view(setup.folder).view
        _take_busy(seen, setup)
        first = next(iter(seen.worked), (None,))[0]  # count the rows of the first pass: all read the same
        for (run_id, _, worker), (rows, _) in seen.worked.items():
            seen.rows[worker] = rows if run_id == first else seen.rows[worker]
        if not job.app.needs_another_pass(seen.view):
            return


def _write(app: App, sink: str | None, setup: AppSetup, frame: DataFrame, batch: int) -> None:
    """Fold the changes of a batch into the view and write the results; idempotent."""
    frame = frame.persist()
    try:
        done, query = _saved_view(setup.folder), _query_id(setup.folder)
        if batch not in (done.batch, done.batch + 1) or (done.batch >= 0 and done.query != query):
            raise EvenflowError(
                f"the checkpoint {setup.folder} has results of batch {done.batch} of query {done.query}, "
                f"and Spark asks for batch {batch} of query {query}; restore the folder as a whole, or give "
                "another one."
            )
        view = done.view
        if batch > done.batch:
            view = app.fold(view, frame, setup)
            state = {"batch": batch, "query": query, "view": view}
            replace_file(setup.folder / VIEW_FILE, json.dumps(state, default=str).encode())
        if sink is None:
            return
        if is_kafka(sink):
            _write_to_topic(app, sink, setup, frame, batch, query)
        elif app.writes_rows:
            frame.coalesce(1).write.mode("overwrite").parquet(f"{sink}/batch={batch}")
        else:
            answer = json.dumps(app.answer(view), default=str)
            open_storage(sink, "--sink").put(f"batch-{batch}.json", answer.encode())
    finally:
        frame.unpersist()


def _write_to_topic(
    app: App, sink: str, setup: AppSetup, frame: DataFrame, batch: int, query: str | None
) -> None:
    """Write results keyed by the group's key; apps with a single answer write it as one record."""
    name = query or f"at-once-{setup.folder.name}"
    if app.writes_rows:
        keys = [column for column in frame.columns if column in setup.key] or frame.columns[:1]
        key = (
            F.col(quoted(keys[0])) if len(keys) == 1 else F.to_json(F.struct(*map(F.col, map(quoted, keys))))
        )
        value = F.to_json(F.struct(*(F.col(quoted(column)) for column in frame.columns)))
        records = frame.select(key.cast("string").alias("key"), value.alias("value"))
    else:
        answer = json.dumps(app.answer(_saved_view(setup.folder).view), default=str)
        records = frame.sparkSession.createDataFrame([(app.name, answer)], "key string, value string")
    KafkaSink(sink, name, key="key", value="value")(records, batch)


class SavedView(NamedTuple):
    """The last batch, the query that it was of (None: all rows at once) and the view after it."""

    batch: int
    query: str | None
    view: View


def _saved_view(folder: Path) -> SavedView:
    try:
        found = json.loads((folder / VIEW_FILE).read_text())
    except FileNotFoundError:
        return SavedView(-1, None, {})
    return SavedView(int(found["batch"]), found.get("query"), found["view"])


def _query_id(folder: Path) -> str | None:
    """Return the id that Spark gave the query; None where all rows are read at once."""
    try:
        return str(json.loads((folder / "query" / "metadata").read_text())["id"])
    except FileNotFoundError:
        return None


def _is_over(job: Job, query: Any) -> bool:
    last = query.lastProgress
    return job.input.batches is not None and last is not None and int(last.batchId) >= job.input.batches - 1


def _update(query: Any, seen: Progress, setup: AppSetup) -> None:
    """Add the batches that finished since the last update."""
    known = -1 if seen.last is None else seen.last.batch
    for progress in query.recentProgress:
        if int(progress.batchId) <= known:
            continue
        for name, row in (progress.observedMetrics or {}).items():
            if name.startswith(OBSERVATION_PREFIX):
                batch = BatchStats.from_row(row, int(progress.batchId))
                if batch.total:
                    seen.last, seen.batches = batch, seen.batches + 1
                    seen.rows = [old + int(new) for old, new in zip(seen.rows, batch.rows, strict=True)]
                    seen.seconds = progress.durationMs.get("triggerExecution", 0) / 1000
                    seen.view = _saved_view(setup.folder).view
                    _take_busy(seen, setup)


def _take_busy(seen: Progress, setup: AppSetup) -> None:
    """Collect the busy times reported by workers; a repeated task overwrites its report."""
    for note in Control(setup.control).notes("busy"):
        if note["time"] >= seen.began and note["worker"] < seen.workers:
            seen.worked[note["run"], note["batch"], note["worker"]] = note["rows"], note["seconds"]


def reason(error: Any) -> str:
    """Return the most informative line of an exception.

    >>> reason("An exception was thrown from the Python worker:\\n  File x\\nKeyError: 'a'")
    "KeyError: 'a'"
    """
    if (own := own_sentence(str(error))) is not None:
        return own
    if DATA_LOSS in str(error):
        return (
            "records that it has not read yet are gone from the topic, deleted or older than its retention; "
            f"to go on without them, add {DATA_LOSS}=false to the address of the source."
        )
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith("\tat")]
    raised = [line for line in lines if _RAISED.match(line)]
    return (raised[-1:] or lines[:1] or ["unknown"])[0]
