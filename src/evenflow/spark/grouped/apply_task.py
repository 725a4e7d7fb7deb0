"""The task of ``apply``: the user's function over whole groups.

A group that continues in the next batch is held until it is complete; all others are slices of their batch.
Results are small tables; they are returned to Spark in batches of several thousand rows, because every batch
has a cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from evenflow.errors import EvenflowError, nearest
from evenflow.spark.grouped.runs import (
    ROW_FORMATS,
    Batches,
    Layout,
    failure,
    join_group,
    key_text,
    split_runs,
)

FLUSH_ROWS = 10_000  # collected before they are returned to Spark
FLUSH_BYTES = 16 << 20
SIZE_INTERVAL = 64  # the size of every 64th result is measured


@dataclass(frozen=True)
class WholeGroups:
    """The user's function applied to every group of a partition sorted by key."""

    layout: Layout
    function: Callable[..., Any]
    name: str
    takes_key: bool
    rows: str
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Run over one partition."""
        results: list[pa.Table] = []
        rows = result_bytes = 0
        for result in self._results(batches):
            if len(results) % SIZE_INTERVAL == 0:  # measuring every result would dominate the run time
                result_bytes = result.nbytes
            results.append(result)
            rows += result.num_rows
            if rows >= FLUSH_ROWS or len(results) * result_bytes >= FLUSH_BYTES:
                yield from _concatenated(results)
                results, rows = [], 0
        if results:
            yield from _concatenated(results)

    def _results(self, batches: Batches) -> Iterator[pa.Table]:
        pending: list[pa.RecordBatch] = []
        key: list[pa.Array] = []
        for batch in split_runs(batches, self.layout):
            group = ROW_FORMATS[self.rows](batch.rows)
            runs = list(zip(batch.starts, batch.ends, strict=True))
            if batch.continues:
                start, end = runs.pop(0)
                pending.append(batch.rows.slice(start, end - start))
            if runs:
                if pending:
                    yield self._result(join_group(pending, self.rows), key, 0)
                for start, end in runs[:-1]:
                    yield self._result(group(start, end), batch.keys, start)
                start, end = runs[-1]
                pending = [batch.rows.slice(start, end - start)]
                key = [column.slice(start, 1) for column in batch.keys]
        if pending:
            yield self._result(join_group(pending, self.rows), key, 0)

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
            pandas_by = 'pass rows="pandas"' if self.rows == "arrow" else ""
            key_label = key_text(self.layout.key_names, keys, row)
            raise failure(self.name, key_label, error, pandas_by) from error
        if isinstance(result, pa.Table) and self._fits(result):
            return result
        return self._fitted(result, key_text(self.layout.key_names, keys, row))

    def _fits(self, table: pa.Table) -> bool:
        found = table.schema
        return found.equals(self.schema) or (
            found.names == self.schema.names and found.types == self.schema.types
        )

    def _fitted(self, result: Any, key: str) -> pa.Table:
        """Return the result converted to the declared schema."""
        names = self.schema.names
        if self.rows == "pandas" and hasattr(result, "columns") and not isinstance(result, pa.Table):
            found = [str(column) for column in result.columns]
        elif isinstance(result, pa.Table | pa.RecordBatch):
            found = result.schema.names
        else:
            wanted = "pandas DataFrame" if self.rows == "pandas" else "pyarrow Table"
            is_pandas = type(result).__module__.partition(".")[0] == "pandas"
            hint = ', or pass rows="pandas" to work on pandas DataFrames' if is_pandas else ""
            raise EvenflowError(
                f"{self.name} returned a {type(result).__name__} for {key}; return a {wanted} with the "
                f"columns {', '.join(names)}{hint if self.rows == 'arrow' else ''}."
            )
        if not len(result):  # an empty frame needs no columns
            return self.schema.empty_table()
        for name in names:
            if name not in found:
                raise EvenflowError(
                    f"{self.name} returned no column {name!r} for {key}, but the schema declares it; "
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
                f"{self.name} returned a column {field.name!r} for {key} that does not fit its declared type "
                f"{field.type} ({error}); convert it or change the schema."
            ) from error


def _concatenated(results: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Yield small tables as few large batches."""
    yield from pa.concat_tables(results).combine_chunks().to_batches(max_chunksize=FLUSH_ROWS)
