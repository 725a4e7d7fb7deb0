"""The key space of baby, teenage and old keys (`dynamic` 4.1, Algorithms 1-3): finds keys that stay frequent.

Rule: a new key is born into the baby space; known keys are counted in their space. Every 15 s babies are
sorted by count, truncated to the size of the baby space, and promoted to the teenage space; every 60 s
teenagers are promoted to the old space. Promotion repeatedly compares the highest of the source with the
lowest of the destination and swaps them unless the lowest is higher. Sizes are 50, 40 and 10 percent of
``expected_keys``, a parameter (100 in the paper) that the stream's number of keys may exceed. Counts are
exact since a key's last birth, so at most the key's true count.

Not specified by the paper, and chosen here:

* The clock is that of the messages; a cycle runs when a message finds it due, 15 (60) s after its last run.
  Both threads of the paper start with the first message; the teenage one runs first when both are due.
* A destination that is not full is filled before items are swapped: Algorithm 3 never promotes into an empty
  one. It is filled with the highest of the source and then sorted.
* Equal counts keep their order (a stable sort; a promoted item goes to the head, a demoted one to the tail).
* The baby space is unbounded in the paper. Here it holds ``baby_limit`` keys, by default 100 times its size:
  a birth that would exceed the limit first truncates the space to its size, as the next cycle would have
  done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.kernels import Float64Array, Int8Array, Int32Array, Int64Array, UInt64Array, inlined, kernel
from evenflow.sketches.table import KeyTable, new_table, table_find, table_insert, table_remove

BABY, TEENAGE, OLD = 0, 1, 2  # in KeySpace.space and .sizes
FREE, KEEP = 3, 4  # in KeySpace.sizes
START, TEENAGE_DUE, OLD_DUE = 0, 1, 2  # in KeySpace.times


class KeySpace(NamedTuple):
    """The arrays of a key space; an item is an index into the first three."""

    keys: UInt64Array
    counts: Int64Array
    space: Int8Array  # of each item: BABY, TEENAGE or OLD
    baby: Int32Array  # items, highest count first after a cycle
    teenage: Int32Array
    old: Int32Array
    free: Int32Array
    sizes: Int64Array  # items in baby, teenage, old, free; size to which the baby space is truncated
    times: Float64Array  # [first message, next teenage cycle, next old cycle]; NaN before the first message
    table: KeyTable


def sizes_for(expected_keys: int) -> tuple[int, int, int]:
    """Return the sizes of the baby, teenage and old space: 50, 40 and 10 percent of the expected keys.

    >>> sizes_for(100)
    (50, 40, 10)
    """
    old, teenage = expected_keys // 10, expected_keys * 4 // 10
    return expected_keys - teenage - old, teenage, old


def new_key_space(expected_keys: int, baby_limit: int | None = None) -> KeySpace:
    """Return an empty key space; ``baby_limit`` defaults to 100 times the size of the baby space."""
    keep, teenage, old = sizes_for(expected_keys)
    limit = 100 * keep if baby_limit is None else max(baby_limit, keep + 1)
    items = limit + teenage + old
    return KeySpace(
        keys=np.zeros(items, np.uint64),
        counts=np.zeros(items, np.int64),
        space=np.zeros(items, np.int8),
        baby=np.zeros(limit, np.int32),
        teenage=np.zeros(teenage, np.int32),
        old=np.zeros(old, np.int32),
        free=np.arange(items, dtype=np.int32)[::-1].copy(),
        sizes=np.array([0, 0, 0, items, keep], np.int64),
        times=np.full(3, np.nan),
        table=new_table(items),
    )


def merged_spaces(parts: Sequence[KeySpace], into: KeySpace, share: float = 1.0) -> None:
    """Fill an empty space with the keys of several sources: counts add up, times ``share``, rounded up.

    A key is as old as at the source where it is oldest. Of too many old or teenage keys, those with the
    highest counts stay, and the others are one space younger. Cycles are due when they are at the source that
    ran them last. The order of ``parts`` does not matter.
    """
    held = [np.flatnonzero(used_items(part)) for part in parts]
    keys = np.unique(np.concatenate([part.keys[items] for part, items in zip(parts, held, strict=True)]))
    counts, ages = np.zeros(keys.size, np.int64), np.zeros(keys.size, np.int8)
    for part, items in zip(parts, held, strict=True):
        at = np.searchsorted(keys, part.keys[items])
        counts[at] += part.counts[items]
        ages[at] = np.maximum(ages[at], part.space[items])
    counts = np.ceil(counts * share).astype(np.int64)
    order = np.lexsort((keys, -counts))
    keys, counts, ages = keys[order], counts[order], ages[order]
    for age, size in ((OLD, into.old.size), (TEENAGE, into.teenage.size)):
        ages[np.flatnonzero(ages == age)[size:]] = age - 1
    babies = np.flatnonzero(ages == BABY)
    if babies.size > into.baby.size:
        kept = np.delete(np.arange(keys.size), babies[into.baby.size :])
        keys, counts, ages = keys[kept], counts[kept], ages[kept]
    _load_items(into, keys, counts, ages)
    times = np.stack([part.times for part in parts])
    begun = ~np.isnan(times[:, START])
    if begun.any():
        into.times[:] = times[begun, START].min(), *times[begun, TEENAGE_DUE:].max(axis=0)


def used_items(s: KeySpace) -> npt.NDArray[np.bool_]:
    """Return which items hold a key."""
    used = np.ones(s.keys.size, np.bool_)
    used[s.free[: s.sizes[FREE]]] = False
    return used


@kernel
def _load_items(s: KeySpace, keys: UInt64Array, counts: Int64Array, ages: Int8Array) -> None:
    for i in range(keys.size):
        s.sizes[FREE] -= 1
        item = s.free[s.sizes[FREE]]
        s.keys[item] = keys[i]
        s.counts[item] = counts[i]
        s.space[item] = ages[i]
        if ages[i] == OLD:
            s.old[s.sizes[OLD]] = item
        elif ages[i] == TEENAGE:
            s.teenage[s.sizes[TEENAGE]] = item
        else:
            s.baby[s.sizes[BABY]] = item
        s.sizes[ages[i]] += 1
        table_insert(s.table, keys[i], item)


@inlined
def note_key(s: KeySpace, key: np.uint64) -> tuple[int, bool]:
    """Count one message of ``key``; return its item and whether it is new."""
    item = table_find(s.table, key)
    born = item < 0
    if born:
        if s.sizes[BABY] == s.baby.size:
            _cut_babies(s)
        s.sizes[FREE] -= 1
        item = s.free[s.sizes[FREE]]
        s.keys[item] = key
        s.counts[item] = 0
        s.space[item] = BABY
        s.baby[s.sizes[BABY]] = item
        s.sizes[BABY] += 1
        table_insert(s.table, key, item)
    s.counts[item] += 1
    return item, born


@inlined
def run_cycles(s: KeySpace, now: float, teenage_cycle: float, old_cycle: float) -> None:
    """Run the promotions due at the time ``now`` of a message (Algorithms 1 and 2)."""
    if now < s.times[TEENAGE_DUE] and now < s.times[OLD_DUE]:
        return
    if np.isnan(s.times[START]):
        s.times[START] = now
        s.times[TEENAGE_DUE] = now + teenage_cycle
        s.times[OLD_DUE] = now + old_cycle
    if now >= s.times[TEENAGE_DUE]:
        _cut_babies(s)
        _promote(s, s.baby, BABY, s.teenage, TEENAGE)
        s.times[TEENAGE_DUE] = now + teenage_cycle
    if now >= s.times[OLD_DUE]:
        _sort(s, s.teenage, s.sizes[TEENAGE])
        _promote(s, s.teenage, TEENAGE, s.old, OLD)
        s.times[OLD_DUE] = now + old_cycle


@kernel
def _cut_babies(s: KeySpace) -> None:
    """Sort the baby space, highest count first, and truncate it to its size."""
    kept = 0
    for i in range(s.sizes[BABY]):
        item = s.baby[i]
        index = kept
        while index > 0 and s.counts[s.baby[index - 1]] < s.counts[item]:
            index -= 1
        if kept == s.sizes[KEEP]:
            loser = s.baby[kept - 1] if index < kept else item
            table_remove(s.table, s.keys[loser])
            s.free[s.sizes[FREE]] = loser
            s.sizes[FREE] += 1
            kept -= index < kept
        if index <= kept and index < s.sizes[KEEP]:
            for behind in range(kept, index, -1):
                s.baby[behind] = s.baby[behind - 1]
            s.baby[index] = item
            kept += 1
    s.sizes[BABY] = kept


@inlined
def _sort(s: KeySpace, items: Int32Array, size: int) -> None:
    """Sort nearly sorted items by count, highest first; stable."""
    for i in range(1, size):
        item = items[i]
        index = i
        while index > 0 and s.counts[items[index - 1]] < s.counts[item]:
            items[index] = items[index - 1]
            index -= 1
        items[index] = item


@kernel
def _promote(s: KeySpace, source: Int32Array, below: int, destination: Int32Array, above: int) -> None:
    """Promote items of a sorted space to the next one (Algorithm 3)."""
    moved = min(destination.size - s.sizes[above], s.sizes[below])
    for i in range(moved):
        destination[s.sizes[above] + i] = source[i]
        s.space[source[i]] = above
    for i in range(moved, s.sizes[below]):
        source[i - moved] = source[i]
    s.sizes[above] += moved
    s.sizes[below] -= moved
    size, last = s.sizes[below], s.sizes[above] - 1
    _sort(s, destination, last + 1)
    for _ in range(last + 1):
        if size == 0 or s.counts[destination[last]] > s.counts[source[0]]:
            break
        first, lowest = source[0], destination[last]
        for i in range(1, size):
            source[i - 1] = source[i]
        source[size - 1] = lowest
        for i in range(last, 0, -1):
            destination[i] = destination[i - 1]
        destination[0] = first
        s.space[first] = above
        s.space[lowest] = below
