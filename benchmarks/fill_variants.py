"""Ablation of fill: variants with rules removed or added.

``route`` reimplements the rules of :mod:`evenflow.schemes.fill` with a switch for each, in plain arrays over
dense key ids, so its memory grows with the number of keys. With the defaults it decides like the router,
which a test checks.

``plan`` adds a rule that fill does without: at the end of every epoch (10 n messages, doubling), buckets move
from workers whose buckets received more than their share, heaviest first, to the worker whose buckets
received least.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, inlined, kernel
from evenflow.keys import GOLDEN, mix, salt_of, to_range


@dataclass(frozen=True)
class Variant:
    """The active rules and their parameters."""

    epsilon: float = 0.02
    valve: bool = True
    remember: bool = True  # keep opened homes
    lowest: bool = True  # a new home is the least loaded worker; else the key's next hash with room
    hot_first: bool = True
    free_new: bool = True
    early: bool = True
    exact: bool = False  # exact counts instead of the row of counters
    cells: int = 256
    buckets: int = 64
    horizon: float = 10_000.0
    plan: bool = False
    first_epoch: int = 10


def route(variant: Variant, ids: Int32Array, hashes: UInt64Array, workers: int, seed: int = 0) -> Int32Array:
    """Return the worker of every message; ``hashes`` is indexed by ``ids``."""
    keys = hashes.size
    out = np.empty(ids.size, np.int32)
    switches = asdict(variant)
    counts = keys if variant.exact else variant.cells * workers
    buckets = (np.arange(variant.buckets * workers) // variant.buckets).astype(np.int32)
    _route(
        ids, hashes, out, salt_of(seed),
        np.zeros(counts, np.int64), np.full((keys, workers), -1, np.int16), np.zeros(keys, np.int32),
        np.zeros(keys, np.int32), np.zeros(workers), buckets, np.zeros(buckets.size, np.int64),
        np.zeros(buckets.size, np.int64), np.zeros(workers, np.int64),
        switches.pop("epsilon"), switches.pop("valve"), switches.pop("remember"), switches.pop("lowest"),
        switches.pop("hot_first"), switches.pop("free_new"), switches.pop("early"), switches.pop("exact"),
        switches.pop("horizon"), switches.pop("plan"), switches.pop("first_epoch"),
    )  # fmt: skip
    return out


@inlined
def _lowest(levels: Float64Array) -> int:
    lowest = 0
    for worker in range(1, levels.size):
        if levels[worker] < levels[lowest]:
            lowest = worker
    return lowest


@inlined
def _next_hash(levels: Float64Array, hashed: np.uint64, limit: float) -> int:
    for index in range(1, 4 * levels.size):
        worker = to_range(mix(hashed + np.uint64(index) * GOLDEN), levels.size)
        if levels[worker] <= limit:
            return worker
    return _lowest(levels)


@inlined
def _move_buckets(
    buckets: Int32Array, brought: Int64Array, order: Int64Array, carried: Int64Array, share: float
) -> None:
    carried[:] = 0
    for bucket in range(buckets.size):
        carried[buckets[bucket]] += brought[bucket]
        order[bucket] = bucket
    _by_weight(order, brought)
    for at in range(order.size):
        bucket = order[at]
        owner = buckets[bucket]
        if (
            carried[owner] <= share + np.sqrt(share)
            or brought[bucket] > carried[owner] - share
            or not brought[bucket]
        ):
            continue
        lowest = 0
        for worker in range(1, carried.size):
            if carried[worker] < carried[lowest]:
                lowest = worker
        if carried[lowest] + brought[bucket] < carried[owner]:
            buckets[bucket] = lowest
            carried[owner] -= brought[bucket]
            carried[lowest] += brought[bucket]
    brought[:] = 0


@inlined
def _by_weight(order: Int64Array, brought: Int64Array) -> None:
    """Sort buckets by messages received, descending (a shell sort, as kernels allocate no arrays)."""
    gap = order.size // 2
    while gap > 0:
        for i in range(gap, order.size):
            held = order[i]
            j = i
            while j >= gap and brought[order[j - gap]] < brought[held]:
                order[j] = order[j - gap]
                j -= gap
            order[j] = held
        gap //= 2


@kernel
def _route(
    ids: Int32Array,
    hashes: UInt64Array,
    out: Int32Array,
    salt: np.uint64,
    counts: Int64Array,
    homes: Int32Array,
    size: Int32Array,
    current: Int32Array,
    levels: Float64Array,
    buckets: Int32Array,
    brought: Int64Array,
    order: Int64Array,
    carried: Int64Array,
    epsilon: float,
    valve: bool,
    remember: bool,
    lowest: bool,
    hot_first: bool,
    free_new: bool,
    early: bool,
    exact: bool,
    horizon: float,
    plan: bool,
    first_epoch: int,
) -> None:
    n = levels.size
    counted = 0
    epoch = first_epoch * n
    for i in range(ids.size):
        key = ids[i]
        hashed = mix(hashes[key] ^ salt)
        cell = np.int64(key) if exact else to_range(hashed, counts.size)
        seen = counts[cell]
        counts[cell] += 1
        counted += 1
        average = (i + 1) / n
        slack = epsilon * min(average, horizon)
        if early and average < 100.0:
            slack += 3.0 * np.sqrt(average) * (1 - average / 100.0)

        bucket = to_range(hashed, buckets.size)
        if size[key] == 0:
            worker = np.int64(buckets[bucket])
            brought[bucket] += 1
        else:
            at = current[key]
            best = at
            for _ in range(size[key]):
                if levels[homes[key, at]] <= average + min(4.0, 0.5 * slack):
                    best = at
                    break
                if levels[homes[key, at]] < levels[homes[key, best]]:
                    best = at
                at = at + 1 if at + 1 < size[key] else 0
            current[key] = best
            worker = np.int64(homes[key, best])

        opened = max(1, size[key])
        if valve and levels[worker] > average + 0.5 * slack and opened < n:
            new = free_new and seen == 0
            hot = hot_first and seen >= 4 and (seen + 1.0) * n > 0.1 * counted * opened
            if levels[worker] > average + slack * (0.5 if new else 0.75 if hot else 1.0):
                other = _lowest(levels) if lowest else _next_hash(levels, hashed, average + slack)
                if levels[other] < levels[worker]:
                    if remember:
                        if size[key] == 0 and not new:
                            homes[key, 0] = worker
                            size[key] = 1
                            current[key] = 0
                        slot = current[key] + 1 if size[key] else 0  # behind the pointed home
                        for behind in range(size[key], slot, -1):
                            homes[key, behind] = homes[key, behind - 1]
                        homes[key, slot] = other
                        size[key] += 1
                        current[key] = slot
                    worker = np.int64(other)

        levels[worker] += 1.0
        out[i] = worker
        if counted >= 2 * horizon * n:
            counted = 0
            for other_cell in range(counts.size):
                counts[other_cell] = (counts[other_cell] + 1) // 2
                counted += counts[other_cell]
        if plan and i + 1 == epoch:
            _move_buckets(
                buckets,
                brought,
                order,
                carried,
                (epoch - epoch // 2) / n if i > first_epoch * n else epoch / n,
            )
            epoch *= 2
