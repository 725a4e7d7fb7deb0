"""Random Arrow arrays of every type that hash_keys takes, with nulls, edges and odd bits."""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

POINT = pa.struct([("name", pa.string()), ("x", pa.int32()), ("y", pa.float64())])

# What createDataFrame takes from an Arrow table.
SPARK_TYPES: dict[str, pa.DataType] = {
    str(kind): kind
    for kind in (
        *(pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
        *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(5)),
        *(pa.dictionary(pa.int32(), pa.string()), pa.date32(), pa.time64("us"), pa.time64("ns")),
        *(pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns")),
        *(pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Paris"), pa.duration("s"), pa.duration("us")),
        *(pa.decimal128(7, 2), pa.decimal128(18, 0), pa.decimal128(19, 3), pa.decimal128(38, 18)),
        *(pa.decimal128(38, 0), pa.decimal256(38, 5), pa.decimal32(9, 2), pa.decimal64(18, 4)),
        *(POINT, pa.struct([("p", POINT), ("n", pa.int64())])),
        *(pa.list_(pa.int32()), pa.large_list(pa.string()), pa.list_(pa.float64(), 3)),
        *(pa.list_(pa.list_(pa.string())), pa.list_(POINT), pa.list_(pa.list_(POINT))),
        pa.struct([("tags", pa.list_(pa.string())), ("points", pa.list_(POINT))]),
    )
}
# What Spark reads from a Parquet file, and what it has no way in for but holds as another type.
PARQUET_TYPES = {str(kind): kind for kind in (pa.uint8(), pa.uint16(), pa.uint32())}
OTHER_TYPES = {
    str(kind): kind
    for kind in (
        *(pa.string_view(), pa.binary_view(), pa.date64(), pa.time32("s"), pa.time32("ms")),
        *(pa.duration("ms"), pa.duration("ns"), pa.dictionary(pa.int8(), pa.int64())),
        pa.list_(pa.dictionary(pa.int8(), pa.string())),
    )
}
ALL_TYPES = SPARK_TYPES | PARQUET_TYPES | OTHER_TYPES

_DAY = 86400
_LETTERS = [*"abcdefgh", "\0", "é", "ß", "漢", "😀", "\u0301"]


def sample(kind: pa.DataType, size: int, rng: np.random.Generator, nulls: float = 0.2) -> pa.Array:
    """``size`` random values, about a share ``nulls`` of them null, over values that are not zero."""
    absent = rng.random(size) < nulls
    if kinds.is_null(kind):
        return pa.nulls(size)
    if kinds.is_dictionary(kind):
        words = sample(kind.value_type, 20, rng, nulls=0.1)
        return pa.DictionaryArray.from_arrays(
            pa.array(rng.integers(0, 20, size), kind.index_type, mask=absent), words
        )
    if kinds.is_struct(kind):
        children = [sample(field.type, size, rng, nulls) for field in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=pa.array(absent))
    if kinds.is_fixed_size_list(kind):
        values = sample(kind.value_type, size * kind.list_size, rng, nulls)
        return pa.FixedSizeListArray.from_arrays(values, kind.list_size, mask=pa.array(absent))
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 5, size))])
        values = sample(kind.value_type, int(offsets[-1]), rng, nulls)
        made = pa.LargeListArray if kinds.is_large_list(kind) else pa.ListArray
        offset_type = pa.int64() if kinds.is_large_list(kind) else pa.int32()
        return made.from_arrays(pa.array(offsets, offset_type), values, mask=pa.array(absent))
    return pa.array(_values(kind, size, rng), mask=absent).cast(kind)


def _values(kind: pa.DataType, size: int, rng: np.random.Generator) -> Any:
    if kinds.is_boolean(kind):
        return rng.random(size) < 0.5
    if kinds.is_integer(kind):
        dtype = np.dtype(kind.to_pandas_dtype())
        values = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, size, dtype, endpoint=True)
        return _with_edges(values, [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1], rng)
    if kinds.is_floating(kind):
        bits = rng.integers(0, 2 ** (kind.bit_width - 1), size, f"u{kind.bit_width // 8}") * 2 + 1
        values = bits.view(f"f{kind.bit_width // 8}")  # NaNs of all kinds are among them
        values = np.where(rng.random(size) < 0.5, values, rng.normal(size=size)).astype(values.dtype)
        return _with_edges(values, [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf], rng)
    if kinds.is_decimal(kind):
        return pa.array([_decimal(kind, rng) for _ in range(size)], kind)
    if kinds.is_fixed_size_binary(kind):
        return pa.array([rng.bytes(kind.byte_width) for _ in range(size)], kind)
    if kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind):
        return pa.array(["".join(rng.choice(_LETTERS, rng.integers(0, 45))) for _ in range(size)], kind)
    if kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_binary_view(kind):
        return pa.array([rng.bytes(int(rng.integers(0, 101))) for _ in range(size)], kind)
    if kinds.is_date(kind):
        return pa.array(rng.integers(-700_000, 2_900_000, size, np.int32)).cast(pa.date32())
    seconds = rng.integers(0, _DAY, size) if kinds.is_time(kind) else rng.integers(-(2**33), 2**33, size)
    ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
    values = seconds * ticks + rng.integers(0, ticks, size)
    return pa.array(values.astype(np.int32) if kinds.is_time32(kind) else values)


def _with_edges(values: Any, edges: list[Any], rng: np.random.Generator) -> Any:
    places = rng.permutation(len(values))[: 2 * len(edges)]
    values[places] = np.array(edges * 2, values.dtype)[: len(places)]
    return values


def _decimal(kind: pa.DataType, rng: np.random.Generator) -> decimal.Decimal:
    digits = "".join(map(str, rng.integers(0, 10, rng.integers(1, kind.precision + 1))))
    sign = "-" if rng.random() < 0.5 else ""
    return decimal.Decimal(f"{sign}{digits}").scaleb(-kind.scale, decimal.Context(prec=40))
