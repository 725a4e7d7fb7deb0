"""Planned routing: count the keys, make a plan, read it as a plain Column expression.

Counting is Spark's own: ``approx_top_k`` (DataSketches) over the key's hash finds the keys that stand out
and, over the buckets, which are few enough to be counted exactly, what the tail weighs. Both in one pass,
over a sample when the rows are many: with about 32,768 rows per worker every worker's share is off by half a
percent. How many rows there are is not known before: the first pass counts the first rows of each partition
and a thin sample of all, and where the sample holds none but first rows, all have been counted.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, UInt64Array
from evenflow.plan.counted import Counted
from evenflow.spark.routing.draws import FIRST_SAMPLE, SECOND_SAMPLE, draw_by_position
from evenflow.spark.routing.key_columns import helper, quoted
from evenflow.spark.routing.plan_sql import bucket_text

log = logging.getLogger("evenflow.spark")

ENOUGH_PER_WORKER = 32_768  # sampled rows
FIRST_LOOK = 0.1  # of the rows, to learn how many there are; hardly dearer than less, the scan is most of it
FIRST_ROWS = 65_536  # of each partition; small data need no second pass
WORTH_NAMING = 64  # a key is named if it brings at least this part of a worker's share
CERTAIN = 16  # rows of a sample that make a key's share more than chance
_MOST_TRACKED = 1_000_000  # Spark's limits of approx_top_k
_MOST_LISTED = 100_000


def count_keys(
    df: DataFrame, hashed: str, *, workers: int, buckets: int, sample: float | None, seed: int
) -> tuple[Counted, float]:
    """Count the keys of ``df``; return the counts, scaled to all rows, and the part of the rows looked at.

    ``sample`` is the part to look at; None: a first look says how many rows there are, and if it did not see
    enough of them, a second one does.
    """
    enough = ENOUGH_PER_WORKER * workers
    if sample is None:
        everything, first = _first_look(df, hashed, workers, buckets, seed)
        if everything is not None:
            return everything, 1.0
        if first.total >= enough:
            return _scaled(first, FIRST_LOOK), FIRST_LOOK
        sample = min(1.0, enough / max(1.0, first.total / FIRST_LOOK))
        if sample > 0.5:  # hardly cheaper than all, and all is exact
            sample = 1.0
    if not 0 < sample <= 1:
        raise EvenflowError(f"sample is {sample!r}; it is a part of the rows, above 0 and at most 1.")
    looked = df if sample == 1 else _sampled(df, sample, seed)
    counted = _with_bucket(looked.selectExpr(f"{hashed} as hash"), buckets).agg(*_counts(workers, buckets))
    [row] = counted.collect()
    return _scaled(_counted(row, "", workers, buckets, 1 if sample == 1 else CERTAIN), sample), sample


def _first_look(
    df: DataFrame, hashed: str, workers: int, buckets: int, seed: int
) -> tuple[Counted | None, Counted]:
    """Return what was counted of all rows, if it was all, and of a sample."""
    near, drawn = helper(df, "near"), helper(df, "drawn")
    position = f"monotonically_increasing_id() & {(1 << 33) - 1}L"  # within its partition
    rows = (
        df.selectExpr(
            "*",  # texts, since each part of a Column is a message to the JVM
            f"({position}) < {FIRST_ROWS} as {quoted(near)}",
            f"{draw_by_position(seed, FIRST_SAMPLE)} < {FIRST_LOOK} as {quoted(drawn)}",
        )
        .where(f"{quoted(near)} or {quoted(drawn)}")  # before the others are hashed
        .selectExpr(f"{hashed} as hash", f"{quoted(near)} as near", f"{quoted(drawn)} as drawn")
    )
    [row] = (
        _with_bucket(rows, buckets)
        .agg(
            F.expr("count_if(drawn and not near)").alias("beyond"),
            *_counts(workers, buckets, "near"),
            *_counts(workers, buckets, "drawn"),
        )
        .collect()
    )
    everything = None if row["beyond"] else _counted(row, "near", workers, buckets, 1)
    return everything, _counted(row, "drawn", workers, buckets, CERTAIN)


def _sampled(df: DataFrame, sample: float, seed: int) -> DataFrame:
    """Return a part of the rows; ``df.sample`` would draw as a column made by ``rand`` may have been."""
    drawn = helper(df, "drawn")
    rows = df.selectExpr("*", f"{draw_by_position(seed, SECOND_SAMPLE)} < {sample}D as {quoted(drawn)}")
    return rows.where(quoted(drawn))


def _with_bucket(rows: DataFrame, buckets: int) -> DataFrame:
    return rows.selectExpr("*", f"{bucket_text('hash', buckets)} as bucket")


def _counts(workers: int, buckets: int, which: str = "") -> list[Column]:
    """Return the aggregates over hashes and buckets, of the rows for which the column ``which`` holds."""
    only = f" filter (where {which})" if which else ""
    return [
        F.expr(f"count(1){only}").alias(f"total{which}"),
        F.expr("approx_top_k(hash, {}, {})".format(*_sizes(_names(workers))) + only).alias(f"keys{which}"),
        F.expr("approx_top_k(bucket, {}, {})".format(*_sizes(buckets)) + only).alias(f"buckets{which}"),
    ]


def _counted(row: Any, which: str, workers: int, buckets: int, least: int) -> Counted:
    keys, counts = as_arrays(row[f"keys{which}"])
    weights = None
    if buckets <= _MOST_LISTED:
        weights = np.zeros(buckets)
        for item in row[f"buckets{which}"] or []:
            weights[item["item"]] = item["count"]
    return named(keys, counts, float(row[f"total{which}"]), weights, workers, least)


def top_keys(hashed: Column, workers: int) -> Column:
    """Return the aggregate that lists the keys that stand out, hottest first, as (item, count)."""
    return F.call_function("approx_top_k", hashed, *map(F.lit, _sizes(_names(workers))))


def top_k(values: Column, listed: int) -> Column:
    """Return the aggregate of the ``listed`` most frequent values; exact where there are no more."""
    return F.call_function("approx_top_k", values, *map(F.lit, _sizes(listed)))


def _names(workers: int) -> int:
    """Return how many keys can be worth naming."""
    return max(1000, WORTH_NAMING * workers)


def _sizes(listed: int) -> tuple[int, int]:
    """Return how many values approx_top_k lists, and how many it follows."""
    listed = min(_MOST_LISTED, listed)
    return listed, min(_MOST_TRACKED, max(16_384, 4 * listed))


def as_arrays(items: Any) -> tuple[UInt64Array, Float64Array]:
    """Return what approx_top_k listed as hashes and counts."""
    pairs = items or []
    keys = np.array([item["item"] for item in pairs], np.int64).view(np.uint64)
    return keys, np.array([item["count"] for item in pairs], np.float64)


def named(
    keys: UInt64Array,
    counts: Float64Array,
    total: float,
    buckets: Float64Array | None,
    workers: int,
    least: int = 1,
) -> Counted:
    """Keep the keys that are worth a name of their own, and were counted ``least`` times."""
    large = (counts * WORTH_NAMING * workers >= total) & (counts >= least)
    return Counted(keys[large], counts[large], total, buckets)


def _scaled(counted: Counted, sample: float) -> Counted:
    if sample == 1:
        return counted
    buckets = None if counted.buckets is None else counted.buckets / sample
    return Counted(counted.keys, counted.counts / sample, counted.total / sample, buckets)
