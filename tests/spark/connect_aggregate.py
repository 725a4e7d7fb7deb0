"""Aggregate and apply through Spark Connect, batch and streaming, beside plain Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from evenflow.spark import aggregate, apply
from evenflow.spark.grouped.streaming_merge import PROVIDER, ROCKS_DB
from extent import ALL
from spark.aggregators import SCHEMA, Declared, Profile, plain
from spark.stream_files import ROWS, late_batches, read_batches, run_to_end, write_batches
from spark.tables import rows_of, table

STREAMED = {"by_spark": Declared(), "in_python": Profile()}


def found(spark: Any, folder: Path) -> dict[str, Any]:
    """Return whether what we compute is what Spark computes, and how many rows a stream gave."""
    spark.conf.set(PROVIDER, ROCKS_DB)
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    same: dict[str, Any] = {}
    df = spark.createDataFrame(table("string", 200, 2.0, 8))
    for using in (Profile(), Declared()):
        ours = aggregate(df, ["k", "user"], using, SCHEMA, workers=3, order="sort")
        wanted = plain(df.groupBy("k", "user"))
        same[f"batch, {type(using).__name__}"] = rows_of(ours.collect()) == rows_of(wanted.collect())

    def count(group: Any) -> Any:
        return group.select(["k", "user"]).slice(0, 1)

    applied = apply(df, ["k", "user"], count, "k string, user long", workers=3)
    same["apply"] = rows_of(applied.collect()) == rows_of(df.select("k", "user").distinct().collect())

    return {"same": same} | (_streamed(spark, folder, same) if ALL else {})


def _streamed(spark: Any, folder: Path, same: dict[str, Any]) -> dict[str, Any]:
    """Add whether streams are as Spark's; return how many rows one gave."""
    write_batches(folder / "in", late_batches())
    stream = read_batches(spark, folder / "in", ROWS).withWatermark("ts", "4 minutes")
    key = [F.window("ts", "5 minutes"), F.col("user")]
    expected = run_to_end(plain(stream.groupBy(*key)), "append", "wanted", folder / "wanted")
    for name, using in STREAMED.items():
        ours = aggregate(stream, key, using, SCHEMA, workers=3, scheme="key", output_mode="append")
        written = run_to_end(ours, "append", name, folder / name)
        same[f"stream, {name}"] = rows_of(written) == rows_of(expected)
    return {"rows": len(expected)}
