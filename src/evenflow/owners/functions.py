"""The next function from the last one, for every scheme that gives a key one owner.

A function is a :class:`~evenflow.plan.Plan` without splits: buckets (4096 or more, a power of two; cut into
halves when workers become many, so that no key moves by it) and keys that stand apart.

* ``explicit``: buckets are dealt by capacity, moving as few as that takes; the tracked keys are placed by
  scan, redist or readj from where they are (`functions` 4.2). The paper's consistent hash has a ring; buckets
  dealt evenly move what a ring moves and leave out its unevenness.
* ``fill`` (``split=False``): buckets and hot keys are settled, by what they bring.
* ``consistent-hash``: buckets are keys of a ring on which a worker has points by its capacity; no key stands
  apart.
* ``key``: one range of buckets for each worker, whatever they bring. Any other plannable one-owner scheme:
  its router is asked for each bucket.
* ``consistent`` (``allocation="key"``): as many buckets for each virtual worker; see
  :mod:`evenflow.owners.virtual`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int32Array, UInt64Array
from evenflow.plan import Plan, bucket_of, make_plan
from evenflow.plan.bin_packing import settle
from evenflow.plan.build import BUCKETS_PER_WORKER
from evenflow.plan.from_scheme import NOTHING, SMALLEST_RING, Counted, plan_for, with_owners
from evenflow.ring import build_ring
from evenflow.schemes.base import Scheme, list_schemes
from evenflow.schemes.consistent import ConsistentGrouping
from evenflow.schemes.consistent_hash import ConsistentHash, ConsistentHashRouter
from evenflow.schemes.cost_model import resource
from evenflow.schemes.explicit import Explicit
from evenflow.schemes.fill import Fill
from evenflow.schemes.key import Key
from evenflow.schemes.key_placement import place

_MOST_NAMED = 1000  # keys that fill lets stand apart, at least
_STAYS = 0.5  # of the weight that lets a key stand apart: below, it goes back to its bucket


class Functions(ABC):
    """Makes functions of one scheme; ``follows_load`` and ``follows_speed`` say what they depend on."""

    follows_load: ClassVar[bool] = False
    follows_speed: ClassVar[bool] = False

    def __init__(self, scheme: Scheme, seed: int):
        self.scheme = scheme
        self.seed = seed

    def first(self, workers: int) -> Plan:
        """Return the function to begin with, when nothing is known."""
        return self.following(
            with_owners(1, np.zeros(SMALLEST_RING, np.int32), NOTHING, np.zeros(0, np.int32), NOTHING),
            workers,
            NOTHING,
            np.ones(workers),
        )

    @abstractmethod
    def following(self, plan: Plan, workers: int, counted: Counted, shares: Float64Array) -> Plan:
        """Return the function after ``plan`` for what was counted and for workers of these capacities."""


def functions_of(scheme: Scheme, seed: int) -> Functions:
    """Return the maker for a scheme; one that splits keys is refused with a sentence."""
    if isinstance(scheme, Fill) and not scheme.split:
        return FillFunctions(scheme, seed)
    if isinstance(scheme, Explicit):
        return ExplicitFunctions(scheme, seed)
    if isinstance(scheme, ConsistentHash):
        return RingFunctions(scheme, seed)
    if isinstance(scheme, Fill | ConsistentGrouping):
        fix = "split=False" if isinstance(scheme, Fill) else 'allocation="key"'
        raise EvenflowError(f"{scheme} gives a key several workers; state has one owner, so add {fix}.")
    if scheme.splits_keys or not scheme.plannable:
        able = [name for name, kind in list_schemes().items() if kind.plannable and not kind.splits_keys]
        raise EvenflowError(
            f"{scheme.name} gives a key several workers; state has one owner: choose one of "
            f"{', '.join(able)}, fill with split=False, or consistent with allocation='key'."
        )
    return FixedFunctions(scheme, seed)


class FixedFunctions(Functions):
    """``key`` and schemes like it: the number of workers says it all."""

    def following(self, plan: Plan, workers: int, counted: Counted, shares: Float64Array) -> Plan:
        """Return what the scheme says for so many workers."""
        buckets = cut(plan.buckets, workers)
        if isinstance(self.scheme, Key):
            homes = (np.arange(buckets.size, dtype=np.int64) * workers // buckets.size).astype(np.int32)
            return with_owners(workers, homes, NOTHING, np.zeros(0, np.int32), counted)
        return plan_for(self.scheme, workers, counted, split=False, seed=self.seed, previous=plan)


class RingFunctions(Functions):
    """``consistent-hash``, with points by capacity."""

    follows_speed = True

    def following(self, plan: Plan, workers: int, counted: Counted, shares: Float64Array) -> Plan:
        """Return the owners of the buckets on the ring."""
        router = self.scheme.router(workers, self.seed)
        assert isinstance(self.scheme, ConsistentHash)
        assert isinstance(router, ConsistentHashRouter)
        if (shares != shares[0]).any():
            # the fastest has all its points and the others fewer: a worker that slows down only gives
            weights = shares / shares.max()
            router.ring = build_ring(workers, router.place.salt, self.scheme.replicas, weights)
        homes = router.route(np.arange(cut(plan.buckets, workers).size, dtype=np.uint64))
        return with_owners(workers, homes, NOTHING, np.zeros(0, np.int32), counted)


class FillFunctions(Functions):
    """``fill`` without splitting: settled from where everything is."""

    follows_load = True
    follows_speed = True

    def following(self, plan: Plan, workers: int, counted: Counted, shares: Float64Array) -> Plan:
        """Settle buckets and hot keys."""
        assert isinstance(self.scheme, Fill)
        plan = with_buckets(plan, cut(plan.buckets, workers))
        total = counted.total or 1.0
        least = self.scheme.epsilon / 2 / workers * total
        apart = plan.homes != plan.buckets[bucket_of(plan.keys, plan.buckets.size)]
        was_apart = np.isin(counted.keys, plan.keys[apart])
        named = (counted.counts >= least) | (was_apart & (counted.counts >= _STAYS * least))
        chosen = np.flatnonzero(named)[: max(_MOST_NAMED, 10 * workers)]
        return make_plan(
            workers,
            counted.keys[chosen],
            counted.counts[chosen],
            total,
            counted.buckets if counted.buckets is not None else None,
            shares=shares,
            split=False,
            tolerance=self.scheme.epsilon / 2,
            previous=plan,
        )


class ExplicitFunctions(Functions):
    """``explicit``: hot keys by scan, redist or readj, the rest dealt evenly."""

    follows_load = True
    follows_speed = True

    def following(self, plan: Plan, workers: int, counted: Counted, shares: Float64Array) -> Plan:
        """Deal the buckets, then place the tracked keys."""
        scheme = self.scheme
        assert isinstance(scheme, Explicit)
        costs = scheme.costs
        buckets = dealt(cut(plan.buckets, workers), shares)
        frequencies = counted.counts / (counted.total or 1.0)
        chosen = costs.tracked(frequencies, workers, scheme.epsilon(workers))
        chosen = chosen[np.lexsort((counted.keys[chosen], -frequencies[chosen]))]
        keys, tracked = counted.keys[chosen], frequencies[chosen]
        gone = np.setdiff1d(plan.keys, keys)
        gone_costs = resource(costs.resources[0], frequency_of(gone, counted.keys, frequencies))
        gone_new = buckets[bucket_of(gone, buckets.size)]
        state = resource(costs.resources[0], tracked)
        homes = place(
            scheme.algorithm,
            scheme.utility,
            costs,
            workers,
            tracked,
            owners(plan, keys),
            buckets[bucket_of(keys, buckets.size)],
            moved=math.fsum(gone_costs[owners(plan, gone) != gone_new]),
            ideal=(math.fsum(state) + math.fsum(gone_costs)) / workers,
            shares=shares,
        )
        return with_owners(workers, buckets, Counted(keys, counted.counts[chosen]), homes, counted)


def owners(plan: Plan, keys: UInt64Array) -> Int32Array:
    """Return the one owner of every key hash."""
    return plan.route(keys, np.zeros(keys.size))


def cut(buckets: Int32Array, workers: int) -> Int32Array:
    """Return buckets that are enough for the workers: cut into halves, which stay where they were."""
    while buckets.size < BUCKETS_PER_WORKER * workers:
        buckets = np.repeat(buckets, 2)
    return buckets


def dealt(buckets: Int32Array, shares: Float64Array) -> Int32Array:
    """Return owners of buckets in proportion to the shares, within one bucket; as few move as can.

    >>> dealt(np.zeros(6, np.int32), np.array([2.0, 1.0])).tolist()
    [1, 1, 0, 0, 0, 0]
    """
    return settle(np.ones(buckets.size), buckets, shares, tolerance=0.0)


def with_buckets(plan: Plan, buckets: Int32Array) -> Plan:
    """Return the plan with its buckets cut finer."""
    if buckets.size == plan.buckets.size:
        return plan
    return Plan(
        plan.workers, buckets, plan.keys, plan.weights, plan.starts, plan.homes, plan.parts, plan.expected
    )


def frequency_of(wanted: UInt64Array, keys: UInt64Array, frequencies: Float64Array) -> Float64Array:
    """Return the frequencies of the ``wanted`` keys; 0 where one is not known."""
    if not keys.size:
        return np.zeros(wanted.size)
    order = np.argsort(keys)
    at = order[np.minimum(np.searchsorted(keys[order], wanted), keys.size - 1)]
    return np.where(keys[at] == wanted, frequencies[at], 0.0)
