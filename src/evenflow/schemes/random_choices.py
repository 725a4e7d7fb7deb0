"""Power of Random Choices, PoRC (`heterogeneous` 5.1): a key's first choice with spare capacity.

``worker = candidate(key, j)`` for the lowest j whose load is below ``ceil((1 + epsilon) * t / n)``, where t
includes this message. The imbalance is therefore at most epsilon m/n (plus rounding), and hot keys overflow
to as few workers as necessary; if epsilon > 1/(n - 1), no key is on all workers.

Not specified by the paper: it assumes infinitely many hashes. Here a key has 4 n of them (independent salts
of the family in :mod:`evenflow.keys`, which may repeat a worker), followed by the workers in sequence after
its first choice. Falling back to the least loaded worker would break the guarantee above: 4 n hashes miss
e^-4 of the workers, and a key that has filled all others would reach each of those in turn (with n = 100,
epsilon = 1.01 / (n - 1) and all messages of one key, it reached all 100 workers for 4 of 10 seeds).

A hot key does not repeat the walk along its choices: within a capacity step
(:mod:`evenflow.schemes.load_cap`) a full worker stays full, so the search starts where the key last found
room. A small cache holds these positions; it saves time and does not affect decisions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, inlined, kernel
from evenflow.keys import candidate, mix, to_range
from evenflow.schemes.base import Router, RouterPlace, Scheme
from evenflow.schemes.load_cap import capacity_at, check_epsilon, last_of_step
from evenflow.schemes.registry import register

TRIES = 4  # times the number of workers


@register
@dataclass(frozen=True)
class RandomChoices(Scheme):
    """Try a key's hashes in order until a worker has room: no load exceeds (1 + epsilon) of the average.

    Parameters
    ----------
    epsilon
        A worker takes at most (1 + epsilon) of the average load.

    Examples
    --------
    >>> router = RandomChoices(epsilon=0.5).router(workers=4)
    >>> np.sort(np.bincount(router.route(np.zeros(1000, np.uint64)))).tolist()
    [0, 250, 375, 375]

    References
    ----------
    Nasir et al., *Load Balancing for Skewed Streams on Heterogeneous Cluster* (2017), section 5.1.
    """

    epsilon: float = 0.01

    name = "random-choices"
    aliases = ("porc",)
    paper = "heterogeneous 5.1"
    summary = "rehash while the worker is above (1 + epsilon) of the average"
    needs_load = True
    learns = True

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    def new_router(self, place: RouterPlace) -> RandomChoicesRouter:
        """Return a router for PoRC."""
        return RandomChoicesRouter(self, place)


class RandomChoicesState(NamedTuple):
    """Messages sent to each worker."""

    loads: Int64Array


class Cache(NamedTuple):
    """The choice at which keys last found room, and in which capacity step; does not affect decisions."""

    keys: UInt64Array
    step: Int64Array
    choice: Int64Array


def new_cache(bins: int) -> Cache:
    """Return an empty cache for ``bins`` workers, with more slots than a capacity step has messages."""
    size = max(1024, 2 << (bins - 1).bit_length())
    return Cache(np.zeros(size, np.uint64), np.zeros(size, np.int64), np.zeros(size, np.int64))


class RandomChoicesRouter(Router):
    """PoRC at one source."""

    scheme: RandomChoices

    def __init__(self, scheme: RandomChoices, place: RouterPlace):
        super().__init__(scheme, place)
        self.state = RandomChoicesState(np.zeros(place.workers, np.int64))
        self.cache = new_cache(place.workers)

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        _route(keys, out, self.state.loads, self.cache, self.place.salt, float(self.scheme.epsilon))


@kernel
def _route(
    keys: UInt64Array,
    out: Int32Array,
    loads: Int64Array,
    cache: Cache,
    salt: np.uint64,
    epsilon: float,
) -> None:
    n = loads.size
    messages = loads.sum()
    last = messages
    capacity = 0
    for i in range(keys.size):
        messages += 1
        if messages > last:
            capacity = capacity_at(messages, n, epsilon)
            last = last_of_step(capacity, n, epsilon)
        key = keys[i]
        hashed = mix(key ^ salt)
        worker = to_range(hashed, n)
        if loads[worker] >= capacity:
            worker = _overflow(key, hashed, loads, capacity, cache, salt)
        loads[worker] += 1
        out[i] = worker


@inlined
def _overflow(
    key: np.uint64, hashed: np.uint64, loads: Int64Array, capacity: int, cache: Cache, salt: np.uint64
) -> int:
    """Return the first choice of ``key`` with room after the first one, which ``hashed`` gave."""
    n = loads.size
    slot = np.int64(hashed) & (cache.keys.size - 1)
    choice = 1
    if cache.step[slot] == capacity and cache.keys[slot] == key:
        choice = cache.choice[slot]
    while True:
        if choice < TRIES * n:
            worker = candidate(key, choice, salt, n)
        else:
            worker = (to_range(hashed, n) + choice - TRIES * n + 1) % n
        if loads[worker] < capacity:
            break
        choice += 1
    if cache.step[slot] != capacity or cache.keys[slot] == key or cache.choice[slot] < choice:
        cache.step[slot] = capacity  # of two keys that share a slot, the one with the longer walk keeps it
        cache.keys[slot] = key
        cache.choice[slot] = choice
    return worker
