"""Columns of Avro records: their types on Spark, and a UDF that decodes values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import types as T

from evenflow.errors import EvenflowError
from evenflow.kafka.avro import Schema, decoder
from evenflow.spark.versions.arrow import arrow_function, to_arrow_type

_TYPES: dict[str, T.DataType] = {
    "boolean": T.BooleanType(),
    "int": T.IntegerType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "bytes": T.BinaryType(),
    "fixed": T.BinaryType(),
    "string": T.StringType(),
    "enum": T.StringType(),
    "date": T.DateType(),
    "timestamp-millis": T.TimestampType(),
    "timestamp-micros": T.TimestampType(),
    "local-timestamp-millis": T.TimestampNTZType(),
    "local-timestamp-micros": T.TimestampNTZType(),
}


def avro_fields(schema: Schema) -> T.StructType:
    """Return the columns of an Avro record; every one may be null.

    >>> avro_fields({"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "int"]}]})
    StructType([StructField('a', IntegerType(), True)])
    """
    found = _type(schema, {}, "", "")
    assert isinstance(found, T.StructType)
    return found


def decoded(value: Column, schema: Schema, skip: int, kind: T.StructType, corrupt: str) -> Column:
    """Return values as structs of ``kind``; those that are not of the schema have ``corrupt`` set."""
    made = to_arrow_type(kind)

    def decode(values: pa.Array) -> pa.Array:
        read = decoder(schema, skip)
        rows = [read(one) for one in values.to_pylist()]
        return pa.array([{corrupt: ""} if row is None else row for row in rows], made)

    make: Callable[[Any], Any] = decode
    return arrow_function(make, kind, pa.binary())(value)


def _type(schema: Any, named: dict[str, T.DataType | None], space: str, where: str) -> T.DataType:
    """Return the type of a part of a schema; ``named`` are the types declared so far, None if still open."""
    if isinstance(schema, list):
        kinds = [kind for kind in schema if kind != "null"]
        if len(kinds) != 1:
            names = " and ".join(str(kind.get("type") if isinstance(kind, dict) else kind) for kind in kinds)
            raise EvenflowError(
                f"the Avro field {where!r} is a union of {names or 'nothing'}, which is no type of a column; "
                "read the values with value=binary and decode them yourself."
            )
        return _type(kinds[0], named, space, where)
    if isinstance(schema, str):
        if schema in _TYPES:
            return _TYPES[schema]
        full = schema if "." in schema or not space else f"{space}.{schema}"
        found = named.get(full, named.get(schema))
        if found is None:
            raise EvenflowError(
                f"the Avro field {where!r} contains itself ({schema}), which no type of a column does; read "
                "the values with value=binary and decode them yourself."
            )
        return found
    kind, logical = schema["type"], schema.get("logicalType")
    if isinstance(kind, dict | list):
        return _type(kind, named, space, where)
    if kind == "array":
        return T.ArrayType(_type(schema["items"], named, space, f"{where}[]"))
    if kind == "map":
        return T.MapType(T.StringType(), _type(schema["values"], named, space, f"{where}{{}}"))
    if kind not in ("record", "error", "enum", "fixed"):
        if logical == "decimal":
            return T.DecimalType(schema["precision"], schema.get("scale", 0))
        return _TYPES[logical or kind] if logical or kind in _TYPES else _type(kind, named, space, where)
    name, space = schema["name"], schema.get("namespace", space)
    full = name if "." in name or not space else f"{space}.{name}"
    if kind in ("record", "error"):
        named[full] = None
        fields = [
            T.StructField(
                part["name"], _type(part["type"], named, space, f"{where}.{part['name']}".lstrip("."))
            )
            for part in schema["fields"]
        ]
        named[full] = T.StructType(fields)
    else:
        decimal = logical == "decimal"
        named[full] = T.DecimalType(schema["precision"], schema.get("scale", 0)) if decimal else _TYPES[kind]
    made = named[full]
    assert made is not None
    return made
