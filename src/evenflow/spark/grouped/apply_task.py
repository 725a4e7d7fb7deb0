"""What runs in a Python worker for ``apply``: whole groups through the user's function, results joined again.

A group that is cut by the end of a batch waits for the rest; all others are slices of the batch they came in.
Results are small tables; they go back to Spark some thousand rows at a time, since a batch costs what it
costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from evenflow.errors import EvenflowError, nearest
from evenflow.spark.grouped.runs import HANDED, Batches, Layout, cut, failure, key_text, to_pandas

WRITTEN_ROWS = 10_000  # rows that are collected before they go back to Spark
WRITTEN_BYTES = 16 << 20
SIZED = 64  # one result of so many is asked for its size


@dataclass(frozen=True)
class WholeGroups:
    """The user's function over every group of a partition that is sorted by key."""

    layout: Layout
    function: Callable[..., Any]
    name: str
    takes_key: bool
    rows: str
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Run over one partition."""
        results: list[pa.Table] = []
        rows = each = 0
        for result in self._results(batches):
            if len(results) % SIZED == 0:  # to ask every one for its size would take most of the time
                each = result.nbytes
            results.append(result)
            rows += result.num_rows
            if rows >= WRITTEN_ROWS or len(results) * each >= WRITTEN_BYTES:
                yield from _joined(results)
                results, rows = [], 0
        if results:
            yield from _joined(results)

    def _results(self, batches: Batches) -> Iterator[pa.Table]:
        waiting: list[pa.RecordBatch] = []
        key: list[pa.Array] = []
        for here in cut(batches, self.layout):
            group = HANDED[self.rows](here.rows)
            runs = list(zip(here.starts, here.ends, strict=True))
            if here.goes_on:
                start, end = runs.pop(0)
                waiting.append(here.rows.slice(start, end - start))
            if runs:
                if waiting:
                    yield self._result(self._whole(waiting), key, 0)
                for start, end in runs[:-1]:
                    yield self._result(group(start, end), here.keys, start)
                start, end = runs[-1]
                waiting = [here.rows.slice(start, end - start)]
                key = [column.slice(start, 1) for column in here.keys]
        if waiting:
            yield self._result(self._whole(waiting), key, 0)

    def _whole(self, pieces: list[pa.RecordBatch]) -> Any:
        table = pa.Table.from_batches(pieces)
        return to_pandas(table) if self.rows == "pandas" else table

    def _result(self, group: Any, keys: list[pa.Array], row: int) -> pa.Table:
        try:
            if self.takes_key:
                key = tuple(column[row] for column in keys)
                if self.rows == "pandas":
                    key = tuple(value.as_py() for value in key)
                result = self.function(key, group)
            else:
                result = self.function(group)
        except Exception as error:
            raise failure(self.name, key_text(self.layout.key_names, keys, row), error) from error
        if isinstance(result, pa.Table) and self._fits(result):
            return result
        return self._fitted(result, key_text(self.layout.key_names, keys, row))

    def _fits(self, table: pa.Table) -> bool:
        found = table.schema
        return found.equals(self.schema) or (
            found.names == self.schema.names and found.types == self.schema.types
        )

    def _fitted(self, result: Any, key: str) -> pa.Table:
        """Make the result's columns what the schema declares, or say which does not fit."""
        names = self.schema.names
        if self.rows == "pandas" and hasattr(result, "columns") and not isinstance(result, pa.Table):
            found = [str(column) for column in result.columns]
        elif isinstance(result, pa.Table | pa.RecordBatch):
            found = result.schema.names
        else:
            wanted = "pandas DataFrame" if self.rows == "pandas" else "pyarrow Table"
            raise EvenflowError(
                f"{self.name} returned a {type(result).__name__} for {key}; return a {wanted} with the "
                f"columns {', '.join(names)}."
            )
        if not len(result):  # an empty frame needs no columns
            return self.schema.empty_table()
        for name in names:
            if name not in found:
                raise EvenflowError(
                    f"{self.name} returned no column {name!r} for {key}, the schema declares it; "
                    f"{nearest(name, found)}"
                )
        for name in found:
            if name not in names:
                raise EvenflowError(
                    f"{self.name} returned a column {name!r} for {key} that the schema does not declare; "
                    "drop it or add it to the schema."
                )
        return pa.table([self._column(result, field, key) for field in self.schema], schema=self.schema)

    def _column(self, result: Any, field: pa.Field, key: str) -> Any:
        try:
            if isinstance(result, pa.Table | pa.RecordBatch):
                return result.column(field.name).cast(field.type)
            return pa.Array.from_pandas(result[field.name], type=field.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise EvenflowError(
                f"{self.name} returned a column {field.name!r} for {key} that does not fit {field.type}, as "
                f"the schema declares it ({error}); convert it or change the schema."
            ) from error


def _joined(results: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Return some small tables as few batches."""
    yield from pa.concat_tables(results).combine_chunks().to_batches(max_chunksize=WRITTEN_ROWS)
