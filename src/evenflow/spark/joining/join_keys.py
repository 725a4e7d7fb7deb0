"""Join keys that Spark's own hash partitioning sends to a given worker.

A side is repartitioned by one LONG and joined on it, together with the user's keys: the hash of the key, or,
for a hot key, a number that stands for a cell of its grid and falls on the cell's worker
(:mod:`evenflow.spark.murmur3`).

One LONG also sorts faster than the keys themselves, which is most of the work of a sort-merge join.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evenflow.spark.murmur3 import hash_of_long, long_with_hash

if TYPE_CHECKING:
    from evenflow.kernels import Int32Array, Int64Array, UInt64Array


def key_on_worker(hashes: UInt64Array, workers: Int32Array) -> Int64Array:
    """Return numbers with the upper halves of ``hashes`` whose Murmur3 hash is the worker's number.

    >>> partition_of(key_on_worker(np.array([7, 2**63], np.uint64), np.array([3, 4], np.int32)), 5)
    array([3, 4], dtype=int32)
    """
    return long_with_hash((hashes >> np.uint64(32)).astype(np.uint32), workers.astype(np.int32))


def partition_of(keys: Int64Array, partitions: int) -> Int32Array:
    """Return the partition in which Spark's ``repartition(partitions, key)`` puts a LONG."""
    return (hash_of_long(keys) % np.int32(partitions)).astype(np.int32)
