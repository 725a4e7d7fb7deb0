"""Functions over Arrow arrays as Spark UDFs of one column."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import DataType


def arrow_function(
    function: Callable[[Any], Any], returns: str | DataType, *, of_iterator: bool = False
) -> Any:
    """Return ``function`` as a Spark UDF; it maps an array to an array, or an iterator of arrays to another.

    Annotations are set as objects, because Spark would have to resolve strings in the function's module.
    """
    kind = Iterator[pa.Array] if of_iterator else pa.Array
    [parameter] = inspect.signature(function).parameters
    function.__annotations__ = {parameter: kind, "return": kind}
    return arrow_udf(function, returns)  # type: ignore[call-overload]  # the stub lacks annotated functions
