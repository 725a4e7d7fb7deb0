"""Fill without splitting, ``fill(split=False)``: every key has one owner, which changes only between epochs.

Tail keys belong to buckets, hot keys to a bounded map; both are units for
:func:`evenflow.plan.bin_packing.settle`. The first epoch has 10 messages per worker, and the length doubles
up to the horizon. At the end of an epoch, units are weighed by their messages in it, and workers give units
away if they exceed their share by more than epsilon and by more than chance explains (two standard deviations
of their count). Nothing moves away from a worker that is not overloaded. When workers join and there are too
few buckets, every bucket is split in half, and both halves keep its owner.

Several sources must agree on a key's owner, so none of them moves anything on its own: :class:`OneOwner` adds
up their counts and gives all of them the same owners.

:class:`FillPlans` settles the same units for keyed state, from counts instead of a router.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, kernel
from evenflow.keys import mix, to_range
from evenflow.plan import Plan, bucket_of, make_plan
from evenflow.plan.bin_packing import settle
from evenflow.plan.counted import Counted
from evenflow.plan.one_owner import with_enough_buckets
from evenflow.schemes.base import Router, RouterPlace, WorkerReport, as_hashes
from evenflow.schemes.coordination import Coordinator
from evenflow.schemes.fill import CAPACITY_CHANGE, capacity_shares
from evenflow.schemes.owner_plans import OwnerPlans
from evenflow.sketches.space_saving import Counters, SpaceSaving, count_key, new_counters, top_counters
from evenflow.sketches.table import KeyTable, new_table, table_find, table_insert

if TYPE_CHECKING:
    from evenflow.schemes.fill import Fill

BUCKETS = 64  # per worker
FIRST_EPOCH = 10  # messages per worker
HOT_PART = 0.25  # of a bucket's average weight: lighter keys stay in their bucket
DEVIATIONS = 2.0
MOST_NAMED = 1000  # keys with an owner of their own in a plan, or 10 per worker if that is more
STAYS = 0.5  # of the weight from which a key gets its own owner: below, it returns to its bucket


class OwnerState(NamedTuple):
    """Everything that a router of ``fill(split=False)`` remembers."""

    loads: Int64Array
    shares: Float64Array
    buckets: Int32Array
    brought: Int64Array  # messages of each bucket in this epoch, without hot keys
    owned: KeyTable  # hot keys; a slot is the owner itself
    counters: Counters
    epoch: Int64Array  # [messages left, length]


class OwnerRouter(Router):
    """Fill at one source, one owner per key."""

    scheme: Fill
    state: OwnerState

    def __init__(self, scheme: Fill, place: RouterPlace):
        super().__init__(scheme, place)
        n = place.workers
        self.state = OwnerState(
            loads=np.zeros(n, np.int64),
            shares=np.ones(n),
            buckets=np.repeat(np.arange(n, dtype=np.int32), BUCKETS),
            brought=np.zeros(BUCKETS * n, np.int64),
            owned=new_table(self._hot_keys()),
            counters=new_counters(self._hot_keys()),
            epoch=np.full(2, FIRST_EPOCH * n, np.int64),
        )

    def _hot_keys(self) -> int:
        return max(1000, 10 * self.workers)

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        if self.place.sources > 1:
            _route(keys, out, self.state, self.place.salt)
            return
        start = 0
        while start < keys.size:
            stop = min(keys.size, start + int(self.state.epoch[0]))
            _route(keys[start:stop], out[start:stop], self.state, self.place.salt)
            self.state.epoch[0] -= stop - start
            if self.state.epoch[0] == 0:
                self.end_epoch()
            start = stop

    def lookup(self, keys: Any) -> Int32Array:
        """Return the current owner of each key, without changing the router."""
        hashed = as_hashes(keys)
        owners = _owners_of(self.state.owned, hashed)
        homes = self.state.buckets[_buckets_of(hashed, self.state.buckets.size, self.place.salt)]
        return np.where(owners >= 0, owners, homes).astype(np.int32)

    def end_epoch(self) -> None:
        """Relieve overloaded workers, and start an epoch of twice the length."""
        epoch = self.state.epoch
        self._settle(self.scheme.epsilon + DEVIATIONS / np.sqrt(epoch[1] / self.workers))
        epoch[:] = min(2 * int(epoch[1]), self.scheme.horizon * self.workers)
        self.forget_counts()

    def agree_with(self, other: OwnerRouter) -> None:
        """Take over the owners of another source of the same run."""
        self.state.buckets[:] = other.state.buckets
        self.state.epoch[:] = other.state.epoch
        owned = KeyTable(other.state.owned.keys.copy(), other.state.owned.slots.copy())
        self.state = self.state._replace(owned=owned)

    def forget_counts(self) -> None:
        """Reset all counts."""
        self.state.brought[:] = 0
        self.state = self.state._replace(counters=new_counters(self._hot_keys()))

    def _learn(self, others: Sequence[OwnerRouter], share: float) -> None:
        """Take over the owners and add up the counts; several sources' epoch ends here, if it is over."""
        first = others[0]
        self.agree_with(first)
        counters = [SpaceSaving.over(other.state.counters) for other in others]
        merged = SpaceSaving.merged(counters, self._hot_keys())
        brought = sum(other.state.brought for other in others)
        self.state = self.state._replace(
            shares=first.state.shares.copy(),
            brought=np.ceil(share * brought).astype(np.int64),
            counters=merged.scaled(share).counters,
        )
        if first.place.sources > 1:
            self.state.epoch[0] -= sum(other.routed for other in others)
            if self.state.epoch[0] <= 0:
                self.end_epoch()

    def _settle(self, tolerance: float) -> None:
        """Weigh the units by their messages in this epoch, and let overloaded workers give some away."""
        state = self.state
        keys, counts, errors = top_counters(state.counters)
        sure = (counts - errors).astype(np.float64)
        buckets = _buckets_of(keys, state.buckets.size, self.place.salt)
        before = _owners_of(state.owned, keys)
        weight = state.brought + 0.5  # a bucket without messages still has keys
        light = HOT_PART * weight.mean()
        hot = (before >= 0) | (sure > light)
        keys, sure, buckets, before = keys[hot], sure[hot], buckets[hot], before[hot]
        fresh = before < 0
        np.subtract.at(weight, buckets[fresh], sure[fresh])
        owners = np.where(fresh, state.buckets[buckets], before)
        units = settle(
            np.concatenate([sure, np.maximum(weight, 0.0)]),
            np.concatenate([owners, state.buckets]),
            state.shares,
            tolerance,
        )
        hot_owners, state.buckets[:] = units[: keys.size], units[keys.size :]
        separate = hot_owners != state.buckets[buckets]  # a key with its bucket's owner needs no entry
        owned = new_table(self._hot_keys())
        _own(owned, keys[separate], hot_owners[separate])
        self.state = state._replace(owned=owned)

    def report(self, report: WorkerReport) -> None:
        """Follow the workers' capacities; small changes are ignored as noise."""
        shares = capacity_shares(report, self.workers)
        if shares is not None and np.abs(shares / self.state.shares - 1).max() > CAPACITY_CHANGE:
            self.state.shares[:] = shares
            self._settle(self.scheme.epsilon)

    def _rescale(self, before: int) -> None:
        state, n = self.state, self.workers
        buckets, brought = state.buckets, state.brought
        while buckets.size < BUCKETS * n:  # the halves of a bucket are adjacent: no key changes its owner
            buckets, brought = np.repeat(buckets, 2), np.repeat(brought, 2) // 2
        self.state = state._replace(
            buckets=buckets,
            brought=brought,
            loads=state.loads[:n].copy() if n < before else np.pad(state.loads, (0, n - before)),
            shares=state.shares[:n].copy()
            if n < before
            else np.pad(state.shares, (0, n - before), constant_values=1.0),
        )
        self._settle(self.scheme.epsilon)


class OneOwner(Coordinator):
    """Several sources that settle together: at the end of an epoch, and when workers join or leave."""

    routers: Sequence[OwnerRouter]

    def __init__(self, routers: Sequence[Any]):
        super().__init__(routers)
        self._next = int(self.routers[0].state.epoch[1])

    @property
    def next_message(self) -> int:
        """The message before which the epoch ends."""
        return self._next

    def before(self, message: int) -> None:
        """End the epoch of all sources: the same owners for all, from their combined counts."""
        self._collect_counts()
        self.routers[0].end_epoch()
        self._share_owners()
        self._next = message + int(self.routers[0].state.epoch[1])

    def rescale(self, workers: int) -> None:
        """Change the number of workers; all sources take over the owners found from all counts."""
        self._collect_counts()
        super().rescale(workers)
        self._share_owners()

    def _collect_counts(self) -> None:
        first, *others = self.routers
        merged = SpaceSaving.merged([SpaceSaving.over(router.state.counters) for router in self.routers])
        first.state = first.state._replace(
            brought=sum((router.state.brought for router in others), first.state.brought),
            counters=merged.counters,
        )

    def _share_owners(self) -> None:
        first, *others = self.routers
        for router in others:
            router.agree_with(first)
            router.forget_counts()


class FillPlans(OwnerPlans):
    """Buckets and hot keys, settled by their rows, starting from their current owners."""

    follows_speed = True
    scheme: Fill

    def following(self, plan: Plan, workers: int, counted: Counted, shares: Float64Array) -> Plan:
        """Settle buckets and hot keys."""
        plan = with_enough_buckets(plan, workers)
        total = counted.total or 1.0
        least = self.scheme.epsilon / 2 / workers * total
        separate = plan.keys[plan.homes != plan.buckets[bucket_of(plan.keys, plan.buckets.size)]]
        stays = np.isin(counted.keys, separate) & (counted.counts >= STAYS * least)
        named = (counted.counts >= least) | stays
        chosen = np.flatnonzero(named)[: max(MOST_NAMED, 10 * workers)]
        return make_plan(
            workers,
            counted.keys[chosen],
            counted.counts[chosen],
            total,
            counted.buckets,
            shares=shares,
            split=False,
            tolerance=self.scheme.epsilon / 2,
            previous=plan,
        )


def _owners_of(owned: KeyTable, keys: UInt64Array) -> Int32Array:
    found = np.empty(keys.size, np.int32)
    _find(owned, keys, found)
    return found


def _buckets_of(keys: UInt64Array, buckets: int, salt: np.uint64) -> Int32Array:
    found = np.empty(keys.size, np.int32)
    _find_buckets(keys, buckets, salt, found)
    return found


@kernel
def _find(owned: KeyTable, keys: UInt64Array, out: Int32Array) -> None:
    for i in range(keys.size):
        out[i] = table_find(owned, keys[i])


@kernel
def _find_buckets(keys: UInt64Array, buckets: int, salt: np.uint64, out: Int32Array) -> None:
    for i in range(keys.size):
        out[i] = to_range(mix(keys[i] ^ salt), buckets)


@kernel
def _own(owned: KeyTable, keys: UInt64Array, owners: Int32Array) -> None:
    for i in range(keys.size):
        table_insert(owned, keys[i], owners[i])


@kernel
def _route(keys: UInt64Array, out: Int32Array, state: OwnerState, salt: np.uint64) -> None:
    for i in range(keys.size):
        key = keys[i]
        count_key(state.counters, key)
        worker = table_find(state.owned, key)
        if worker < 0:
            bucket = to_range(mix(key ^ salt), state.buckets.size)
            state.brought[bucket] += 1
            worker = state.buckets[bucket]
        state.loads[worker] += 1
        out[i] = worker
