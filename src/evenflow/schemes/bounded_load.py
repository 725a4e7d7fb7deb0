"""Consistent hashing with bounded loads (Mirrokni et al.; `heterogeneous` 4.2): skip the full workers.

``worker`` = the owner of the first point clockwise from ``hash(key)`` whose load is below ``ceil((1 +
epsilon) * t / n)``, where t includes this message: no load ever exceeds (1 + epsilon) of the average.

Not specified by the paper: the number of points per worker. It is one here, as in Mirrokni et al. and as the
paper's memory results suggest; more replicas scatter a hot key's overflow over the ring and cost less memory.
When the number of workers changes, loads are reset: a new worker with a load of zero among lifetime counters
would get every message until it had caught up.

A walk over full workers is not repeated: within a capacity step (:mod:`evenflow.schemes.load_cap`) a full
worker stays full, so each position on the ring remembers how far to skip (union-find with path halving).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, inlined, kernel
from evenflow.keys import mix
from evenflow.ring import Ring, build_ring, ring_next, ring_position
from evenflow.schemes.base import Router, RouterPlace, Scheme
from evenflow.schemes.consistent_hash import check_replicas, resized
from evenflow.schemes.load_cap import capacity_at, check_epsilon, last_of_step
from evenflow.schemes.registry import register


@register
@dataclass(frozen=True)
class BoundedLoad(Scheme):
    """Walk the ring to the first worker with room: no load exceeds (1 + epsilon) of the average.

    Parameters
    ----------
    epsilon
        A worker takes at most (1 + epsilon) of the average load.
    replicas
        Number of points of a worker on the ring.

    Examples
    --------
    >>> router = BoundedLoad(epsilon=0.5).router(workers=4)
    >>> np.sort(np.bincount(router.route(np.zeros(1000, np.uint64)))).tolist()
    [0, 250, 375, 375]

    References
    ----------
    Nasir et al., *Load Balancing for Skewed Streams on Heterogeneous Cluster* (2017), section 4.2.
    """

    epsilon: float = 0.01
    replicas: int = 1

    name = "bounded-load"
    aliases = ("chbl",)
    paper = "heterogeneous 4.2"
    summary = "a ring that skips workers above (1 + epsilon) of the average"
    needs_load = True
    learns = True
    rescales = True

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_replicas(self.replicas)

    def new_router(self, place: RouterPlace) -> BoundedLoadRouter:
        """Return a router for consistent hashing with bounded loads."""
        return BoundedLoadRouter(self, place)


class BoundedLoadState(NamedTuple):
    """Messages sent to each worker since the number of workers last changed, and before that."""

    filled: Int64Array
    earlier: Int64Array


class Skips(NamedTuple):
    """For each position on the ring, where to continue; valid within one capacity step."""

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
        """Messages sent by this source to each worker."""
        loads: Int64Array = self.state.filled + self.state.earlier
        return loads if self.carried is None else loads - self.carried

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        epsilon = float(self.scheme.epsilon)
        _route(keys, out, self.state.filled, self.ring, self.skips, self.place.salt, epsilon)

    @property
    def _decided_by(self) -> Int64Array:
        return self.state.filled

    def _rescale(self, before: int) -> None:
        earlier = resized(self.loads, self.workers)
        self.carried = None
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
        position = _first_with_room(ring, ring_position(ring, mix(keys[i] ^ salt)), filled, capacity, skips)
        worker = ring.owners[position]
        filled[worker] += 1
        out[i] = worker


@inlined
def _first_with_room(ring: Ring, position: int, filled: Int64Array, capacity: int, skips: Skips) -> int:
    while filled[ring.owners[position]] >= capacity:
        if skips.step[position] != capacity:
            skips.step[position] = capacity
            skips.target[position] = ring_next(ring, position)
        following = skips.target[position]
        if skips.step[following] == capacity:  # full as well: point past it
            skips.target[position] = skips.target[following]
        position = following
    return position
