"""Building blocks of the benchmarks on Spark: sessions, streams in files, tasks in turn.

Times are wall times, since work on Spark is spread over processes. Tasks are interleaved after a warm-up, and
ratios are taken within a round before the median over the rounds.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evenflow.bench.measure import Progress, Row
from evenflow.spark.grouped.streaming_merge import PROVIDER, ROCKS_DB
from evenflow.spark.session import local_session
from evenflow.streams import Zipf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@contextmanager
def session(master: str, partitions: int = 8, **settings: Any) -> Iterator[SparkSession]:
    """Open a quiet session on a local master, with as many shuffle partitions as there are workers."""
    shuffles = {"spark.sql.shuffle.partitions": partitions, PROVIDER: ROCKS_DB}
    quiet = {"spark.log.level": "ERROR", "spark.driver.memory": "4g"}
    spark = local_session(master, **quiet, **shuffles, **settings)
    try:
        yield spark
    finally:
        spark.stop()


# The rows are few bytes but much work: adaptive execution would coalesce all groups of groupBy into one task,
# which is not what these benchmarks measure.
NOT_COALESCED = {"spark.sql.adaptive.coalescePartitions.enabled": "false"}


@contextmanager
def folder() -> Iterator[Path]:
    """Yield a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="evenflow-bench-") as path:
        yield Path(path)


@contextmanager
def zipf(
    spark: SparkSession, z: float, rows: int, files: int, keys: int = 10**5, wide: bool = False
) -> Iterator[DataFrame]:
    """Yield a Parquet frame of a Zipf stream: a text key and a number; ``wide`` rows have longer texts."""
    ids = pa.array(Zipf(z=z, keys=keys, messages=rows, seed=1).generate(0, rows).ids).cast(pa.string())
    table = pa.table({"k": ids, "v": pa.array(range(rows), pa.int64())})
    if wide:
        text = pa.array(np.random.default_rng(1).integers(10**17, 10**18, rows)).cast(pa.string())
        named = pc.binary_join_element_wise("user", ids, "-")
        table = table.set_column(0, "k", named).append_column("text", text)
    with folder() as path:
        for file in range(files):
            start = rows * file // files
            part = table.slice(start, rows * (file + 1) // files - start)
            pq.write_table(part, path / f"{file:04}.parquet")
        yield spark.read.parquet(str(path))


def drain(df: DataFrame, batch: int = 0) -> None:
    """Compute all rows and discard them; also a sink of `stateful`."""
    df.write.format("noop").mode("overwrite").save()


def in_turn(
    tasks: Mapping[str, Callable[[], object]], rounds: int, progress: Progress, what: str
) -> dict[str, list[float]]:
    """Run every task once to warm up, then interleaved; return wall seconds per round."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    last = ""
    for turn in range(rounds + 1):
        turn_name = f"round {turn} of {rounds}" if turn else "warm-up"
        for index, (name, task) in enumerate(tasks.items()):
            done, total = turn * len(tasks) + index, (rounds + 1) * len(tasks)
            progress(done, total, f"{what}, {turn_name}: {name}{last}")
            start = time.perf_counter()
            task()
            wall = time.perf_counter() - start
            last = f" (before it: {name}, {wall:.1f} s)"
            if turn:
                seconds[name].append(wall)
    return seconds


def ratios(unit: Sequence[float], own: Sequence[float]) -> list[float]:
    """Return the speed relative to the unit in every round."""
    return [baseline / wall for baseline, wall in zip(unit, own, strict=True)]


def ratio(unit: Sequence[float], own: Sequence[float]) -> float:
    """Return the speed relative to the unit, as the median over the rounds."""
    return statistics.median(ratios(unit, own))


def timed(part: str, rows: int, seconds: Mapping[str, Sequence[float]], **same: Any) -> list[Row]:
    """Return a row for each task, with its median time."""
    return [
        {"part": part, **same, "what": name, "rows": rows, "seconds": statistics.median(own)}
        for name, own in seconds.items()
    ]


def batches_of(frame: DataFrame) -> list[dict[str, Any]]:
    """Run a plain streaming query over all its files; return Spark's progress of every micro-batch."""
    with folder() as checkpoint:
        writer = frame.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        query.awaitTermination()
        return reported(query)


def reported(query: Any) -> list[dict[str, Any]]:
    """Return Spark's progress of the micro-batches that had rows."""
    return [batch for batch in query.recentProgress if batch["numInputRows"]]
