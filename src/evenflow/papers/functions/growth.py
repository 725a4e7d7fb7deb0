"""What `functions` measures: partitioning functions that grow from one worker on, one worker at a time (5.1).

Keys are integers whose frequencies follow Zipf's law exactly; every run has keys of its own, so that all
hashes differ. scan, redist and readj are given the frequencies of the keys they may track: these figures are
about the function, not the counters. Schemes that learn from messages (fill, or a user's) see 20,000 per
worker after every step. Migration is what the last step moved, imbalance what stands after it, over all keys.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Any, NamedTuple, cast

import numpy as np

import evenflow as ef
from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array
from evenflow.papers.experiment import Row
from evenflow.ring import build_ring
from evenflow.schemes.base import Router
from evenflow.schemes.cost_model import Costs, resource
from evenflow.schemes.explicit import Explicit, ExplicitRouter
from evenflow.schemes.key_placement import ALGORITHMS, place
from evenflow.sketches.lossy_counting import LossyCounting
from evenflow.streams.sampling import zipf_weights
from evenflow.streams.zipf import Zipf

UNIFORM = "uniform"  # hash modulo n
ALPHA = 1.2
REPLICAS, RING_BUCKETS = 1000, 100
_CHUNK = 10**6
_SEEN = 20_000  # messages per worker between two steps, for schemes that learn from them
_LOOKS = 37  # at the size of a counter, over half a window
_SLACK = 0.1  # keys are tracked from delta - epsilon on, epsilon being 0.1 delta
_PARAMETERS: dict[str, dict[str, Any]] = {"fill": {"split": False}}


@dataclass(frozen=True)
class Workload:
    """Keys of one run and how frequent they are."""

    domain: int = 10**6
    z: float = 1.0
    seed: int = 0

    @cached_property
    def whole(self) -> float:
        """The sum of ``rank ** -z``."""
        return float(sum(self._weights(start).sum() for start in range(0, self.domain, _CHUNK)))

    def _weights(self, start: int) -> Float64Array:
        stop = min(self.domain, start + _CHUNK)
        return np.arange(start + 1, stop + 1, dtype=np.float64) ** -self.z

    def keys(self, ids: Int64Array | Int32Array) -> UInt64Array:
        """Return the hashes of keys of the ranks ``ids`` + 1."""
        return ef.hash_keys(ids.astype(np.int64) + self.seed * 10**9)

    def chunks(self) -> Iterator[tuple[UInt64Array, Float64Array]]:
        """Yield all keys and their frequencies, most frequent first."""
        for start in range(0, self.domain, _CHUNK):
            weights = self._weights(start)
            yield self.keys(np.arange(start, start + weights.size)), weights / self.whole

    def top(self, least: float) -> tuple[UInt64Array, Float64Array]:
        """Return the keys of frequency ``least`` or more."""
        count = min(self.domain, int((least * self.whole) ** (-1 / self.z)) + 1)
        frequencies = zipf_weights(count, self.z) / self.whole
        chosen = np.flatnonzero(frequencies >= least)
        return self.keys(chosen), frequencies[chosen]

    def messages(self, count: int, at_once: int) -> Iterator[UInt64Array]:
        """Draw ``count`` messages, ``at_once`` at a time."""
        stream = Zipf(z=self.z, keys=self.domain, messages=count, seed=self.seed)
        return (self.keys(chunk.ids) for chunk in stream.chunks(at_once))


class Function(NamedTuple):
    """A partitioning function, and how many keys it maps one by one."""

    lookup: Callable[[UInt64Array], Int32Array]
    mapped: int


def grown(approach: str, workers: int, load: Workload, costs: Costs, utility: str = "APM") -> list[Function]:
    """Return the functions for 1, 2, ... ``workers``, each made from the one before."""
    if approach == UNIFORM:
        return [Function(partial(_modulo, n), 0) for n in range(1, workers + 1)]
    if approach in ALGORITHMS:
        return _grown_map(approach, workers, load, costs, utility)
    return _grown_scheme(approach, workers, load)


def _modulo(n: int, keys: UInt64Array) -> Int32Array:
    return (keys % np.uint64(n)).astype(np.int32)


def _grown_map(algorithm: str, workers: int, load: Workload, costs: Costs, utility: str) -> list[Function]:
    scheme = Explicit(
        algorithm, costs.resources, costs.alphas, costs.sigma, utility, costs.domain, counting=False
    )
    router = cast(ExplicitRouter, scheme.router(1, load.seed))
    keys, frequencies = load.top(_least_tracked(costs, workers))
    functions = []
    for n in range(1, workers + 1):
        router.rescale(n, keys, frequencies, total=1.0)
        functions.append(Function(copy.deepcopy(router).lookup, len(router.mapping)))
    return functions


def _least_tracked(costs: Costs, workers: int) -> float:
    return (1 - _SLACK) * costs.delta(workers)


def keeps_keys_whole(name: str) -> bool:
    """Has a key one worker at a time under this scheme? Only then is there a function to look at."""
    return name in _PARAMETERS or not ef.scheme(name).splits_keys


def _grown_scheme(name: str, workers: int, load: Workload) -> list[Function]:
    scheme = ef.scheme(name, **_PARAMETERS.get(name, {}))
    router = scheme.router(1, load.seed)
    functions = []
    messages = load.messages(_SEEN * workers * (workers + 1) // 2, _SEEN)
    for n in range(1, workers + 1):
        if scheme.rescales:
            router.rescale(n)
        else:
            router = scheme.router(n, load.seed)
        if scheme.learns:
            for part in islice(messages, n):
                router.route(part)
        now = copy.deepcopy(router)
        functions.append(Function(now.lookup, 0))
    return functions


def growth(
    approaches: Sequence[str], workers: Sequence[int], domain: int = 10**6, z: float = 1.0,
    resources: str = "LCL", sigma: float = 0.1, utility: str = "APM", seed: int = 0,
) -> list[Row]:  # fmt: skip
    """Measure approaches at some numbers of workers, from 2 on, in one run: a row for each."""
    load, costs = Workload(domain, z, seed), Costs(resources, (ALPHA, ALPHA, ALPHA), sigma, domain)
    functions = {name: grown(name, max(workers), load, costs, utility) for name in approaches}
    letters = sorted(set(resources))
    cases = [(name, n) for name in approaches for n in workers]
    loads = {(name, n, letter): np.zeros(n) for name, n in cases for letter in letters}
    moved = dict.fromkeys(cases, 0.0)
    needed = sorted({m for n in workers for m in (n - 1, n)})
    whole = 0.0
    for keys, frequencies in load.chunks():
        state = resource(resources[0], frequencies)
        whole += float(state.sum())
        for name in approaches:
            before = np.empty(0, np.int32)
            for n in needed:
                where = functions[name][n - 1].lookup(keys)
                if n in workers:
                    moved[name, n] += float(state[where != before].sum())
                    for letter in letters:
                        loads[name, n, letter] += costs.loads(letter, frequencies, where, n)
                before = where
    rows = []
    same = {"domain": domain, "z": z, "resources": resources, "sigma": sigma, "utility": utility}
    for name, n in cases:
        found = costs.balance([loads[name, n, letter] for letter in resources])
        row = {"approach": name, "workers": n, **same, "seed": seed}
        row |= {"migration": moved[name, n] * n / whole, "imbalance": found.overall}
        row |= dict(zip(("state", "computation", "communication"), found.relative, strict=True))
        rows.append(row | {"mapped": functions[name][n - 1].mapped})
    return rows


def sizes(
    workers: int = 10, domain: int = 10**6, z: float = 1.0, resources: str = "LCL", sigma: float = 0.1,
    seed: int = 0,
) -> list[Row]:  # fmt: skip
    """Count messages: what the counter holds (mean over half a window), how many keys would be mapped."""
    load, costs = Workload(domain, z, seed), Costs(resources, (ALPHA, ALPHA, ALPHA), sigma, domain)
    epsilon = _SLACK * costs.delta(workers)
    sketch = LossyCounting(epsilon, domain)
    step = -(-domain // (2 * _LOOKS))  # a prime number of looks meets buckets at all stages
    held = []
    for part in load.messages(3 * _LOOKS * step, step):
        sketch.update(part)
        held.append(sketch.held)
    _, counts, _ = sketch.top(costs.delta(workers) - epsilon)
    mapped = int(costs.tracked(counts / sketch.covered, workers, epsilon).size)
    row = {"workers": workers, "domain": domain, "z": z, "resources": resources, "sigma": sigma, "seed": seed}
    found = {"delta": costs.delta(workers), "counted": float(np.mean(held[-_LOOKS:])), "mapped": mapped}
    return [row | found]


def following(domain: int, seed: int = 0) -> list[Row]:
    """Count two windows of messages, then as many of other keys: a row per quarter of a window after that.

    ``remembered`` and ``known``: counted shares of the hottest key of before and of now, relative to what
    they were and are.
    """
    costs = Costs("LCL", (ALPHA, ALPHA, ALPHA), domain=domain)
    sketch = LossyCounting(_SLACK * costs.delta(10), domain)
    before, now = Workload(domain, seed=2 * seed), Workload(domain, seed=2 * seed + 1)
    for part in before.messages(2 * domain, domain // 4):
        sketch.update(part)
    rows: list[Row] = []
    hottest = [load.keys(np.zeros(1, np.int64)) for load in (before, now)]
    for quarter, part in enumerate(now.messages(2 * domain, domain // 4), start=1):
        sketch.update(part)
        shares = [float(sketch.counts_of(key)[0] / sketch.covered * now.whole) for key in hottest]
        rows.append({"windows": quarter / 4, "seed": seed, "remembered": shares[0], "known": shares[1]})
    return rows


def building(
    algorithm: str, workers: int = 10, domain: int = 10**6, z: float = 1.0, resources: str = "LCL",
    sigma: float = 0.1, seed: int = 0,
) -> list[Row]:  # fmt: skip
    """Time the last step of a growth: the ring and the map apart, in CPU seconds, best of several."""
    load, costs = Workload(domain, z, seed), Costs(resources, (ALPHA, ALPHA, ALPHA), sigma, domain)
    keys, frequencies = last_step(load, costs, workers)
    old = grown(algorithm, workers - 1, load, costs)[-1].lookup(keys)
    ideal = math.fsum(resource(resources[0], frequencies)) / workers
    row = {"workers": workers, "domain": domain, "z": z, "resources": resources, "sigma": sigma, "seed": seed}
    ring = partial(build_ring, workers, np.uint64(seed), REPLICAS, buckets=RING_BUCKETS)
    mapping = partial(place, algorithm, "APM", costs, workers, frequencies, old, old, 0.0, ideal)
    seconds = {"ring_seconds": best_seconds(ring), "map_seconds": best_seconds(mapping)}
    return [{"algorithm": algorithm, **row, "items": int(keys.size), **seconds}]


def last_step(load: Workload, costs: Costs, workers: int) -> tuple[UInt64Array, Float64Array]:
    """Return the keys that a map for ``workers`` tracks, most frequent first."""
    keys, frequencies = load.top(_least_tracked(costs, workers))
    chosen = costs.tracked(frequencies, workers, _SLACK * costs.delta(workers))
    return keys[chosen], frequencies[chosen]


def looking_up(workers: int, domain: int = 10**6, seed: int = 0) -> list[Row]:
    """Time routing, in nanoseconds per message: ring alone, map and ring, the same with counting."""
    load = Workload(domain, 1.0, seed)
    messages = next(load.messages(10**6, 10**6))
    keys, frequencies = load.top(_least_tracked(Costs(domain=domain), workers))
    rows = []
    routers: dict[str, Router] = {"ring": ef.scheme("consistent-hash").router(workers, seed)}
    for way, scheme in (
        ("map and ring", Explicit(domain=domain, counting=False)),
        ("map, ring and counting", Explicit(domain=domain, every=0)),
    ):
        mapped = cast(ExplicitRouter, scheme.router(workers, seed))
        mapped.rebuild(keys, frequencies, total=1.0)
        routers[way] = mapped
    for way, router in routers.items():
        seconds = best_seconds(partial(router.route, messages), least=0.0)
        rows.append({"workers": workers, "way": way, "nanoseconds": 1e9 * seconds / messages.size})
    return rows


def best_seconds(work: Callable[[], object], repeats: int = 5, least: float = 2e-3) -> float:
    """Return the CPU seconds of ``work``, best of ``repeats``; short work is timed many times at once."""
    work()
    start = time.thread_time()
    work()
    once = time.thread_time() - start
    if once > 0.5:
        return once
    times = 1 + int(least / max(once, 1e-7))
    found = []
    for _ in range(repeats):
        start = time.thread_time()
        for _ in range(times):
            work()
        found.append((time.thread_time() - start) / times)
    return min(found)
