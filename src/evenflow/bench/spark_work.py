"""Per-key Python work on Spark: `aggregate` and `apply` compared with hand-written equivalents.

**Sleep**: 200 microseconds of sleep per row, 32 workers on ``local[32]``. Shuffle grouping is
``repartition(32)``, salting is ``repartition(32, key, rand)``, both with the same Python work, slices and
merge as `aggregate`; key grouping is ``groupBy(key).applyInPandas`` on a part of the rows. **CPU**: 20
microseconds of CPU per row, two workers on two cores; the total work is the CPU time of the whole job with
one worker, including Spark's, and the ideal is half of that: two cores that never wait and do no extra work.
Half of the single worker's wall time is also shown; two workers cannot reach it, since the single worker
leaves the second core to Spark. **Slices**: `apply` compared with ``groupBy(key).applyInArrow``, four rows
per key. **Stream**: milliseconds per micro-batch compared with a plain stateful ``groupBy``, and of `balance`
with ``repartition``; every query runs twice, 60 batches each, since the JVM goes on compiling for dozens of
them, and its second run counts, without the first two. Memory is the number of (key, worker) pairs relative
to the number of keys.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from evenflow.apps.counting import SCHEMA, Count
from evenflow.bench.measure import Progress, Row, processor_seconds, silent
from evenflow.bench.on_spark import NOT_COALESCED, batches_of, drain, in_turn, ratio, session, timed, zipf
from evenflow.bench.results import Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from evenflow.spark.routing.placed import Placed

SLEEP = 200e-6
SPIN = 20e-6
WORKERS = 32
WARM_UP = 10  # runs without work
SHARE = 0.1  # of the rows, for key grouping
COLUMNS: dict[str, Columns] = {
    "sleep": (
        "200 microseconds of sleep per row, 32 workers",
        ("z", "what", "rows", "seconds", "rows_per_second", "of_shuffle", "of_key_grouping", "memory"),
    ),
    "cpu": (
        "20 microseconds of CPU per row, 2 workers on 2 cores",
        ("z", "what", "rows", "seconds", "of_ideal", "of_half_the_time", "of_bare_work"),
    ),
    "slices": (
        "Four rows per key, almost no work",
        ("what", "rows", "seconds", "microseconds_per_key", "times_as_fast"),
    ),
    "stream": (
        "Micro-batches in update mode",
        ("what", "rows", "touched", "ms", "ratio", "overhead_ms", "overhead_ms_per_touched_key"),
    ),
}


def run(*, quick: bool = False, progress: Progress = silent, only: Collection[str] = COLUMNS) -> list[Row]:
    """Measure the parts in ``only``; ``quick`` uses a tenth of the rows and fewer rounds."""
    rounds, part = (1, 10) if quick else (5, 1)
    rows: list[Row] = []
    if "sleep" in only:
        with session(f"local[{WORKERS}]", WORKERS, **NOT_COALESCED) as many:
            for z in (1.4, 2.0):
                rows += sleep_bound(many, z, 500_000 // part, rounds, progress)
    if {"cpu", "slices", "stream"} & set(only):
        with session("local[2]", 4, **NOT_COALESCED) as few:
            if "cpu" in only:
                rows += cpu_bound(few, 2.0, 1_000_000 // part, rounds, progress)
            if "slices" in only:
                rows += slices(few, 1_600_000 // part, rounds, progress)
            if "stream" in only:
                rows += stream(few, 20_000 // part, 4 if quick else 60, progress)
    return rows


class Spin(Count):
    """Count rows, keeping a core busy for each."""

    def reduce(self, state: tuple[int], rows: Any) -> tuple[int]:
        """Spin until this thread has used its CPU time."""
        end = time.thread_time() + rows.num_rows * SPIN
        while time.thread_time() < end:
            pass
        return super().reduce(state, rows)


class InPython(Count):
    """Count rows, merged in Python."""

    merges: ClassVar[Any] = None


def sleep_bound(
    spark: SparkSession, z: float, rows: int, rounds: int, progress: Progress = silent
) -> list[Row]:
    """Return throughput and memory of `aggregate`, shuffle grouping, salting and key grouping."""
    from pyspark.sql import functions as F

    from evenflow.spark import aggregate

    with zipf(spark, z, rows, files=WORKERS) as df:
        keys = df.select("k").distinct().count()
        shuffled = df.repartition(WORKERS)
        salted = df.withColumn("salt", (F.rand(1) * WORKERS).cast("int")).repartition(WORKERS, "k", "salt")
        sleeping = Count(work=SLEEP * 1e6)
        placed = placed_for(df, WORKERS)
        plan = placed.plan
        tasks = {
            "aggregate": lambda: drain(aggregate(df, "k", sleeping, SCHEMA, workers=WORKERS)),
            "with a plan": lambda: drain(aggregate(df, "k", sleeping, SCHEMA, workers=WORKERS, plan=plan)),
            "shuffle grouping": lambda: drain(by_hand(shuffled, sleeping)),
            "random salting": lambda: drain(by_hand(salted.drop("salt"), sleeping)),
        }
        placed_pairs = placed.frame.select("k", placed.worker).distinct().count()
        pairs = {
            "aggregate": placed_pairs,
            "with a plan": placed_pairs,
            "shuffle grouping": moved_pairs(shuffled),
            "random salting": moved_pairs(salted),
        }
        seconds = in_turn(tasks, rounds, progress, f"sleep, z = {z}")
        few = df.limit(int(rows * SHARE)).cache()
        drain(few)
        by_key = {"groupBy.applyInPandas": lambda: drain(key_grouping(few))}
        key_seconds = in_turn(by_key, 1, progress, f"key, z = {z}")
        few.unpersist()
    shuffle = seconds["shuffle grouping"]
    found = timed("sleep", rows, seconds, z=z) + timed("sleep", int(rows * SHARE), key_seconds, z=z)
    for row in found:
        speed = row["rows_per_second"] = row["rows"] / row["seconds"]
        own = seconds.get(row["what"])
        row["of_shuffle"] = ratio(shuffle, own) if own else speed / rows * statistics.median(shuffle)
        row["memory"] = pairs[row["what"]] / keys if own else 1.0
    return [row | {"of_key_grouping": row["rows_per_second"] / speed} for row in found]


def cpu_bound(
    spark: SparkSession, z: float, rows: int, rounds: int, progress: Progress = silent
) -> list[Row]:
    """Return how close two workers come to the ideal, half the work of the job with one worker."""
    from evenflow.spark import aggregate

    with zipf(spark, z, rows, files=2) as df:
        shuffled = df.repartition(2)
        plan = placed_for(df, 2).plan
        for _ in range(WARM_UP):  # the JVM's compiler would compete for the cores
            drain(aggregate(df, "k", Count(), SCHEMA, workers=2))
            drain(by_hand(shuffled, Count()))
        total_work: list[float] = []

        def one_worker() -> None:
            before = processor_seconds()
            drain(aggregate(df, "k", Spin(), SCHEMA, workers=1))
            total_work.append(processor_seconds() - before)

        tasks = {
            "one worker": one_worker,
            "aggregate": lambda: drain(aggregate(df, "k", Spin(), SCHEMA, workers=2)),
            "with a plan": lambda: drain(aggregate(df, "k", Spin(), SCHEMA, workers=2, plan=plan)),
            "shuffle grouping": lambda: drain(by_hand(shuffled, Spin())),
            "key grouping": lambda: drain(aggregate(df, "k", Spin(), SCHEMA, workers=2, scheme="key")),
        }
        seconds = in_turn(tasks, rounds, progress, "cpu")
    found = timed("cpu", rows, seconds, z=z)
    for row in found:
        own = seconds[row["what"]]
        row["of_ideal"] = ratio([work / 2 for work in total_work[1:]], own)  # 0: the warm-up
        row["of_half_the_time"] = ratio([wall / 2 for wall in seconds["one worker"]], own)
        row["of_bare_work"] = rows * SPIN / 2 / row["seconds"]
    return found


def slices(spark: SparkSession, rows: int, rounds: int, progress: Progress = silent) -> list[Row]:
    """Return the time of `apply`, `aggregate` and applyInArrow, with four rows per key."""
    from pyspark.sql import functions as F

    from evenflow.spark import aggregate, apply

    df = spark.range(rows).select(
        (F.col("id") % (rows // 4)).cast("string").alias("k"), F.col("id").alias("v")
    )
    df = df.repartition(4).cache()
    drain(df)
    schema = "k string, v long"
    tasks = {
        "applyInArrow": lambda: drain(df.groupBy("k").applyInArrow(first_row, schema)),
        "apply": lambda: drain(apply(df, "k", first_row, schema, workers=4)),
        "aggregate": lambda: drain(aggregate(df, "k", Count(), SCHEMA, workers=4)),
    }
    seconds = in_turn(tasks, rounds, progress, "slices")
    df.unpersist()
    found = timed("slices", rows, seconds)
    for row in found:
        row["microseconds_per_key"] = row["seconds"] * 4e6 / rows
        row["times_as_fast"] = ratio(seconds["applyInArrow"], seconds[row["what"]])
    return found


def stream(spark: SparkSession, rows: int, batches: int, progress: Progress = silent) -> list[Row]:
    """Return milliseconds per micro-batch of `aggregate` and a plain stateful groupBy, in update mode.

    And of `balance` and ``repartition``, with nothing behind them.
    """
    from pyspark.sql import functions as F

    from evenflow.spark import aggregate, balance

    with zipf(spark, 1.4, rows * batches, files=batches) as df:
        [folder] = {str(Path(path).parent) for path in df.inputFiles()}
        source = spark.readStream.schema(df.schema).option("maxFilesPerTrigger", 1).parquet(folder)
        frames = {
            "groupBy": source.groupBy("k").agg(F.count("*").alias("rows")),
            "merged by Spark": aggregate(source, "k", Count(), SCHEMA, workers=4),
            "merged in Python": aggregate(source, "k", InPython(), SCHEMA, workers=4),
            "repartition": source.repartition(4, "k"),
            "balance": balance(source, "k", workers=4),
        }
        batched: dict[str, list[dict[str, Any]]] = {}
        tasks = {
            name: partial(lambda name, frame: batched.update({name: batches_of(frame)[2:]}), name, frame)
            for name, frame in frames.items()
        }
        in_turn(tasks, 1, progress, "stream")
        found: list[Row] = []
        for name, done in batched.items():
            row: Row = {"part": "stream", "what": name, "rows": rows}
            row["ms"] = statistics.median(batch["durationMs"]["triggerExecution"] for batch in done)
            states = [state["numRowsUpdated"] for batch in done for state in batch["stateOperators"][:1]]
            row["touched"] = statistics.median(states) if states else None
            found.append(row)
    plain = {row["what"]: row["ms"] for row in found}
    for row in found:
        touched = row["touched"]
        unit = plain["groupBy" if touched else "repartition"]
        row["ratio"] = row["ms"] / unit
        row["overhead_ms"] = row["ms"] - unit
        row["overhead_ms_per_touched_key"] = row["overhead_ms"] / touched if touched else None
    return found


def placed_for(df: DataFrame, workers: int) -> Placed:
    """Return the placement that `aggregate` would use."""
    from evenflow.spark.operators.place import place
    from evenflow.spark.routing.options import PlacementOptions

    return place(df, "k", PlacementOptions(workers))


def by_hand(moved: DataFrame, using: Count) -> DataFrame:
    """Aggregate rows that are already on their workers, with the same work and merge as `aggregate`."""
    import pyarrow as pa
    from pyspark.sql import functions as F

    from evenflow.spark.grouped.aggregate_task import ReducePass
    from evenflow.spark.grouped.record_columns import Records
    from evenflow.spark.grouped.runs import Layout

    buffer = Records("Count", pa.schema([("rows", pa.int64())]), "buffer")
    reduce = ReducePass(using, Layout((0,), ("k",), (0, 1), ("k", "v")), buffer, None, ("k", "rows"))
    states = moved.sortWithinPartitions("k").mapInArrow(reduce, f"k string, {SCHEMA}")
    return states.groupBy("k").agg(F.sum("rows").alias("rows"))


def key_grouping(df: DataFrame) -> DataFrame:
    """Return the plain Spark solution."""
    return df.groupBy("k").applyInPandas(sleep_for_group, f"k string, {SCHEMA}")


def sleep_for_group(group: Any) -> Any:
    """Sleep for every row of a group."""
    time.sleep(len(group) * SLEEP)
    return group.head(1)[["k"]].assign(rows=len(group))


def first_row(group: Any) -> Any:
    """Return the first row of a group: minimal work."""
    return group.slice(0, 1)


def moved_pairs(df: DataFrame) -> int:
    """Return the (key, partition) pairs of a frame."""
    from pyspark.sql import functions as F

    return int(df.select("k", F.spark_partition_id()).distinct().count())
