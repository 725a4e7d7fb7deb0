"""Per-key Python work over a partition whose equal keys lie side by side, in one pass.

``groupBy().applyInArrow`` sends every group to Python by itself, at a fraction of a millisecond each. Here a
partition flows through in the batches that Spark makes of it, however many keys they hold, and is cut where
the key changes: one vectorised comparison of every row with the row before. A cut costs microseconds.

Keys are equal as Spark's ``groupBy`` sees it: null equals null and nothing else, NaN equals NaN, 0.0 equals
-0.0, and so inside of structs and arrays. Nothing here knows about routing, and nothing is imported that
makes a Python worker slow to start.
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

Batches = Iterable[pa.RecordBatch]
Bools = npt.NDArray[np.bool_]
Group = Callable[[int, int], Any]  # first row and end -> the rows, as the user's code takes them

SORTED_BYTES = 64 << 20  # of rows that are put in order at once where Spark does not sort them
_DEEP = 60  # characters of a key that a message shows


@dataclass(frozen=True)
class Layout:
    """Which columns of a batch are the key, and which are the rows that the user's code sees."""

    keys: tuple[int, ...]
    key_names: tuple[str, ...]
    rows: tuple[int, ...]
    row_names: tuple[str, ...]
    hashed: int | None = None  # the column with the key's hash, where the batches do not come sorted

    def batches(self, batches: Batches) -> Batches:
        """Return the batches with equal keys side by side."""
        return batches if self.hashed is None else side_by_side(batches, self.hashed)


class Cut(NamedTuple):
    """A batch, cut where its key changes; its first run may go on with the last key of the batch before."""

    keys: list[pa.Array]
    rows: pa.RecordBatch
    starts: list[int]
    ends: list[int]
    goes_on: bool

    def new_keys(self) -> list[pa.Array]:
        """Return the key of every run that begins here."""
        begun = pa.array(self.starts[self.goes_on :], pa.int64())
        return [canonical(key.take(begun)) for key in self.keys]


def cut(batches: Batches, layout: Layout) -> Iterator[Cut]:
    """Cut batches whose equal keys lie side by side; a batch without rows is left out.

    >>> batch = pa.record_batch({"k": ["a", "a", None], "v": [1, 2, 3]})
    >>> first, second = cut([batch, batch.slice(2)], Layout((0,), ("k",), (1,), ("v",)))
    >>> first.starts, first.ends, second.goes_on
    ([0, 2], [2, 3], True)
    """
    last: list[pa.Array] | None = None
    for batch in layout.batches(batches):
        if not batch.num_rows:
            continue
        keys = [batch.column(index) for index in layout.keys]
        goes_on = last is not None and all(
            bool(same(before, key.slice(0, 1))[0]) for before, key in zip(last, keys, strict=True)
        )
        starts = _starts(keys, batch.num_rows)
        rows = pa.RecordBatch.from_arrays(
            [batch.column(index) for index in layout.rows], names=list(layout.row_names)
        )
        yield Cut(keys, rows, starts, [*starts[1:], batch.num_rows], goes_on)
        last = [key.slice(batch.num_rows - 1) for key in keys]


def _starts(keys: Sequence[pa.Array], rows: int) -> list[int]:
    changes: Bools = np.ones(rows, bool)
    changes[1:] = False
    for key in keys:
        changes[1:] |= ~same(key.slice(0, rows - 1), key.slice(1))
    return np.flatnonzero(changes).tolist()


def same(left: pa.Array, right: pa.Array) -> Bools:
    """Say for every row whether two arrays of one type hold the same key.

    >>> nan = float("nan")
    >>> same(pa.array([None, nan, 0.0, None, 2.0]), pa.array([None, nan, -0.0, nan, 1.0]))
    array([ True,  True,  True, False, False])
    """
    kind = left.type
    if kinds.is_dictionary(kind):
        return same(left.dictionary_decode(), right.dictionary_decode())
    if kinds.is_null(kind):
        return np.ones(len(left), bool)
    if kinds.is_struct(kind):
        equal = np.ones(len(left), bool)
        for mine, other in zip(left.flatten(), right.flatten(), strict=True):
            equal &= same(mine, other)
    elif kinds.is_list(kind) or kinds.is_large_list(kind):
        equal = _same_lists(left, right)
    else:
        equal = _bools(pc.equal(left, right))
        if kinds.is_floating(kind):
            equal |= _bools(pc.and_(pc.is_nan(left), pc.is_nan(right)))
    if not left.null_count and not right.null_count:
        return equal
    no_left, no_right = _bools(left.is_null()), _bools(right.is_null())
    return np.where(no_left | no_right, no_left & no_right, equal)


def _same_lists(left: pa.Array, right: pa.Array) -> Bools:
    """Compare lists by their lengths, then the elements of those that are of one length."""
    lengths, others = (pc.fill_null(pc.list_value_length(side), -1).to_numpy() for side in (left, right))
    equal: Bools = lengths == others
    rows = np.flatnonzero(equal & (lengths > 0))
    if rows.size:
        elements = same(left.take(pa.array(rows)).flatten(), right.take(pa.array(rows)).flatten())
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


def side_by_side(batches: Batches, hashed: int, limit: int = SORTED_BYTES) -> Iterator[pa.RecordBatch]:
    """Put rows of equal keys side by side, some megabytes at a time, by the column of hashes.

    A stream cannot be sorted by Spark. A key may come again in the next portion, and two keys with one hash
    may alternate: whoever reads this must take several partial results per key.
    """
    portion: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        portion.append(batch)
        size += batch.nbytes
        if size >= limit:
            yield _ordered(portion, hashed)
            portion, size = [], 0
    if portion:
        yield _ordered(portion, hashed)


def _ordered(portion: list[pa.RecordBatch], hashed: int) -> pa.RecordBatch:
    whole = pa.concat_batches(portion)
    order = np.argsort(whole.column(hashed).to_numpy(), kind="stable")
    return whole.take(pa.array(order))


def as_tables(rows: pa.RecordBatch) -> Group:
    """Hand the rows of a key over as a pyarrow Table."""
    table = pa.Table.from_batches([rows])

    def group(start: int, end: int) -> pa.Table:
        return table.slice(start, end - start)

    return group


def as_frames(rows: pa.RecordBatch) -> Group:
    """Hand the rows of a key over as a pandas DataFrame with a fresh index.

    A batch is converted at once, which is ten times as fast as one by one, unless the type of a column could
    then depend on the nulls of other keys.
    """
    table = pa.Table.from_batches([rows])
    if any(column.null_count and _turns_to_floats(column.type) for column in rows.columns):
        return lambda start, end: to_pandas(table.slice(start, end - start))
    frame = to_pandas(table)

    def group(start: int, end: int) -> Any:
        return frame.iloc[start:end].reset_index(drop=True)

    return group


def to_pandas(table: pa.Table) -> Any:
    """Convert as ``pyarrow`` does, maps to dicts."""
    return table.to_pandas(maps_as_pydicts="strict")


def _turns_to_floats(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) or kinds.is_boolean(kind))


HANDED: dict[str, Callable[[pa.RecordBatch], Group]] = {"arrow": as_tables, "pandas": as_frames}


def check_rows(rows: str, where: str) -> None:
    """Refuse a declaration of rows that is neither arrow nor pandas."""
    if rows not in HANDED:
        raise EvenflowError(f'{where} is {rows!r}; "arrow" gives a pyarrow Table, "pandas" a DataFrame.')


def key_text(names: Sequence[str], keys: Sequence[pa.Array], row: int) -> str:
    """Name a key for a message.

    >>> key_text(["a", "b"], [pa.array(["x"]), pa.array([None])], 0)
    "key a='x', b=None"
    """
    values = (repr(key[row].as_py()) for key in keys)
    shown = (value if len(value) <= _DEEP else value[:_DEEP] + "..." for value in values)
    return "key " + ", ".join(f"{name}={value}" for name, value in zip(names, shown, strict=True))


def failure(what: str, key: str, error: Exception) -> EvenflowError:
    """Return the sentence for an exception in the user's code."""
    steps = traceback.extract_tb(error.__traceback__)[1:2]  # the first is ours, the second in the user's code
    where = "".join(f" ({Path(step.filename).name}, line {step.lineno})" for step in steps)
    return EvenflowError(f"{what} failed for {key}: {type(error).__name__}: {error}{where}")
