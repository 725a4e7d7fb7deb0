"""Consistent hashing (Karger et al.; `heterogeneous` 4.2): the owner of the next point on a ring.

``worker = owner(first point >= hash(key))`` on the ring of :mod:`evenflow.ring`; when a worker joins or
leaves, about 1/n of the keys move, all of them to it or from it.

Left open by the paper: the number of points per worker. Ours is that of `functions` 5.2, 1000 replicas. The
key's hash is the first of the family in :mod:`evenflow.keys`. The ring follows from the seed and the number
of workers, so it is not part of the saved state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenflow.blob import Array
from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, kernel
from evenflow.keys import mix
from evenflow.plan import Plan
from evenflow.plan.counted import Counted
from evenflow.plan.one_owner import enough_buckets, one_owner_plan
from evenflow.ring import Ring, build_ring, ring_lookup
from evenflow.schemes.base import Router, RouterPlace, Scheme, check
from evenflow.schemes.owner_plans import OwnerPlans
from evenflow.schemes.registry import register


@register
@dataclass(frozen=True)
class ConsistentHash(Scheme):
    """One owner per key, and few keys move when workers come and go; a hot key's owner is overloaded.

    >>> router = ConsistentHash().router(workers=4)
    >>> keys = np.arange(1000, dtype=np.uint64)
    >>> before = router.route(keys)
    >>> router.rescale(5)
    >>> after = router.route(keys)
    >>> set(after[before != after].tolist())
    {4}
    """

    replicas: int = 1000  # points of a worker on the ring

    name = "consistent-hash"
    aliases = ("ch",)
    paper = "heterogeneous 4.2"
    summary = "a ring: one worker per key, few keys move when workers come and go"
    splits_keys = False
    plannable = True
    rescales = True

    def __post_init__(self) -> None:
        check_replicas(self.replicas)

    def new_router(self, place: RouterPlace) -> ConsistentHashRouter:
        """Start consistent hashing at one source."""
        return ConsistentHashRouter(self, place)

    def owner_plans(self, seed: int) -> OwnerPlans:
        """Return what plans for keyed state: the ring, with points by capacity."""
        return RingPlans(self, seed)


def check_replicas(replicas: int) -> None:
    """Refuse a number of points per worker that is not one."""
    good = isinstance(replicas, int) and 1 <= replicas <= 10**6
    check("replicas", replicas, good, "it is the number of points per worker, a whole number from 1 to 10**6")


class ConsistentHashState(NamedTuple):
    """Messages sent to each worker."""

    loads: Int64Array


class ConsistentHashRouter(Router):
    """Consistent hashing at one source."""

    scheme: ConsistentHash

    def __init__(self, scheme: ConsistentHash, place: RouterPlace):
        super().__init__(scheme, place)
        self.state = ConsistentHashState(np.zeros(place.workers, np.int64))
        self.ring = build_ring(place.workers, place.salt, scheme.replicas)

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        _route(keys, out, self.state, self.ring, self.place.salt)

    def _rescale(self, before: int) -> None:
        self.state = ConsistentHashState(resized(self.state.loads, self.workers))
        self.ring = build_ring(self.workers, self.place.salt, self.scheme.replicas)


class RingPlans(OwnerPlans):
    """Buckets are keys of a ring on which a worker has points by its capacity; no key is named."""

    follows_speed = True
    scheme: ConsistentHash

    def following(self, plan: Plan, workers: int, counted: Counted, shares: Float64Array) -> Plan:
        """Return the owners of the buckets on the ring."""
        router = ConsistentHashRouter(self.scheme, RouterPlace(workers, self.seed, source=0, sources=1))
        if (shares != shares[0]).any():
            # the fastest has all its points and the others fewer: a worker that slows down only gives
            weights = shares / shares.max()
            router.ring = build_ring(workers, router.place.salt, self.scheme.replicas, weights)
        buckets = np.arange(enough_buckets(plan.buckets, workers).size, dtype=np.uint64)
        return one_owner_plan(workers, router.route(buckets), counted)


def resized(loads: Array, workers: int) -> Array:
    """Return the values of the workers that stay, and zeros for those that join."""
    result = np.zeros(workers, loads.dtype)
    stay = min(workers, loads.size)
    result[:stay] = loads[:stay]
    return result


@kernel
def _route(
    keys: UInt64Array, out: Int32Array, state: ConsistentHashState, ring: Ring, salt: np.uint64
) -> None:
    for i in range(keys.size):
        worker = ring_lookup(ring, mix(keys[i] ^ salt))
        state.loads[worker] += 1
        out[i] = worker
