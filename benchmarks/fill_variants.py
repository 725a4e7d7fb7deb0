"""Ablation of fill: variants with rules removed or changed.

``route`` reimplements the rules of :mod:`evenflow.schemes.fill` for one source with a switch for each, in
plain arrays over dense key ids, so its memory grows with the number of keys. With the defaults it decides
like the router, which a test checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, inlined, kernel
from evenflow.keys import mix, salt_of, to_range
from evenflow.schemes.fill import ROW


@dataclass(frozen=True)
class Variant:
    """The active rules and their parameters."""

    epsilon: float = 0.02
    queue: float = 5.0
    valve: bool = True
    waits: bool = True  # homes open when rows would wait; else only for balance, as in the first edition
    remember: bool = True  # keep opened homes
    earliest: bool = True  # a new home is the worker that is free first; else the key's second hash
    hot_first: bool = True
    free_new: bool = True
    balance: bool = True  # loads since the start are limited, too
    group: int = 4  # homes that are looked at for every row
    look: int = 4  # groups that are looked at before another home is opened
    exact: bool = False  # exact counts instead of the row of counters
    cells: int = 1024
    light_key: float = 0.5  # a key is hot from this part on, relative to the average key's, or 1/240
    recent: float = 500.0
    drain: float = 0.75
    price: float = 25.0  # how much a home per key stretches the limits; 0: limits are never stretched
    bursts: bool = True  # a key that fills a queue by itself gets another home at once


class Rules(NamedTuple):
    """The same, for the kernel."""

    epsilon: float
    queue: float
    valve: bool
    waits: bool
    remember: bool
    earliest: bool
    hot_first: bool
    free_new: bool
    balance: bool
    group: int
    look: int
    exact: bool
    light_key: float
    recent: float
    drain: float
    price: float
    bursts: bool


class Arrays(NamedTuple):
    """What the kernel writes to."""

    counts: Int64Array
    buckets: Int32Array  # the home of the keys of a counter
    homes: Int32Array
    size: Int32Array
    current: Int32Array
    levels: Float64Array
    free: Float64Array
    leader: Int64Array
    lead: Float64Array
    opened: Int64Array  # homes beyond the first: by waits, by other rules; counters that are not 0
    longest: Float64Array  # wait at which a home was opened
    share: Float64Array  # of the recent rows, by key, when it last opened a home by waits


def route(variant: Variant, ids: Int32Array, hashes: UInt64Array, workers: int, seed: int = 0) -> Int32Array:
    """Return the worker of every message; ``hashes`` is indexed by ``ids``."""
    return watched(variant, ids, hashes, workers, seed)[0]


def watched(
    variant: Variant, ids: Int32Array, hashes: UInt64Array, workers: int, seed: int = 0
) -> tuple[Int32Array, Arrays]:
    """Return the worker of every message, and what the rules remembered and opened."""
    keys = hashes.size
    out = np.empty(ids.size, np.int32)
    arrays = Arrays(
        np.zeros(keys if variant.exact else variant.cells * workers, np.int64),
        np.repeat(np.arange(workers, dtype=np.int32), variant.cells),
        np.full((keys, workers), -1, np.int32),
        np.zeros(keys, np.int32),
        np.zeros(keys, np.int32),
        np.zeros(workers),
        np.zeros(workers),
        np.zeros(workers, np.int64),
        np.zeros(workers),
        np.zeros(3, np.int64),
        np.zeros(1),
        np.zeros(keys),
    )
    if variant.exact:
        arrays = arrays._replace(buckets=np.empty(keys, np.int32))
        _first_homes(hashes, salt_of(seed), workers, arrays.buckets)
    _route(
        ids, hashes, out, salt_of(seed), arrays, Rules(*(getattr(variant, name) for name in Rules._fields))
    )
    return out, arrays


@kernel
def _first_homes(hashes: UInt64Array, salt: np.uint64, workers: int, homes: Int32Array) -> None:
    for key in range(hashes.size):
        homes[key] = to_range(mix(hashes[key] ^ salt), workers)


@inlined
def _earliest(free: Float64Array, levels: Float64Array, highest: float) -> int:
    first = -1
    for worker in range(free.size):
        if levels[worker] <= highest and (first < 0 or free[worker] < free[first]):
            first = worker
    return first


@inlined
def _first_of(a: Arrays, key: int, group: int, width: int, at: int, highest: float) -> int:
    """Return the first to be free of worker ``at`` and a group; one that is not full repeats other homes."""
    size = a.size[key]
    best = at
    for place in range(width):
        home = group * width + place
        if home >= size:
            home -= width
        home = max(home, 0)
        worker = a.homes[key, home]
        if a.levels[worker] <= highest and (best < 0 or a.free[worker] < a.free[best]):
            best = int(worker)
    return best


@inlined
def _vote(a: Arrays, worker: int, key: int, now: float) -> None:
    if a.free[worker] <= now or (a.leader[worker] != key and a.lead[worker] < 1.0):
        a.leader[worker] = key
        a.lead[worker] = 1.0
    else:
        a.lead[worker] += 1.0 if a.leader[worker] == key else -1.0


@inlined
def _add(a: Arrays, key: int, worker: int) -> None:
    """Add ``worker``; nothing if it is a home already."""
    for at in range(a.size[key]):
        if a.homes[key, at] == worker:
            return
    a.homes[key, a.size[key]] = worker
    a.size[key] += 1


@inlined
def _leaves(
    a: Arrays, rules: Rules, worker: int, key: int, now: float, limit: float, most: float, high: float
) -> bool:
    wait = a.free[worker] - now
    bursts = rules.bursts and a.leader[worker] == key and min(a.lead[worker], wait) > 0.9 * most
    return wait > limit or bursts or a.levels[worker] > high


@kernel
def _route(
    ids: Int32Array, hashes: UInt64Array, out: Int32Array, salt: np.uint64, a: Arrays, rules: Rules
) -> None:
    levels, free, counts = a.levels, a.free, a.counts
    n = levels.size
    counted = 0
    fresh = 0
    further = 0
    filled = 0
    stretch = 1.0
    hot = 1 / 240
    for i in range(ids.size):
        if i % 64 == 0:
            distinct = np.floor(counts.size * np.log((counts.size + 1.0) / (counts.size - filled + 1.0)))
            distinct = max(1.0, float(filled) if rules.exact else distinct)
            price = rules.price * (1.0 + np.ceil(np.log2(i // (8192 * n) + 1.0)) / 8.0)
            stretch = np.floor(min(8.0, 1.0 + price * further / distinct) * ROW) / ROW
            hot = min(1 / 240, max(1 / 1000, rules.light_key * n / distinct))
        key = ids[i]
        hashed = mix(hashes[key] ^ salt)
        cell = np.int64(key) if rules.exact else to_range(hashed, counts.size)
        seen = counts[cell]
        counts[cell] += 1
        counted += 1
        fresh += 1
        filled += int(seen == 0)
        a.opened[2] = filled
        average = (i + 1) / n
        now = np.floor((1 + rules.drain * rules.epsilon) * average * ROW) / ROW
        slack = rules.epsilon * average
        if average < 100.0:
            slack += 3.0 * np.sqrt(average) * (1 - average / 100.0)
        if not rules.balance:
            slack = np.inf

        if a.size[key] == 0:
            worker = int(a.buckets[cell])
        else:
            groups = -(-a.size[key] // rules.group)
            group = a.current[key]
            a.current[key] = (group + 1) % groups
            worker = _first_of(a, key, group, rules.group, -1, np.inf)
        opened = max(1, a.size[key])
        new = rules.free_new and seen == 0
        share = float(counted * opened)
        weight = (seen + 1.0) * n if seen >= 10 and rules.hot_first else 0.0
        light = hot * share
        patience = 3 / 10 if new else stretch * np.sqrt(light / max(weight, light))
        most = min(rules.queue, max(12.0, 0.5 * slack)) if rules.waits else np.inf
        limit = most * patience if new else max(most * patience, min(most, 1.5))
        high = average + slack * (0.5 if new else 0.75 if weight > 0.1 * share else 1.0)
        leaves = _leaves(a, rules, worker, key, now, limit, most, high)
        if leaves and opened > rules.group:
            first = -1
            for step in range(rules.look):
                first = _first_of(a, key, (group + step) % groups, rules.group, first, average + slack)
            worker = first if first >= 0 else int(a.homes[key, group * rules.group])
            leaves = _leaves(a, rules, worker, key, now, limit, most, high)
        if rules.valve and leaves:
            other = _earliest(free, levels, average + slack)
            if not rules.earliest:
                second = to_range(mix(hashed + np.uint64(1)), n)
                if levels[second] <= average + slack:
                    other = second
            if levels[worker] > average + slack or free[other] + 2.0 <= free[worker]:
                if rules.remember and new and a.size[key] == 0:
                    a.buckets[cell] = other
                elif rules.remember:
                    if a.size[key] == 0:
                        _add(a, key, int(worker))
                    before = max(1, a.size[key])
                    _add(a, key, other)
                    if a.size[key] > before:
                        further += 1
                        wait = free[worker] - now
                        a.opened[0 if wait > limit and not new else 1] += 1
                        if wait > limit and not new:
                            a.longest[0] = max(a.longest[0], wait)
                            a.share[key] = weight / counted / n
                worker = int(other)

        _vote(a, int(worker), int(key), now)
        levels[worker] += 1.0
        free[worker] = max(free[worker], now) + 1.0
        out[i] = worker
        if fresh >= rules.recent * n:
            counted = fresh = 0
            for other_cell in range(counts.size):
                counts[other_cell] = (counts[other_cell] + 1) // 2
                counted += counts[other_cell]
