"""Plans that split no key: every bucket and every named key has one owner.

The number of buckets is a power of two, 4096 or more, so that owners remain valid when workers join or leave.
For many workers, buckets are split in half and both halves keep their owner: no key moves.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from evenflow.kernels import Int32Array, UInt64Array
from evenflow.plan.build import BUCKETS_PER_WORKER
from evenflow.plan.counted import NOTHING, Counted
from evenflow.plan.plan import Plan
from evenflow.plan.table import bucket_of

FEWEST_BUCKETS = 4096

_NO_OWNERS = np.zeros(0, np.int32)


def stable_buckets(workers: int) -> int:
    """Return the number of buckets of a plan whose owners remain valid when workers join or leave.

    >>> stable_buckets(10), stable_buckets(100)
    (4096, 8192)
    """
    return max(FEWEST_BUCKETS, 1 << (BUCKETS_PER_WORKER * workers - 1).bit_length())


def equal_ranges(buckets: int, workers: int) -> Int32Array:
    """Return the owners of buckets if every worker owns one range.

    >>> equal_ranges(6, 2).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    return (np.arange(buckets, dtype=np.int64) * workers // buckets).astype(np.int32)


def one_owner_plan(
    workers: int,
    buckets: Int32Array,
    counted: Counted = NOTHING,
    named: Counted = NOTHING,
    owners: Int32Array = _NO_OWNERS,
) -> Plan:
    """Return the plan with the given owners of ``buckets`` and of the ``named`` keys.

    The expected loads are derived from what was ``counted``.

    >>> one_owner_plan(2, equal_ranges(4, 2)).expected.tolist()
    [0.5, 0.5]
    """
    size = buckets.size
    bucket_of_key = bucket_of(named.keys, size)
    if counted.buckets is not None and len(counted.buckets) == size:
        tail = np.maximum(counted.buckets - np.bincount(bucket_of_key, named.counts, size), 0.0)
    else:
        tail = np.full(size, max(0.0, counted.total - float(named.counts.sum())) / size)
    carried = np.bincount(buckets, tail, workers) + np.bincount(owners, named.counts, workers)
    total = carried.sum()
    if total == 0:  # nothing was counted: all buckets have equal weight
        carried, total = np.bincount(buckets, minlength=workers).astype(np.float64), float(size)
    return Plan(
        workers=workers,
        buckets=buckets,
        keys=named.keys,
        weights=named.counts / total,
        starts=np.arange(named.keys.size + 1, dtype=np.int64),
        homes=owners,
        parts=np.ones(named.keys.size),
        expected=carried / total,
    )


def owners_of(plan: Plan, keys: UInt64Array) -> Int32Array:
    """Return the owner of every key hash."""
    return plan.route(keys, np.zeros(keys.size))


def enough_buckets(buckets: Int32Array, workers: int) -> Int32Array:
    """Return owners with as many buckets as the workers need; the halves of a bucket keep its owner."""
    while buckets.size < BUCKETS_PER_WORKER * workers:
        buckets = np.repeat(buckets, 2)
    return buckets


def with_enough_buckets(plan: Plan, workers: int) -> Plan:
    """Return the plan with as many buckets as the workers need."""
    return dataclasses.replace(plan, buckets=enough_buckets(plan.buckets, workers))
