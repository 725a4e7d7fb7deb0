"""`join` with streams compared with Spark's own join, with work per row after the join.

Rows sleep after the join, so that the work does not depend on what else the machine does; eight partitions,
on eight slots for a stream and a table, on two for two streams.

**Stream-table**: a stream joined with a table of unique keys; 70 percent of the stream's rows have one key. A
micro-batch has eight files, since adaptive execution splits a partition by input task.

**Stream-stream**: two streams with watermarks and a time range, inner; one key has 30 percent of the left
rows, 10 percent of the right and nine tenths of the joined rows.

Plans are learned from the streams; beside that, a plan is given that is made of the first micro-batch.
Seconds of a batch, and max over mean of its rows out, are medians over all micro-batches but the first two
of a query, from which it learns, and without the warm-up.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.bench.join_tables import ADVISORY, DEFAULTS, SKEW, Way
from evenflow.bench.measure import Progress, Row
from evenflow.bench.on_spark import NOT_COALESCED, folder, in_turn, ratio, reported, session, timed
from evenflow.bench.results import Columns, Limit, Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from evenflow.plan import JoinPlan

PARTITIONS = 8
ROUNDS = 1  # after a warm-up; most of the time is spent waiting
FILES = 8  # of a micro-batch of the stream that is joined with a table
HOT = 7
SECOND = 10**6  # microseconds
TABLE, STREAMS = "stream-table", "stream-stream"
PARTS = (TABLE, STREAMS)
SHOWN = (
    "what", "rows", "seconds", ("times as fast", "times_as_fast"), ("seconds of a batch", "batch_seconds"),
    ("max/mean", "max_over_mean"),
)  # fmt: skip
OF_TUNED = ("a batch, of tuned", "of_tuned")
COLUMNS: dict[str, Columns] = {
    TABLE: (
        "A stream and a table, 100 microseconds per joined row, 8 partitions on 8 slots",
        (*SHOWN[:-1], OF_TUNED, SHOWN[-1]),
    ),
    STREAMS: (
        "Two streams, 100 microseconds per joined row, 8 partitions on 2 slots",
        SHOWN,
    ),
}
TUNED = {**DEFAULTS, SKEW: "100KB", ADVISORY: "64KB"}  # a micro-batch shuffles about 1 MB
TARGETS = (
    Target(TABLE, {"what": "evenflow, plan given"}, "of_tuned", Limit("at most", 1.1)),
    Target(TABLE, {"what": "evenflow, learning"}, "of_tuned", Limit("at most", 1.1)),
    Target(TABLE, {"what": "evenflow, plan given"}, "max_over_mean", Limit("at most", 1.2)),
    Target(TABLE, {"what": "evenflow, learning"}, "max_over_mean", Limit("at most", 1.2)),
    Target(STREAMS, {"what": "evenflow, plan given"}, "times_as_fast", Limit("at least", 1.2)),
    Target(STREAMS, {"what": "evenflow, plan given"}, "max_over_mean", Limit("at most", 1.1)),
    Target(STREAMS, {"what": "evenflow, learning"}, "times_as_fast", Limit("at least", 1.2)),
    Target(STREAMS, {"what": "evenflow, learning"}, "max_over_mean", Limit("at most", 1.1)),
)


def run(quick: bool, progress: Progress, part: str) -> list[Row]:
    """Measure a part; ``quick`` uses a quarter of the rows."""
    divisor = 4 if quick else 1
    settings = {**NOT_COALESCED, "spark.sql.autoBroadcastJoinThreshold": "-1"}
    with session("local[8]" if part == TABLE else "local[2]", PARTITIONS, **settings) as spark:
        if part == TABLE:
            return with_table(spark, 60_000 // divisor, 4 if quick else 12, ROUNDS, progress)
        return two_streams(spark, 4_000 // divisor, 4 if quick else 10, ROUNDS, progress)


def with_table(spark: SparkSession, rows: int, batches: int, rounds: int, progress: Progress) -> list[Row]:
    """Return seconds and rows out of a stream joined with a table."""
    from evenflow.spark import join

    rng = np.random.default_rng(1)
    with folder() as path:
        for number in range(batches):
            keys = np.where(rng.random(rows) < 0.7, HOT, rng.integers(0, rows, rows))
            table = pa.table({"k": keys, "x": rng.random(rows)})
            for file in range(FILES):
                _write(path / "in", number * FILES + file, table.take(np.arange(file, rows, FILES)))
        _write(path / "table", 0, pa.table({"k": np.arange(rows), "y": rng.random(rows)}))
        stream = _stream(spark, path / "in", "k long, x double", FILES)
        right = spark.read.parquet(str(path / "table"))

        first = spark.read.parquet(*(str(path / "in" / f"{file:04}.parquet") for file in range(FILES)))
        plan = _plan(first, right)

        def plain() -> DataFrame:
            return stream.join(right, "k")

        found = [
            Way("plain", DEFAULTS, plain),
            Way("adaptive, tuned", TUNED, plain),
            Way("evenflow, plan given", DEFAULTS, lambda: join(stream, right, "k", plan=plan)),
            Way("evenflow, learning", DEFAULTS, lambda: join(stream, right, "k", workers=PARTITIONS)),
        ]
        return _measured(spark, TABLE, found, rows * batches, 100e-6, rounds, progress)


def two_streams(spark: SparkSession, rows: int, batches: int, rounds: int, progress: Progress) -> list[Row]:
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
        plan = _plan(*(spark.read.parquet(str(path / name / "0000.parquet")) for name in ("left", "right")))
        left, right = sources

        def ours(first: JoinPlan | None) -> DataFrame:
            control = str(path / f"control-{time.monotonic_ns()}")
            return join(left, right, "k", plan=first, condition=near, control=control)

        same = (left["k"] == right["k"]) & near
        found = [
            Way("plain", DEFAULTS, lambda: left.join(right, same).drop(right["k"])),
            Way("evenflow, plan given", DEFAULTS, lambda: ours(plan)),
            Way("evenflow, learning", DEFAULTS, lambda: ours(None)),
        ]
        return _measured(spark, STREAMS, found, rows * batches, 100e-6, rounds, progress)


def _plan(left: DataFrame, right: DataFrame) -> JoinPlan:
    from evenflow.spark import join

    placed: list[Any] = []
    join(left, right, "k", workers=PARTITIONS, on_placed=placed.append)
    plan: JoinPlan = placed[0].plan
    return plan


def _measured(
    spark: SparkSession, part: str, ways: Sequence[Way], rows: int, sleep: float, rounds: int,
    progress: Progress,
) -> list[Row]:  # fmt: skip
    """Return seconds, relative speed, and what the batches were like."""
    runs: dict[str, list[list[tuple[float, float]]]] = {way.name: [] for way in ways}
    tasks = {way.name: partial(_run, spark, way, sleep, runs[way.name]) for way in ways}
    seconds = in_turn(tasks, rounds, progress, part)
    found = timed(part, rows, seconds)
    for row in found:
        row["times_as_fast"] = ratio(seconds["plain"], seconds[row["what"]])
        batches = [batch for run in runs[row["what"]][1:] for batch in run]
        row["batch_seconds"], row["max_over_mean"] = map(statistics.median, zip(*batches, strict=True))
    tuned = [row["batch_seconds"] for row in found if row["what"] == "adaptive, tuned"]
    return [row | {"of_tuned": row["batch_seconds"] / unit} for row in found for unit in tuned] or found


def _run(spark: SparkSession, way: Way, sleep: float, runs: list[list[tuple[float, float]]]) -> None:
    """Run a query with work on every row out; add seconds and unevenness of each batch but the first two."""
    for name, value in way.settings.items():
        spark.conf.set(name, value)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task: Any = TaskContext.get()
        count = 0
        for batch in batches:
            time.sleep(sleep * batch.num_rows)
            count += batch.num_rows
        yield pa.RecordBatch.from_pydict({"partition": [task.partitionId()], "rows": [count]})

    uneven: dict[int, float] = {}

    def collect(frame: DataFrame, batch: int) -> None:
        counts = [row["rows"] for row in frame.collect()]  # of adaptive execution, perhaps from more tasks
        uneven[batch] = max(counts) * PARTITIONS / max(1, sum(counts))

    with folder() as checkpoint:
        writer = way.join().mapInArrow(work, "partition long, rows long").writeStream.foreachBatch(collect)
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        done = {batch["batchId"]: batch["durationMs"]["triggerExecution"] / 1000 for batch in reported(query)}
        runs.append([(seconds, uneven[number]) for number, seconds in done.items() if number > 1])


def _write(path: Path, number: int, table: pa.Table) -> None:
    path.mkdir(exist_ok=True)
    pq.write_table(table, path / f"{number:04}.parquet")


def _stream(spark: SparkSession, path: Path, schema: str, files: int = 1) -> DataFrame:
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(path))
