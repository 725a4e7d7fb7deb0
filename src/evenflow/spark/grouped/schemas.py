"""Schemas that users declare, as DDL text or StructType, converted to Spark and Arrow types."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from evenflow.errors import EvenflowError, first_line

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


def as_arrow(schema: T.StructType, argument: str) -> pa.Schema:
    """Return the schema as an Arrow schema."""
    fields = []
    for field in schema.fields:
        try:
            fields.append(to_arrow_schema(T.StructType([field]), timezone="UTC").field(0).remove_metadata())
        except PySparkException as error:
            raise EvenflowError(
                f"{argument} has the column {field.name!r} of type {field.dataType.simpleString()}, which "
                "Spark cannot exchange with Python; use another type."
            ) from error
    return pa.schema(fields)
