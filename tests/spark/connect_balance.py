"""Balance and loads through Spark Connect, batch and streaming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from evenflow.control.directory import Control
from evenflow.spark import balance, loads
from evenflow.spark.monitoring.job_description import job_description
from evenflow.testing import wait_for
from spark.needs import HAS_ONLINE
from spark.stream_files import read_batches, write_batches
from spark.tricky_rows import arriving, tricky_rows


def found(spark: Any, folder: Path) -> dict[str, Any]:
    """Return how even rows are, and how many came out."""
    seen: dict[str, Any] = {}
    rows = pa.table({"k": ["hot"] * 500 + [None] * 100 + [str(i) for i in range(400)], "v": range(1000)})
    df = spark.createDataFrame(rows)
    out = df.transform(balance("k", 4))
    seen["same"] = (
        sorted(map(str, out.collect())) == sorted(map(str, df.collect())) and out.schema == df.schema
    )
    seen["batch"] = loads(out, "k", workers=4).max_over_mean
    if HAS_ONLINE:
        online = df.repartition(3).transform(balance("k", 4, "d-choices", "online"))
        seen["online"] = loads(online, "k", workers=4).max_over_mean

    with job_description(spark, "count, then plan"):  # a tag must not contain a comma
        seen["tags"] = [sorted(spark.getTags())]
        spark.range(1).collect()
    seen["tags"].append(sorted(spark.getTags()))

    seen["order"] = places(spark, 1) == places(spark, 2)

    write_batches(folder / "source", [rows] * 4)
    control = Control(folder / "control")
    stream = read_batches(spark, folder / "source", "k string, v long")
    query = (
        stream.transform(balance("k", 4, control=str(control.folder)))
        .select("*", F.spark_partition_id().alias("worker"))
        .writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="2 seconds")  # time for the listener between two batches
        .start()
    )
    wait_for(lambda: len(list(control.notes("batch"))) >= 4, "four batches", 200)
    seen["stream"] = loads(query).max_over_mean
    seen["fallbacks"] = loads(query).fallbacks
    query.stop()
    seen["rows"] = spark.read.parquet(str(folder / "out")).count()
    return seen


def places(spark: Any, salt: int) -> list[str]:
    """Return where rows with columns of one name and collated text go, in one of their arrival orders."""
    rows = arriving(spark.createDataFrame(tricky_rows(500, seed=1)), salt)
    twice = rows.selectExpr("*", "text as number", "collate(text, 'UTF8_LCASE') as word")
    placed = twice.transform(balance("key", 4, order="sort"))
    return sorted(map(str, placed.select(F.spark_partition_id(), "*").collect()))
