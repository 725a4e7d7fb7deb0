"""Statistics of a micro-batch: hot keys, rows per worker, distinct keys and key-worker pairs.

``approx_top_k`` over the workers is exact, since they are few; keys and pairs are counted with HyperLogLog.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenflow.kernels import Float64Array, Int64Array, UInt64Array
from evenflow.spark.routing.key_counts import top_k, top_keys

_SHOWN_DIVISOR = 4  # the log lists keys from 1/4 of a worker's share
_RELATIVE_ERROR = 0.03  # of the counts of keys and pairs


class HasHomes(Protocol):
    """A plan, of whatever kind."""

    def homes_of(self, key: int) -> list[int]:
        """Return the workers of a key."""


@dataclass(frozen=True, eq=False)
class BatchStats:
    """The statistics of one micro-batch; keys are hottest first."""

    batch: int
    total: float
    keys: UInt64Array
    counts: Float64Array
    rows: Int64Array  # per worker
    tail: Int64Array  # rows per worker if every key went to the home of its bucket
    distinct: int
    pairs: int
    serial: int | None  # of the plan that was used
    hashed: Int64Array | None = None  # rows per worker if Spark's own hashing had placed them

    @staticmethod
    def from_row(row: Any, batch: int) -> BatchStats:
        """Read an observed row, in any of the forms that Spark returns."""
        values = plain(row)
        keys, workers = values["hot_keys"] or [], int(values["workers"] or 1)
        return BatchStats(
            batch=batch,
            total=float(values["rows"]),
            keys=np.array([item["item"] for item in keys], np.int64).view(np.uint64),
            counts=np.array([item["count"] for item in keys], np.float64),
            rows=_by_worker(values["rows_by_worker"], workers),
            tail=_by_worker(values["rows_by_bucket_home"], workers),
            distinct=int(values["keys"] or 0),
            pairs=int(values["key_worker_pairs"] or 0),
            serial=values["plan"],
            hashed=_by_worker(values["rows_by_hash"], workers),
        )

    def summary(self, plan: HasHomes | None, since: Mapping[str, float] | None = None) -> dict[str, Any]:
        """Return the fields of this batch's log line; ``since`` has the times from which keys were hot."""
        hot = []
        shown = int((self.counts * _SHOWN_DIVISOR * self.rows.size >= self.total).sum())
        for key, count in zip(self.keys[:shown].tolist(), self.counts[:shown].tolist(), strict=True):
            name = f"{key:016x}"
            homes = plan.homes_of(key) if plan is not None else []
            hot.append([name, int(count), homes, (since or {}).get(name)])
        return {
            "batch": self.batch,
            "plan": self.serial,
            "rows": self.rows.tolist(),
            "hashed": None if self.hashed is None else self.hashed.tolist(),
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
    by_hash: Column | None = None,
) -> DataFrame:
    """Observe keys by hash, and rows by worker and by the home of their bucket (``tail``).

    ``by_hash`` is the partition that Spark's own hashing gives a row, for comparison. Spark shows the metrics
    in the query's progress under these names.
    """
    if by_hash is None:
        by_hash = F.pmod(hashed, F.lit(workers)).cast("int")
    null = F.lit(None)
    return df.observe(
        name,
        F.count(F.lit(1)).alias("rows"),
        top_keys(hashed, workers).alias("hot_keys"),
        top_k(worker, workers).alias("rows_by_worker"),
        top_k(null.cast("int") if tail is None else tail, workers).alias("rows_by_bucket_home"),
        top_k(by_hash, workers).alias("rows_by_hash"),
        F.approx_count_distinct(hashed, _RELATIVE_ERROR).alias("keys"),
        F.approx_count_distinct(F.xxhash64(hashed, worker), _RELATIVE_ERROR).alias("key_worker_pairs"),
        F.max(null.cast("bigint") if serial is None else serial).alias("plan"),
        F.max(F.lit(workers)).alias("workers"),
    )


def _by_worker(items: Any, workers: int) -> Int64Array:
    rows = np.zeros(workers, np.int64)
    for item in items or []:
        if item["item"] is not None:
            rows[item["item"]] = item["count"]
    return rows


def plain(value: Any) -> Any:
    """Return Rows, and Spark Connect's JSON form of them, as dicts and lists."""
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
