"""Merging in Python with Spark's state store: ``transformWithState`` with one typed state per key.

Rows arrive reduced to partial states, which are merged with the stored state of their key. In update mode the
result of a key is emitted after every batch with rows of the key. In append mode it is emitted once: a timer
fires when the watermark passes the key, and removes the state. As in Spark's own aggregates, rows later than
the watermark are dropped; Spark does that, given the watermark column.

States are finished in a pass of its own, which is given columns. If keys and results have no times, which
Spark would convert between time zones, and nothing nested, the operator finishes them itself: one Python
process per task less.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds
from pyspark.sql import DataFrame, Row
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from evenflow.errors import EvenflowError
from evenflow.spark.grouped.aggregate_layout import AggregateLayout
from evenflow.spark.grouped.aggregate_task import FinishPass, ReducePass, state_factory
from evenflow.spark.grouped.aggregator import Aggregator, State
from evenflow.spark.grouped.record_columns import Record, Records, are_plain, to_array, to_values
from evenflow.spark.grouped.runs import Batches, Layout, failure, key_text
from evenflow.spark.grouped.schemas import as_arrow
from evenflow.spark.grouped.state_encoding import keys_to_text, restore, store, stored_field, text_to_keys
from evenflow.spark.monitoring.task_timing import with_timing
from evenflow.spark.routing.options import PARTITIONS, default_workers
from evenflow.spark.task import settle
from evenflow.spark.versions.merging import with_state

log = logging.getLogger("evenflow.spark.grouped")

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
WATERMARK = "spark.watermarkDelayMs"
KEY, MARK, EXPIRES = "key", "mark", "expires"
_MICROSECONDS_PER_MILLISECOND = 1000
_MANY = 4  # partitions of the state per worker


def merge_with_state(
    rows: DataFrame, layout: Layout, work: AggregateLayout, output_mode: str | None
) -> DataFrame:
    """Return the results of a stream whose states are merged in Python."""
    _check_provider(rows)
    _warn_of_many_partitions(rows, work.placed.workers)
    watermarked = next(
        (index for index, key in enumerate(work.keys) if WATERMARK in (key.metadata or {})), None
    )
    mode = _resolve_mode(output_mode, watermarked is not None)
    states = T.StructType(_stored_fields(work))
    texts = [T.StructField(KEY, T.StringType())]
    timed: list[T.StructField] = []
    if watermarked is not None:
        timed = [T.StructField(MARK, work.keys[watermarked].dataType), T.StructField(EXPIRES, T.LongType())]
    parts = T.StructType([*texts, *timed, *states.fields])
    reduce = ReduceToStore(work.using, layout, work.buffers, None, tuple(parts.names), watermarked)
    timed_pass = with_timing(reduce, work.placed.control, heard=work.placed.hears)
    reduced = rows.mapInArrow(timed_pass, parts)
    if watermarked is not None:
        reduced = reduced.withMetadata(MARK, work.keys[watermarked].metadata)
    merged = T.StructType([*texts, *states.fields])
    key_types = as_arrow(T.StructType(list(work.keys)), "key")
    results = work.results if are_plain(key_types) and are_plain(work.results.schema) else None
    made = work.result if results is not None else merged
    processor = StateMerger(
        work.using, work.buffers, layout.key_names, key_types, states, mode, watermarked is not None,
        results, made.names,
    )  # fmt: skip
    time = None if watermarked is None else MARK
    frame = with_state(reduced, KEY, processor, made, mode, time)
    if results is not None:
        return frame
    finish = FinishFromStore(
        work.using, work.inner_layout, work.buffers, work.results, tuple(work.result.names), key_types
    )
    return frame.mapInArrow(finish, work.result)


def _check_provider(df: DataFrame) -> None:
    provider = str(df.sparkSession.conf.get(PROVIDER))
    if provider.rsplit(".", 1)[-1] != ROCKS_DB.rsplit(".", 1)[-1]:
        raise EvenflowError(
            f"{PROVIDER} is {provider}, but merging in Python needs RocksDB; set it with "
            f"spark.conf.set({PROVIDER!r}, {ROCKS_DB!r}), or declare merges so that Spark merges each column."
        )


def _warn_of_many_partitions(df: DataFrame, workers: int) -> None:
    """Warn if most of a micro-batch would be spent on starting tasks, as by default on few cores."""
    partitions = default_workers(df)
    if partitions > _MANY * workers:
        log.warning(
            "%s is %d for %d workers: every micro-batch starts a Python task for each partition of the "
            "state. Set it to about %d before the query's first start; it cannot change afterwards.",
            PARTITIONS, partitions, workers, workers,
        )  # fmt: skip


def _resolve_mode(output_mode: str | None, watermarked: bool) -> str:
    if output_mode is None:
        return "append" if watermarked else "update"
    if output_mode == "append" and not watermarked:
        raise EvenflowError(
            "output_mode is 'append', but no column of the key has a watermark, so no key is ever complete; "
            "call withWatermark() and add a window() of that column to the key, or use 'update'."
        )
    return output_mode


def _stored_fields(work: AggregateLayout) -> list[T.StructField]:
    stored = from_arrow_schema(pa.schema([stored_field(field) for field in work.buffers.schema]))
    return [
        T.StructField(name, field.dataType, True)
        for name, field in zip(work.inner_states, stored.fields, strict=True)
    ]


@dataclass(frozen=True)
class ReduceToStore(ReducePass):
    """Reduces rows to encoded states; ``watermarked`` is the index of the key column with the watermark."""

    watermarked: int | None

    def _to_batch(self, keys: list[pa.Array], states: list[State]) -> pa.RecordBatch:
        columns = self._columns(keys, states)
        timed = [] if self.watermarked is None else [keys[self.watermarked], expiry(keys[self.watermarked])]
        stored = [keys_to_text(keys), *timed, *store(columns[len(keys) :])]
        return pa.RecordBatch.from_arrays(stored, names=list(self.names))


def expiry(key: pa.Array) -> pa.Array:
    """Return the watermark, in milliseconds, at which a time or the end of a window has passed.

    >>> expiry(pa.array([1001, 2000], pa.timestamp("us", "UTC"))).to_pylist()
    [2, 2]
    """
    times = key.field("end") if kinds.is_struct(key.type) else key
    rounding = _MICROSECONDS_PER_MILLISECOND - 1
    return pc.divide(pc.add(times.cast(pa.int64()), rounding), _MICROSECONDS_PER_MILLISECOND)


@dataclass(frozen=True)
class FinishFromStore(FinishPass):
    """Finishes merged states read from the store."""

    key_types: pa.Schema

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Run over one partition."""
        to_state = state_factory(self.aggregator, self.buffer)
        for batch in batches:
            keys = text_to_keys(batch.column(0).to_pylist(), self.key_types.types)
            columns = restore(batch.columns[1:], self.buffer.schema)
            yield self._to_batch(keys, list(map(to_state, self.buffer.to_records(columns))))


class StateMerger(StatefulProcessor):
    """The stateful operator: one state per key, merged with ``Aggregator.merge``."""

    def __init__(
        self,
        aggregator: Aggregator,
        buffer: Records,
        key_names: tuple[str, ...],
        key_types: pa.Schema,
        states: T.StructType,
        mode: str,
        timed: bool,
        results: Records | None,
        made: list[str],
    ):
        self.aggregator = aggregator
        self.buffer = buffer
        self.key_names = key_names
        self.key_types = key_types
        self.states = states
        self.mode = mode
        self.timed = timed
        self.results = results  # None if the states are finished elsewhere
        self.made = made  # columns

    def init(self, handle: Any) -> None:
        """Open the state."""
        settle()
        self.handle = handle
        self.state = handle.getValueState("state", self.states)
        self.to_state = state_factory(self.aggregator, self.buffer)
        self.row = Row(*self.made)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Merge partial states into the stored one."""
        stored = self.state.get()
        arrived = list(rows)
        first = 1 if not self.timed else 3
        records = [*([] if stored is None else [stored]), *(row[first:] for row in arrived)]
        merged = self._merged(key[0], self._read(records))
        self.state.update(merged)
        if stored is None and self.timed and arrived[0][EXPIRES] is not None:  # a null time never expires
            self.handle.registerTimer(arrived[0][EXPIRES])
        if self.mode == "update":
            yield self._output(key[0], merged)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Emit the state of a key that the watermark has passed, and remove it."""
        stored = self.state.get()
        self.state.clear()
        if self.mode == "append" and stored is not None:
            yield self._output(key[0], self._write(self._read([stored])[0], key[0]))

    def close(self) -> None:
        """Do nothing."""

    def _merged(self, key: str, states: list[State]) -> Record:
        merged = states[0]
        try:
            for state in states[1:]:
                merged = self.aggregator.merge(merged, state)
        except Exception as error:
            raise failure(f"{type(self.aggregator).__name__}.merge", self._key_text(key), error) from error
        return self._write(merged, key)

    def _output(self, key: str, record: Record) -> Row:
        """Return the row of a key with this state in the store."""
        if self.results is None:
            return self.row(key, *record)
        try:
            result = self.aggregator.finish(self._read([record])[0])
        except Exception as error:
            raise failure(f"{type(self.aggregator).__name__}.finish", self._key_text(key), error) from error
        return self.row(*json.loads(key), *self._as_record(self.results, result, key))

    def _read(self, records: list[Any]) -> list[State]:
        """Return the aggregator's states from records of the store."""
        if all(map(self.buffer.is_plain, records)):
            return [self.to_state(tuple(record)) for record in records]
        columns = [
            to_array([record[index] for record in records], field.type)
            for index, field in enumerate(self.stored)
        ]
        return list(map(self.to_state, self.buffer.to_records(restore(columns, self.buffer.schema))))

    def _write(self, state: State, key: str) -> Record:
        """Return a state as a record of the store."""
        return self._as_record(self.buffer, state, key)

    def _as_record(self, records: Records, value: Any, key: str) -> Record:
        """Return a state or a result as a record, encoded for the store."""

        def label(row: int) -> str:
            return self._key_text(key)

        record = records.record(value, label, 0)
        if records.is_plain(record):  # arrays of one value would take most of the time
            return record
        columns = records.columns([record], label)
        return tuple(to_values(column)[0] for column in store(columns))

    def _key_text(self, key: str) -> str:
        return key_text(self.key_names, text_to_keys([key], self.key_types.types), 0)

    @cached_property
    def stored(self) -> list[pa.Field]:
        """Columns of a state in the store."""
        return [stored_field(field) for field in self.buffer.schema]
