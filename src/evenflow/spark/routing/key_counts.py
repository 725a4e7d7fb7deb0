"""Counting keys for a plan.

``approx_top_k`` (DataSketches) over the key's hash finds the hot keys. The same aggregate over the buckets of
the hash, few enough to be counted exactly, gives the weight of the tail. Both take one pass, over a sample if
there are many rows: about 32,768 rows per worker estimate every worker's share to half a percent. The number
of rows is not known in advance: the first pass counts the first rows of each partition and a sample of all
rows, and if the sample holds only first rows, every row has been counted.
"""

from __future__ import annotations

import logging

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int64Array
from evenflow.plan.counted import HOT_DIVISOR, Counted, hot_only
from evenflow.spark.routing.draws import FIRST_SAMPLE, SECOND_SAMPLE, draw_by_position
from evenflow.spark.routing.key_columns import helper_name, quoted
from evenflow.spark.routing.plan_sql import bucket_sql

log = logging.getLogger("evenflow.spark")

SAMPLED_ROWS_PER_WORKER = 32_768
FIRST_FRACTION = 0.1  # of the rows, sampled in the first pass; a smaller one saves little, the scan dominates
FIRST_ROWS = 65_536  # of each partition, counted in the first pass; small inputs need no second one
MIN_SAMPLED_ROWS = 16  # of a hot key in a sample; fewer may be chance
_MAX_TRACKED = 1_000_000  # limits of Spark's approx_top_k
_MAX_LISTED = 100_000


def count_keys(
    df: DataFrame, hashed: str, *, workers: int, buckets: int, sample: float | None, seed: int
) -> tuple[Counted, float]:
    """Count the keys of ``df``; return the counts, scaled to all rows, and the fraction of the rows counted.

    ``sample`` is the fraction to count. If it is None, a first pass estimates the number of rows, and a
    second one follows if the first has not counted enough of them.
    """
    enough = SAMPLED_ROWS_PER_WORKER * workers
    if sample is None:
        exact, first = _first_pass(df, hashed, workers, buckets, seed)
        if exact is not None:
            return exact, 1.0
        if first.total >= enough:
            return _scaled(first, FIRST_FRACTION), FIRST_FRACTION
        sample = min(1.0, enough / max(1.0, first.total / FIRST_FRACTION))
        if sample > 0.5:  # counting all rows costs little more and is exact
            sample = 1.0
    if not 0 < sample <= 1:
        raise EvenflowError(f"sample is {sample!r}; pass a fraction of the rows, above 0 and at most 1.")
    sampled = df if sample == 1 else _sampled(df, sample, seed)
    counted = _with_bucket(sampled.selectExpr(f"{hashed} as hash"), buckets).agg(*_counts(workers, buckets))
    return _scaled(
        _counted(counted.toArrow(), "", workers, buckets, 1 if sample == 1 else MIN_SAMPLED_ROWS), sample
    ), sample


def _first_pass(
    df: DataFrame, hashed: str, workers: int, buckets: int, seed: int
) -> tuple[Counted | None, Counted]:
    """Return the counts of all rows, or None if only some were counted, and those of a sample."""
    is_first, is_sampled = helper_name(df, "is_first"), helper_name(df, "is_sampled")
    position = f"monotonically_increasing_id() & {(1 << 33) - 1}L"  # within its partition
    rows = (
        df.selectExpr(
            "*",  # SQL text, because building a Column costs one call to the JVM per part
            f"({position}) < {FIRST_ROWS} as {quoted(is_first)}",
            f"{draw_by_position(seed, FIRST_SAMPLE)} < {FIRST_FRACTION} as {quoted(is_sampled)}",
        )
        .where(f"{quoted(is_first)} or {quoted(is_sampled)}")  # skip the others before hashing
        .selectExpr(
            f"{hashed} as hash", f"{quoted(is_first)} as is_first", f"{quoted(is_sampled)} as is_sampled"
        )
    )
    found = (
        _with_bucket(rows, buckets)
        .agg(
            F.expr("count_if(is_sampled and not is_first)").alias("beyond"),
            *_counts(workers, buckets, "is_first"),
            *_counts(workers, buckets, "is_sampled"),
        )
        .toArrow()  # as Row objects, a hundred thousand keys would take longer than counting them
    )
    exact = None if found["beyond"][0].as_py() else _counted(found, "is_first", workers, buckets, 1)
    return exact, _counted(found, "is_sampled", workers, buckets, MIN_SAMPLED_ROWS)


def _sampled(df: DataFrame, sample: float, seed: int) -> DataFrame:
    """Return a fraction of the rows; unlike ``df.sample``, independent of columns made by ``rand``."""
    is_sampled = helper_name(df, "is_sampled")
    rows = df.selectExpr("*", f"{draw_by_position(seed, SECOND_SAMPLE)} < {sample}D as {quoted(is_sampled)}")
    return rows.where(quoted(is_sampled))


def _with_bucket(rows: DataFrame, buckets: int) -> DataFrame:
    return rows.selectExpr("*", f"{bucket_sql('hash', buckets)} as bucket")


def _counts(workers: int, buckets: int, condition: str = "") -> list[Column]:
    """Return the aggregates over hashes and buckets, of the rows where the column ``condition`` is true."""
    filtered = f" filter (where {condition})" if condition else ""
    return [
        F.expr(f"count(1){filtered}").alias(f"total{condition}"),
        F.expr("approx_top_k(hash, {}, {})".format(*_sketch_sizes(_max_hot_keys(workers))) + filtered).alias(
            f"keys{condition}"
        ),
        F.expr("approx_top_k(bucket, {}, {})".format(*_sketch_sizes(buckets)) + filtered).alias(
            f"buckets{condition}"
        ),
    ]


def _counted(found: pa.Table, condition: str, workers: int, buckets: int, min_count: int) -> Counted:
    items, counts = _listed(found, f"keys{condition}")
    weights = None
    if buckets <= _MAX_LISTED:
        listed, rows = _listed(found, f"buckets{condition}")
        weights = np.zeros(buckets)
        weights[listed] = rows
    total = float(found[f"total{condition}"][0].as_py())
    return hot_only(items.view(np.uint64), counts, total, weights, workers, min_count)


def _listed(found: pa.Table, name: str) -> tuple[Int64Array, Float64Array]:
    """Return the result of approx_top_k in the one row of a table, as values and counts."""
    pairs = found[name].combine_chunks().flatten()
    return pairs.field("item").to_numpy().astype(np.int64), pairs.field("count").to_numpy().astype(np.float64)


def top_keys(hashed: Column, workers: int) -> Column:
    """Return the aggregate that lists the hot keys, hottest first, as (item, count)."""
    return F.call_function("approx_top_k", hashed, *map(F.lit, _sketch_sizes(_max_hot_keys(workers))))


def top_k(values: Column, listed: int) -> Column:
    """Return the aggregate of the ``listed`` most frequent values; exact if there are no more values."""
    return F.call_function("approx_top_k", values, *map(F.lit, _sketch_sizes(listed)))


def _max_hot_keys(workers: int) -> int:
    """Return how many keys can be hot."""
    return max(1000, HOT_DIVISOR * workers)


def _sketch_sizes(listed: int) -> tuple[int, int]:
    """Return how many values approx_top_k lists, and how many it tracks."""
    listed = min(_MAX_LISTED, listed)
    return listed, min(_MAX_TRACKED, max(16_384, 4 * listed))


def _scaled(counted: Counted, sample: float) -> Counted:
    if sample == 1:
        return counted
    buckets = None if counted.buckets is None else counted.buckets / sample
    return Counted(counted.keys, counted.counts / sample, counted.total / sample, buckets)
