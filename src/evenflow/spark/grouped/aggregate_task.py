"""What runs in a Python worker for ``aggregate``: rows become states, states merge, states become results.

A state travels as columns of the buffer's types. Rows of a giant group come in many pieces and need never be
in memory together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from evenflow.spark.grouped.aggregator import Aggregator, State
from evenflow.spark.grouped.record_columns import Record, Records
from evenflow.spark.grouped.runs import HANDED, Batches, Cut, Layout, cut, failure, key_text

Shape = Callable[[Record], State]


@dataclass(frozen=True)
class Step:
    """A pass over a partition with an aggregator; ``result`` is None where states go on as they are.

    ``names`` are those of the columns that are written: the key's, then the state's or the result's.
    """

    aggregator: Aggregator
    layout: Layout
    buffer: Records
    result: Records | None
    names: tuple[str, ...]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Run over one partition: fold the rows of each key, and write what is done after every batch."""
        keys: list[list[pa.Array]] = []
        states: list[State] = []
        for here in cut(batches, self.layout):
            self._fold(here, states)
            if len(here.starts) > here.goes_on:
                keys.append(here.new_keys())
            done = len(states) - 1  # the last key may go on
            if done > 0:
                joined = _joined(keys)
                yield self._written([key.slice(0, done) for key in joined], states[:-1])
                keys, states = [[key.slice(done) for key in joined]], [states[-1]]
        if states:
            yield self._written(_joined(keys), states)

    def _fold(self, here: Cut, states: list[State]) -> None:
        """Fold a batch: its first run into the last state if it goes on, every other into a new one."""
        raise NotImplementedError

    def _failure(self, method: str, keys: Sequence[pa.Array], row: int, error: Exception) -> Exception:
        name = f"{type(self.aggregator).__name__}.{method}"
        return failure(name, key_text(self.layout.key_names, keys, row), error)

    def _written(self, keys: list[pa.Array], states: list[State]) -> pa.RecordBatch:
        """Return keys with their states, or with the results of these."""
        return pa.RecordBatch.from_arrays(self._columns(keys, states), names=list(self.names))

    def _columns(self, keys: list[pa.Array], states: list[State]) -> list[pa.Array]:
        shape = self.buffer
        if self.result is not None:
            shape, states = self.result, self._finished(keys, states)

        def where(row: int) -> str:
            return key_text(self.layout.key_names, keys, row)

        records = [shape.record(state, where, row) for row, state in enumerate(states)]
        return [*keys, *shape.columns(records, where)]

    def _finished(self, keys: list[pa.Array], states: list[State]) -> list[Any]:
        results: list[Any] = []
        try:
            results.extend(map(self.aggregator.finish, states))
        except Exception as error:
            raise self._failure("finish", keys, len(results), error) from error
        return results


class Reduce(Step):
    """Rows become states."""

    def _fold(self, here: Cut, states: list[State]) -> None:
        zero, reduce = self.aggregator.zero, self.aggregator.reduce
        rows = HANDED[self.aggregator.rows](here.rows)
        start, method, fresh = 0, "zero", not here.goes_on
        try:
            for start, end in zip(here.starts, here.ends, strict=True):
                if fresh:
                    method = "zero"
                    states.append(zero())
                method, fresh = "reduce", True
                states[-1] = reduce(states[-1], rows(start, end))
        except Exception as error:
            raise self._failure(method, here.keys, start, error) from error


class Merge(Step):
    """States of the same key become one."""

    def _fold(self, here: Cut, states: list[State]) -> None:
        parts = list(map(shape_of(self.aggregator, self.buffer), self.buffer.python(here.rows.columns)))
        merge = self.aggregator.merge
        start = 0
        try:
            for start, end in zip(here.starts, here.ends, strict=True):
                if start or not here.goes_on:
                    states.append(parts[start])
                    first = start + 1
                else:
                    first = start
                for part in parts[first:end]:
                    states[-1] = merge(states[-1], part)
        except Exception as error:
            raise self._failure("merge", here.keys, start, error) from error


class Finish(Step):
    """States that are merged become results; no two are of one key."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Run over one partition."""
        shape = shape_of(self.aggregator, self.buffer)
        for batch in batches:
            states = list(map(shape, self.buffer.python([batch.column(index) for index in self.layout.rows])))
            yield self._written([batch.column(index) for index in self.layout.keys], states)


def _joined(keys: list[list[pa.Array]]) -> list[pa.Array]:
    return [pa.concat_arrays(pieces) for pieces in zip(*keys, strict=True)]


def shape_of(aggregator: Aggregator, buffer: Records) -> Shape:
    """Return how a record becomes a state: as whatever ``zero`` returns."""
    zero = aggregator.zero()
    if isinstance(zero, dict):
        return lambda record: dict(zip(buffer.names, record, strict=True))
    if isinstance(zero, tuple):
        return getattr(type(zero), "_make", tuple)
    return list
