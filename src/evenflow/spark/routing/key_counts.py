"""Counting keys for a plan.

``approx_top_k`` (DataSketches) over the key's hash finds the hot keys. The same aggregate over the buckets of
the hash, few enough to be counted exactly, gives the weight of the tail. Both take one pass, over a sample if
there are many rows: about 32,768 rows per worker estimate every worker's share to half a percent. The number
of rows is not known in advance: the first pass counts the first rows of each partition and a sample of all
rows, and if the sample holds only first rows, every row has been counted. If the sample listed all of its
keys, there cannot be many, and a second pass groups by the hash: exact, and three times as fast as sketches.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int64Array
from evenflow.plan.counted import HOT_DIVISOR, Counted, hot_only
from evenflow.plan.table import bucket_of
from evenflow.spark.routing.draws import FIRST_SAMPLE, SECOND_SAMPLE, draw_by_position
from evenflow.spark.routing.key_columns import helper_name, quoted
from evenflow.spark.routing.plan_sql import bucket_sql
from evenflow.spark.versions.frequent import counts_of_few, frequent_hashes, grouped_counts, has_top_k

log = logging.getLogger("evenflow.spark.routing")

SAMPLED_ROWS_PER_WORKER = 32_768
FIRST_FRACTION = 0.1  # of the rows, sampled in the first pass; a smaller one saves little, the scan dominates
FIRST_ROWS = 65_536  # of each partition, counted in the first pass; small inputs need no second one
MIN_SAMPLED_ROWS = 16  # of a hot key in a sample; fewer may be chance
_MAX_TRACKED = 1_000_000  # limits of Spark's approx_top_k
_MAX_LISTED = 100_000
_MAX_GROUPED = 1_000_000  # keys that the driver receives when a pass groups by hash


def count_keys(
    df: DataFrame, hashed: str, *, workers: int, buckets: int, sample: float | None, seed: int
) -> tuple[Counted, float]:
    """Count the keys of ``df``; return the hot ones, scaled to all rows, and the fraction of rows counted.

    ``sample`` is the fraction to count. If it is None, a first pass estimates the number of rows, and a
    second one follows if the first has not counted enough of them.
    """
    [(counted, fraction)] = count_frequent_keys(
        [(df, hashed)], workers=workers, buckets=buckets, sample=sample, seed=seed
    )
    return hot_only(counted.keys, counted.counts, counted.total, counted.buckets, workers), fraction


def rows_counted(counted: Counted, fraction: float) -> str:
    """Return how many rows were counted, as text."""
    return f"{'all' if fraction == 1 else f'{fraction:.1%} of about'} {counted.total:.0f} rows"


def count_frequent_keys(
    frames: Sequence[tuple[DataFrame, str]], *, workers: int, buckets: int, sample: float | None, seed: int,
    per_worker: int | None = None, first_rows: int | None = None,
) -> list[tuple[Counted, float]]:  # fmt: skip
    """Count the keys of several frames in one pass, as `count_keys` does; return all keys that are listed.

    A frame comes with the SQL of its key's hash. Without buckets, the number of keys is estimated.
    ``per_worker`` rows for each worker are enough of a sample. The first pass counts ``first_rows`` of each
    partition.
    """
    enough = (per_worker or SAMPLED_ROWS_PER_WORKER) * workers
    samples = [sample] * len(frames)
    counts: list[tuple[Counted, float] | None] = [None] * len(frames)
    expected_keys = 0.0  # at most, in the second pass; infinite if unknown
    if sample is None:
        firsts = _first_pass(frames, workers, buckets, seed, first_rows or FIRST_ROWS)
        for number, (exact, first, listed) in enumerate(firsts):
            if exact is not None:
                counts[number] = exact, 1.0
            elif first.total >= enough:
                counts[number] = _scaled(first, FIRST_FRACTION), FIRST_FRACTION
            else:
                fraction = min(1.0, enough / max(1.0, first.total / FIRST_FRACTION))
                samples[number] = 1.0 if fraction > 0.5 else fraction  # all: costs little more and is exact
                # a key that the first sample missed has few rows: there are no more keys than in proportion
                is_complete = listed < _sketch_sizes(_max_hot_keys(workers))[0]
                expected_keys += listed / FIRST_FRACTION if is_complete else math.inf
    elif not 0 < sample <= 1:
        raise EvenflowError(f"sample is {sample!r}; pass a fraction of the rows, above 0 and at most 1.")
    left = [
        (number, frame, hashed, fraction)
        for number, ((frame, hashed), fraction) in enumerate(zip(frames, samples, strict=True))
        if counts[number] is None and fraction is not None
    ]
    if left:
        rows = [
            (frame if fraction == 1 else _sampled(frame, fraction, seed)).selectExpr(f"{hashed} as hash")
            for _, frame, hashed, fraction in left
        ]
        least = [1 if fraction == 1 else MIN_SAMPLED_ROWS for *_, fraction in left]
        if sample is None and expected_keys <= _MAX_GROUPED:
            second = _grouped(rows, buckets, least)
        else:
            conditions = [f"side = {side}" for side in range(len(left))] if len(left) > 1 else [""]
            found = _aggregated(rows, [[condition] for condition in conditions], workers, buckets)
            second = [
                _counted(found, condition, buckets, min_count)
                for condition, min_count in zip(conditions, least, strict=True)
            ]
        for (number, _, _, fraction), counted in zip(left, second, strict=True):
            counts[number] = _scaled(counted, fraction), fraction
    return [counted for counted in counts if counted is not None]


def _first_pass(
    frames: Sequence[tuple[DataFrame, str]], workers: int, buckets: int, seed: int, first_rows: int
) -> list[tuple[Counted | None, Counted, int]]:
    """Return, for each frame, the counts of all rows, or None if only some were counted, and of a sample.

    The last number is how many keys of the sample are listed, including those that are too rare to be hot.
    """
    rows = [_first_rows(df, hashed, seed, first_rows) for df, hashed in frames]
    both = ("is_first", "is_sampled")
    conditions = [
        [*both] if len(frames) == 1 else [f"{condition} and side = {side}" for condition in both]
        for side in range(len(frames))
    ]
    found = _aggregated(rows, conditions, workers, buckets)
    counts: list[tuple[Counted | None, Counted, int]] = []
    for first, sampled in conditions:
        exact = None if found[f"beyond {sampled}"][0].as_py() else _counted(found, first, buckets, 1)
        listed = len(found[f"keys{sampled}"][0])
        counts.append((exact, _counted(found, sampled, buckets, MIN_SAMPLED_ROWS), listed))
    return counts


def _first_rows(df: DataFrame, hashed: str, seed: int, first_rows: int) -> DataFrame:
    """Return the hashes of the first rows of each partition and of a sample of all rows."""
    is_first, is_sampled = helper_name(df, "is_first"), helper_name(df, "is_sampled")
    position = f"monotonically_increasing_id() & {(1 << 33) - 1}L"  # within its partition
    return (
        df.selectExpr(
            "*",  # SQL text, because building a Column costs one call to the JVM per part
            f"({position}) < {first_rows} as {quoted(is_first)}",
            f"{draw_by_position(seed, FIRST_SAMPLE)} < {FIRST_FRACTION} as {quoted(is_sampled)}",
        )
        .where(f"{quoted(is_first)} or {quoted(is_sampled)}")  # skip the others before hashing
        .selectExpr(
            f"{hashed} as hash", f"{quoted(is_first)} as is_first", f"{quoted(is_sampled)} as is_sampled"
        )
    )


def _aggregated(sides: list[DataFrame], conditions: list[list[str]], workers: int, buckets: int) -> pa.Table:
    """Return the counts of the rows of all sides under each condition, from one job, in one row."""
    rows = sides[0] if len(sides) == 1 else _marked(sides)
    if buckets:
        rows = rows.selectExpr("*", f"{bucket_sql('hash', buckets)} as bucket")
    others = {
        f"beyond {listed[1]}": f"{listed[1]} and not is_first" for listed in conditions if len(listed) > 1
    }
    if not has_top_k(rows.sparkSession):
        flat = [one for listed in conditions for one in listed]
        return grouped_counts(rows, flat, others, _sketch_sizes(_max_hot_keys(workers))[0], buckets > 0)
    aggregates = [
        column for listed in conditions for one in listed for column in _counts(workers, buckets, one)
    ]
    aggregates += [F.expr(f"count_if({condition})").alias(name) for name, condition in others.items()]
    # as Row objects, a hundred thousand keys would take longer than counting them
    return rows.agg(*aggregates).toArrow()


def _grouped(sides: list[DataFrame], buckets: int, min_counts: list[int]) -> list[Counted]:
    """Return the counts of every side's rows, from one job that groups by the hash."""
    found = _marked(sides).groupBy("side", "hash").count().toArrow()
    side, hashes, rows = (found[name].to_numpy() for name in ("side", "hash", "count"))
    counts = []
    for number, min_count in enumerate(min_counts):
        keys, counted = hashes[side == number].view(np.uint64), rows[side == number].astype(np.float64)
        certain = counted >= min_count
        weights: Float64Array | None = None
        if buckets:
            weights = np.bincount(bucket_of(keys, buckets), counted, buckets).astype(np.float64)
        distinct = None if buckets else float(keys.size)
        counts.append(Counted(keys[certain], counted[certain], float(counted.sum()), weights, distinct))
    return counts


def _marked(sides: list[DataFrame]) -> DataFrame:
    """Return the rows of all sides, with the number of their side."""
    marked = [rows.selectExpr("*", f"{side} as side") for side, rows in enumerate(sides)]
    return reduce(DataFrame.unionAll, marked)


def _sampled(df: DataFrame, sample: float, seed: int) -> DataFrame:
    """Return a fraction of the rows; unlike ``df.sample``, independent of columns made by ``rand``."""
    is_sampled = helper_name(df, "is_sampled")
    rows = df.selectExpr("*", f"{draw_by_position(seed, SECOND_SAMPLE)} < {sample}D as {quoted(is_sampled)}")
    return rows.where(quoted(is_sampled))


def _counts(workers: int, buckets: int, condition: str = "") -> list[Column]:
    """Return the aggregates over hashes and buckets, of the rows where the column ``condition`` is true.

    Without buckets, the keys are counted instead.
    """
    filtered = f" filter (where {condition})" if condition else ""
    return [
        F.expr(f"count(1){filtered}").alias(f"total{condition}"),
        F.expr("approx_top_k(hash, {}, {})".format(*_sketch_sizes(_max_hot_keys(workers))) + filtered).alias(
            f"keys{condition}"
        ),
        F.expr("approx_top_k(bucket, {}, {})".format(*_sketch_sizes(buckets)) + filtered).alias(
            f"buckets{condition}"
        )
        if buckets
        else F.expr(f"approx_count_distinct(hash){filtered}").alias(f"distinct{condition}"),
    ]


def _counted(found: pa.Table, condition: str, buckets: int, min_count: int) -> Counted:
    """Return the keys counted at least ``min_count`` times, the number of rows, and each bucket's rows."""
    items, counts = _listed(found, f"keys{condition}")
    weights, distinct = None, None
    if not buckets:
        distinct = float(found[f"distinct{condition}"][0].as_py())
    elif buckets <= _MAX_LISTED:
        listed, rows = _listed(found, f"buckets{condition}")
        weights = np.zeros(buckets)
        weights[listed] = rows
    certain = counts >= min_count
    total = float(found[f"total{condition}"][0].as_py())
    return Counted(items.view(np.uint64)[certain], counts[certain], total, weights, distinct)


def _listed(found: pa.Table, name: str) -> tuple[Int64Array, Float64Array]:
    """Return the result of approx_top_k in the one row of a table, as values and counts."""
    pairs = found[name].combine_chunks().flatten()
    return pairs.field("item").to_numpy().astype(np.int64), pairs.field("count").to_numpy().astype(np.float64)


def top_keys(spark: SparkSession, hashed: Column, workers: int) -> Column:
    """Return the aggregate that lists the hot keys, to be read with `read_frequent_hashes`.

    No more keys than listed can be hot. A micro-batch waits for the sketch, which grows with what it tracks;
    it is off by at most 3.5 / tracked of the rows, a fifth of those that make a key hot.
    """
    listed = min(_MAX_LISTED, HOT_DIVISOR * workers)
    return frequent_hashes(spark, hashed, listed, min(_MAX_TRACKED, max(4096, 16 * listed)))


def counts_by_worker(spark: SparkSession, values: Column, workers: int) -> Column:
    """Return the aggregate that counts the rows of every worker, for `counts_in`; it is exact."""
    return counts_of_few(spark, values, *_sketch_sizes(workers))


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
    distinct = counted.distinct
    if distinct is not None:  # between as many keys as in the sample and, if all are different, in proportion
        distinct /= sample ** min(1.0, distinct / max(1.0, counted.total))
    return Counted(counted.keys, counted.counts / sample, counted.total / sample, buckets, distinct)
