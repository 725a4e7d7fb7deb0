"""XXH64 and Spark's ``xxhash64`` in plain Python: one value at a time, straight from their definitions."""

from __future__ import annotations

import decimal
import math
import struct
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

MASK = 0xFFFFFFFFFFFFFFFF
P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def rotate(value: int, bits: int) -> int:
    value &= MASK
    return (value << bits | value >> (64 - bits)) & MASK


def step(accumulator: int, word: int) -> int:
    return rotate(accumulator + word * P2, 31) * P1 & MASK


def xxh64(data: bytes, seed: int = 0) -> int:
    """The 64-bit hash of the xxHash specification."""
    at = 0
    if len(data) >= 32:
        lanes = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed, (seed - P1) & MASK]
        while at + 32 <= len(data):
            lanes = [
                step(lane, word)
                for lane, word in zip(lanes, struct.unpack_from("<4Q", data, at), strict=True)
            ]
            at += 32
        hashed = sum(rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            hashed = (hashed ^ step(0, lane)) * P1 + P4 & MASK
    else:
        hashed = seed + P5
    hashed = hashed + len(data) & MASK
    while at + 8 <= len(data):
        (word,) = struct.unpack_from("<Q", data, at)
        hashed = rotate(hashed ^ step(0, word), 27) * P1 + P4 & MASK
        at += 8
    if at + 4 <= len(data):
        (half,) = struct.unpack_from("<I", data, at)
        hashed = rotate(hashed ^ half * P1 & MASK, 23) * P2 + P3 & MASK
        at += 4
    for byte in data[at:]:
        hashed = rotate(hashed ^ byte * P5 & MASK, 11) * P1 & MASK
    hashed = (hashed ^ hashed >> 33) * P2 & MASK
    hashed = (hashed ^ hashed >> 29) * P3 & MASK
    return hashed ^ hashed >> 32


def spark_hash(value: Any, kind: pa.DataType, seed: int = 42) -> int:
    """What Spark's ``xxhash64`` makes of a value as ``plain`` gives it, of an Arrow type, after ``seed``."""
    if value is None:
        return seed
    if kinds.is_struct(kind):
        for field in kind:
            seed = spark_hash(value[field.name], field.type, seed)
        return seed
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        for element in value:
            seed = spark_hash(element, kind.value_type, seed)
        return seed
    return xxh64(spark_bytes(value, kind), seed)


def spark_bytes(value: Any, kind: pa.DataType) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    if isinstance(value, float):
        value = math.nan if math.isnan(value) else value + 0.0
        return struct.pack("<f" if kinds.is_float32(kind) else "<d", value)
    if kinds.is_decimal(kind):
        unscaled = int(value.scaleb(kind.scale, decimal.Context(prec=80)))
        if kind.precision <= 18:
            return unscaled.to_bytes(8, "little", signed=True)
        bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
        return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)
    four = kinds.is_boolean(kind) or kinds.is_date(kind) or kinds.is_uint8(kind) or kinds.is_uint16(kind)
    four = four or (kinds.is_signed_integer(kind) and kind.bit_width <= 32)
    return int(value).to_bytes(4 if four else 8, "little", signed=True)


def plain(array: pa.Array) -> list[Any]:
    """An array's values; dates, times and intervals as the integers that Spark holds."""
    kind = array.type
    if kinds.is_date(kind):
        return array.cast(pa.date32()).cast(pa.int32()).to_pylist()
    if kinds.is_timestamp(kind) or kinds.is_duration(kind):
        ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        return [None if v is None else v * 10**6 // ticks for v in array.cast(pa.int64()).to_pylist()]
    if kinds.is_time(kind):
        ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        count = array.cast(pa.int32() if kinds.is_time32(kind) else pa.int64())
        return [None if v is None else v * 10**9 // ticks for v in count.to_pylist()]
    return array.to_pylist()
