"""Merging in Python with Spark's state store: ``transformWithState``, one typed state per key.

Rows of equal keys come as states already, reduced on their workers; here they are merged with the state that
the store holds. In update mode the state goes out after every batch in which its key got rows. In append mode
it goes out once: a timer fires when the watermark has passed the key. As in Spark's own aggregates, rows that
come later than the watermark are dropped (Spark does that where it sees the mark), and the state goes with
the timer.
"""

from __future__ import annotations

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
from evenflow.spark.grouped.aggregate_task import Finish, Reduce, shape_of
from evenflow.spark.grouped.aggregator import Aggregator, State
from evenflow.spark.grouped.record_columns import Record, Records, to_array, to_values
from evenflow.spark.grouped.runs import Batches, Layout, failure, key_text
from evenflow.spark.grouped.schemas import as_arrow
from evenflow.spark.grouped.state_encoding import keys_to_text, restore, store, stored_field, text_to_keys
from evenflow.spark.monitoring.task_timing import with_timing

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
WATERMARK = "spark.watermarkDelayMs"
KEY, MARK, EXPIRES = "key", "mark", "expires"
_MICROSECONDS = 1000  # of a millisecond


def merge_with_state(
    rows: DataFrame, layout: Layout, work: AggregateLayout, output_mode: str | None
) -> DataFrame:
    """Return results of a stream whose states are merged in Python."""
    _check_provider(rows)
    marked = next((index for index, key in enumerate(work.keys) if WATERMARK in (key.metadata or {})), None)
    mode = _choose(output_mode, marked is not None)
    states = T.StructType(_stored_fields(work))
    texts = [T.StructField(KEY, T.StringType())]
    timed: list[T.StructField] = []
    if marked is not None:
        timed = [T.StructField(MARK, work.keys[marked].dataType), T.StructField(EXPIRES, T.LongType())]
    parts = T.StructType([*texts, *timed, *states.fields])
    reduce = ReduceToText(work.using, layout, work.buffers, None, tuple(parts.names), marked)
    reduced = rows.mapInArrow(with_timing(reduce, work.placed.control), parts)
    if marked is not None:
        reduced = reduced.withMetadata(MARK, work.keys[marked].metadata)
    merged = T.StructType([*texts, *states.fields])
    key_types = as_arrow(T.StructType(list(work.keys)), "key")
    processor = Merging(
        work.using, work.buffers, layout.key_names, key_types, states, mode, marked is not None
    )
    finish = FinishFromText(
        work.using, work.inner_layout, work.buffers, work.results, tuple(work.result.names), key_types
    )
    return (
        reduced.groupBy(KEY)
        .transformWithState(processor, merged, mode, "EventTime" if marked is not None else "None")
        .mapInArrow(finish, work.result)
    )


def _check_provider(df: DataFrame) -> None:
    provider = str(df.sparkSession.conf.get(PROVIDER, ""))
    if provider.rsplit(".", 1)[-1] != ROCKS_DB.rsplit(".", 1)[-1]:
        raise EvenflowError(
            f"{PROVIDER} is {provider}, and states that are merged in Python need RocksDB; set it with "
            f"spark.conf.set({PROVIDER!r}, {ROCKS_DB!r}), or say by merges how Spark merges each column."
        )


def _choose(output_mode: str | None, marked: bool) -> str:
    if output_mode is None:
        return "append" if marked else "update"
    if output_mode == "append" and not marked:
        raise EvenflowError(
            "output_mode is 'append', but no column of the key has a watermark, so no key is ever done; add "
            "withWatermark() and a window() of its column to the key, or use 'update'."
        )
    return output_mode


def _stored_fields(work: AggregateLayout) -> list[T.StructField]:
    stored = from_arrow_schema(pa.schema([stored_field(field) for field in work.buffers.schema]))
    return [
        T.StructField(name, field.dataType, True)
        for name, field in zip(work.inner_states, stored.fields, strict=True)
    ]


@dataclass(frozen=True)
class ReduceToText(Reduce):
    """Rows become states as the store keeps them; ``marked`` is the part of the key with the watermark."""

    marked: int | None

    def _written(self, keys: list[pa.Array], states: list[State]) -> pa.RecordBatch:
        columns = self._columns(keys, states)
        timed = [] if self.marked is None else [keys[self.marked], expiry(keys[self.marked])]
        stored = [keys_to_text(keys), *timed, *store(columns[len(keys) :])]
        return pa.RecordBatch.from_arrays(stored, names=list(self.names))


def expiry(key: pa.Array) -> pa.Array:
    """Return the millisecond of the watermark at which a time, or the end of a window, is over.

    >>> expiry(pa.array([1001, 2000], pa.timestamp("us", "UTC"))).to_pylist()
    [2, 2]
    """
    times = key.field("end") if kinds.is_struct(key.type) else key
    return pc.divide(pc.add(times.cast(pa.int64()), _MICROSECONDS - 1), _MICROSECONDS)


@dataclass(frozen=True)
class FinishFromText(Finish):
    """Merged states of the store become results."""

    key_types: pa.Schema

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Run over one partition."""
        shape = shape_of(self.aggregator, self.buffer)
        for batch in batches:
            keys = text_to_keys(batch.column(0).to_pylist(), self.key_types.types)
            columns = restore(batch.columns[1:], self.buffer.schema)
            yield self._written(keys, list(map(shape, self.buffer.python(columns))))


class Merging(StatefulProcessor):
    """The stateful operator: one state per key, merged by the aggregator."""

    def __init__(
        self,
        aggregator: Aggregator,
        buffer: Records,
        key_names: tuple[str, ...],
        key_types: pa.Schema,
        states: T.StructType,
        mode: str,
        timed: bool,
    ):
        self.aggregator = aggregator
        self.buffer = buffer
        self.key_names = key_names
        self.key_types = key_types
        self.states = states
        self.mode = mode
        self.timed = timed

    def init(self, handle: Any) -> None:
        """Open the state."""
        self.handle = handle
        self.state = handle.getValueState("state", self.states)
        self.shape = shape_of(self.aggregator, self.buffer)
        self.row = Row(KEY, *self.states.names)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Merge what came with what the store holds."""
        held = self.state.get()
        came = list(rows)
        first = 1 if not self.timed else 3
        records = [*([] if held is None else [held]), *(row[first:] for row in came)]
        merged = self._merged(key[0], self._read(records))
        self.state.update(merged)
        if held is None and self.timed and came[0][EXPIRES] is not None:  # a null time is never over
            self.handle.registerTimer(came[0][EXPIRES])
        if self.mode == "update":
            yield self.row(key[0], *merged)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """The watermark has passed the key: its state is complete."""
        held = self.state.get()
        self.state.clear()
        if self.mode == "append" and held is not None:
            yield self.row(key[0], *self._write(self._read([held])[0], key[0]))

    def close(self) -> None:
        """Nothing stays open."""

    def _merged(self, key: str, states: list[State]) -> Record:
        merged = states[0]
        try:
            for state in states[1:]:
                merged = self.aggregator.merge(merged, state)
        except Exception as error:
            raise failure(f"{type(self.aggregator).__name__}.merge", self._key_text(key), error) from error
        return self._write(merged, key)

    def _read(self, records: list[Any]) -> list[State]:
        """Return states of the store as the aggregator knows them."""
        columns = [
            to_array([record[index] for record in records], field.type)
            for index, field in enumerate(self.stored)
        ]
        return list(map(self.shape, self.buffer.python(restore(columns, self.buffer.schema))))

    def _write(self, state: State, key: str) -> Record:
        """Return a state as the store takes it."""

        def where(row: int) -> str:
            return self._key_text(key)

        columns = self.buffer.columns([self.buffer.record(state, where, 0)], where)
        return tuple(to_values(column)[0] for column in store(columns))

    def _key_text(self, key: str) -> str:
        return key_text(self.key_names, text_to_keys([key], self.key_types.types), 0)

    @cached_property
    def stored(self) -> list[pa.Field]:
        """Columns of a state in the store."""
        return [stored_field(field) for field in self.buffer.schema]
