"""The encoding of keys and states in Spark's state store, for merging in Python.

A state is stored as columns of the buffer's types, with dates and times as integers, because Spark would
convert them between time zones. A key of any type is stored as the JSON text of its values; equal keys have
equal texts, since 0.0 and NaN are canonical.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from evenflow.spark.grouped.record_columns import to_array, to_values


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column in the store.

    >>> stored_type(pa.list_(pa.timestamp("us", "UTC")))
    ListType(list<item: int64>)
    """
    if kinds.is_date32(kind):
        return pa.int32()
    if kinds.is_temporal(kind):
        return pa.int64()
    if kinds.is_map(kind):
        return pa.map_(stored_field(kind.key_field), stored_field(kind.item_field))
    if kinds.is_list(kind):
        return pa.list_(stored_field(kind.value_field))
    if kinds.is_struct(kind):
        return pa.struct([stored_field(field) for field in kind])
    return kind


def stored_field(field: pa.Field) -> pa.Field:
    """Return the field of a column in the store."""
    return field.with_type(stored_type(field.type))


def store(columns: Sequence[pa.Array]) -> list[pa.Array]:
    """Return columns encoded for the store."""
    return [column.cast(stored_type(column.type)) for column in columns]


def restore(columns: Sequence[pa.Array], schema: pa.Schema) -> list[pa.Array]:
    """Return columns decoded from the store."""
    return [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]


def keys_to_text(keys: Sequence[pa.Array]) -> pa.Array:
    """Return each key as JSON of its values.

    >>> keys_to_text([pa.array(["a", None]), pa.array([b"x", b""])]).to_pylist()
    ['["a","78"]', '[null,""]']
    """
    values = zip(*(to_values(column) for column in store(keys)), strict=True)
    return pa.array([_ENCODER.encode(value) for value in values], pa.string())


def _to_json(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else str(value)  # else a Decimal


_ENCODER = json.JSONEncoder(separators=(",", ":"), default=_to_json)


def text_to_keys(texts: Sequence[str], types: Sequence[pa.DataType]) -> list[pa.Array]:
    """Return the columns of keys encoded as JSON."""
    rows = [json.loads(text) for text in texts]
    return [
        to_array([_from_json(row[index], kind) for row in rows], stored_type(kind)).cast(kind)
        for index, kind in enumerate(types)
    ]


def _from_json(value: Any, kind: pa.DataType) -> Any:
    """Return a value of a type from its JSON form."""
    if value is None:
        return None
    if kinds.is_binary(kind):
        return bytes.fromhex(value)
    if kinds.is_decimal(kind):
        return Decimal(value)
    if kinds.is_list(kind):
        return [_from_json(element, kind.value_type) for element in value]
    if kinds.is_struct(kind):
        return {field.name: _from_json(value[field.name], field.type) for field in kind}
    return value
