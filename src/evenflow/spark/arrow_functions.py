"""Functions over Arrow arrays as Spark functions of one column."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.functions import arrow_udf


def arrow_function(function: Callable[[Any], Any], returns: str, *, of_iterator: bool = False) -> Any:
    """Return ``function`` as a Spark function; it maps an array, or an iterator of arrays, to the same kind.

    Annotations are set as values: as texts, their names would be looked up where the function runs.
    """
    kind = Iterator[pa.Array] if of_iterator else pa.Array
    [parameter] = inspect.signature(function).parameters
    function.__annotations__ = {parameter: kind, "return": kind}
    return arrow_udf(function, returns)  # type: ignore[call-overload]  # its stub knows no annotated functions
