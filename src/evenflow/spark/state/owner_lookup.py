"""Looking up the owner of a key in Python workers. Keep imports light: Python workers import this module."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.plan.table import PlanTable, bucket_of

if TYPE_CHECKING:
    from evenflow.plan import Plan

Hashes = npt.NDArray[np.int64]  # signed as in Spark, and so sorted in state files
Bools = npt.NDArray[np.bool_]

STATE_BUCKETS = 4096  # as many as a plan for a ring has, so that buckets coincide


class Owners(NamedTuple):
    """The owners of keys by Spark's hashes: the compiled table of a plan that splits no key."""

    table: PlanTable

    @staticmethod
    def of(plan: Plan) -> Owners:
        """Return the owners of a plan that splits no key."""
        return Owners(plan.table)

    @property
    def workers(self) -> int:
        """Number of workers."""
        return self.table.workers

    @property
    def buckets(self) -> npt.NDArray[np.int32]:
        """Home of each bucket."""
        return self.table.buckets

    def of_hashes(self, hashes: Hashes) -> npt.NDArray[np.int32]:
        """Return the owner of every hash.

        >>> from evenflow.plan import make_plan
        >>> owners = Owners.of(make_plan(2, np.array([2**64 - 5], np.uint64), [10], split=False))
        >>> owners.of_hashes(np.array([1, -1, -5]))
        array([0, 1, 1], dtype=int32)
        """
        return self.table.route(hashes)

    def state_buckets(self, worker: int) -> Bools:
        """Return which state buckets may hold keys of a worker."""
        held = np.zeros(STATE_BUCKETS, np.bool_)
        owned = np.flatnonzero(self.buckets == worker)
        first = owned * STATE_BUCKETS // self.buckets.size
        last = ((owned + 1) * STATE_BUCKETS - 1) // self.buckets.size
        for offset in range(int((last - first).max(initial=-1)) + 1):
            held[np.minimum(first + offset, last)] = True
        held[bucket_of(self.table.keys[self.table.first_homes == worker], STATE_BUCKETS)] = True
        return held

    def moved_buckets(self, after: Owners) -> Bools:
        """Return which state buckets may hold a key whose owner differs in ``after``."""
        sizes = (self.buckets.size, after.buckets.size, STATE_BUCKETS)
        starts = np.unique(np.concatenate([_bucket_starts(size) for size in sizes]))
        old_bucket, new_bucket, state_bucket = ((starts * size) >> 32 for size in sizes)
        moved = np.zeros(STATE_BUCKETS, np.bool_)
        moved[state_bucket[self.buckets[old_bucket] != after.buckets[new_bucket]]] = True
        hot = np.concatenate([self.table.keys, after.table.keys])
        moved_keys = hot[self.table.route(hot) != after.table.route(hot)]
        moved[bucket_of(moved_keys, STATE_BUCKETS)] = True
        return moved


def _bucket_starts(buckets: int) -> npt.NDArray[np.int64]:
    """Return the smallest upper 32 bits of a hash in each bucket."""
    return ((np.arange(buckets, dtype=np.int64) << 32) + buckets - 1) // buckets
