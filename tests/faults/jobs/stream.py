"""A program that counts keys of a stream and kills itself, all of its processes, where it is told to.

A kill comes between the moment when Spark has written the offsets of a micro-batch and its commit: before the
batch is computed, from inside one of its tasks, or after its results are written. Each happens once; started
again, the program goes on from its checkpoint.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenflow.spark import Aggregator, aggregate, balance
from evenflow.spark.session import local_session
from evenflow.testing import acting, once

WORKERS = 4
POINTS = ("before", "during", "after")


class Count(Aggregator):
    """Rows and their sum, merged by Spark."""

    buffer = "n long, total long"
    merges: ClassVar[Any] = {"n": "sum", "total": "sum"}

    def zero(self) -> Any:
        """Begin with nothing."""
        return (0, 0)

    def reduce(self, state: Any, rows: Any) -> Any:
        """Count some rows."""
        return state[0] + rows.num_rows, state[1] + sum(rows["number"].to_pylist())

    def merge(self, a: Any, b: Any) -> Any:
        """Add up."""
        return a[0] + b[0], a[1] + b[1]

    def finish(self, state: Any) -> Any:
        """Return both."""
        return state


class MergedHere(Count):
    """The same, merged in Python with what Spark's state store holds."""

    merges = None


def counted(stream: DataFrame, kind: str, control: str) -> DataFrame:
    """Return the stream of counts by key, on balanced workers."""
    if kind == "balance":
        balanced = stream.transform(balance("key", WORKERS, "d-choices", "online", control=control))
        return balanced.groupBy("key").agg(F.count("*").alias("n"), F.sum("number").alias("total"))
    using, mode = (MergedHere(), "planned") if kind == "planned" else (Count(), "online")
    return aggregate(
        stream, "key", using, "n long, total long", WORKERS, mode=mode, output_mode="update", control=control
    )


def main(kind: str, folder: Path, kills: dict[int, str]) -> None:
    """Run over all files there are."""
    group = os.getpgid(0)
    spark = local_session(
        "local[2]",
        **{
            "spark.sql.shuffle.partitions": 2,
            "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
            "RocksDBStateStoreProvider",
        },
    )
    stream = spark.readStream.schema("key int, number long").option("maxFilesPerTrigger", 1)

    def write(frame: DataFrame, batch: int) -> None:
        marker, point = folder / f"killed-{batch}", kills.get(batch)

        def kill(task: Any = None) -> None:
            if once(marker):
                os.killpg(group, signal.SIGKILL)

        if point == "before":
            kill()
        if point == "during":
            frame = acting(frame, after=kill)
        rows = [list(row) for row in frame.collect()]
        draft = folder / "out" / f".{batch}"
        draft.write_text(json.dumps(rows))
        draft.replace(folder / "out" / f"{batch}.json")
        if point == "after":
            kill()

    control = os.environ.get("EVENFLOW_CONTROL", str(folder / "control"))
    query = (
        counted(stream.parquet(str(folder / "in")), kind, control)
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .foreachBatch(write)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), {int(key): value for key, value in json.loads(sys.argv[3]).items()})
