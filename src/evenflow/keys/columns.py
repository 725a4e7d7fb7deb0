"""Conversion of key columns to Arrow arrays; the type of a key never depends on the other keys.

* Arrow arrays, and pandas and numpy arrays of a fixed type, keep their type. NaN in a float column is NaN,
  not null, as when Spark reads the same floats from a file or a numpy array. (From a pandas DataFrame, Spark
  makes them null if it converts through Arrow, and NaN otherwise; pass ``series.astype("Float64")`` for
  nulls.)
* Python objects, in lists or in pandas and numpy columns of dtype object, get the type that Spark infers for
  them: int is bigint, float is double, Decimal is decimal(38, 18), datetime is timestamp. All must have the
  same type: if 1 were a bigint in one batch and, next to a 2.5, a double in another, the same key would get
  two hashes.
* None and pandas' NA and NaT are null. NaN is a float in a list, and a missing value in a column of dtype
  object, since pandas represents missing strings this way and Spark reads them as null.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from evenflow.errors import EvenflowError

_ARROW_REFUSES = (pa.ArrowException, OverflowError, TypeError, ValueError)
_TAKEN = "a list, a numpy array, a pandas Series or Index, or an Arrow array"
_LISTS = (list, tuple, np.ndarray)
_DECIMAL = pa.decimal128(38, 18)
# The first match counts: a bool is also an int, and a datetime also a date.
_FAMILIES: tuple[tuple[type, ...], ...] = (
    (str,),
    (bytes, bytearray, memoryview),
    (bool, np.bool_),
    *((kind,) for kind in (np.int8, np.int16, np.int32, np.float32)),
    *((kind,) for kind in (np.uint8, np.uint16, np.uint32, np.uint64)),
    (int, np.int64),
    (float,),
    (decimal.Decimal,),
    (np.datetime64,),
    (np.timedelta64,),
    (datetime.datetime,),
    (datetime.date,),
    (datetime.time,),
    (datetime.timedelta,),
    _LISTS,
)


def as_columns(columns: Sequence[Any]) -> list[Any]:
    """Return Arrow arrays of equal length; a single table, DataFrame or MultiIndex stands for its columns."""
    if not columns:
        raise EvenflowError(f"there is no column to hash; pass {_TAKEN}.")
    if len(columns) == 1:
        columns = _taken_apart(columns[0])
    arrays = [as_column(column) for column in columns]
    lengths = [len(array) for array in arrays]
    if len(set(lengths)) > 1:
        raise EvenflowError(f"the columns have {lengths} values; pass columns of equal length.")
    return arrays


def as_column(column: Any) -> Any:
    """Return one column as an Arrow array or chunked array."""
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    if isinstance(column, np.ndarray):
        return _from_numpy(column)
    if isinstance(column, list | tuple):
        return _from_objects(column, nan_is_null=False)
    pandas = _pandas()
    if pandas and isinstance(column, pandas.Series | pandas.Index):
        return _from_pandas(column)
    raise EvenflowError(f"keys have type {type(column).__name__}; pass {_TAKEN}.")


def _taken_apart(whole: Any) -> Sequence[Any]:
    pandas = _pandas()
    columns: Sequence[Any] = [whole]
    if isinstance(whole, pa.Table | pa.RecordBatch):
        columns = whole.columns
    elif pandas and isinstance(whole, pandas.DataFrame):
        columns = [whole.iloc[:, index] for index in range(whole.shape[1])]
    elif pandas and isinstance(whole, pandas.MultiIndex):
        columns = [whole.get_level_values(level) for level in range(whole.nlevels)]
    if not columns:
        raise EvenflowError(f"this {type(whole).__name__} has no columns; pass at least one.")
    return columns


def _pandas() -> Any:
    return sys.modules.get("pandas")  # without an import there are no pandas objects


def _from_pandas(column: Any) -> Any:
    if isinstance(column.dtype, np.dtype):
        return _from_numpy(column.to_numpy())
    values = column.array
    if column.dtype == "category":
        codes = pa.array(values.codes, mask=values.codes < 0)
        return pa.DictionaryArray.from_arrays(codes, as_column(values.categories))
    try:
        return pa.array(values)
    except _ARROW_REFUSES as error:
        raise EvenflowError(
            f"keys have the pandas dtype {column.dtype}; convert them to a type of Arrow ({error})."
        ) from error


def _from_numpy(values: npt.NDArray[Any]) -> Any:
    if values.ndim != 1:
        raise EvenflowError(
            f"keys have {values.ndim} dimensions; pass one-dimensional columns, as in hash_keys(*keys.T)."
        )
    if values.dtype == object:
        return _from_objects(values, nan_is_null=True)
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    try:
        return pa.array(values)
    except _ARROW_REFUSES as error:
        raise EvenflowError(
            f"keys have the numpy dtype {values.dtype}; convert them to a type of Arrow ({error})."
        ) from error


def _from_objects(values: Any, nan_is_null: bool) -> Any:
    """Convert Python objects of one type."""
    array, error = _try_arrow(values, None, nan_is_null)
    if array is not None and kinds.is_string(array.type):
        return array  # fast path for the most common keys: Arrow infers string only from strings
    if error and _types_of(values) & _pandas_nulls():
        values = _with_none(values)
        array, error = _try_arrow(values, None, nan_is_null)
    family = _check_one_type(values, array.type if array is not None else None, nan_is_null)
    if array is not None and (kind := _as_spark_infers(array.type)) != array.type:
        array, error = _try_arrow(values, kind, nan_is_null)
    if error:
        raise EvenflowError(
            f"keys of Python type {family} do not fit Spark's type ({error}); "
            "pass an Arrow array of the type they have in Spark."
        ) from error
    return array


def _try_arrow(values: Any, kind: Any, nan_is_null: bool) -> tuple[Any, Exception | None]:
    try:
        return pa.array(values, kind, from_pandas=nan_is_null), None
    except _ARROW_REFUSES as error:
        return None, error


def _as_spark_infers(kind: Any) -> Any:
    """Replace the narrowest decimal type that fits by the one that Spark infers for all decimals."""
    if kinds.is_decimal(kind):
        return _DECIMAL
    return pa.list_(_as_spark_infers(kind.value_type)) if kinds.is_list(kind) else kind


def _check_one_type(values: Any, kind: Any, nan_is_null: bool) -> str:
    """Raise an error for mixed types and types that Spark does not hash; return the name of the type."""
    families: dict[tuple[type, ...], str] = {}
    for found in sorted(_types_of(values) - _pandas_nulls() - {type(None)}, key=lambda found: found.__name__):
        family = next((family for family in _FAMILIES if issubclass(found, family)), None)
        if family is None:
            raise EvenflowError(
                f"a key has the Python type {found.__name__}, which Spark's xxhash64 does not hash; "
                "convert such keys to strings, bytes, numbers, dates or times."
            )
        families[family] = found.__name__
    if nan_is_null and kind is not None and not kinds.is_floating(kind):
        families.pop((float,), None)  # all of these were NaN, or Arrow would have failed
    if len(families) > 1:
        raise EvenflowError(
            f"keys mix the types {' and '.join(families.values())}; convert them to one type."
        )
    if _LISTS in families:
        inner = list(itertools.chain.from_iterable(_lists_among(values)))
        _check_one_type(inner, kind.value_type if kind is not None else None, nan_is_null)
    return next(iter(families.values()), "None")


def _lists_among(values: Any) -> Any:
    lists = {found for found in _types_of(values) if issubclass(found, _LISTS)}
    return itertools.compress(values, map(lists.__contains__, map(type, values)))


def _types_of(values: Any) -> set[type]:
    return set(map(type, values))


def _pandas_nulls() -> set[type]:
    pandas = _pandas()
    return {type(pandas.NA), type(pandas.NaT)} if pandas else set()


def _with_none(values: Any) -> npt.NDArray[Any]:
    """Replace pandas' nulls by None."""
    objects = np.fromiter(values, object, len(values))
    objects[np.fromiter(map(_pandas_nulls().__contains__, map(type, values)), bool, len(values))] = None
    return objects
