"""Who owns a key, as a Python worker can look it up: a plan without what is slow to import."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.plan.table import PlanTable, bucket_of

if TYPE_CHECKING:
    from evenflow.plan import Plan

Hashes = npt.NDArray[np.int64]  # as Spark has them, and state files are sorted
Bools = npt.NDArray[np.bool_]

STATE_BUCKETS = 4096  # as many as a ring has in a plan, so that a bucket there is a bucket here


class Owners(NamedTuple):
    """The compiled table of a plan that splits no key, asked by the hashes of Spark."""

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
        """Return which buckets of the state may hold keys of a worker."""
        theirs = np.zeros(STATE_BUCKETS, np.bool_)
        mine = np.flatnonzero(self.buckets == worker)
        first = mine * STATE_BUCKETS // self.buckets.size
        last = ((mine + 1) * STATE_BUCKETS - 1) // self.buckets.size
        for offset in range(int((last - first).max(initial=-1)) + 1):
            theirs[np.minimum(first + offset, last)] = True
        theirs[bucket_of(self.table.keys[self.table.first_homes == worker], STATE_BUCKETS)] = True
        return theirs

    def moved_buckets(self, after: Owners) -> Bools:
        """Return the buckets of the state in which a key has another owner than ``after`` gives it."""
        sizes = (self.buckets.size, after.buckets.size, STATE_BUCKETS)
        begins = np.unique(np.concatenate([_begins(size) for size in sizes]))
        here, there, state_bucket = ((begins * size) >> 32 for size in sizes)
        moved = np.zeros(STATE_BUCKETS, np.bool_)
        moved[state_bucket[self.buckets[here] != after.buckets[there]]] = True
        hot = np.concatenate([self.table.keys, after.table.keys])
        moved_keys = hot[self.table.route(hot) != after.table.route(hot)]
        moved[bucket_of(moved_keys, STATE_BUCKETS)] = True
        return moved


def _begins(buckets: int) -> npt.NDArray[np.int64]:
    """Return the smallest upper 32 bits of each bucket."""
    return ((np.arange(buckets, dtype=np.int64) << 32) + buckets - 1) // buckets
