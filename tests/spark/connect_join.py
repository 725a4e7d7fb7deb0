"""Join through Spark Connect: every kind, on names and on conditions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from evenflow.plan.join_build import KINDS
from evenflow.spark import join
from extent import ALL

TRIED = KINDS if ALL else ("full", "left_anti")


def found(spark: Any, folder: Path) -> dict[str, Any]:
    """Return whether the rows are those of Spark's join."""
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    keys = [7] * 300 + [None] * 20 + [i % 80 for i in range(280)]
    left = spark.createDataFrame(
        pa.table({"k": pa.array(keys, pa.int64()), "x": [i % 9 for i in range(600)]})
    )
    right = spark.createDataFrame(pa.table({"id": [7, 7, *range(70), 900], "y": [i % 9 for i in range(73)]}))
    same: dict[str, Any] = {}
    for how in TRIED:
        on = (left["k"] == right["id"]) & (left["x"] < right["y"])
        named = right.withColumnRenamed("id", "k")
        pairs = (
            (join(left, right, on, how, 4), left.join(right, on, how)),
            (join(left, named, "k", how, 4), left.join(named, "k", how)),
        )
        same[how] = [_rows(ours) == _rows(wanted) for ours, wanted in pairs]
    return same


def _rows(df: Any) -> list[str]:
    return sorted(map(str, df.collect()))
