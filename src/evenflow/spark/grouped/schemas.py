"""Schemas that users declare: DDL text or a StructType, as Spark and as Arrow have it."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from evenflow.errors import EvenflowError

Schema: TypeAlias = str | T.StructType


def parse(schema: Schema, argument: str) -> T.StructType:
    """Return a declared schema, or say what is wrong with it."""
    example = f'{argument} is {schema!r}; write it as in "n long, total double".'
    declared: T.DataType | str = schema
    if isinstance(schema, str):
        try:
            declared = T.DataType.fromDDL(schema)
        except PySparkException as error:
            raise EvenflowError(f"{example} Spark says: {str(error).strip().splitlines()[0]}") from error
    if not isinstance(declared, T.StructType) or not declared.fields:
        raise EvenflowError(example)
    names = [name.lower() for name in declared.names]
    for name in declared.names:
        if names.count(name.lower()) > 1:
            raise EvenflowError(f"{argument} has the column {name!r} twice; rename one.")
    return declared


def as_arrow(schema: T.StructType, argument: str) -> pa.Schema:
    """Return the schema as Arrow has it, or say which column it cannot hold."""
    fields = []
    for field in schema.fields:
        try:
            fields.append(to_arrow_schema(T.StructType([field]), timezone="UTC").field(0).remove_metadata())
        except PySparkException as error:
            raise EvenflowError(
                f"{argument} has the column {field.name!r} of type {field.dataType.simpleString()}, which "
                "does not pass between Spark and Python; use another type."
            ) from error
    return pa.schema(fields)
