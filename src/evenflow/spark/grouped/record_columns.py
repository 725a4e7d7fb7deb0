"""Python values become Arrow columns of a declared schema and come back; what does not fit is a sentence.

A record is a dict with the schema's names or a tuple in their order. Arrow alone would take a dict with a
name missing, or make 1 of 1.5 in a column of integers; both are refused here. Maps are dicts, arrays lists,
structs dicts (tuples are taken too), timestamps aware and in UTC.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from evenflow.errors import EvenflowError, nearest

_ARROW_REFUSES = (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError)
_SHOWN = 80  # characters of a value that a message shows

Record = tuple[Any, ...]
Where = Callable[[int], str]  # number of a record -> the key it belongs to


@dataclass(frozen=True)
class Records:
    """Records of one schema: what gives them (for messages), their columns, and what the schema is called."""

    giver: str
    schema: pa.Schema
    argument: str

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self.schema.names

    def record(self, value: Any, where: Where, row: int) -> Record:
        """Put a dict or tuple into the order of the schema."""
        names = self.names
        if isinstance(value, Mapping):
            if len(value) == len(names):
                try:
                    return tuple([value[name] for name in names])
                except KeyError:
                    pass
            raise EvenflowError(self._names_differ(value, where(row)))
        if isinstance(value, tuple | list):
            if len(value) == len(names):
                return tuple(value)
            raise EvenflowError(
                f"{self.giver} gave {len(value)} values for {where(row)}, the {self.argument} has "
                f"{len(names)} columns ({', '.join(names)}); give one value for each."
            )
        raise EvenflowError(
            f"{self.giver} gave {_shown(value)} for {where(row)}; give a dict or a tuple with a value for "
            f"each column of the {self.argument} ({', '.join(names)})."
        )

    def _names_differ(self, value: Mapping[Any, Any], key: str) -> str:
        names = self.names
        extra = [str(name) for name in value if name not in names]
        missing = [name for name in names if name not in value]
        sentence = f"{self.giver} gave a dict for {key} "
        if missing:
            sentence += f"without the column {missing[0]!r} of the {self.argument}"
            return sentence + (
                f" but with {extra[0]!r}; rename it." if extra else "; add it, if only as None."
            )
        return (
            sentence
            + f"with {extra[0]!r}, which is no column of the {self.argument}; {nearest(extra[0], names)}"
        )

    def columns(self, records: Sequence[Record], where: Where) -> list[pa.Array]:
        """Return one array for each column."""
        return [
            self._column(field, [record[index] for record in records], where)
            for index, field in enumerate(self.schema)
        ]

    def _column(self, field: pa.Field, values: list[Any], where: Where) -> pa.Array:
        try:
            array = to_array(values, field.type)
        except _ARROW_REFUSES as error:
            raise EvenflowError(self._does_not_fit(field, values, where, error)) from error
        if not field.nullable and array.null_count:
            row = array.is_null().index(True).as_py()
            raise EvenflowError(
                f"{self.giver} gave None for the column {field.name!r} and {where(row)}; the {self.argument} "
                'says "not null" there, so give a value or leave that out.'
            )
        return array

    def _does_not_fit(self, field: pa.Field, values: list[Any], where: Where, error: Exception) -> str:
        for row, value in enumerate(values):
            try:
                to_array([value], field.type)
            except _ARROW_REFUSES as alone:
                return (
                    f"{self.giver} gave {_shown(value)} for the column {field.name!r} and {where(row)}, "
                    f"which the {self.argument} declares as {field.type} ({alone}); give a value of that "
                    f"type or change the {self.argument}."
                )
        return (
            f"{self.giver} gave values for the column {field.name!r} that do not fit {field.type} together "
            f"({error}); give values of one type."
        )

    def python(self, columns: Sequence[pa.Array]) -> list[Record]:
        """Return the records of some columns."""
        return list(zip(*(to_values(column) for column in columns), strict=True))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def to_values(column: pa.Array) -> list[Any]:
    """Return the values of a column, maps as dicts."""
    return column.to_pylist(maps_as_pydicts="strict")


def to_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Make an array of a type, without cutting anything off.

    >>> to_array([{"a": 1}, None], pa.map_(pa.string(), pa.int64())).to_pylist()
    [[('a', 1)], None]
    """
    if kinds.is_integer(kind):
        return _to_integers(values, kind)
    if kinds.is_map(kind):
        values = [value if value is None else dict(value) for value in values]
        keys = itertools.chain.from_iterable(value.keys() for value in values if value is not None)
        items = itertools.chain.from_iterable(value.values() for value in values if value is not None)
        return pa.MapArray.from_arrays(
            _offsets(values), to_array(list(keys), kind.key_type), to_array(list(items), kind.item_type)
        ).cast(kind)
    if kinds.is_list(kind) and not _is_simple(kind.value_type):
        elements = list(itertools.chain.from_iterable(value for value in values if value is not None))
        return pa.ListArray.from_arrays(_offsets(values), to_array(elements, kind.value_type)).cast(kind)
    if kinds.is_struct(kind):
        return _to_structs(values, kind)
    return pa.array(values, kind)


def _to_integers(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Let Arrow see what the values are before they become integers: asked for these, it cuts 1.5 to 1."""
    array = pa.array(values)
    if not (kinds.is_integer(array.type) or kinds.is_floating(array.type) or kinds.is_null(array.type)):
        raise TypeError(f"that is {array.type}")
    return array.cast(kind)


def _is_simple(kind: pa.DataType) -> bool:
    return not (kinds.is_integer(kind) or kinds.is_nested(kind))


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Return where each list begins; None marks one that is null."""
    lengths = [0 if value is None else len(value) for value in values]
    ends = list(itertools.accumulate(lengths, initial=0))
    begins = [None if value is None else end for value, end in zip(values, ends, strict=False)]
    return pa.array([*begins, ends[-1]], pa.int32())


def _to_structs(values: Sequence[Any], kind: pa.StructType) -> pa.Array:
    names = [field.name for field in kind]
    rows = [
        value
        if value is None
        else [value[name] for name in names]
        if isinstance(value, Mapping)
        else _of_length(value, len(names))
        for value in values
    ]
    fields = [
        to_array([None if row is None else row[index] for row in rows], field.type)
        for index, field in enumerate(kind)
    ]
    missing = pa.array([row is None for row in rows], pa.bool_())
    if not fields:
        return pa.array([None if row is None else {} for row in rows], kind)
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=missing)


def _of_length(value: Any, length: int) -> Any:
    if len(value) != length:
        raise ValueError(f"a struct of {length} fields cannot hold {len(value)} values")
    return value
