"""Runs: the contiguous rows of each key in a partition, found in one pass.

``groupBy().applyInArrow`` sends each group to Python separately, at a fraction of a millisecond per group.
Here a partition is read in Spark's batches, however many keys they hold, and split where the key changes: one
vectorised comparison of each row with the previous one, at microseconds per run.

Keys are compared as by Spark's ``groupBy``: null equals null only, NaN equals NaN and 0.0 equals -0.0, also
within structs and arrays. Keep imports light: Python workers import this module.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from evenflow.errors import EvenflowError
from evenflow.spark.task import settle

Batches = Iterable[pa.RecordBatch]
Bools = npt.NDArray[np.bool_]
Group = Callable[[int, int], Any]  # start and end -> the rows in the format of the user's code

SORTED_BYTES = 64 << 20  # of rows, sorted at a time where Spark does not sort
_SHOWN_CHARACTERS = 60  # of a key in an error message


@dataclass(frozen=True)
class Layout:
    """Which columns of a batch form the key, and which the rows that the user's code gets."""

    keys: tuple[int, ...]
    key_names: tuple[str, ...]
    rows: tuple[int, ...]
    row_names: tuple[str, ...]
    hashed: int | None = None  # the column with the key's hash, if batches are not sorted by key

    def contiguous(self, batches: Batches) -> Batches:
        """Return the batches with rows of equal keys contiguous."""
        return batches if self.hashed is None else sorted_by_hash(batches, self.hashed)


class KeyRuns(NamedTuple):
    """The runs of a batch; the first one may continue the last run of the previous batch."""

    keys: list[pa.Array]
    rows: pa.RecordBatch
    starts: list[int]
    ends: list[int]
    continues: bool

    def new_keys(self) -> list[pa.Array]:
        """Return the key of every run that starts in this batch."""
        starts = pa.array(self.starts[self.continues :], pa.int64())
        return [canonical(key.take(starts)) for key in self.keys]


def split_runs(batches: Batches, layout: Layout) -> Iterator[KeyRuns]:
    """Split batches where the key changes; equal keys must be contiguous. Empty batches are skipped.

    >>> batch = pa.record_batch({"k": ["a", "a", None], "v": [1, 2, 3]})
    >>> first, second = split_runs([batch, batch.slice(2)], Layout((0,), ("k",), (1,), ("v",)))
    >>> first.starts, first.ends, second.continues
    ([0, 2], [2, 3], True)
    """
    settle()
    last: list[pa.Array] | None = None
    for batch in layout.contiguous(batches):
        if not batch.num_rows:
            continue
        keys = [batch.column(index) for index in layout.keys]
        continues = last is not None and all(
            bool(equal_keys(before, key.slice(0, 1))[0]) for before, key in zip(last, keys, strict=True)
        )
        starts = _starts(keys, batch.num_rows)
        rows = pa.RecordBatch.from_arrays(
            [batch.column(index) for index in layout.rows], names=list(layout.row_names)
        )
        yield KeyRuns(keys, rows, starts, [*starts[1:], batch.num_rows], continues)
        last = [key.slice(batch.num_rows - 1) for key in keys]


def _starts(keys: Sequence[pa.Array], rows: int) -> list[int]:
    changes: Bools = np.ones(rows, bool)
    changes[1:] = False
    for key in keys:
        changes[1:] |= ~equal_keys(key.slice(0, rows - 1), key.slice(1))
    return np.flatnonzero(changes).tolist()


def equal_keys(left: pa.Array, right: pa.Array) -> Bools:
    """Return for each row whether two arrays of the same type hold equal keys.

    >>> nan = float("nan")
    >>> equal_keys(pa.array([None, nan, 0.0, None, 2.0]), pa.array([None, nan, -0.0, nan, 1.0]))
    array([ True,  True,  True, False, False])
    """
    kind = left.type
    if kinds.is_dictionary(kind):
        return equal_keys(left.dictionary_decode(), right.dictionary_decode())
    if kinds.is_null(kind):
        return np.ones(len(left), bool)
    if kinds.is_struct(kind):
        equal = np.ones(len(left), bool)
        for left_field, right_field in zip(left.flatten(), right.flatten(), strict=True):
            equal &= equal_keys(left_field, right_field)
    elif kinds.is_list(kind) or kinds.is_large_list(kind):
        equal = _equal_lists(left, right)
    else:
        equal = _bools(pc.equal(left, right))
        if kinds.is_floating(kind):
            equal |= _bools(pc.and_(pc.is_nan(left), pc.is_nan(right)))
    if not left.null_count and not right.null_count:
        return equal
    left_null, right_null = _bools(left.is_null()), _bools(right.is_null())
    return np.where(left_null | right_null, left_null & right_null, equal)


def _equal_lists(left: pa.Array, right: pa.Array) -> Bools:
    """Compare the lengths of lists, then the elements of those of equal length."""
    lengths, right_lengths = (
        pc.fill_null(pc.list_value_length(side), -1).to_numpy() for side in (left, right)
    )
    equal: Bools = lengths == right_lengths
    rows = np.flatnonzero(equal & (lengths > 0))
    if rows.size:
        elements = equal_keys(left.take(pa.array(rows)).flatten(), right.take(pa.array(rows)).flatten())
        firsts = np.concatenate([[0], np.cumsum(lengths[rows])[:-1]])
        equal[rows] = np.logical_and.reduceat(elements, firsts)
    return equal


def canonical(key: pa.Array) -> pa.Array:
    """Return keys with 0.0 for -0.0 and NaN in one form, as Spark's groupBy returns them.

    >>> canonical(pa.array([{"x": -0.0}])).to_pylist()
    [{'x': 0.0}]
    """
    kind = key.type
    if kinds.is_floating(kind):
        zero, nan = pa.scalar(0.0, kind), pa.scalar(float("nan"), kind)
        return pc.if_else(pc.equal(key, zero), zero, pc.if_else(pc.is_nan(key), nan, key))
    if kinds.is_struct(kind) and _holds_floats(kind):
        fields = [canonical(field) for field in key.flatten()]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=key.is_null())
    if kinds.is_list(kind) and _holds_floats(kind):
        lengths = pc.list_value_length(key)
        ends = np.concatenate([[0], np.cumsum(pc.fill_null(lengths, 0).to_numpy())])
        begins = pa.array(ends, pa.int32(), mask=np.append(_bools(key.is_null()), False))
        return pa.ListArray.from_arrays(begins, canonical(key.flatten())).cast(kind)
    return key


def _holds_floats(kind: pa.DataType) -> bool:
    if kinds.is_struct(kind):
        return any(_holds_floats(field.type) for field in kind)
    return bool(kinds.is_floating(kind) or (kinds.is_list(kind) and _holds_floats(kind.value_type)))


def _bools(array: pa.Array) -> Bools:
    return pc.fill_null(array, False).to_numpy(zero_copy_only=False)


def sorted_by_hash(batches: Batches, hashed: int, limit: int = SORTED_BYTES) -> Iterator[pa.RecordBatch]:
    """Sort rows by the column of hashes, in portions of at least ``limit`` bytes.

    Spark cannot sort a stream. A key may recur in a later portion, and rows of two keys with the same hash
    may alternate, so a key can have several runs.
    """
    portion: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        portion.append(batch)
        size += batch.nbytes
        if size >= limit:
            yield _sorted(portion, hashed)
            portion, size = [], 0
    if portion:
        yield _sorted(portion, hashed)


def _sorted(portion: list[pa.RecordBatch], hashed: int) -> pa.RecordBatch:
    whole = pa.concat_batches(portion)
    order = np.argsort(whole.column(hashed).to_numpy(), kind="stable")
    return whole.take(pa.array(order))


def as_tables(rows: pa.RecordBatch) -> Group:
    """Return groups as pyarrow Tables."""
    table = pa.Table.from_batches([rows])

    def group(start: int, end: int) -> pa.Table:
        return table.slice(start, end - start)

    return group


def as_frames(rows: pa.RecordBatch) -> Group:
    """Return groups as pandas DataFrames with a fresh index.

    The batch is converted as a whole, which is ten times as fast as group by group, unless the type of a
    column would then depend on nulls in other groups.
    """
    table = pa.Table.from_batches([rows])
    if any(column.null_count and _turns_to_floats(column.type) for column in rows.columns):
        return lambda start, end: to_pandas(table.slice(start, end - start))
    frame = to_pandas(table)

    def group(start: int, end: int) -> Any:
        return frame.iloc[start:end].reset_index(drop=True)

    return group


def to_pandas(table: pa.Table) -> Any:
    """Return a table as a DataFrame, with maps as dicts."""
    return table.to_pandas(maps_as_pydicts="strict")


def join_group(pieces: list[pa.RecordBatch], rows: str) -> Any:
    """Return a group that spans several batches, in the format ``rows``."""
    table = pa.Table.from_batches(pieces)
    return to_pandas(table) if rows == "pandas" else table


def _turns_to_floats(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) or kinds.is_boolean(kind))


ROW_FORMATS: dict[str, Callable[[pa.RecordBatch], Group]] = {"arrow": as_tables, "pandas": as_frames}


def check_rows(rows: str, argument: str) -> None:
    """Refuse an unknown format of rows."""
    if rows not in ROW_FORMATS:
        raise EvenflowError(
            f'{argument} is {rows!r}; use "arrow" for pyarrow Tables or "pandas" for DataFrames.'
        )


def key_text(names: Sequence[str], keys: Sequence[pa.Array], row: int) -> str:
    """Return a key as text for an error message.

    >>> key_text(["a", "b"], [pa.array(["x"]), pa.array([None])], 0)
    "key a='x', b=None"
    """
    values = (repr(key[row].as_py()) for key in keys)
    shown = (
        value if len(value) <= _SHOWN_CHARACTERS else value[:_SHOWN_CHARACTERS] + "..." for value in values
    )
    return "key " + ", ".join(f"{name}={value}" for name, value in zip(names, shown, strict=True))


def failure(what: str, key: str, error: Exception, pandas_by: str = "") -> EvenflowError:
    """Return the error that reports an exception in the user's code.

    ``pandas_by`` says how to get pandas DataFrames, if the code was given Arrow tables. It is added if the
    code used one like a DataFrame.
    """
    frames = traceback.extract_tb(error.__traceback__)[1:2]  # the first is evenflow's, the second the user's
    location = "".join(f" ({Path(frame.filename).name}, line {frame.lineno})" for frame in frames)
    advice = f"; its rows are a pyarrow Table: {pandas_by} for a pandas DataFrame."
    hint = advice if pandas_by and _takes_arrow_for_pandas(error) else ""
    return EvenflowError(f"{what} failed for {key}: {type(error).__name__}: {error}{location}{hint}")


_ARROW_REFUSALS = (  # of operators, of assigning a column, of selecting by a list or by a condition
    "'pyarrow.lib.Table'",
    "'pyarrow.lib.ChunkedArray'",
    "Index must either be string or integer",
)


def _takes_arrow_for_pandas(error: Exception) -> bool:
    """Return whether an exception comes from using a table or column of Arrow like one of pandas.

    >>> table = pa.table({"x": [1]})
    >>> for used in (lambda: table.groupby("x"), lambda: table["x"] + 1, lambda: table.misspelt):
    ...     try:
    ...         used()
    ...     except (AttributeError, TypeError) as error:
    ...         print(_takes_arrow_for_pandas(error))
    True
    True
    False
    """
    if isinstance(error, TypeError):
        return any(part in str(error) for part in _ARROW_REFUSALS)
    if not isinstance(error, AttributeError) or not isinstance(error.obj, pa.Table | pa.ChunkedArray):
        return False
    if isinstance(error.obj, pa.Table) and error.name in error.obj.column_names:
        return True
    try:
        import pandas as pd
    except ImportError:
        return False
    return hasattr(pd.DataFrame if isinstance(error.obj, pa.Table) else pd.Series, error.name or "")
