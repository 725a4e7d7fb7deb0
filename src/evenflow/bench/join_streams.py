"""`join` with streams compared with Spark's own join, with work per row after the join.

Rows sleep after the join, so that the work does not depend on what else the machine does; eight partitions on
``local[2]``. **Table**: a stream joined with a table of unique keys; 70 percent of the stream's rows have one
key, and plans are learned from the stream, so the first micro-batch is left out. **Streams**: two streams
with watermarks and a time range, inner; one key has 30 percent of the left rows, 10 percent of the right and
nine tenths of the joined rows; the plan is made of the first file of each. Max over mean is of rows out.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.bench.measure import Progress, Row, silent
from evenflow.bench.on_spark import NOT_COALESCED, folder, in_turn, ratio, session, timed
from evenflow.bench.results import Columns, Limit, Target, part_tables, target_table
from evenflow.report.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 8
HOT = 7
SECOND = 10**6  # microseconds
COLUMNS: dict[str, Columns] = {
    "table": (
        "A stream and a table, 100 microseconds per joined row, 8 partitions on 2 slots",
        ("what", "rows", "seconds", "times_as_fast", "max_over_mean"),
    ),
    "streams": (
        "Two streams, 50 microseconds per joined row, 8 partitions on 2 slots",
        ("what", "rows", "seconds", "times_as_fast", "max_over_mean"),
    ),
}
TARGETS = (
    Target("table", {"what": "evenflow"}, "max_over_mean", Limit("at most", 1.2)),
    Target("streams", {"what": "evenflow"}, "times_as_fast", Limit("at least", 1.2)),
    Target("streams", {"what": "evenflow"}, "max_over_mean", Limit("at most", 1.1)),
)


def run(*, quick: bool = False, progress: Progress = silent) -> list[Row]:
    """Measure both; ``quick`` uses a quarter of the rows and one round."""
    rounds, part, batches = (1, 4, 3) if quick else (3, 1, 5)
    settings = {**NOT_COALESCED, "spark.sql.autoBroadcastJoinThreshold": "-1"}
    with session("local[2]", PARTITIONS, **settings) as spark:
        return [
            *with_table(spark, 20_000 // part, batches, rounds, progress),
            *two_streams(spark, 4_000 // part, batches, rounds, progress),
        ]


def tables(rows: list[Row]) -> list[Table]:
    """Return the results and the targets as tables."""
    lines = [line for target in TARGETS for line in target.lines(rows)]
    return [*part_tables(rows, COLUMNS), target_table(lines)]


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
        return _measured("table", frames, rows * batches, 100e-6, rounds, progress)


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

        def ours() -> DataFrame:
            control = str(path / f"control-{time.monotonic_ns()}")
            return join(left, right, "k", plan=plan, condition=near, control=control)

        frames = {
            "plain": lambda: left.join(right, (left["k"] == right["k"]) & near).drop(right["k"]),
            "evenflow": ours,
        }
        return _measured("streams", frames, rows * batches, 50e-6, rounds, progress)


def _measured(
    part: str,
    frames: dict[str, Callable[[], DataFrame]],
    rows: int,
    sleep: float,
    rounds: int,
    progress: Progress,
) -> list[Row]:
    """Return seconds, relative speed, and the unevenness of the rows out from the second batch on."""
    uneven: dict[str, list[float]] = {name: [] for name in frames}
    tasks = {name: partial(_run, make, sleep, uneven[name]) for name, make in frames.items()}
    seconds = in_turn(tasks, rounds, progress, part)
    found = timed(part, rows, seconds)
    for row in found:
        row["times_as_fast"] = ratio(seconds["plain"], seconds[row["what"]])
        row["max_over_mean"] = statistics.median(uneven[row["what"]])
    return found


def _run(make: Callable[[], DataFrame], sleep: float, uneven: list[float]) -> None:
    """Run a query with work on every row out; list the unevenness of each batch but the first."""

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
        if batch and sum(counts):
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
