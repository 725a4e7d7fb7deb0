"""Join through Spark Connect: every kind, on names and on conditions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from evenflow import hash_keys
from evenflow.plan import make_join_plan
from evenflow.plan.counted import Counted
from evenflow.plan.join_build import KINDS
from evenflow.spark import join
from extent import ALL
from spark.stream_files import read_batches, write_batches

TRIED = (*KINDS, "stream and table", "two streams") if ALL else ("full",)


def found(spark: Any, folder: Path) -> dict[str, Any]:
    """Return whether the rows are those of Spark's join."""
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    keys = [7] * 300 + [None] * 20 + [i % 80 for i in range(280)]
    left = spark.createDataFrame(
        pa.table({"k": pa.array(keys, pa.int64()), "x": [i % 9 for i in range(600)]})
    )
    right = spark.createDataFrame(pa.table({"id": [7, 7, *range(70), 900], "y": [i % 9 for i in range(73)]}))
    same: dict[str, Any] = {}
    for how in KINDS if ALL else TRIED:
        on = (left["k"] == right["id"]) & (left["x"] < right["y"])
        named = right.withColumnRenamed("id", "k")
        pairs = (
            (join(left, right, on, how, 4), left.join(right, on, how)),
            (join(left, named, "k", how, 4), left.join(named, "k", how)),
        )
        same[how] = [_rows(ours) == _rows(wanted) for ours, wanted in pairs]
    if ALL:
        same |= _streams(spark, folder)
    return same


def _streams(spark: Any, folder: Path) -> dict[str, Any]:
    """Return whether joins with streams have the rows of Spark's: a table, and another stream by a plan."""
    for number, name in enumerate(("left", "right")):
        write_batches(folder / name, [_batch(number, batch) for batch in range(3)])
    rows = "k long, x long, ts timestamp"
    left = read_batches(spark, folder / "left", rows).withWatermark("ts", "10 seconds")
    right = read_batches(spark, folder / "right", rows).toDF("k", "y", "at").withWatermark("at", "10 seconds")
    table = spark.read.schema(rows).parquet(str(folder / "right")).toDF("k", "y", "at")
    near = F.expr("at between ts - interval 20 seconds and ts + interval 20 seconds")
    hot = Counted(hash_keys(pa.array([7], pa.int64())), np.array([900.0]), 1000.0)
    plan = make_join_plan(2, hot, Counted(hot.keys, np.ones(1), 100.0), "left")
    control = str(folder / "control")
    ours = {
        "stream and table": join(left, table, "k", "left", 2, control=control),
        "two streams": join(left, right, "k", "left", plan=plan, condition=near, control=control),
    }
    wanted = {
        "stream and table": left.join(table, "k", "left"),
        "two streams": left.join(right, (left["k"] == right["k"]) & near, "left").drop(right["k"]),
    }
    found = {}
    for name, frame in ours.items():
        written = []
        for number, one in enumerate((frame, wanted[name])):
            at = folder / f"{name} {number}"
            writer = one.writeStream.option("checkpointLocation", str(at / "checkpoint"))
            writer.trigger(availableNow=True).start(str(at / "out")).awaitTermination()
            written.append(_rows(spark.read.parquet(str(at / "out"))))
        found[name] = [written[0] == written[1], len(written[0]) > 100]
    return found


def _batch(seed: int, number: int) -> pa.Table:
    rng = np.random.default_rng(10 * seed + number)
    times = (1_700_000_000 + 30 * number + rng.integers(0, 30, 60)) * 1_000_000
    keys = np.where(rng.random(60) < 0.4, 7, rng.integers(0, 20, 60))
    return pa.table({"k": keys, "x": np.arange(60), "ts": pa.array(times, pa.timestamp("us", "UTC"))})


def _rows(df: Any) -> list[str]:
    return sorted(map(str, df.collect()))
