"""XXH64, seeded as in Spark's ``xxhash64``: each value is hashed with the running hash as its seed.

A value is 4 bytes (``hash_int``), 8 bytes (``hash_long``) or a sequence of bytes (``hash_bytes``), each with
a kernel that folds a column into the running hashes of its rows. ``validity`` holds Arrow's validity bits
from ``first_bit``, or is empty if nothing is null. ``rows[i]`` is the row of ``running`` that value ``i``
belongs to, or -1 for a value below a null; an empty ``rows`` means one value per row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenflow.kernels import Int32Array, Int64Array, UInt64Array, inlined, kernel

Bytes = npt.NDArray[np.uint8]

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_LOW_32 = np.uint64(0xFFFFFFFF)
_U0, _U1, _U2, _U3, _U4, _U5, _U6, _U7, _U8 = (np.uint64(number) for number in range(9))
_U16, _U24, _U32, _U40, _U48, _U56 = (np.uint64(number) for number in range(16, 64, 8))


@inlined
def _rotate(value: np.uint64, bits: int) -> np.uint64:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@inlined
def _lane(accumulator: np.uint64, word: np.uint64) -> np.uint64:
    return _rotate(accumulator + word * _P2, 31) * _P1


@inlined
def _take_word(hashed: np.uint64, word: np.uint64) -> np.uint64:
    return _rotate(hashed ^ _lane(_U0, word), 27) * _P1 + _P4


@inlined
def _take_half(hashed: np.uint64, half: np.uint64) -> np.uint64:
    return _rotate(hashed ^ (half * _P1), 23) * _P2 + _P3


@inlined
def _avalanche(hashed: np.uint64) -> np.uint64:
    hashed = (hashed ^ (hashed >> np.uint64(33))) * _P2
    hashed = (hashed ^ (hashed >> np.uint64(29))) * _P3
    return hashed ^ (hashed >> _U32)


@inlined
def hash_int(value: np.int32, seed: np.uint64) -> np.uint64:
    """Return XXH64 of the four bytes of ``value``."""
    return _avalanche(_take_half(seed + _P5 + _U4, np.uint64(value) & _LOW_32))


@inlined
def hash_long(value: np.int64, seed: np.uint64) -> np.uint64:
    """Return XXH64 of the eight bytes of ``value``."""
    return _avalanche(_take_word(seed + _P5 + _U8, np.uint64(value)))


@inlined
def _half_at(data: Bytes, at: np.uint64) -> np.uint64:
    return (
        np.uint64(data[at])
        | (np.uint64(data[at + _U1]) << _U8)
        | (np.uint64(data[at + _U2]) << _U16)
        | (np.uint64(data[at + _U3]) << _U24)
    )


@inlined
def _word_at(data: Bytes, at: np.uint64) -> np.uint64:
    # Byte by byte, since a key may start anywhere; the compiler makes one load of it.
    return (
        np.uint64(data[at])
        | (np.uint64(data[at + _U1]) << _U8)
        | (np.uint64(data[at + _U2]) << _U16)
        | (np.uint64(data[at + _U3]) << _U24)
        | (np.uint64(data[at + _U4]) << _U32)
        | (np.uint64(data[at + _U5]) << _U40)
        | (np.uint64(data[at + _U6]) << _U48)
        | (np.uint64(data[at + _U7]) << _U56)
    )


@inlined
def hash_bytes(data: Bytes, start: int, end: int, seed: np.uint64) -> np.uint64:
    """Return XXH64 of ``data[start:end]``."""
    at = np.uint64(start)  # unsigned indices spare the test for negative ones
    stop = np.uint64(end)
    length = stop - at
    if length >= _U32:
        a = seed + _P1 + _P2
        b = seed + _P2
        c = seed
        d = seed - _P1
        while at + _U32 <= stop:
            a = _lane(a, _word_at(data, at))
            b = _lane(b, _word_at(data, at + _U8))
            c = _lane(c, _word_at(data, at + _U16))
            d = _lane(d, _word_at(data, at + _U24))
            at += _U32
        hashed = _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)
        for lane in (a, b, c, d):
            hashed = (hashed ^ _lane(_U0, lane)) * _P1 + _P4
    else:
        hashed = seed + _P5
    hashed += length
    while at + _U8 <= stop:
        hashed = _take_word(hashed, _word_at(data, at))
        at += _U8
    if at + _U4 <= stop:
        hashed = _take_half(hashed, _half_at(data, at))
        at += _U4
    while at < stop:
        hashed = _rotate(hashed ^ (np.uint64(data[at]) * _P5), 11) * _P1
        at += _U1
    return _avalanche(hashed)


@inlined
def _row_of(i: int, validity: Bytes, first_bit: int, rows: Int64Array) -> int:
    """Return the row that value ``i`` belongs to, or -1 if it is null or below a null."""
    if validity.size:
        bit = first_bit + i
        if not (validity[bit >> 3] >> (bit & 7)) & 1:
            return -1
    if rows.size:
        return rows[i]
    return i


@kernel
def chain_ints(
    values: Int32Array,
    validity: Bytes,
    first_bit: int,
    rows: Int64Array,
    running: UInt64Array,
) -> None:
    """Fold 4-byte values into the hashes of their rows."""
    for i in range(values.size):
        row = _row_of(i, validity, first_bit, rows)
        if row >= 0:
            running[row] = hash_int(values[i], running[row])


@kernel
def chain_longs(
    values: Int64Array,
    validity: Bytes,
    first_bit: int,
    rows: Int64Array,
    running: UInt64Array,
) -> None:
    """Fold 8-byte values into the hashes of their rows."""
    for i in range(values.size):
        row = _row_of(i, validity, first_bit, rows)
        if row >= 0:
            running[row] = hash_long(values[i], running[row])


@kernel
def chain_bytes(
    data: Bytes,
    starts: Int64Array,
    ends: Int64Array,
    validity: Bytes,
    first_bit: int,
    rows: Int64Array,
    running: UInt64Array,
) -> None:
    """Fold the bytes ``data[starts[i]:ends[i]]`` into the hashes of their rows."""
    for i in range(starts.size):
        row = _row_of(i, validity, first_bit, rows)
        if row >= 0:
            running[row] = hash_bytes(data, starts[i], ends[i], running[row])
