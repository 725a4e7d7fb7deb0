"""Statistics of a micro-batch: hot keys, rows per worker, distinct keys and key-worker pairs.

``approx_top_k`` over the workers is exact, since they are few; keys and pairs are counted with
HyperLogLog: as sketches of one column each, since the two hundred columns of ``approx_count_distinct``
would be sent to every task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenflow.control.hot_keys import shortened
from evenflow.kernels import Float64Array, Int64Array, UInt64Array
from evenflow.spark.monitoring.switches import compared_batches, logs_values
from evenflow.spark.routing.draws import VALUES, draw_by_content, draw_by_position
from evenflow.spark.routing.key_columns import (
    KeyColumn,
    hash_partition,
    helper_name,
    key_label,
    key_struct,
    quoted,
)
from evenflow.spark.routing.key_counts import counts_by_worker, top_keys
from evenflow.spark.versions.frequent import counts_in, frequent_texts, read_frequent_hashes, text_to_count

_SHOWN_DIVISOR = 4  # the log lists keys from 1/4 of a worker's share
_LOG_REGISTERS = 11  # of a count of keys or pairs, which is off by 2 percent
_VALUE_FRACTION = 1 / 64  # of the rows, whose keys are looked at for their values
_VALUES, _VALUES_TRACKED = 200, 2048  # of the most frequent keys among them
_VALUE_CHARACTERS = 300  # of its JSON
_HASH_DIGITS = 16


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
    query: str = ""  # Spark's id
    watermark: int | None = None  # of the batch, in microseconds, if its query has one operator with state
    values: dict[str, str] | None = field(default_factory=dict)  # of frequent keys by hash; None: not logged

    @staticmethod
    def from_row(row: Any, batch: int) -> BatchStats:
        """Read an observed row, in any of the forms that Spark returns."""
        values = plain(row)
        workers = int(values["workers"] or 1)
        keys, counts = read_frequent_hashes(values["hot_keys"], float(values["rows"]))
        return BatchStats(
            batch=batch,
            total=float(values["rows"]),
            keys=keys,
            counts=counts,
            rows=_by_worker(values["rows_by_worker"], workers),
            tail=_by_worker(values["rows_by_bucket_home"], workers),
            distinct=int(values["keys"] or 0),
            pairs=int(values["key_worker_pairs"] or 0),
            serial=values["plan"],
            hashed=_if_counted(values["rows_by_hash"], workers),
            values=_values(values["key_values"]),
        )

    def summary(self, plan: HasHomes | None) -> dict[str, Any]:
        """Return the fields of this batch's log line; hot keys are hash, rows and homes."""
        hot = []
        shown = int((self.counts * _SHOWN_DIVISOR * self.rows.size >= self.total).sum())
        for key, count in zip(self.keys[:shown].tolist(), self.counts[:shown].tolist(), strict=True):
            hot.append([f"{key:016x}", int(count), plan.homes_of(key) if plan is not None else []])
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
    keys: Sequence[KeyColumn],
    tail: Column | None = None,
    serial: Column | None = None,
    drawn: Column | None = None,
    kept: Sequence[str] | None = None,
) -> DataFrame:
    """Observe keys by hash, and rows by worker and by the home of their bucket (``tail``).

    In some batches, rows are also counted by the partition that Spark's own hashing gives them. The values of
    frequent keys come from a sample of the rows. Both can be switched off
    (:mod:`evenflow.spark.monitoring.switches`). Spark shows the metrics in the query's progress under these
    names. ``drawn`` is the draw of that sample, if the frame has one (`with_value_draw`). The frame that is
    returned has the columns ``kept``, by default all.
    """
    spark, null, columns = df.sparkSession, F.lit(None), df.columns
    nothing = F.max(null.cast("int"))  # an aggregate that costs nothing
    by_hash = by_value = nothing
    # what is counted are columns, since Spark compiles a projection but not the arguments of these aggregates
    names = {step: helper_name(df, f"seen_{step}") for step in ("key", "pair", "partition", "value")}
    key, pair, partition, value = (F.col(name) for name in names.values())
    counted = {"key": hashed, "pair": F.xxhash64(hashed, worker)}
    every = compared_batches(spark)
    if every:
        placed = F.expr(hash_partition(keys, workers))
        if every > 1 and serial is not None:
            placed = F.when(F.pmod(F.coalesce(serial, F.lit(0)), F.lit(every)) == 0, placed)
        elif every > 1:  # the time is one for the whole batch, and for a batch that is repeated
            # not part of the column: Spark would compile the projection anew for every time
            is_compared = F.expr(f"pmod(xxhash64(current_timestamp()), {every}) = 0")
            partition = F.when(is_compared, partition)
        counted["partition"] = placed
        by_hash = counts_by_worker(spark, partition, workers)
    if logs_values(spark):
        drawn = _value_draw(df) if drawn is None else drawn
        text = F.concat(
            F.lpad(F.hex(hashed), _HASH_DIGITS, "0"),
            F.left(F.to_json(F.expr(key_struct(keys))), F.lit(_VALUE_CHARACTERS)),
        )
        counted["value"] = F.when(drawn < _VALUE_FRACTION, text_to_count(spark, text, drawn))
        by_value = frequent_texts(spark, value, _VALUES, _VALUES_TRACKED)
    rows = df.select("*", *(column.alias(names[step]) for step, column in counted.items()))
    observed = rows.observe(
        name,
        F.count(F.lit(1)).alias("rows"),
        top_keys(spark, key, workers).alias("hot_keys"),
        by_value.alias("key_values"),
        counts_by_worker(spark, worker, workers).alias("rows_by_worker"),
        (nothing if tail is None else counts_by_worker(spark, tail, workers)).alias("rows_by_bucket_home"),
        by_hash.alias("rows_by_hash"),
        _distinct(key).alias("keys"),
        _distinct(pair).alias("key_worker_pairs"),
        F.max(null.cast("bigint") if serial is None else serial).alias("plan"),
        F.max(F.lit(workers)).alias("workers"),
    )
    return observed.select(*(map(quoted, columns) if kept is None else kept))


def with_value_draw(
    df: DataFrame, draw: Column | None, name: str, by_position: bool, value_name: str
) -> tuple[list[Column], Column]:
    """Return columns to add to ``df``, and the draw that picks the rows whose keys are looked at for values.

    The columns are the draw that picks a home, by its ``name``, and one more only if that depends on the
    content of a row: then it is one number for all rows of some keys.
    """
    draws = [(F.lit(0.0) if draw is None else draw).alias(name)]
    if by_position:
        return draws, F.expr(draw_by_content(f"xxhash64({quoted(name)})"))
    return [*draws, _value_draw(df).alias(value_name)], F.col(quoted(value_name))


def _value_draw(df: DataFrame) -> Column:
    return F.expr(draw_by_position(0, VALUES, df.isStreaming))


def _distinct(values: Column) -> Column:
    return F.hll_sketch_estimate(F.hll_sketch_agg(values, F.lit(_LOG_REGISTERS)))


def _by_worker(found: Any, workers: int) -> Int64Array:
    rows = np.zeros(workers, np.int64)
    for worker, count in counts_in(found):
        rows[worker] += count
    return rows


def _if_counted(found: Any, workers: int) -> Int64Array | None:
    """Return the rows by worker; None if they were not counted in this batch."""
    return _by_worker(found, workers) if any(counts_in(found)) else None


def _values(items: Any) -> dict[str, str] | None:
    """Return the values of keys by hash; None if they are not to be logged."""
    if items is None:
        return None
    texts = [item["item"] for item in items if item["item"] is not None]
    return {
        text[:_HASH_DIGITS].lower(): shortened(key_label(text[_HASH_DIGITS:])) for text in reversed(texts)
    }


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
