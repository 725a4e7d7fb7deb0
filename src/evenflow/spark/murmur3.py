"""Spark's ``hash`` of an INT or a LONG, Murmur3 with seed 42, and the numbers whose hash is a given one.

``repartition(n, column)`` puts a row in partition ``pmod(hash(column), n)``. Murmur3 maps INTs one to one,
and LONGs with a given upper half, too, so for every partition there is a number that falls on it.

Keep imports light: Python workers import this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from evenflow.kernels import Int32Array, Int64Array

_SEED = np.uint32(42)
_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_M1, _M2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
_ADDED = np.uint32(0xE6546B64)
_INT_BYTES, _LONG_BYTES = np.uint32(4), np.uint32(8)

UInt32Array = np.ndarray[tuple[int, ...], np.dtype[np.uint32]]


def hash_of_long(numbers: Int64Array) -> Int32Array:
    """Return Spark's hash of LONGs."""
    bits = numbers.view(np.uint64)
    lower, upper = bits.astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)
    mixed = _mixed(_mixed(_SEED ^ _scrambled(lower)) ^ _scrambled(upper))
    return _finished(mixed, _LONG_BYTES).view(np.int32)


def long_with_hash(upper: UInt32Array, hashes: Int32Array) -> Int64Array:
    """Return the LONGs with the given upper halves and hashes.

    >>> hash_of_long(long_with_hash(np.array([7, 2**31], np.uint32), np.array([3, -4], np.int32)))
    array([ 3, -4], dtype=int32)
    """
    last = _unfinished(hashes.view(np.uint32), _LONG_BYTES)
    middle = _unmixed(last) ^ _scrambled(upper)
    lower = _unscrambled(_unmixed(middle) ^ _SEED)
    return (upper.astype(np.uint64) << np.uint64(32) | lower.astype(np.uint64)).view(np.int64)


def hash_of_int(numbers: Int32Array) -> Int32Array:
    """Return Spark's hash of INTs."""
    return _finished(_mixed(_SEED ^ _scrambled(numbers.view(np.uint32))), _INT_BYTES).view(np.int32)


def int_with_hash(hashes: Int32Array) -> Int32Array:
    """Return the INTs with the given hashes.

    >>> hash_of_int(int_with_hash(np.array([3, -4], np.int32)))
    array([ 3, -4], dtype=int32)
    """
    mixed = _unfinished(hashes.view(np.uint32), _INT_BYTES)
    return _unscrambled(_unmixed(mixed) ^ _SEED).view(np.int32)


def _rotated(values: UInt32Array, bits: int) -> UInt32Array:
    return values << np.uint32(bits) | values >> np.uint32(32 - bits)


def _inverse(factor: np.uint32) -> np.uint32:
    return np.uint32(pow(int(factor), -1, 2**32))


def _scrambled(words: UInt32Array) -> UInt32Array:
    return _rotated(words * _C1, 15) * _C2


def _unscrambled(words: UInt32Array) -> UInt32Array:
    return _rotated(words * _inverse(_C2), 32 - 15) * _inverse(_C1)


def _mixed(state: UInt32Array) -> UInt32Array:
    return _rotated(state, 13) * np.uint32(5) + _ADDED


def _unmixed(state: UInt32Array) -> UInt32Array:
    return _rotated((state - _ADDED) * _inverse(np.uint32(5)), 32 - 13)


def _finished(state: UInt32Array, size: np.uint32) -> UInt32Array:
    state = state ^ size
    state = (state ^ state >> np.uint32(16)) * _M1
    state = (state ^ state >> np.uint32(13)) * _M2
    return state ^ state >> np.uint32(16)


def _unfinished(state: UInt32Array, size: np.uint32) -> UInt32Array:
    state = (state ^ state >> np.uint32(16)) * _inverse(_M2)
    state = (state ^ state >> np.uint32(13) ^ state >> np.uint32(26)) * _inverse(_M1)
    return state ^ state >> np.uint32(16) ^ size
