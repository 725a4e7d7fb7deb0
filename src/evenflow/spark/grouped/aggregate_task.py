"""The tasks of ``aggregate``: reduce rows to states, merge states, finish states.

States are passed between tasks as columns of the buffer's types. A large group is reduced piece by piece and
is never in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from evenflow.spark.grouped.aggregator import Aggregator, State
from evenflow.spark.grouped.record_columns import Record, Records
from evenflow.spark.grouped.runs import ROW_FORMATS, Batches, KeyRuns, Layout, failure, key_text, split_runs

StateFactory = Callable[[Record], State]


@dataclass(frozen=True)
class AggregatePass:
    """A pass over a partition with an aggregator; ``result`` is None if it emits states.

    ``names`` are the output columns: the key's, then those of the state or the result.
    """

    aggregator: Aggregator
    layout: Layout
    buffer: Records
    result: Records | None
    names: tuple[str, ...]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Run over one partition: fold the rows of each key, and emit completed keys after every batch."""
        keys: list[list[pa.Array]] = []
        states: list[State] = []
        for batch in split_runs(batches, self.layout):
            self._fold(batch, states)
            if len(batch.starts) > batch.continues:
                keys.append(batch.new_keys())
            done = len(states) - 1  # the last key may continue
            if done > 0:
                concatenated = _concatenated(keys)
                yield self._to_batch([key.slice(0, done) for key in concatenated], states[:-1])
                keys, states = [[key.slice(done) for key in concatenated]], [states[-1]]
        if states:
            yield self._to_batch(_concatenated(keys), states)

    def _fold(self, batch: KeyRuns, states: list[State]) -> None:
        """Fold a batch: its first run into the last state if it continues it, every other into a new one."""
        raise NotImplementedError

    def _failure(self, method: str, keys: Sequence[pa.Array], row: int, error: Exception) -> Exception:
        name = f"{type(self.aggregator).__name__}.{method}"
        pandas_by = 'set rows = "pandas" in the class' if self.aggregator.rows == "arrow" else ""
        return failure(name, key_text(self.layout.key_names, keys, row), error, pandas_by)

    def _to_batch(self, keys: list[pa.Array], states: list[State]) -> pa.RecordBatch:
        """Return keys with their states, or with their results."""
        return pa.RecordBatch.from_arrays(self._columns(keys, states), names=list(self.names))

    def _columns(self, keys: list[pa.Array], states: list[State]) -> list[pa.Array]:
        schema = self.buffer
        if self.result is not None:
            schema, states = self.result, self._finished(keys, states)

        def label(row: int) -> str:
            return key_text(self.layout.key_names, keys, row)

        records = [schema.record(state, label, row) for row, state in enumerate(states)]
        return [*keys, *schema.columns(records, label)]

    def _finished(self, keys: list[pa.Array], states: list[State]) -> list[Any]:
        results: list[Any] = []
        try:
            results.extend(map(self.aggregator.finish, states))
        except Exception as error:
            raise self._failure("finish", keys, len(results), error) from error
        return results


class ReducePass(AggregatePass):
    """Reduces rows to states."""

    def _fold(self, batch: KeyRuns, states: list[State]) -> None:
        zero, reduce = self.aggregator.zero, self.aggregator.reduce
        rows = ROW_FORMATS[self.aggregator.rows](batch.rows)
        start, method, fresh = 0, "zero", not batch.continues
        try:
            for start, end in zip(batch.starts, batch.ends, strict=True):
                if fresh:
                    method = "zero"
                    states.append(zero())
                method, fresh = "reduce", True
                states[-1] = reduce(states[-1], rows(start, end))
        except Exception as error:
            raise self._failure(method, batch.keys, start, error) from error


class MergePass(AggregatePass):
    """Merges the states of each key."""

    def _fold(self, batch: KeyRuns, states: list[State]) -> None:
        parts = list(
            map(state_factory(self.aggregator, self.buffer), self.buffer.to_records(batch.rows.columns))
        )
        merge = self.aggregator.merge
        start = 0
        try:
            for start, end in zip(batch.starts, batch.ends, strict=True):
                if start or not batch.continues:
                    states.append(parts[start])
                    first = start + 1
                else:
                    first = start
                for part in parts[first:end]:
                    states[-1] = merge(states[-1], part)
        except Exception as error:
            raise self._failure("merge", batch.keys, start, error) from error


class FinishPass(AggregatePass):
    """Finishes merged states, one per key."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Run over one partition."""
        to_state = state_factory(self.aggregator, self.buffer)
        for batch in batches:
            columns = [batch.column(index) for index in self.layout.rows]
            states = list(map(to_state, self.buffer.to_records(columns)))
            yield self._to_batch([batch.column(index) for index in self.layout.keys], states)


def _concatenated(keys: list[list[pa.Array]]) -> list[pa.Array]:
    return [pa.concat_arrays(pieces) for pieces in zip(*keys, strict=True)]


def state_factory(aggregator: Aggregator, buffer: Records) -> StateFactory:
    """Return the function that turns a record into a state of the type that ``zero`` returns."""
    zero = aggregator.zero()
    if isinstance(zero, dict):
        return lambda record: dict(zip(buffer.names, record, strict=True))
    if isinstance(zero, tuple):
        return getattr(type(zero), "_make", tuple)
    return list
