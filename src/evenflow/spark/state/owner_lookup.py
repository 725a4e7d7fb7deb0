"""Who owns a key, as a Python worker can look it up: a plan without what is slow to import."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from evenflow.plan import Plan

Hashes = npt.NDArray[np.int64]  # as Spark has them, and state files are sorted
Bools = npt.NDArray[np.bool_]

STATE_BUCKETS = 4096  # as many as a ring has in a plan, so that a bucket there is a bucket here


class Owners(NamedTuple):
    """Homes of buckets, and of the hot keys, sorted by hash."""

    workers: int
    buckets: npt.NDArray[np.int32]
    keys: Hashes
    homes: npt.NDArray[np.int32]

    @staticmethod
    def of(plan: Plan) -> Owners:
        """Return the owners of a plan that splits no key."""
        keys = plan.keys.view(np.int64)
        order = np.argsort(keys)
        return Owners(plan.workers, plan.buckets, keys[order], plan.homes[plan.starts[:-1]][order])

    def of_hashes(self, hashes: Hashes) -> npt.NDArray[np.int32]:
        """Return the owner of every hash.

        >>> owners = Owners(2, np.array([0, 1], np.int32), np.array([-5]), np.array([0], np.int32))
        >>> owners.of_hashes(np.array([1, -1, -5]))
        array([0, 1, 0], dtype=int32)
        """
        owner = self.buckets[bucket_of(hashes, self.buckets.size)]
        if self.keys.size:
            at = np.minimum(np.searchsorted(self.keys, hashes), self.keys.size - 1)
            owner = np.where(self.keys[at] == hashes, self.homes[at], owner)
        return owner

    def state_buckets(self, worker: int) -> Bools:
        """Return which buckets of the state may hold keys of a worker."""
        theirs = np.zeros(STATE_BUCKETS, np.bool_)
        mine = np.flatnonzero(self.buckets == worker)
        first = mine * STATE_BUCKETS // self.buckets.size
        last = ((mine + 1) * STATE_BUCKETS - 1) // self.buckets.size
        for offset in range(int((last - first).max(initial=-1)) + 1):
            theirs[np.minimum(first + offset, last)] = True
        theirs[bucket_of(self.keys[self.homes == worker], STATE_BUCKETS)] = True
        return theirs

    def moved_buckets(self, after: Owners) -> Bools:
        """Return the buckets of the state in which a key has another owner than ``after`` gives it."""
        sizes = (self.buckets.size, after.buckets.size, STATE_BUCKETS)
        begins = np.unique(np.concatenate([_begins(size) for size in sizes]))
        here, there, place = ((begins * size) >> 32 for size in sizes)
        moved = np.zeros(STATE_BUCKETS, np.bool_)
        moved[place[self.buckets[here] != after.buckets[there]]] = True
        apart = np.concatenate([self.keys, after.keys])
        apart = apart[self.of_hashes(apart) != after.of_hashes(apart)]
        moved[bucket_of(apart, STATE_BUCKETS)] = True
        return moved


def _begins(buckets: int) -> npt.NDArray[np.int64]:
    """Return the smallest upper 32 bits of each bucket."""
    return ((np.arange(buckets, dtype=np.int64) << 32) + buckets - 1) // buckets


def bucket_of(hashes: Hashes, buckets: int) -> npt.NDArray[np.int64]:
    """Return the bucket of every hash, as `evenflow.plan.bucket_of` does: its upper 32 bits, scaled."""
    upper = hashes.view(np.uint64) >> np.uint64(32)
    return ((upper * np.uint64(buckets)) >> np.uint64(32)).astype(np.int64)
