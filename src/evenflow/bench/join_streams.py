"""`join` with streams compared with Spark's own join, with work per row after the join.

Rows sleep after the join, so that the work does not depend on what else the machine does; eight partitions,
on eight slots for a stream and a table, on two for two streams. **Stream-table**: a stream joined with a
table of unique keys; 70 percent of the stream's rows have one key, and plans are learned from the stream.
**Stream-stream**: two streams with watermarks and a time
range, inner; one key has 30 percent of the left rows, 10 percent of the right and nine tenths of the joined
rows. Plans are learned as well; beside that, a plan is given that is made of the first file of each. Max over
mean is of rows out, the median over all micro-batches but the first two of a query, from which it learns.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.bench.measure import Progress, Row, silent
from evenflow.bench.on_spark import NOT_COALESCED, folder, in_turn, ratio, session, timed
from evenflow.bench.results import Columns, Limit, Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from evenflow.plan import JoinPlan

PARTITIONS = 8
HOT = 7
SECOND = 10**6  # microseconds
TABLE, STREAMS = "stream-table", "stream-stream"
PARTS = (TABLE, STREAMS)
SHOWN = ("what", "rows", "seconds", ("times as fast", "times_as_fast"), ("max/mean", "max_over_mean"))
COLUMNS: dict[str, Columns] = {
    TABLE: (
        "A stream and a table, 100 microseconds per joined row, 8 partitions on 8 slots",
        SHOWN,
    ),
    STREAMS: (
        "Two streams, 100 microseconds per joined row, 8 partitions on 2 slots",
        SHOWN,
    ),
}
TARGETS = (
    Target(TABLE, {"what": "evenflow"}, "max_over_mean", Limit("at most", 1.2)),
    Target(STREAMS, {"what": "evenflow, plan given"}, "times_as_fast", Limit("at least", 1.2)),
    Target(STREAMS, {"what": "evenflow, plan given"}, "max_over_mean", Limit("at most", 1.1)),
    Target(STREAMS, {"what": "evenflow, learning"}, "times_as_fast", Limit("at least", 1.2)),
    Target(STREAMS, {"what": "evenflow, learning"}, "max_over_mean", Limit("at most", 1.1)),
)


def run(quick: bool, progress: Progress = silent, parts: Sequence[str] = PARTS) -> list[Row]:
    """Measure the parts; ``quick`` uses a quarter of the rows and one round."""
    rounds, divisor, batches = (1, 4, 4) if quick else (2, 1, 5)
    settings = {**NOT_COALESCED, "spark.sql.autoBroadcastJoinThreshold": "-1"}
    found: list[Row] = []
    if TABLE in parts:
        with session("local[8]", PARTITIONS, **settings) as spark:
            found += with_table(spark, 20_000 // divisor, batches, rounds, progress)
    if STREAMS in parts:
        with session("local[2]", PARTITIONS, **settings) as spark:
            found += two_streams(spark, 4_000 // divisor, batches, rounds, progress)
    return found


def with_table(
    spark: SparkSession, rows: int, batches: int, rounds: int, progress: Progress = silent
) -> list[Row]:
    """Return seconds and rows out of a stream joined with a table."""
    from evenflow.spark import join

    rng = np.random.default_rng(1)
    with folder() as path:
        for number in range(batches):
            keys = np.where(rng.random(rows) < 0.7, HOT, rng.integers(0, rows, rows))
            _write(path / "in", number, pa.table({"k": keys, "x": rng.random(rows)}))
        _write(path / "table", 0, pa.table({"k": np.arange(rows), "y": rng.random(rows)}))
        stream = _stream(spark, path / "in", "k long, x double")
        right = spark.read.parquet(str(path / "table"))
        frames = {
            "plain": lambda: stream.join(right, "k"),
            "evenflow": lambda: join(stream, right, "k", workers=PARTITIONS),
        }
        return _measured(TABLE, frames, rows * batches, 100e-6, rounds, progress)


def two_streams(
    spark: SparkSession, rows: int, batches: int, rounds: int, progress: Progress = silent
) -> list[Row]:
    """Return seconds and rows out of two streams joined with each other."""
    from pyspark.sql import functions as F

    from evenflow.spark import join

    rng = np.random.default_rng(1)
    with folder() as path:
        for number in range(batches):
            for name, count, hot in (("left", rows, 0.3), ("right", rows // 10, 0.1)):
                keys = np.where(rng.random(count) < hot, HOT, rng.integers(0, 200, count))
                times = number * 60 * SECOND + rng.integers(0, 10 * SECOND, count)
                own = {
                    "k": keys,
                    name: rng.random(count),
                    f"{name}_time": pa.array(times, pa.timestamp("us", "UTC")),
                }
                _write(path / name, number, pa.table(own))
        sources = [
            _stream(spark, path / name, f"k long, {name} double, {name}_time timestamp").withWatermark(
                f"{name}_time", "5 seconds"
            )
            for name in ("left", "right")
        ]
        near = F.expr(
            "right_time between left_time - interval 20 seconds and left_time + interval 20 seconds"
        )
        placed: list[Any] = []
        first = [spark.read.parquet(str(path / name / "0000.parquet")) for name in ("left", "right")]
        join(first[0], first[1], "k", workers=PARTITIONS, on_placed=placed.append)
        plan = placed[0].plan
        left, right = sources

        def ours(first: JoinPlan | None) -> DataFrame:
            control = str(path / f"control-{time.monotonic_ns()}")
            return join(left, right, "k", plan=first, condition=near, control=control)

        frames = {
            "plain": lambda: left.join(right, (left["k"] == right["k"]) & near).drop(right["k"]),
            "evenflow, plan given": lambda: ours(plan),
            "evenflow, learning": lambda: ours(None),
        }
        return _measured(STREAMS, frames, rows * batches, 100e-6, rounds, progress)


def _measured(
    part: str,
    frames: dict[str, Callable[[], DataFrame]],
    rows: int,
    sleep: float,
    rounds: int,
    progress: Progress,
) -> list[Row]:
    """Return seconds, relative speed, and the unevenness of the rows out from the third batch on."""
    uneven: dict[str, list[float]] = {name: [] for name in frames}
    tasks = {name: partial(_run, make, sleep, uneven[name]) for name, make in frames.items()}
    seconds = in_turn(tasks, rounds, progress, part)
    found = timed(part, rows, seconds)
    for row in found:
        row["times_as_fast"] = ratio(seconds["plain"], seconds[row["what"]])
        row["max_over_mean"] = statistics.median(uneven[row["what"]])
    return found


def _run(make: Callable[[], DataFrame], sleep: float, uneven: list[float]) -> None:
    """Run a query with work on every row out; list the unevenness of each batch but the first two."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task: Any = TaskContext.get()
        count = 0
        for batch in batches:
            time.sleep(sleep * batch.num_rows)
            count += batch.num_rows
        yield pa.RecordBatch.from_pydict({"partition": [task.partitionId()], "rows": [count]})

    def collect(frame: DataFrame, batch: int) -> None:
        counts = [row["rows"] for row in frame.collect()]
        if batch > 1 and sum(counts):
            uneven.append(max(counts) * PARTITIONS / sum(counts))

    with folder() as checkpoint:
        writer = make().mapInArrow(work, "partition long, rows long").writeStream.foreachBatch(collect)
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()


def _write(path: Path, number: int, table: pa.Table) -> None:
    path.mkdir(exist_ok=True)
    pq.write_table(table, path / f"{number:04}.parquet")


def _stream(spark: SparkSession, path: Path, schema: str) -> DataFrame:
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(path))
