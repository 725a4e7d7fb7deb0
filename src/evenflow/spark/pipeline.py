"""The pipeline of `evenflow run`: a source, balanced workers, one aggregate, a sink; watched while it runs.

What passes between micro-batches besides Spark's state is in a file of the checkpoint, not in a variable: on
Spark Connect a batch is written by another process than the one that started the query.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from evenflow.apps.counting import SCHEMA, Count, Top
from evenflow.errors import EvenflowError
from evenflow.schemes.base import Scheme
from evenflow.spark.aggregate import aggregate
from evenflow.spark.inputs import Input
from evenflow.spark.observed import Observed
from evenflow.spark.refresh import OBSERVED

APPS = ("count", "top-k")
CHECK_SECONDS = 0.25
_TOP_FILE = "top.json"


@dataclass(frozen=True)
class Job:
    """What to run: where rows come from, how they are placed, what is made of them, where it goes.

    ``sink``: a folder, in which every micro-batch has a folder ``batch=N`` of Parquet files with the keys
    that got rows and their counts so far; for top-k a JSON file. A batch that is run again replaces its own,
    so nothing is there twice.
    """

    input: Input
    workers: int
    scheme: Scheme
    mode: str = "auto"
    app: str = "count"
    k: int = 10
    checkpoint: str | None = None
    sink: str | None = None

    def __post_init__(self) -> None:
        if self.app not in APPS:
            raise EvenflowError(f"app is {self.app!r}; choose one of {', '.join(APPS)}.")
        if self.k < 1:
            raise EvenflowError(f"top is {self.k}; show at least 1 key.")


@dataclass
class Progress:
    """How far a run is: batches, rows in all and of each worker, and the keys with most rows."""

    workers: int
    batches: int = 0
    rows: list[int] = field(default_factory=list)
    last: Observed | None = None
    seconds: float = 0.0  # of the last batch
    top: list[tuple[Any, int]] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Rows so far."""
        return sum(self.rows)

    @property
    def max_over_mean(self) -> float:
        """What the fullest worker got so far, relative to the mean."""
        return max(self.rows, default=0) * self.workers / max(1, self.total)

    def line(self) -> str:
        """Say it in one line."""
        if self.last is None:
            return "waiting for the first batch"
        now = int(self.last.rows.max()) * self.workers / max(1, int(self.last.total))
        speed = self.last.total / max(self.seconds, 1e-9)
        return (
            f"batch {self.last.batch}: {int(self.last.total):,} rows at {speed:,.0f} rows/s, fullest worker "
            f"{now:.3f} of the mean; {self.total:,} rows in all, {self.max_over_mean:.3f}"
        )


def run(job: Job, watch: Callable[[Progress], None]) -> Progress:
    """Run until the source ends, an error, or an interrupt (KeyboardInterrupt stops the query, then goes on).

    ``watch`` is called after every batch and a few times a second; what it raises ends the run.
    """
    with tempfile.TemporaryDirectory(prefix="evenflow-run-", ignore_cleanup_errors=True) as own:
        checkpoint = Path(job.checkpoint or own)
        checkpoint.mkdir(parents=True, exist_ok=True)
        query = _start(job, checkpoint)
        seen = Progress(job.workers, rows=[0] * job.workers)
        try:
            while query.isActive and not _is_over(job, query):
                _look(query, seen, checkpoint)
                watch(seen)
                query.awaitTermination(CHECK_SECONDS)
        finally:
            query.stop()
            _look(query, seen, checkpoint)
        if query.exception() is not None:
            raise EvenflowError(f"the query failed: {_reason(query.exception())}")
        watch(seen)
        return seen


def _start(job: Job, checkpoint: Path) -> Any:
    counts = aggregate(
        job.input.frame,
        job.input.key,
        Count(),
        SCHEMA,
        job.workers,
        job.scheme,
        job.mode,
        output_mode="update",
        control=str(checkpoint / "control"),
    )
    writer = (
        counts.writeStream.outputMode("update")
        .option("checkpointLocation", str(checkpoint / "query"))
        .foreachBatch(lambda frame, batch: _write(job, frame, batch, checkpoint))
    )
    if job.input.batches is None and not job.input.endless:
        writer = writer.trigger(availableNow=True)
    return writer.start()


def _write(job: Job, frame: DataFrame, batch: int, checkpoint: Path) -> None:
    """Write what a batch changed; the same batch again writes the same."""
    frame = frame.persist()
    top = Top(job.k, _remembered(checkpoint))
    try:
        most = frame.orderBy(frame["rows"].desc(), *job.input.key).limit(top.k).collect()
        top.update((tuple(row[name] for name in frame.columns[:-1]), row["rows"]) for row in most)
        _replace(checkpoint / _TOP_FILE, json.dumps(top.most(), default=str))
        if job.sink is None:
            return
        if job.app == "count":
            frame.coalesce(1).write.mode("overwrite").parquet(f"{job.sink}/batch={batch}")
        else:
            names = frame.columns[:-1]
            rows = [dict(zip(names, key, strict=True)) | {"rows": rows} for key, rows in top.most()]
            Path(job.sink).mkdir(parents=True, exist_ok=True)
            _replace(Path(job.sink) / f"batch-{batch}.json", json.dumps(rows, default=str))
    finally:
        frame.unpersist()


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}")
    draft.write_text(text)
    draft.replace(path)


def _remembered(checkpoint: Path) -> list[tuple[Any, int]]:
    """Return the most frequent keys after the last batch."""
    try:
        return [(tuple(key), int(rows)) for key, rows in json.loads((checkpoint / _TOP_FILE).read_text())]
    except (OSError, ValueError, TypeError):
        return []


def _is_over(job: Job, query: Any) -> bool:
    last = query.lastProgress
    return job.input.batches is not None and last is not None and int(last.batchId) >= job.input.batches - 1


def _look(query: Any, seen: Progress, checkpoint: Path) -> None:
    """Add the batches that have ended since the last look."""
    known = -1 if seen.last is None else seen.last.batch
    for progress in query.recentProgress:
        if int(progress.batchId) <= known:
            continue
        for name, row in (progress.observedMetrics or {}).items():
            if name.startswith(OBSERVED):
                batch = Observed.from_row(row, int(progress.batchId))
                if batch.total:
                    seen.last, seen.batches = batch, seen.batches + 1
                    seen.rows = [old + int(new) for old, new in zip(seen.rows, batch.rows, strict=True)]
                    seen.seconds = progress.durationMs.get("triggerExecution", 0) / 1000
                    seen.top = _remembered(checkpoint)


def _reason(error: Any) -> str:
    """Return the last line of an exception that says something of its own."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith("\tat")]
    found = [line for line in lines if line.startswith("evenflow.errors.EvenflowError:")]
    return (found or lines or ["unknown"])[-1 if found else 0].removeprefix("evenflow.errors.EvenflowError: ")
