"""The program with keyed state on Spark Connect, whose batches another process commits to an object store."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from evenflow.spark import read_state, stateful
from evenflow.spark.session import LOCAL
from faults.jobs.keyed import OUTPUT, ROWS, Remember


def main(folder: Path) -> None:
    """Run over all files there are."""
    builder = SparkSession.builder.remote("local[2]")
    for setting, value in {**LOCAL, "spark.sql.shuffle.partitions": "2"}.items():
        builder = builder.config(setting, value)
    spark = builder.getOrCreate()
    stream = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    out, place = str(folder / "out"), os.environ["EVENFLOW_STATE"]

    def sink(outputs: DataFrame, batch: int) -> None:
        rows: list[Any] = sorted(([*row] for row in outputs.collect()), key=str)
        Path(out, f"{batch}.json").write_text(json.dumps(rows))

    writer = stateful(
        stream, "key", Remember(str(folder), {}), OUTPUT, place, 3, "explicit", event_time="ts",
        order_by="number", checkpoint=folder / "state" / "_checkpoint",
    )  # fmt: skip
    query = writer.start(sink, availableNow=True)
    query.awaitTermination()
    state = sorted(([*row] for row in read_state(spark, place).collect()), key=str)
    (folder / "state.json").write_text(json.dumps(state))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
