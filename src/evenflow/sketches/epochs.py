"""Epoch counting with decay (`evolving` 4.1.1, Algorithm 1): the keys that are frequent of late.

Rule: inside an epoch of ``epoch`` messages count as SpaceSaving does: a monitored key's counter goes up by
one, a new key takes the place of the key with the lowest counter and starts at that counter plus one. Between
two epochs all counters, and the total, are multiplied by ``decay`` (the paper's alpha). With ``capacity``
counters (K_max) and the decayed total N, ``true decayed count <= count <= true decayed count + N / capacity``
and every key above N / capacity is monitored.

Left open by the paper, and chosen here: of several keys with the lowest counter the one in the lowest entry
goes, entries being numbered as they were first filled. An epoch is closed by the message after its last, as
Algorithm 1 has it.

Cost: closing an epoch is one pass over the counters, O(1) amortised for epochs no shorter than ``capacity``.
The lowest counter is the root of a heap that is put in order at the first replacement after that pass and
mended lazily: counters only grow inside an epoch, so what the heap has on record is a lower bound, and a root
whose record is true is the lowest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenflow.kernels import Float64Array, Int64Array, UInt32Array, UInt64Array, inlined
from evenflow.sketches.table import KeyTable, new_table, table_find, table_insert, table_remove

TOTAL, HIGHEST = 0, 1  # in EpochCounters.sums
ENTRIES, MESSAGES, CLOSED, HEAPED = 0, 1, 2, 3  # in EpochCounters.ends
_1, _2, _3, _4 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


class EpochCounters(NamedTuple):
    """The arrays of a sketch; an entry is a number into ``keys`` and ``counts``."""

    table: KeyTable
    keys: UInt64Array
    counts: Float64Array
    heap: UInt32Array  # entries, the lowest record first; place p is above places 4 p + 1 .. 4 p + 4
    records: Float64Array  # of each place of the heap: its entry's count when it was put there
    sums: Float64Array  # [decayed total, highest count]
    ends: Int64Array  # [entries in use, messages ever, messages in closed epochs, 1 if there is a heap]


def new_epoch_counters(capacity: int) -> EpochCounters:
    """Return an empty sketch of ``capacity`` counters."""
    return EpochCounters(
        table=new_table(capacity),
        keys=np.zeros(capacity, np.uint64),
        counts=np.zeros(capacity),
        heap=np.arange(capacity, dtype=np.uint32),
        records=np.zeros(capacity),
        sums=np.zeros(2),
        ends=np.zeros(4, np.int64),
    )


@inlined
def _first_of(c: EpochCounters, one: np.uint64, other: np.uint64) -> np.uint64:
    """Return which of two places of the heap comes first by (record, entry), without a branch."""
    record, rival = c.records[one], c.records[other]
    loses = (rival < record) | ((rival == record) & (c.heap[other] < c.heap[one]))
    return other if loses else one


@inlined
def _first_child(c: EpochCounters, place: np.uint64) -> np.uint64:
    """Return the first of the places below ``place``, or ``place`` if there is none."""
    size = np.uint64(c.heap.size)
    child = _4 * place + _1
    if child + _3 < size:
        return _first_of(c, _first_of(c, child, child + _1), _first_of(c, child + _2, child + _3))
    best = place if child >= size else child
    while child < size:
        best = _first_of(c, best, child)
        child += _1
    return best


@inlined
def _sink(c: EpochCounters, top: np.uint64, entry: np.uint32, record: float) -> None:
    """Put ``entry`` at place ``top`` of the heap or below it, where it belongs by (record, entry)."""
    place = top
    while True:  # to the bottom first: that is where a grown counter mostly belongs
        child = _first_child(c, place)
        if child == place:
            break
        c.heap[place] = c.heap[child]
        c.records[place] = c.records[child]
        place = child
    while place > top:
        above = (place - _1) >> _2
        if c.records[above] < record or (c.records[above] == record and c.heap[above] < entry):
            break
        c.heap[place] = c.heap[above]
        c.records[place] = c.records[above]
        place = above
    c.heap[place] = entry
    c.records[place] = record


@inlined
def _lowest_entry(c: EpochCounters) -> int:
    """Return the entry with the lowest (count, entry) of a full sketch; it is the root of the heap."""
    if c.ends[HEAPED] == 0:  # the order of the epoch before is nearly right
        for each in range(c.heap.size):
            c.records[each] = c.counts[c.heap[each]]
        for above in range((c.heap.size + 2) // 4, 0, -1):
            place = np.uint64(above - 1)
            child = _first_child(c, place)
            if child != place and _first_of(c, place, child) == child:
                _sink(c, place, c.heap[place], c.records[place])
        c.ends[HEAPED] = 1
    while True:
        entry = c.heap[0]
        count = c.counts[entry]
        if c.records[0] == count:
            return np.int64(entry)  # type: ignore[return-value]
        _sink(c, np.uint64(0), entry, count)


@inlined
def count_in_epoch(c: EpochCounters, key: np.uint64) -> tuple[int, bool]:
    """Count one message of ``key``; return its entry and whether that is new to the key."""
    c.ends[MESSAGES] += 1
    c.sums[TOTAL] += 1.0
    entry = table_find(c.table, key)
    fresh = entry < 0
    if fresh:
        if c.ends[ENTRIES] < c.keys.size:
            entry = c.ends[ENTRIES]
            c.ends[ENTRIES] += 1
        else:
            entry = _lowest_entry(c)
            table_remove(c.table, c.keys[entry])
        c.keys[entry] = key
        table_insert(c.table, key, entry)
    count = c.counts[entry] + 1.0
    c.counts[entry] = count
    c.sums[HIGHEST] = max(c.sums[HIGHEST], count)
    return entry, fresh


@inlined
def epoch_is_over(c: EpochCounters, epoch: int) -> bool:
    """Say whether the next message begins an epoch, so that ``close_epoch`` is due."""
    return c.ends[MESSAGES] - c.ends[CLOSED] == epoch


@inlined
def close_epoch(c: EpochCounters, decay: float) -> None:
    """Let every counter decay."""
    c.ends[CLOSED] = c.ends[MESSAGES]
    if decay == 1.0:
        return
    for entry in range(c.ends[ENTRIES]):
        c.counts[entry] *= decay
    c.sums[TOTAL] *= decay
    c.sums[HIGHEST] *= decay
    c.ends[HEAPED] = 0  # rounding may have made counts equal that were not
