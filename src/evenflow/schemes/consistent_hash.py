"""Consistent hashing (Karger et al.; `heterogeneous` 4.2): the owner of the next point on a ring.

``worker = owner(first point >= hash(key))`` on the ring of :mod:`evenflow.ring`. When a worker joins or
leaves, about 1/n of the keys move, all of them to or from that worker.

Not specified by the paper: the number of points per worker, here 1000 replicas as in `functions` 5.2. The
key's hash is the first of the family in :mod:`evenflow.keys`. The ring is determined by the seed and the
number of workers, so it is not part of the saved state.
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
    """Give every key one owner; few keys move when workers join or leave, and a hot key overloads its owner.

    Parameters
    ----------
    replicas
        Number of points of a worker on the ring.

    Examples
    --------
    >>> router = ConsistentHash().router(workers=4)
    >>> keys = np.arange(1000, dtype=np.uint64)
    >>> before = router.route(keys)
    >>> router.rescale(5)
    >>> after = router.route(keys)
    >>> set(after[before != after].tolist())
    {4}

    References
    ----------
    Nasir et al., *Load Balancing for Skewed Streams on Heterogeneous Cluster* (2017), section 4.2.
    """

    replicas: int = 1000

    name = "consistent-hash"
    aliases = ("ch",)
    paper = "heterogeneous 4.2"
    summary = "a ring: one worker per key; few keys move when workers join or leave"
    splits_keys = False
    plannable = True
    rescales = True

    def __post_init__(self) -> None:
        check_replicas(self.replicas)

    def new_router(self, place: RouterPlace) -> ConsistentHashRouter:
        """Return a router for consistent hashing."""
        return ConsistentHashRouter(self, place)

    def owner_plans(self, seed: int) -> OwnerPlans:
        """Return the planner for keyed state: the ring, with points by capacity."""
        return RingPlans(self, seed)


def check_replicas(replicas: int) -> None:
    """Raise an error unless the number of points per worker is valid."""
    good = isinstance(replicas, int) and 1 <= replicas <= 10**6
    check("replicas", replicas, good, "use a whole number of points per worker, 1 to 10**6")


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
    """Buckets are placed on a ring where a worker has points by its capacity; no key is named."""

    follows_speed = True
    scheme: ConsistentHash

    def following(self, plan: Plan, workers: int, counted: Counted, shares: Float64Array) -> Plan:
        """Return the owners of the buckets on the ring."""
        router = ConsistentHashRouter(self.scheme, RouterPlace(workers, self.seed, source=0, sources=1))
        if (shares != shares[0]).any():
            # the fastest has all its points, the others fewer: a worker that slows down only loses buckets
            weights = shares / shares.max()
            router.ring = build_ring(workers, router.place.salt, self.scheme.replicas, weights)
        buckets = np.arange(enough_buckets(plan.buckets, workers).size, dtype=np.uint64)
        return one_owner_plan(workers, router.route(buckets), counted)


def resized(loads: Array, workers: int) -> Array:
    """Return the values of the workers that stay, with zeros for those that join."""
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
