"""Planning for fill: assigns hot keys and buckets, weighed by their rows, to workers.

``pour`` splits keys. Buckets stay in place (only workers overfilled by their buckets alone give some away);
then the hot keys are poured, hottest first, into the remaining room: into the homes that the key had, then
its bucket's home, then the emptiest worker. A key that had one home at most and overflows there goes to the
emptiest worker if it fits there as a whole, so that it is split only where it fits nowhere; without an
earlier plan the whole head needs at most |H| + n - 1 homes.

``settle`` splits nothing: hot keys and buckets are units with one owner each. Workers above their share give
units away, largest first and none larger than the excess, to the emptiest worker, until they are within the
tolerance.

Both keep existing homes: a home is given up only when it would exceed its share by more than ``tolerance``.
Both are kernels: room only shrinks while pouring, so a lazy heap finds the emptiest worker in O(log n).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, Int64Array, inlined, kernel


class Poured(NamedTuple):
    """Homes of buckets and hot keys: key i has ``homes[starts[i]:starts[i + 1]]``."""

    buckets: Int32Array
    starts: Int64Array
    homes: Int32Array
    parts: Float64Array  # fraction of the key's rows, one per home
    carried: Float64Array  # expected load of each worker


def targets(shares: Float64Array, total: float) -> Float64Array:
    """Return each worker's fair part of ``total``, by its share of the capacity."""
    return shares / shares.sum() * total


def pour(
    hot: Float64Array,
    hot_buckets: Int32Array,
    bucket_weights: Float64Array,
    buckets: Int32Array,
    shares: Float64Array,
    tolerance: float = 0.02,
    previous: tuple[Int64Array, Int32Array] | None = None,
    move_buckets: bool = True,
) -> Poured:
    """Plan homes for hot keys of weights ``hot`` (non-increasing) and buckets of ``bucket_weights``.

    ``hot_buckets`` is each hot key's bucket; bucket weights exclude the hot keys. ``previous`` is (starts,
    homes) of the same keys' earlier homes. ``move_buckets=False`` keeps buckets in place.

    >>> poured = pour(np.array([6.0, 1.0]), np.zeros(2, np.int32), np.array([1.0, 0.0]),
    ...               np.array([0, 1], np.int32), np.ones(2))
    >>> poured.starts.tolist(), poured.homes.tolist(), poured.carried.tolist()
    ([0, 2, 3], [0, 1, 1], [4.0, 4.0])
    """
    n = shares.size
    target = targets(shares, float(hot.sum() + bucket_weights.sum()))
    homes_of_buckets = settle(bucket_weights, buckets, shares, tolerance, target) if move_buckets else buckets
    carried: Float64Array = np.bincount(homes_of_buckets, bucket_weights, n).astype(np.float64)
    starts = np.zeros(hot.size + 1, np.int64)
    homes = np.zeros(2 * hot.size + n, np.int32)
    parts = np.zeros(2 * hot.size + n)
    old_starts, old_homes = previous or (np.zeros(hot.size + 1, np.int64), np.zeros(0, np.int32))
    scratch = np.zeros(n, np.int32), np.zeros(n)
    _pour(
        hot, homes_of_buckets[hot_buckets], old_starts, old_homes, target, tolerance, carried, starts, homes,
        parts, *scratch,
    )  # fmt: skip
    used = int(starts[-1])
    return Poured(homes_of_buckets, starts, homes[:used], parts[:used], carried)


def settle(
    weights: Float64Array,
    owners: Int32Array,
    shares: Float64Array,
    tolerance: float = 0.02,
    target: Float64Array | None = None,
) -> Int32Array:
    """Return new owners for units of ``weights``: as few moves as bring every worker within the tolerance.

    An owner outside 0 .. n - 1 means that the unit has none (its worker has left).

    >>> settle(np.array([3.0, 2.0, 1.0]), np.zeros(3, np.int32), np.ones(2)).tolist()
    [1, 0, 0]
    """
    if target is None:
        target = targets(shares, float(weights.sum()))
    result = owners.astype(np.int32, copy=True)
    if result.size and result.min() >= 0 and result.max() < shares.size:
        carried = np.bincount(result, weights, shares.size)
        if (carried <= target * (1 + tolerance)).all():
            return result  # no worker is overfull: no need to inspect the units
    order = np.lexsort((-weights, result))
    scratch = np.zeros(shares.size, np.int32), np.zeros(shares.size), np.zeros(shares.size)
    _settle(weights, result, order, target, tolerance, *scratch)
    return result


@inlined
def _sift_down(heap: Int32Array, room: Float64Array, size: int, at: int) -> None:
    """Restore the heap (most room on top, then lowest number) below ``at``."""
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and _before(room, heap[child + 1], heap[child]):
            child += 1
        if not _before(room, heap[child], heap[at]):
            return
        heap[at], heap[child] = heap[child], heap[at]
        at = child


@inlined
def _before(room: Float64Array, a: int, b: int) -> bool:
    return room[a] > room[b] or (room[a] == room[b] and a < b)


@inlined
def _emptiest(heap: Int32Array, known: Float64Array, target: Float64Array, carried: Float64Array) -> int:
    """Return the worker with most room; ``known`` is the room by which the heap is ordered, updated here."""
    while True:
        worker = heap[0]
        room = target[worker] - carried[worker]
        if known[worker] == room:
            return worker
        known[worker] = room
        _sift_down(heap, known, heap.size, 0)


@inlined
def _new_heap(heap: Int32Array, known: Float64Array, target: Float64Array, carried: Float64Array) -> None:
    for worker in range(heap.size):
        heap[worker] = worker
        known[worker] = target[worker] - carried[worker]
    for at in range(heap.size // 2 - 1, -1, -1):
        _sift_down(heap, known, heap.size, at)


@kernel
def _pour(
    hot: Float64Array,
    hot_homes: Int32Array,
    old_starts: Int64Array,
    old_homes: Int32Array,
    target: Float64Array,
    tolerance: float,
    carried: Float64Array,
    starts: Int64Array,
    homes: Int32Array,
    parts: Float64Array,
    heap: Int32Array,
    known: Float64Array,
) -> None:
    _new_heap(heap, known, target, carried)
    used = 0
    for key in range(hot.size):
        left = hot[key]
        starts[key] = used
        candidates = old_starts[key + 1] - old_starts[key] + 1
        step = 0
        while left > 0 or used == starts[key]:
            if step < candidates - 1:
                worker = old_homes[old_starts[key] + step]
            elif step == candidates - 1:
                worker = hot_homes[key]
            else:
                worker = _emptiest(heap, known, target, carried)
            room = target[worker] - carried[worker]
            if used == starts[key] and candidates <= 2 and left > room + tolerance * target[worker]:
                emptiest = _emptiest(heap, known, target, carried)
                most = target[emptiest] - carried[emptiest]
                if left <= most + tolerance * target[emptiest]:
                    worker, room = emptiest, most
            last = step >= candidates and room <= 0  # no worker has room: only rounding is left
            step += 1
            amount = left if last or left <= room + tolerance * target[worker] else room
            if amount <= 0 and left > 0:
                continue
            carried[worker] += amount
            left -= amount
            found = -1
            for home in range(starts[key], used):
                if homes[home] == worker:
                    found = home
            if found < 0:
                homes[used] = worker
                parts[used] = 0.0
                found = used
                used += 1
            parts[found] += amount / hot[key] if hot[key] > 0 else 1.0
    starts[hot.size] = used


@kernel
def _settle(
    weights: Float64Array,
    owners: Int32Array,
    order: Int64Array,
    target: Float64Array,
    tolerance: float,
    heap: Int32Array,
    known: Float64Array,
    carried: Float64Array,
) -> None:
    n = target.size
    for unit in range(weights.size):
        if 0 <= owners[unit] < n:
            carried[owners[unit]] += weights[unit]
    _new_heap(heap, known, target, carried)
    for unit in order:  # units without an owner first: they need one
        if not 0 <= owners[unit] < n:
            worker = _emptiest(heap, known, target, carried)
            owners[unit] = worker
            carried[worker] += weights[unit]
    for unit in order:
        owner = owners[unit]
        over = carried[owner] - target[owner]
        if over <= tolerance * target[owner] or weights[unit] > over or weights[unit] == 0:
            continue
        worker = _emptiest(heap, known, target, carried)
        if worker != owner and carried[worker] + weights[unit] - target[worker] <= tolerance * target[worker]:
            owners[unit] = worker
            carried[owner] -= weights[unit]
            carried[worker] += weights[unit]
