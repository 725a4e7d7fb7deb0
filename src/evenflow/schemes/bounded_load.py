"""Consistent hashing with bounded loads (Mirrokni et al.; `heterogeneous` 4.2): skip the full workers.

``worker`` = the owner of the first point clockwise from ``hash(key)`` whose load is below ``ceil((1 +
epsilon) * t / n)``, where t counts this message: none ever exceeds (1 + epsilon) of the average.

Left open by the paper: the number of points per worker. One, as in Mirrokni et al. and as the paper's
results for memory suggest; more replicas scatter a hot key's overflow over the ring and cost less memory.
When workers come or go, counting starts anew: a newcomer with a load of zero among lifetime counters would
get every message until it had caught up.

A walk over full workers is not repeated: inside a capacity step (:mod:`evenflow.schemes.load_cap`) a full
worker stays full, so each place remembers how far it was skipped (union-find with path halving).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, inlined, kernel
from evenflow.keys import mix
from evenflow.ring import Ring, build_ring, ring_next, ring_place
from evenflow.schemes.base import Router, RouterPlace, Scheme
from evenflow.schemes.consistent_hash import check_replicas, resized
from evenflow.schemes.load_cap import capacity_at, check_epsilon, last_of_step
from evenflow.schemes.registry import register


@register
@dataclass(frozen=True)
class BoundedLoad(Scheme):
    """Walk the ring to the first worker with room: at most (1 + epsilon) of the average anywhere.

    >>> router = BoundedLoad(epsilon=0.5).router(workers=4)
    >>> np.sort(np.bincount(router.route(np.zeros(1000, np.uint64)))).tolist()
    [0, 250, 375, 375]
    """

    epsilon: float = 0.01  # a worker takes at most (1 + epsilon) of the average
    replicas: int = 1  # points of a worker on the ring

    name = "bounded-load"
    aliases = ("chbl",)
    paper = "heterogeneous 4.2"
    summary = "a ring that skips workers above (1 + epsilon) of the average"
    needs_load = True
    rescales = True

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_replicas(self.replicas)

    def new_router(self, place: RouterPlace) -> BoundedLoadRouter:
        """Start consistent hashing with bounded loads at one source."""
        return BoundedLoadRouter(self, place)


class BoundedLoadState(NamedTuple):
    """Messages sent to each worker since the number of workers last changed, and before that."""

    filled: Int64Array
    earlier: Int64Array


class Skips(NamedTuple):
    """Of each place on the ring: where to go on from it, valid in one capacity step."""

    target: Int32Array
    step: Int64Array


class BoundedLoadRouter(Router):
    """Consistent hashing with bounded loads at one source."""

    scheme: BoundedLoad

    def __init__(self, scheme: BoundedLoad, place: RouterPlace):
        super().__init__(scheme, place)
        self.state = BoundedLoadState(np.zeros(place.workers, np.int64), np.zeros(place.workers, np.int64))
        self._build()

    @property
    def loads(self) -> Int64Array:
        """Messages this source has sent to each worker."""
        loads: Int64Array = self.state.filled + self.state.earlier
        return loads

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        epsilon = float(self.scheme.epsilon)
        _route(keys, out, self.state.filled, self.ring, self.skips, self.place.salt, epsilon)

    def _rescale(self, before: int) -> None:
        earlier = resized(self.loads, self.workers)
        self.state = BoundedLoadState(np.zeros(self.workers, np.int64), earlier)
        self._build()

    def _build(self) -> None:
        self.ring = build_ring(self.workers, self.place.salt, self.scheme.replicas)
        size = self.ring.points.size
        self.skips = Skips(np.zeros(size, np.int32), np.zeros(size, np.int64))


@kernel
def _route(
    keys: UInt64Array,
    out: Int32Array,
    filled: Int64Array,
    ring: Ring,
    skips: Skips,
    salt: np.uint64,
    epsilon: float,
) -> None:
    n = filled.size
    messages = filled.sum()
    last = messages
    capacity = 0
    for i in range(keys.size):
        messages += 1
        if messages > last:
            capacity = capacity_at(messages, n, epsilon)
            last = last_of_step(capacity, n, epsilon)
        place = _first_with_room(ring, ring_place(ring, mix(keys[i] ^ salt)), filled, capacity, skips)
        worker = ring.owners[place]
        filled[worker] += 1
        out[i] = worker


@inlined
def _first_with_room(ring: Ring, place: int, filled: Int64Array, capacity: int, skips: Skips) -> int:
    while filled[ring.owners[place]] >= capacity:
        if skips.step[place] != capacity:
            skips.step[place] = capacity
            skips.target[place] = ring_next(ring, place)
        following = skips.target[place]
        if skips.step[following] == capacity:  # full as well: point past it
            skips.target[place] = skips.target[following]
        place = following
    return place
