"""A program that joins a stream with a table or with another stream, and meets faults where it is told to.

As in ``stream.py``, a kill comes between the offsets of a micro-batch and its commit, once for each batch;
started again, the program goes on from its checkpoint. With other faults, a task fails once, shuffle files
are lost, or a task waits for an executor to be killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenflow.spark import join
from evenflow.spark.session import local_session
from evenflow.testing import acting, failing_once, losing_shuffle_files, once
from faults.jobs import retries

cloudpickle.register_pickle_by_value(retries)  # type: ignore[no-untyped-call]  # executors do not have it
ROWS = "k long, number long, ts timestamp"
PARTITIONS = 4


def joined(spark: SparkSession, kind: str, folder: Path) -> DataFrame:
    """Return the join of the streams, or the stream and the table, in ``folder``."""
    source = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1)
    left = source.parquet(str(folder / "left"))
    control = os.environ.get("EVENFLOW_CONTROL", str(folder / "control"))
    if kind == "table":
        right = spark.read.schema(ROWS).parquet(str(folder / "right")).toDF("k", "other", "at")
        return join(left, right, "k", "left", PARTITIONS, control=control).select("number", "other")
    left = left.withWatermark("ts", "10 seconds")
    right = source.parquet(str(folder / "right")).toDF("k", "other", "at").withWatermark("at", "10 seconds")
    near = F.expr("at between ts - interval 30 seconds and ts + interval 30 seconds")
    together = join(left, right, "k", "left", condition=near, control=control)
    return together.select("number", "other")


def main(kind: str, folder: Path, faults: dict[int, str], master: str, shuffled: Path) -> None:
    """Run over all files there are."""
    group = os.getpgid(0)
    settings = {"spark.sql.shuffle.partitions": PARTITIONS, "spark.sql.autoBroadcastJoinThreshold": "-1"}
    spark = local_session(master, **settings, **{"spark.executor.memory": "512m"})

    def write(frame: DataFrame, batch: int) -> None:
        marker, point = folder / f"killed-{batch}", faults.get(batch)

        def kill(task: Any = None) -> None:
            if once(marker):
                os.killpg(group, signal.SIGKILL)

        if point == "before":
            kill()
        if point == "during":
            frame = acting(frame, after=kill)
        if point == "task failed":
            frame = failing_once(frame)
        if point == "files lost":
            frame = losing_shuffle_files(frame, shuffled, folder / f"lost-{batch}")
        if point == "executor killed":
            frame = acting(frame, before=retries.wait_to_be_killed(folder))
        rows = sorted(([*row] for row in frame.collect()), key=str)
        draft = folder / "out" / f".{batch}"
        draft.write_text(json.dumps(rows))
        draft.replace(folder / "out" / f"{batch}.json")
        if point == "after":
            kill()

    writer = joined(spark, kind, folder).writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    writer.foreachBatch(write).trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    told = {int(key): value for key, value in json.loads(sys.argv[3]).items()}
    where = sys.argv[4:] or ["local[2]", ""]
    main(sys.argv[1], Path(sys.argv[2]), told, where[0], Path(where[1]))
