"""What a micro-batch showed: its keys that stand out, the rows of each worker, how many keys and pairs.

``approx_top_k`` over the workers is exact, since they are few; keys and pairs are counted by HyperLogLog.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenflow.kernels import Float64Array, Int64Array, UInt64Array
from evenflow.plan import Plan
from evenflow.spark.routing.key_counts import top_k, top_keys

_HOT = 4  # shown are keys that bring at least this part of a worker's share
_ERROR = 0.03  # of the counts of keys and pairs


@dataclass(frozen=True, eq=False)
class Observed:
    """The counts of one micro-batch; keys hottest first."""

    batch: int
    total: float
    keys: UInt64Array
    counts: Float64Array
    rows: Int64Array  # of each worker
    tail: Int64Array  # that each worker would have if every key went where its bucket goes
    distinct: int
    pairs: int
    serial: int | None  # of the plan that was used

    @staticmethod
    def from_row(row: Any, batch: int) -> Observed:
        """Read an observed row, in any of the forms in which Spark hands it out."""
        values = plain(row)
        keys, workers = values["keys"] or [], int(values["workers"] or 1)
        return Observed(
            batch=batch,
            total=float(values["total"]),
            keys=np.array([item["item"] for item in keys], np.int64).view(np.uint64),
            counts=np.array([item["count"] for item in keys], np.float64),
            rows=_by_worker(values["rows"], workers),
            tail=_by_worker(values["tail"], workers),
            distinct=int(values["distinct"] or 0),
            pairs=int(values["pairs"] or 0),
            serial=values["serial"],
        )

    def summary(self, plan: Plan | None) -> dict[str, Any]:
        """Return what a line of the log says of this batch."""
        hot = []
        shown = int((self.counts * _HOT * self.rows.size >= self.total).sum())
        for key, count in zip(self.keys[:shown].tolist(), self.counts[:shown].tolist(), strict=True):
            hot.append([f"{key:016x}", int(count), plan.homes_of(key) if plan is not None else []])
        return {
            "batch": self.batch,
            "plan": self.serial,
            "rows": self.rows.tolist(),
            "keys": self.distinct,
            "pairs": max(self.pairs, self.distinct),
            "hot": hot,
        }


def observe(
    df: DataFrame,
    name: str,
    hashed: Column,
    worker: Column,
    workers: int,
    tail: Column | None = None,
    serial: Column | None = None,
) -> DataFrame:
    """Count what passes: keys by their hash, rows by worker and by the home of their bucket (``tail``)."""
    nothing = F.lit(None)
    return df.observe(
        name,
        F.count(F.lit(1)).alias("total"),
        top_keys(hashed, workers).alias("keys"),
        top_k(worker, workers).alias("rows"),
        top_k(nothing.cast("int") if tail is None else tail, workers).alias("tail"),
        F.approx_count_distinct(hashed, _ERROR).alias("distinct"),
        F.approx_count_distinct(F.xxhash64(hashed, worker), _ERROR).alias("pairs"),
        F.max(nothing.cast("bigint") if serial is None else serial).alias("serial"),
        F.max(F.lit(workers)).alias("workers"),
    )


def _by_worker(items: Any, workers: int) -> Int64Array:
    rows = np.zeros(workers, np.int64)
    for item in items or []:
        if item["item"] is not None:
            rows[item["item"]] = item["count"]
    return rows


def plain(value: Any) -> Any:
    """Return Rows, and the JSON that Spark Connect makes of them, as dicts and lists."""
    if isinstance(value, dict):
        if set(value) == {"values", "schema"}:
            names = [field["name"] for field in value["schema"]["fields"]]
            return {name: plain(inner) for name, inner in zip(names, value["values"], strict=True)}
        return {name: plain(inner) for name, inner in value.items()}
    if hasattr(value, "asDict"):
        return plain(value.asDict())
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value
