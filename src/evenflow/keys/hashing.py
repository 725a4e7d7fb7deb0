"""Spark's ``xxhash64`` of Arrow columns, bit for bit.

Spark folds the columns of a row, the fields of a struct and the elements of an array in the same way: ``hash
= XXH64(value, seed=hash)``, starting from 42; a null leaves the hash unchanged. The bytes of a value depend
on its Spark type:

* 4 bytes: boolean (1 or 0), tinyint, smallint, int, date (days), float;
* 8 bytes: bigint, timestamp with or without zone (microseconds), interval day to second (microseconds), time
  (nanoseconds), double, decimal of precision up to 18 (the unscaled value);
* variable length: string (UTF-8), binary, decimal of precision above 18 (the unscaled value, big-endian,
  shortest);
* -0.0 hashes as 0.0, and every NaN as Java's canonical NaN.

Arrow types that Spark does not have get the Spark type that they get in Parquet files: uint8 is smallint,
uint16 int, uint32 bigint. Times finer than a microsecond are floored, as Spark floors timestamps. A timestamp
without a zone is hashed as written: this matches Spark's ``timestamp_ntz``, and its ``timestamp`` if the
session's zone is UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from evenflow.errors import EvenflowError
from evenflow.kernels import Int64Array, UInt64Array
from evenflow.keys.xxhash import Bytes, chain_bytes, chain_ints, chain_longs

SEED = np.uint64(42)
ONE_PER_ROW: Int64Array = np.empty(0, np.int64)
ALL_VALID = np.frombuffer(b"", np.uint8)


def hash_columns(columns: Sequence[Any]) -> UInt64Array:
    """Return Spark's hash of every row of Arrow columns of equal length."""
    for column in columns:
        check_type(column.type)
    running = np.full(len(columns[0]), SEED)
    for index, column in enumerate(columns):
        try:
            _chain_column(column, running, index == 0)
        except pa.ArrowException as error:
            raise EvenflowError(
                f"keys of type {column.type} do not fit Spark's type for them ({error}); cast them."
            ) from error
    return running


def _chain_column(column: Any, running: UInt64Array, is_first: bool) -> None:
    begin = 0
    for array in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        part = running[begin : begin + len(array)]
        if is_first and kinds.is_dictionary(array.type) and len(array.dictionary) <= len(array):
            _hash_by_dictionary(array, part)
        else:
            chain(array, part)
        begin += len(array)


def _hash_by_dictionary(array: Any, running: UInt64Array) -> None:
    """Hash every dictionary value once; all rows of the first column start from the same seed."""
    hashes = hash_columns([array.dictionary])
    codes = array.indices.cast(pa.int64()).fill_null(len(hashes)).to_numpy()
    running[:] = np.append(hashes, SEED)[codes]


def chain(array: Any, running: UInt64Array, rows: Int64Array = ONE_PER_ROW) -> None:
    """Fold an Arrow array, whose type ``check_type`` accepted, into the running hashes of its rows."""
    kind = array.type
    if kinds.is_null(kind):
        return
    if kinds.is_dictionary(kind):
        chain(array.dictionary_decode(), running, rows)
    elif kinds.is_struct(kind):
        below = _rows_below(array, rows)
        for index in range(kind.num_fields):
            chain(array.field(index), running, below)
    elif _is_list(kind):
        _chain_list(array, running, rows)
    elif kinds.is_decimal(kind):
        _chain_decimals(array, running, rows)
    elif _is_bytes(kind):
        chain_bytes(*_bytes_of(array), *_validity(array), rows, running)
    else:
        array = _as_spark_holds_it(array)
        if array.type == pa.int32():
            chain_ints(_values(array, np.int32), *_validity(array), rows, running)
        else:
            chain_longs(_values(array, np.int64), *_validity(array), rows, running)


def check_type(kind: Any) -> None:
    """Raise an error for a type that Spark's ``xxhash64`` does not hash."""
    if kinds.is_dictionary(kind) or _is_list(kind):
        check_type(kind.value_type)
    elif kinds.is_struct(kind):
        for index in range(kind.num_fields):
            check_type(kind.field(index).type)
    elif kinds.is_uint64(kind):
        raise EvenflowError(
            "keys have type uint64, which Spark does not support; cast them to int64 or decimal128(20, 0) as "
            "in Spark, or, if they are already hashes, pass them to route() as a numpy array."
        )
    elif kinds.is_decimal(kind):
        if kind.precision > 38 or kind.scale < 0:
            raise EvenflowError(
                f"keys have type {kind}; cast them to at most 38 digits and a scale from 0, as in Spark."
            )
    elif not (_is_bytes(kind) or kinds.is_null(kind) or kind.id in _FIXED_WIDTH):
        raise EvenflowError(
            f"keys have type {kind}, which Spark's xxhash64 does not hash; "
            "use columns of strings, bytes, numbers, dates or times from it, or cast it."
        )


_FIXED_WIDTH = {
    kind.id
    for kind in (
        *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()),
        *(pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us")),
        *(pa.timestamp("us"), pa.duration("us")),
    )
}


def _is_list(kind: Any) -> bool:
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind))


def _is_bytes(kind: Any) -> bool:
    return bool(
        kinds.is_string(kind)
        or kinds.is_large_string(kind)
        or kinds.is_string_view(kind)
        or kinds.is_binary(kind)
        or kinds.is_large_binary(kind)
        or kinds.is_binary_view(kind)
        or kinds.is_fixed_size_binary(kind)
    )


def _holds_structs(kind: Any) -> bool:
    if _is_list(kind) or kinds.is_dictionary(kind):
        return _holds_structs(kind.value_type)
    return bool(kinds.is_struct(kind))


def _as_spark_holds_it(array: Any) -> Any:
    """Convert a fixed-width array to the int32 or int64 values that Spark hashes."""
    kind = array.type
    if kinds.is_floating(kind):
        return _float_bits(array)
    if kinds.is_date64(kind):
        array = array.cast(pa.date32())
    elif kinds.is_time(kind):
        array = array.cast(pa.time64("ns"))
    elif kinds.is_timestamp(kind) or kinds.is_duration(kind):
        if kind.unit == "ns":
            return _floored_to_microseconds(array)
        array = array.cast(pa.timestamp("us", kind.tz) if kinds.is_timestamp(kind) else pa.duration("us"))
    wide = kinds.is_uint32(kind) or (array.type.bit_width == 64)
    return array.cast(pa.int64() if wide else pa.int32())


def _float_bits(array: Any) -> Any:
    """Return the bits of floats, with one zero and one NaN."""
    single = kinds.is_float32(array.type)
    values = _values(array, np.float32 if single else np.float64)
    with np.errstate(invalid="ignore"):  # of signalling NaNs
        one_zero = values + values.dtype.type(0)  # -0.0 + 0.0 is 0.0
    one_nan = np.where(np.isnan(values), values.dtype.type(np.nan), one_zero)
    return _with_validity_of(array, one_nan.view(np.int32 if single else np.int64))


def _floored_to_microseconds(array: Any) -> Any:
    return _with_validity_of(array, _values(array, np.int64) // 1000)


def _with_validity_of(array: Any, values: npt.NDArray[Any]) -> Any:
    mask = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(values, mask=mask)


def _chain_decimals(array: Any, running: UInt64Array, rows: Int64Array) -> None:
    if array.type.bit_width != 128:
        array = array.cast(pa.decimal128(array.type.precision, array.type.scale))
    words = _part(array.buffers()[1], np.int64, 2 * array.offset, 2 * len(array)).reshape(-1, 2)
    if array.type.precision <= 18:
        chain_longs(_frozen(words[:, 0].copy()), *_validity(array), rows, running)
        return
    big_endian = words.view(np.uint8).reshape(-1, 16)[:, ::-1].copy()
    negative = big_endian[:, 0] >> 7
    sign_bytes = (big_endian[:, :-1] == 255 * negative[:, None]).cumprod(axis=1).sum(axis=1)
    # A leading sign byte is dropped if the next byte still shows the sign; at least one byte remains.
    shown = big_endian[np.arange(len(big_endian)), sign_bytes] >> 7 == negative
    ends = np.arange(1, len(big_endian) + 1) * 16
    starts = ends - 16 + sign_bytes - ~shown
    data = _frozen(big_endian.reshape(-1))
    chain_bytes(data, _frozen(starts), _frozen(ends), *_validity(array), rows, running)


def _chain_list(array: Any, running: UInt64Array, rows: Int64Array) -> None:
    starts, ends = _list_bounds(array)
    below = _rows_below(array, rows)
    if not len(below) or starts[0] == ends[-1]:
        return
    if not _holds_structs(array.type):
        elements = array.values.slice(starts[0], ends[-1] - starts[0])
        chain(elements, running, np.repeat(below, ends - starts))
        return
    # All fields of an element come before the next element: hash the first element of every list, then the
    # second element of those that have one, and so on.
    turn = 0
    live = np.flatnonzero((below >= 0) & (ends > starts))
    while live.size:
        chain(array.values.take(pa.array(starts[live] + turn)), running, below[live])
        turn += 1
        live = live[(ends - starts)[live] > turn]


def _list_bounds(array: Any) -> tuple[Int64Array, Int64Array]:
    if kinds.is_fixed_size_list(array.type):
        offsets = (np.arange(len(array) + 1) + array.offset) * array.type.list_size
    else:
        offsets = array.offsets.to_numpy().astype(np.int64)
    return offsets[:-1], offsets[1:]


def _rows_below(array: Any, rows: Int64Array) -> Int64Array:
    """Return the row of every value of a nested array, -1 below nulls."""
    below = rows if rows.size else np.arange(len(array))
    if array.null_count:
        below = np.where(array.is_valid().to_numpy(zero_copy_only=False), below, -1)
    return below


def _bytes_of(array: Any) -> tuple[Bytes, npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the bytes of strings or binaries, and where each starts and ends."""
    kind = array.type
    if kinds.is_string_view(kind) or kinds.is_binary_view(kind):
        array = array.cast(pa.large_binary())
        kind = array.type
    buffers = array.buffers()
    if kinds.is_fixed_size_binary(kind):
        offsets = (np.arange(len(array) + 1) + array.offset) * kind.byte_width
    else:
        wide = kinds.is_large_string(kind) or kinds.is_large_binary(kind)
        count = len(array) + 1 if len(array) else 0  # an empty array may have no offsets
        offsets = _part(buffers[1], np.int64 if wide else np.int32, array.offset, count)
    data = _part(buffers[-1], np.uint8)
    return data, _frozen(offsets[:-1]), _frozen(offsets[1:])


def _values(array: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    return _part(array.buffers()[1], dtype, array.offset, len(array))


def _validity(array: Any) -> tuple[Bytes, int]:
    """Return the validity bits and the position of the first one; no bits if all values are valid."""
    if not array.null_count:
        return ALL_VALID, 0
    return _part(array.buffers()[0], np.uint8), array.offset


def _part(buffer: Any, dtype: npt.DTypeLike, first: int = 0, count: int = -1) -> npt.NDArray[Any]:
    """Return ``count`` values of a buffer, starting at ``first``, or all."""
    if buffer is None or count == 0:
        return _frozen(np.empty(0, dtype))
    return _frozen(np.frombuffer(buffer, dtype, count, first * np.dtype(dtype).itemsize))


def _frozen(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    # Arrow's arrays are read-only; numba would compile separately for writable ones.
    values.flags.writeable = False
    return values
