"""Functions over Arrow arrays as Spark UDFs of one column, and Spark's types as Arrow's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas import types as conversion
from pyspark.sql.pandas.functions import pandas_udf

from evenflow.spark.versions import known


def arrow_function(
    function: Callable[[Any], Any],
    returns: str | T.DataType,
    takes: pa.DataType,
    *,
    of_iterator: bool = False,
) -> Any:
    """Return ``function`` as a Spark UDF; it maps an array to an array, or an iterator of arrays to another.

    Annotations are set as objects, because Spark would have to resolve strings in the function's module.
    Where there is no ``arrow_udf``, the array comes through pandas and is made one of type ``takes`` again;
    beside nulls, integers are exact up to 2**53.
    """
    if known.CLIENT < known.HAS_ARROW_UDF:
        return _through_pandas(function, returns, takes)
    from pyspark.sql.pandas.functions import arrow_udf

    kind = Iterator[pa.Array] if of_iterator else pa.Array
    [parameter] = inspect.signature(function).parameters
    function.__annotations__ = {parameter: kind, "return": kind}
    return arrow_udf(function, returns)  # type: ignore[call-overload]  # the stub lacks annotated functions


def _through_pandas(function: Callable[[Any], Any], returns: str | T.DataType, takes: pa.DataType) -> Any:
    declared = T.DataType.fromDDL(returns) if isinstance(returns, str) else returns

    def call(values: Any) -> Any:
        made = function(pa.Array.from_pandas(values, type=takes))
        if not pa.types.is_struct(made.type):
            return _as_series(made)
        return pd.DataFrame(
            {field.name: _as_series(part) for field, part in zip(made.type, made.flatten(), strict=True)}
        )

    result = pd.DataFrame if isinstance(declared, T.StructType) else pd.Series
    call.__annotations__ = {"values": pd.Series, "return": result}
    return pandas_udf(call, declared)  # type: ignore[call-overload]


def _as_series(values: pa.Array) -> Any:
    """Return an array in a form that Spark makes the same array of: integers beside nulls stay integers."""
    if pa.types.is_timestamp(values.type):
        return values.to_pandas()
    return pd.Series(list(map(_plain, values)), dtype=object)


def _plain(value: pa.Scalar) -> Any:
    """Return a value as Python has it, maps as dicts."""
    if not value.is_valid:
        return None
    if pa.types.is_map(value.type):
        return {_plain(entry["key"]): _plain(entry["value"]) for entry in value.values}
    if pa.types.is_struct(value.type):
        return {name: _plain(value[name]) for name in value}
    if pa.types.is_list(value.type):
        return list(map(_plain, value.values))
    return value.as_py()


def to_arrow_schema(schema: T.StructType) -> pa.Schema:
    """Return a schema as Arrow's, with timestamps in UTC."""
    return conversion.to_arrow_schema(schema, **_in_utc())


def to_arrow_type(kind: T.DataType) -> pa.DataType:
    """Return a type as Arrow's, with timestamps in UTC."""
    return conversion.to_arrow_type(kind, **_in_utc())


def _in_utc() -> dict[str, Any]:
    takes_it = "timezone" in inspect.signature(conversion.to_arrow_schema).parameters
    return {"timezone": "UTC"} if takes_it else {}
