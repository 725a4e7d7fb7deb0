"""A program that joins a stream with a table or with another stream, and kills itself where it is told to.

As in ``stream.py``, a kill comes between the offsets of a micro-batch and its commit, once for each batch;
started again, the program goes on from its checkpoint.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenflow.plan import JoinPlan
from evenflow.spark import join
from evenflow.spark.session import local_session
from evenflow.testing import acting, once

ROWS = "k long, number long, ts timestamp"
PARTITIONS = 4


def joined(spark: SparkSession, kind: str, folder: Path) -> DataFrame:
    """Return the join of the streams, or the stream and the table, in ``folder``."""
    source = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1)
    left, control = source.parquet(str(folder / "left")), str(folder / "control")
    if kind == "table":
        right = spark.read.schema(ROWS).parquet(str(folder / "right")).toDF("k", "other", "at")
        return join(left, right, "k", "left", PARTITIONS, control=control).select("number", "other")
    left = left.withWatermark("ts", "10 seconds")
    right = source.parquet(str(folder / "right")).toDF("k", "other", "at").withWatermark("at", "10 seconds")
    near = F.expr("at between ts - interval 30 seconds and ts + interval 30 seconds")
    plan = JoinPlan.from_json((folder / "plan.json").read_text())
    together = join(left, right, "k", "left", plan=plan, condition=near, control=control)
    return together.select("number", "other")


def main(kind: str, folder: Path, kills: dict[int, str]) -> None:
    """Run over all files there are."""
    group = os.getpgid(0)
    spark = local_session(
        "local[2]",
        **{"spark.sql.shuffle.partitions": PARTITIONS, "spark.sql.autoBroadcastJoinThreshold": "-1"},
    )

    def write(frame: DataFrame, batch: int) -> None:
        marker, point = folder / f"killed-{batch}", kills.get(batch)

        def kill(task: Any = None) -> None:
            if once(marker):
                os.killpg(group, signal.SIGKILL)

        if point == "before":
            kill()
        if point == "during":
            frame = acting(frame, after=kill)
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
    main(sys.argv[1], Path(sys.argv[2]), {int(key): value for key, value in json.loads(sys.argv[3]).items()})
