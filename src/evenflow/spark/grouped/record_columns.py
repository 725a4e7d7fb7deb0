"""Conversion between Python records and Arrow columns of a declared schema.

A record is a dict with the schema's names or a tuple in their order. Arrow would accept a dict with a missing
name, and truncate 1.5 to 1 in a column of integers; both are refused here. Maps and structs are dicts (tuples
are accepted for structs), arrays are lists, timestamps have the time zone UTC.
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

_CONVERSION_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError)
_SHOWN_CHARACTERS = 80  # of a value in an error message
_PLAIN: dict[pa.DataType, Callable[[Any], bool]] = {
    pa.int64(): lambda value: type(value) is int and -(2**63) <= value < 2**63,
    pa.float64(): lambda value: type(value) is float,
    pa.bool_(): lambda value: type(value) is bool,
    pa.string(): lambda value: type(value) is str and value.isascii(),
}

Record = tuple[Any, ...]
KeyLabel = Callable[[int], str]  # number of a record -> its key, for error messages


@dataclass(frozen=True)
class Records:
    """Records of one schema."""

    source: str  # the method that returns them, for error messages
    schema: pa.Schema
    argument: str  # the name of the schema, for error messages

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self.schema.names

    def record(self, value: Any, label: KeyLabel, row: int) -> Record:
        """Return a dict or tuple as a record in the order of the schema."""
        names = self.names
        if isinstance(value, Mapping):
            if len(value) == len(names):
                try:
                    return tuple([value[name] for name in names])
                except KeyError:
                    pass
            raise EvenflowError(self._names_differ(value, label(row)))
        if isinstance(value, tuple | list):
            if len(value) == len(names):
                return tuple(value)
            raise EvenflowError(
                f"{self.source} returned {len(value)} values for {label(row)}, but the {self.argument} has "
                f"{len(names)} columns ({', '.join(names)}); return one value for each."
            )
        raise EvenflowError(
            f"{self.source} returned {_shown(value)} for {label(row)}; return a dict or a tuple with a value "
            f"for each column of the {self.argument} ({', '.join(names)})."
        )

    def _names_differ(self, value: Mapping[Any, Any], key: str) -> str:
        names = self.names
        extra = [str(name) for name in value if name not in names]
        missing = [name for name in names if name not in value]
        sentence = f"{self.source} returned a dict for {key} "
        if missing:
            sentence += f"without the column {missing[0]!r} of the {self.argument}"
            return sentence + (
                f" but with {extra[0]!r}; rename it."
                if extra
                else "; add it, with None if there is no value."
            )
        return (
            sentence
            + f"with {extra[0]!r}, which is not a column of the {self.argument}; {nearest(extra[0], names)}"
        )

    @cached_property
    def _plain(self) -> list[tuple[Callable[[Any], bool], bool]]:
        """For each column, what tells whether a value comes back as it is, and whether None does."""
        return [(_PLAIN.get(field.type, lambda value: False), field.nullable) for field in self.schema]

    def is_plain(self, record: Record) -> bool:
        """Return whether a record would come back from its columns as it is; False may also mean unknown.

        >>> records = Records("zero", pa.schema([("n", pa.int64()), ("mean", pa.float64())]), "buffer")
        >>> records.is_plain((1, 0.5)), records.is_plain((None, 0.5)), records.is_plain((2**63, 0.5))
        (True, True, False)
        """
        return all(
            nullable if value is None else fits(value)
            for (fits, nullable), value in zip(self._plain, record, strict=True)
        )

    def columns(self, records: Sequence[Record], label: KeyLabel) -> list[pa.Array]:
        """Return one array for each column."""
        return [
            self._column(field, [record[index] for record in records], label)
            for index, field in enumerate(self.schema)
        ]

    def _column(self, field: pa.Field, values: list[Any], label: KeyLabel) -> pa.Array:
        try:
            array = to_array(values, field.type)
        except _CONVERSION_ERRORS as error:
            raise EvenflowError(self._does_not_fit(field, values, label, error)) from error
        if not field.nullable and array.null_count:
            row = array.is_null().index(True).as_py()
            raise EvenflowError(
                f"{self.source} returned None for column {field.name!r} of {label(row)}, which the "
                f'{self.argument} declares "not null"; return a value or make the column nullable.'
            )
        return array

    def _does_not_fit(self, field: pa.Field, values: list[Any], label: KeyLabel, error: Exception) -> str:
        for row, value in enumerate(values):
            try:
                to_array([value], field.type)
            except _CONVERSION_ERRORS as cause:
                return (
                    f"{self.source} returned {_shown(value)} for column {field.name!r} of {label(row)}, "
                    f"which the {self.argument} declares as {field.type} ({cause}); return a value of that "
                    f"type or change the {self.argument}."
                )
        return (
            f"{self.source} returned values of different types for column {field.name!r}, declared as "
            f"{field.type} ({error}); return values of one type."
        )

    def to_records(self, columns: Sequence[pa.Array]) -> list[Record]:
        """Return columns as records."""
        return list(zip(*(to_values(column) for column in columns), strict=True))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


def are_plain(schema: pa.Schema) -> bool:
    """Return whether all columns have types whose values Spark passes to and from Python as they are."""
    return all(kind in _PLAIN for kind in schema.types)


def to_values(column: pa.Array) -> list[Any]:
    """Return the values of a column, maps as dicts."""
    return column.to_pylist(maps_as_pydicts="strict")


def to_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values as an array of a type, without truncating any.

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
    """Convert in two steps: given an integer type directly, Arrow would truncate 1.5 to 1."""
    array = pa.array(values)
    if not (kinds.is_integer(array.type) or kinds.is_floating(array.type) or kinds.is_null(array.type)):
        raise TypeError(f"the value is of type {array.type}")
    return array.cast(kind)


def _is_simple(kind: pa.DataType) -> bool:
    return not (kinds.is_integer(kind) or kinds.is_nested(kind))


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Return the offsets of lists; None marks a null list."""
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
