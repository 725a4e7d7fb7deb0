"""The job of ../test_slow_executor.py: workers on two executors, of which one gets less of the processor.

The executor is slowed by a quota of a control group if that is allowed, otherwise by neighbours that keep its
core busy. Usage: slow_executor.py MASTER FOLDER; writes FOLDER/results.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql import functions as F

from evenflow.spark.monitoring.task_timing import with_timing
from evenflow.spark.murmur3 import int_with_hash
from evenflow.spark.operators.place import place
from evenflow.spark.routing.options import PlacementOptions
from evenflow.spark.session import local_session
from spark.stream_files import read_batches, write_batches

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

EXECUTORS, MANY = 2, 16
ROWS, KEYS = 2400, 64
SECONDS = 0.0005  # of a processor, per row
SPEED = 0.15  # of a core, for the slow executor: little even where others use the cores, too
SLOW, RECOVERS, BATCHES = 2, 9, 15  # batches
HOT = 0.6  # of the rows of a skewed stream have one key
GROUPS = Path("/sys/fs/cgroup/cpu")  # version 1
PERIOD = 100_000  # microseconds
DONE = pa.schema(
    [("worker", pa.int32()), ("executor", pa.int32()), ("rows", pa.int64()), ("seconds", pa.float64())]
)


def spin(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Compute for every row; return the rows, and the executor that has computed."""
    began, rows = time.perf_counter(), 0
    for batch in batches:
        rows += batch.num_rows
        end = time.thread_time() + batch.num_rows * SECONDS
        while time.thread_time() < end:
            pass
    task = TaskContext.get()
    assert task is not None
    done = [task.partitionId(), parent(os.getppid()), rows, time.perf_counter() - began]
    yield pa.RecordBatch.from_arrays(
        [pa.array([value], field.type) for value, field in zip(done, DONE, strict=True)], schema=DONE
    )


def parent(process: int) -> int:
    """Return the parent of a process: of the daemon that forks Python workers, this is the executor."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def below(process: int) -> set[int]:
    """Return a process and all that it has started."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(path.name)] = parent(int(path.name))
    found, added = set[int](), {process}
    while added:
        found |= added
        added = {one for one, its in parents.items() if its in added} - found
    return found


class Slowed:
    """An executor that gets a part of a core, while this is open."""

    def __init__(self, executor: int):
        self.executor, self.group = executor, GROUPS / f"evenflow-{executor}"
        self.neighbours: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Slowed:
        try:
            self.group.mkdir()
            (self.group / "cpu.cfs_period_us").write_text(str(PERIOD))
            (self.group / "cpu.cfs_quota_us").write_text(str(round(SPEED * PERIOD)))
            for process in below(self.executor):
                with suppress(ProcessLookupError):
                    (self.group / "cgroup.procs").write_text(str(process))
        except OSError:
            for process in below(self.executor):
                for thread in Path(f"/proc/{process}/task").iterdir():
                    os.sched_setaffinity(int(thread.name), {0})
            for _ in range(round(1 / SPEED) - 1):
                spinning = [sys.executable, "-c", "import os; os.sched_setaffinity(0, {0})\nwhile True: pass"]
                self.neighbours.append(subprocess.Popen(spinning))
        return self

    def __exit__(self, *raised: object) -> None:
        for neighbour in self.neighbours:
            neighbour.kill()
            neighbour.wait()
        while self.group.exists():
            for process in (self.group / "cgroup.procs").read_text().split():
                with suppress(ProcessLookupError):
                    (self.group.parent / "cgroup.procs").write_text(process)
            with suppress(OSError):  # a process was forked meanwhile
                self.group.rmdir()


def pinned(frame: Any, worker: str, workers: int) -> Any:
    """Move rows to their workers, each of which stays on its executor.

    A task runs where a cached partition is that it reads: every worker joins a row of a cached table.
    """
    spark = frame.sparkSession
    numbers = int_with_hash(np.arange(workers, dtype=np.int32)).tolist()
    homes = spark.createDataFrame([(number,) for number in numbers], "home int")
    homes = homes.repartition(workers, "home").cache()
    homes.count()
    number = F.element_at(F.array(*map(F.lit, numbers)), F.col(worker) + 1)
    moved = frame.withColumn("number", number).repartition(workers, "number")
    return homes.hint("shuffle_hash").join(moved, F.col("home") == F.col("number"))


def run(
    spark: Any, folder: Path, scheme: str, workers: int, stays: bool, hot: float, batches: int, recovers: int
) -> Any:
    """Run a stream; return, by batch, its seconds, and what each worker did on which executor."""
    rng = np.random.default_rng(5)
    tables = []
    for _ in range(batches):
        keys = rng.integers(0, KEYS, ROWS)
        keys[rng.random(ROWS) < hot] = KEYS
        tables.append(pa.table({"k": keys}))
    write_batches(folder / "rows", tables)
    control = str(folder / "control")
    options = PlacementOptions(workers, scheme, "online", order="as-is", sources=1, control=control)
    placed = place(read_batches(spark, folder / "rows", "k long"), "k", options)
    moved = pinned(placed.frame, placed.worker, workers) if stays else placed.moved()
    rows = moved.select("k").mapInArrow(
        with_timing(spin, control, heard=placed.hears), "worker int, executor int, rows long, seconds double"
    )
    found: list[dict[str, Any]] = []
    slowed: list[Slowed] = []

    def keep(batch: Any, number: int) -> None:
        began = time.perf_counter()
        tasks = [row.asDict() for row in batch.collect()]
        found.append({"tasks": tasks, "seconds": time.perf_counter() - began})
        if number + 1 == SLOW and recovers:
            slowed.append(Slowed(min(task["executor"] for task in tasks if task["worker"] == 0)).__enter__())
        found[-1]["slow"] = slowed[0].executor if slowed else None
        if number + 1 == recovers:
            slowed[0].__exit__()

    writer = rows.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.foreachBatch(keep).trigger(availableNow=True).start()
    try:
        query.awaitTermination(400)
    finally:
        query.stop()
        for left in slowed:
            left.__exit__()
    return found


def main(master: str, folder: Path) -> None:
    """Run the streams one after the other on one cluster."""
    settings = {"spark.sql.shuffle.partitions": EXECUTORS, "spark.sql.adaptive.enabled": "false"}
    spark = local_session(master, **settings)
    results = {}
    for name, scheme, workers, stays, hot, batches, recovers in (
        ("loose", "shuffle", EXECUTORS, False, 0.0, 5, 0),
        ("key", "key", EXECUTORS, True, 0.0, SLOW + 3, SLOW + 3),
        ("fill", "fill", EXECUTORS, True, 0.0, BATCHES, RECOVERS),
        ("many", "fill", MANY, False, HOT, SLOW + 7, SLOW + 5),
        ("many key", "key", MANY, False, HOT, SLOW + 5, SLOW + 5),
    ):
        (folder / name).mkdir()
        results[name] = run(spark, folder / name, scheme, workers, stays, hot, batches, recovers)
        (folder / "results.json").write_text(json.dumps(results))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
