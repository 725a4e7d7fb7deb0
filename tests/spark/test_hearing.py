"""Workers report to the next batch's routers: rows leave a slow worker, and return when it has recovered."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark import TaskContext, cloudpickle

import evenflow as ef
from evenflow.control.directory import Control
from evenflow.spark import Aggregator, aggregate, loads
from evenflow.spark.routing.worker_reports import measured_batches, report_of
from extent import in_make_faults
from spark.stream_files import read_batches, write_batches

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

WORKERS, ROWS, SLOW = 4, 1600, 2
SECONDS, FACTOR = 0.0002, 4.0


class Waiting(Aggregator):
    """Counts rows, and waits for each of them; one worker waits longer while a file exists."""

    buffer = "n long"
    merges = {"n": "sum"}  # noqa: RUF012

    def __init__(self, slow: str):
        self.slow = slow

    def zero(self) -> Any:
        return (0,)

    def reduce(self, state: Any, rows: Any) -> Any:
        task = TaskContext.get()
        assert task is not None
        slow = task.partitionId() == SLOW and Path(self.slow).exists()
        time.sleep(rows.num_rows * SECONDS * (FACTOR if slow else 1.0))
        return (state[0] + rows.num_rows,)


def run(spark: Any, folder: Path, scheme: ef.Scheme, batches: int, recovers: int) -> Any:
    """Run a stream with a slow worker, which recovers after some batches; return its loads."""
    rng = np.random.default_rng(5)
    tables = [pa.table({"key": rng.integers(0, 64, ROWS)}) for _ in range(batches)]
    write_batches(folder / "rows", tables)
    (folder / "slow").touch()
    stream = read_batches(spark, folder / "rows", "key long")
    counted = aggregate(
        stream, "key", Waiting(str(folder / "slow")), "n long", workers=WORKERS, scheme=scheme, mode="online",
        sources=1, control=str(folder / "control"),
    )  # fmt: skip
    results: dict[int, int] = {}

    def keep(batch: Any, number: int) -> None:
        results.update((row["key"], row["n"]) for row in batch.collect())
        if number + 1 == recovers:
            (folder / "slow").unlink()

    writer = counted.writeStream.outputMode("update").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.foreachBatch(keep).trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    assert sum(results.values()) == batches * ROWS
    return loads(query)


@pytest.mark.spark
@pytest.mark.parametrize(
    "scheme",
    [
        ef.scheme("consistent", slot=20),
        pytest.param(ef.scheme("fish"), marks=in_make_faults),
        pytest.param(ef.scheme("fill"), marks=in_make_faults),
    ],
    ids=str,
)
def test_rows_leave_a_slow_worker_and_return(spark: Any, tmp_path: Path, scheme: ef.Scheme) -> None:
    """A worker is slow if it was in three batches: in the sixth its rows have moved; so with the recovery."""
    scheme.router(WORKERS).route(np.zeros(1, np.uint64))  # compiled here
    reports = {note["batch"]: note for note in run(spark, tmp_path, scheme, 12, 6).reports}
    arrived = {batch: np.array(note["arrived"]) for batch, note in reports.items()}
    even = ROWS / WORKERS
    assert abs(arrived[0][SLOW] - even) < 0.2 * even
    assert arrived[5][SLOW] < 0.5 * even
    busiest = {batch: max(_busy(tmp_path, batch)) for batch in (0, 5)}
    assert busiest[0] > 1.6 * busiest[5]
    assert arrived[10][SLOW] > 0.75 * even
    assert reports[4]["seconds_per_message"][SLOW] > 2 * reports[4]["seconds_per_message"][0]
    if scheme.name == "consistent":
        assert reports[4]["decision"]["virtual_workers"][SLOW] <= 5  # of 10; on a busy machine later
        assert sum(reports[4]["decision"]["virtual_workers"]) == 10 * WORKERS


def _busy(folder: Path, batch: int) -> list[float]:
    notes = Control(folder / "control").notes("busy")
    return [note["seconds"] for note in notes if note["batch"] == batch]


def test_a_report_is_made_of_what_was_measured() -> None:
    """Three batches make a worker slow; the last run of a batch counts, and lost notes are no report."""
    assert report_of(measured_batches([], 3, 5), 0.0) is None
    notes = [
        {"event": "busy", "run": run, "batch": batch, "worker": worker, "rows": 100, "seconds": seconds}
        for batch in (3, 4, 5)
        for run, slow in (("first", 9.0), ("again", 3.0))
        for worker, seconds in ((0, 1.0), (1, slow), (2, 1.0))
    ]
    report = report_of(measured_batches(notes, 3, 5), 7.0)
    assert report is not None
    assert report.seconds_per_message is not None
    assert report.backlog is not None
    assert report.capacity is not None
    assert (report.seconds_per_message / report.seconds_per_message[0]).round(2).tolist() == [1, 3, 1]
    assert report.backlog.tolist() == [0, 66, 0]
    assert (report.capacity * report.seconds_per_message).round(6).tolist() == [1, 1, 1]
    once = report_of(measured_batches(notes[-3:], 3, 5), 7.0)
    assert once is not None
    assert once.seconds_per_message is not None
    assert np.ptp(once.seconds_per_message) == 0  # one batch may be a stall


@pytest.mark.parametrize("name", [name for name, kind in ef.list_schemes().items() if kind.needs_reports])
def test_every_scheme_that_hears_moves_rows_from_a_slow_worker(name: str) -> None:
    """One law: after a report of a micro-batch, a worker at a third of the speed gets fewer rows."""
    keys = np.random.default_rng(1).integers(0, 2**64, 300, dtype=np.uint64)
    stream = keys[np.random.default_rng(2).integers(0, 300, 8000)]
    seconds = np.array([1.0, 1.0, 3.0, 1.0]) / 1000
    router, rows = ef.scheme(name).router(4), np.full(4, 2000.0)
    for _ in range(5):
        later = ef.scheme(name).router(4)
        later.learn([router])
        later.report(
            ef.WorkerReport(time=later.clock, seconds_per_message=seconds, capacity=1 / seconds, arrived=rows)
        )
        rows = np.bincount(later.route(stream), minlength=4).astype(np.float64)
        router = later
    assert rows[2] < 0.6 * rows.mean()
    assert (rows * seconds).max() < 1.25 * (rows * seconds).mean()
