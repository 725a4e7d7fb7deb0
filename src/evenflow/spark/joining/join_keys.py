"""Join keys that Spark's own hash partitioning sends to a given worker.

A side is repartitioned by one LONG and joined on it, together with the user's keys: the hash of the key, or,
for a hot key, a number that stands for a cell of its grid. ``repartition(n, key)`` puts a row in partition
``pmod(hash(key), n)``, where ``hash`` is Murmur3 with seed 42. Given its upper half, Murmur3 maps the lower
half of a LONG one to one, so for every worker there is a lower half that falls on it.

One LONG also sorts faster than the keys themselves, which is most of the work of a sort-merge join.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from evenflow.kernels import Int32Array, Int64Array, UInt64Array

_SEED = np.uint32(42)
_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_M1, _M2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
_ADDED = np.uint32(0xE6546B64)
_BYTES = np.uint32(8)

UInt32Array = np.ndarray[tuple[int, ...], np.dtype[np.uint32]]


def key_on_worker(hashes: UInt64Array, workers: Int32Array) -> Int64Array:
    """Return numbers with the upper halves of ``hashes`` whose Murmur3 hash is the worker's number.

    >>> partition_of(key_on_worker(np.array([7, 2**63], np.uint64), np.array([3, 4], np.int32)), 5)
    array([3, 4], dtype=int32)
    """
    upper = (hashes >> np.uint64(32)).astype(np.uint32)
    last = _unfinished(workers.astype(np.uint32))
    middle = _unmixed(last) ^ _scrambled(upper)
    lower = _unscrambled(_unmixed(middle) ^ _SEED)
    return (upper.astype(np.uint64) << np.uint64(32) | lower.astype(np.uint64)).view(np.int64)


def partition_of(keys: Int64Array, partitions: int) -> Int32Array:
    """Return the partition in which Spark's ``repartition(partitions, key)`` puts a LONG."""
    numbers = keys.view(np.uint64)
    lower, upper = numbers.astype(np.uint32), (numbers >> np.uint64(32)).astype(np.uint32)
    mixed = _mixed(_mixed(_SEED ^ _scrambled(lower)) ^ _scrambled(upper))
    return (_finished(mixed).view(np.int32) % np.int32(partitions)).astype(np.int32)


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


def _finished(state: UInt32Array) -> UInt32Array:
    state = state ^ _BYTES
    state = (state ^ state >> np.uint32(16)) * _M1
    state = (state ^ state >> np.uint32(13)) * _M2
    return state ^ state >> np.uint32(16)


def _unfinished(state: UInt32Array) -> UInt32Array:
    state = (state ^ state >> np.uint32(16)) * _inverse(_M2)
    state = (state ^ state >> np.uint32(13) ^ state >> np.uint32(26)) * _inverse(_M1)
    return state ^ state >> np.uint32(16) ^ _BYTES
