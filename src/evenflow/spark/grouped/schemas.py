"""Schemas that users declare, as DDL text or StructType, converted to Spark and Arrow types."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as T

from evenflow.errors import EvenflowError, first_line
from evenflow.spark.routing.key_columns import inner_types
from evenflow.spark.versions.arrow import to_arrow_schema

Schema: TypeAlias = str | T.StructType


def parse(schema: Schema, argument: str) -> T.StructType:
    """Return a declared schema as a StructType."""
    message = f'{argument} is {schema!r}; declare columns as in "n long, total double"'
    declared: T.DataType | str = schema
    if isinstance(schema, str):
        try:
            declared = T.DataType.fromDDL(schema)
        except PySparkException as error:
            raise EvenflowError(f"{message} ({first_line(error)}).") from error
    if not isinstance(declared, T.StructType) or not declared.fields:
        raise EvenflowError(f"{message}.")
    names = [name.lower() for name in declared.names]
    for name in declared.names:
        if names.count(name.lower()) > 1:
            raise EvenflowError(f"{argument} has the column {name!r} twice; rename one.")
    return declared


def check_exchangeable(schema: T.StructType, argument: str) -> None:
    """Reject columns that Spark cannot hand to Python."""
    as_arrow(schema, argument)
    for field in schema.fields:
        name = first_duplicate(field.dataType)
        if name is not None:
            raise EvenflowError(
                f"{argument} has the column {field.name!r}, a struct with the field {name!r} twice, which "
                "Spark cannot exchange with Python; rename one, or leave the column out."
            )


def first_duplicate(kind: T.DataType) -> str | None:
    """Return the name of a field that a struct within ``kind`` has twice, or None."""
    names = kind.names if isinstance(kind, T.StructType) else []
    if len(set(names)) < len(names):
        return next(name for name in names if names.count(name) > 1)
    return next((found for inner in inner_types(kind) if (found := first_duplicate(inner))), None)


def as_arrow(schema: T.StructType, argument: str) -> pa.Schema:
    """Return the schema as an Arrow schema."""
    fields = []
    for field in schema.fields:
        try:
            fields.append(to_arrow_schema(T.StructType([field])).field(0).remove_metadata())
        except PySparkException as error:
            raise EvenflowError(
                f"{argument} has the column {field.name!r} of type {field.dataType.simpleString()}, which "
                "Spark cannot exchange with Python; cast it, or leave it out."
            ) from error
    return pa.schema(fields)
