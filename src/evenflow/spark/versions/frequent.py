"""Frequent values: ``approx_top_k`` (DataSketches), and what does the same where Spark lacks it.

* In batch, rows are grouped by hash. That is exact, and Spark writes to disk what memory cannot hold.
* Aggregates that are observed on a stream cannot group. ``percentile_approx`` over the hashes has a hash with
  a share s of the rows at a share s of the quantiles. It reads 64 bits as doubles of 53, so the upper and the
  lower 53 bits have quantiles of their own, and are put together by the 42 bits they share.
* ``histogram_numeric`` counts exactly while it has a bin for every value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from evenflow.errors import EvenflowError, own_sentence
from evenflow.kernels import Float64Array, UInt64Array
from evenflow.spark.versions import known

_MOST_POINTS = 65_536
_ACCURACY = 2  # per point, so that neighbours in the tail are different values
_HALF = 53  # bits
_SHARED = 2 * _HALF - 64  # bits of both halves
_DRAWN_TEXTS = 32


def has_top_k(spark: SparkSession) -> bool:
    """Return whether SQL has ``approx_top_k``."""
    return known.version_of(spark) >= known.HAS_TOP_K


def grouped_counts(
    rows: DataFrame, conditions: Sequence[str], others: dict[str, str], listed: int, by_bucket: bool
) -> pa.Table:
    """Return in one row, for every condition, the number of rows, of keys and of rows by key and bucket.

    ``rows`` have a ``hash`` and, if wanted, its ``bucket``. ``others`` are further conditions by name, whose
    rows are only counted.
    """
    keyed = rows if by_bucket else rows.selectExpr("*", "0 as bucket")
    counted = [f"n{number}" for number in range(len(conditions) + len(others))]
    per_key = keyed.groupBy("hash", "bucket").agg(
        *(
            F.expr(f"count_if({condition or 'true'})").alias(name)
            for name, condition in zip(counted, [*conditions, *others.values()], strict=True)
        )
    )
    # all parts have all columns, so that Spark groups once for them
    distinct = [f"d{number}" for number in range(len(conditions))]
    buckets = per_key.groupBy("bucket").agg(
        *(F.expr(f"sum({name})").alias(name) for name in counted),
        *(F.expr(f"count_if(n{number} > 0)").alias(name) for number, name in enumerate(distinct)),
    )
    parts = [buckets.selectExpr("-1 as part", "bigint(bucket) as item", *counted, *distinct)]
    for number in range(len(conditions)):
        top = per_key.orderBy(F.desc(f"n{number}"), "hash").limit(listed)
        parts.append(
            top.selectExpr(f"{number} as part", "hash as item", *counted, *(f"0L as {d}" for d in distinct))
        )
    found = _collected(reduce(DataFrame.unionAll, parts))
    return _one_row(found, list(conditions), list(others), by_bucket)


def _collected(frame: DataFrame) -> pa.Table:
    """Return the rows of a frame; of several jobs that fail, Spark's own error would hide our sentence."""
    try:
        return frame.toArrow()
    except Exception as error:
        sentence = own_sentence(str(error))
        if sentence is None:
            raise
        raise EvenflowError(sentence) from error


def _one_row(found: pa.Table, conditions: list[str], others: list[str], by_bucket: bool) -> pa.Table:
    """Return what was counted in the layout of ``approx_top_k`` over all rows."""
    columns = {name: found[name].to_numpy() for name in found.column_names}
    is_bucket = columns["part"] == -1
    row: dict[str, Any] = {}
    for number, condition in enumerate(conditions):
        rows = columns[f"n{number}"]
        row[f"total{condition}"] = pa.array([int(rows[is_bucket].sum())])
        row[f"keys{condition}"] = _pairs(columns["item"], rows, (columns["part"] == number) & (rows > 0))
        if by_bucket:
            row[f"buckets{condition}"] = _pairs(columns["item"], rows, is_bucket & (rows > 0))
        row[f"distinct{condition}"] = pa.array([int(columns[f"d{number}"][is_bucket].sum())])
    for number, name in enumerate(others, len(conditions)):
        row[name] = pa.array([int(columns[f"n{number}"][is_bucket].sum())])
    return pa.table(row)


def _pairs(items: Any, counts: Any, chosen: Any) -> pa.Array:
    pairs = pa.StructArray.from_arrays([pa.array(items[chosen]), pa.array(counts[chosen])], ["item", "count"])
    return pa.ListArray.from_arrays(pa.array([0, len(pairs)], pa.int32()), pairs)


def frequent_hashes(spark: SparkSession, hashed: Column, listed: int, tracked: int) -> Column:
    """Return the aggregate of the most frequent hashes, for `read_frequent_hashes`."""
    if has_top_k(spark):
        return F.call_function("approx_top_k", hashed, F.lit(listed), F.lit(tracked))
    step = 1_000_000 // min(_MOST_POINTS, tracked)
    points = len(range(step // 2, 1_000_000, step))
    upper = F.shiftrightunsigned(hashed, 64 - _HALF).cast("double")
    lower = hashed.bitwiseAND(F.lit((1 << _HALF) - 1)).cast("double")
    return F.struct(
        F.lit(points).alias("points"),
        _runs(upper, step, points).alias("upper"),
        _runs(lower, step, points).alias("lower"),
    )


def _runs(values: Column, step: int, points: int) -> Column:
    """Return the first and the last quantile, with its number, of every value that is at several.

    The shares are ``step`` millionths apart: microseconds as seconds, since a list of thousands of numbers in
    the text of the query would take longer than the rows.
    """
    shares = F.expr(
        f"cast(sequence(timestamp_micros({step // 2}), timestamp_micros(999999), "
        f"interval {step} microseconds) as array<double>)"
    )
    quantiles = F.percentile_approx(values, shares, F.lit(_ACCURACY * points))
    none = F.array(F.lit(-1.0))
    neighbours = F.arrays_zip(
        quantiles,
        F.concat(none, F.slice(quantiles, 1, points - 1)),
        F.concat(F.slice(quantiles, 2, points - 1), none),
    )
    ends = F.transform(
        neighbours,
        lambda of, at: F.struct(
            of["0"].cast("bigint").alias("item"),
            at.alias("at"),
            ((of["0"] == of["1"]) != (of["0"] == of["2"])).alias("is_end"),
        ),
    )
    return F.filter(ends, lambda end: end["is_end"])


def read_frequent_hashes(found: Any, rows: float) -> tuple[UInt64Array, Float64Array]:
    """Return hashes and counts, the most frequent first, of what `frequent_hashes` found in all ``rows``."""
    if not isinstance(found, dict):
        pairs = found or []
        keys = np.array([pair["item"] for pair in pairs], np.int64).view(np.uint64)
        return keys, np.array([pair["count"] for pair in pairs], np.float64)
    lower = {item >> (_HALF - _SHARED): item for item, _ in _lengths(found["lower"])}
    hashes, counts = list[int](), list[float]()
    for item, length in sorted(_lengths(found["upper"]), key=lambda run: -run[1]):
        other = lower.get(item & ((1 << _SHARED) - 1))
        if other is not None:
            hashes.append(item << (64 - _HALF) | other & ((1 << (64 - _HALF)) - 1))
            counts.append(length * rows / found["points"])
    return np.array(hashes, np.uint64), np.array(counts, np.float64)


def _lengths(ends: Any) -> list[tuple[int, int]]:
    """Return each value and the number of quantiles at which it is."""
    pairs = zip(ends[::2], ends[1::2], strict=True) if ends else ()
    return [(int(first["item"]), int(last["at"]) - int(first["at"]) + 1) for first, last in pairs]


def counts_of_few(spark: SparkSession, values: Column, most: int, tracked: int) -> Column:
    """Return the aggregate that counts INTs exactly, of which there are at most ``most``, for `counts_in`."""
    if has_top_k(spark):
        return F.call_function("approx_top_k", values, F.lit(most), F.lit(tracked))
    # nothing around it: Spark observes what is not deterministic only as the argument of an aggregate
    return F.histogram_numeric(values.cast("double"), F.lit(max(2, most)))


def counts_in(found: Any) -> Iterator[tuple[int, int]]:
    """Yield every value that `counts_of_few` counted, perhaps more than once, with a part of its count."""
    for pair in found or []:
        value, count = (pair["item"], pair["count"]) if "item" in pair else (pair["x"], pair["y"])
        if value is not None:
            yield round(value), round(count)  # bins that were merged are at a mean such as 0.9999999999999999


def text_to_count(spark: SparkSession, text: Column, draw: Column) -> Column:
    """Return what `frequent_texts` counts: the text, with a random number of the row if that is needed."""
    return text if has_top_k(spark) else F.struct(draw.alias("draw"), text.alias("text"))


def frequent_texts(spark: SparkSession, counted: Column, listed: int, tracked: int) -> Column:
    """Return the aggregate of the most frequent texts, of `text_to_count`, as (item, ...).

    Where Spark cannot count them, they are those of some random rows.
    """
    if has_top_k(spark):
        return F.call_function("approx_top_k", counted, F.lit(listed), F.lit(tracked))
    drawn = [
        F.max_by(counted["text"], F.xxhash64(counted["draw"], F.lit(number)))
        for number in range(_DRAWN_TEXTS)
    ]
    return F.transform(F.array_distinct(F.array(*drawn)), lambda one: F.struct(one.alias("item")))
