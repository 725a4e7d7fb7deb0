"""Epoch counting with decay (`evolving` 4.1.1, Algorithm 1): the recently frequent keys.

Rule: within an epoch of ``epoch`` messages, count as in SpaceSaving: a monitored key's counter is
incremented; a new key replaces the key with the lowest counter and starts at that counter plus one. Between
two epochs all counters and the total are multiplied by ``decay`` (the paper's alpha). With ``capacity``
counters (K_max) and the decayed total N, ``true decayed count <= count <= true decayed count + N /
capacity``, and every key above N / capacity is monitored.

Not specified by the paper, and chosen here: of several keys with the lowest counter, the one in the lowest
entry is replaced; entries are numbered in the order in which they were first filled. An epoch is closed by
the message after its last one, as in Algorithm 1.

Cost: closing an epoch is one pass over the counters, O(1) amortised for epochs no shorter than ``capacity``.
The lowest counter is the root of a heap that is rebuilt at the first replacement after that pass and repaired
lazily: counters only grow within an epoch, so a count recorded in the heap is a lower bound, and a root whose
record is current is the lowest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evenflow.kernels import Float64Array, Int64Array, UInt32Array, UInt64Array, inlined, kernel
from evenflow.sketches.table import KeyTable, new_table, table_find, table_insert, table_remove

TOTAL, HIGHEST = 0, 1  # in EpochCounters.sums
ENTRIES, MESSAGES, CLOSED, HEAPED = 0, 1, 2, 3  # in EpochCounters.ends
_1, _2, _3, _4 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


class EpochCounters(NamedTuple):
    """The arrays of a sketch; an entry is an index into ``keys`` and ``counts``."""

    table: KeyTable
    keys: UInt64Array
    counts: Float64Array
    heap: UInt32Array  # entries, lowest record first; node p is the parent of nodes 4 p + 1 .. 4 p + 4
    records: Float64Array  # of each node of the heap: its entry's count when it was placed there
    sums: Float64Array  # [decayed total, highest count]
    ends: Int64Array  # [entries in use, messages so far, messages in closed epochs, 1 if the heap is built]


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


def merged_epochs(parts: Sequence[EpochCounters], capacity: int, share: float = 1.0) -> EpochCounters:
    """Add up sketches of several sources, times ``share``; the epoch is as far on as theirs are on average.

    A key that a full sketch lacks may have come as often there as its lowest counter says.
    The order of ``parts`` does not matter.
    """
    used = [int(part.ends[ENTRIES]) for part in parts]
    keys = np.unique(np.concatenate([part.keys[:size] for part, size in zip(parts, used, strict=True)]))
    columns = []
    for part, size in zip(parts, used, strict=True):
        floor = float(part.counts.min()) if size == part.keys.size else 0.0
        column = np.full(keys.size, floor)
        column[np.searchsorted(keys, part.keys[:size])] = part.counts[:size]
        columns.append(column)
    counts = share * unordered_sum(columns)
    order = np.lexsort((keys, -counts))[:capacity]
    merged = new_epoch_counters(capacity)
    merged.keys[: order.size] = keys[order]
    merged.counts[: order.size] = counts[order]
    _fill_table(merged.table, merged.keys, order.size)
    merged.sums[TOTAL] = share * unordered_sum([part.sums for part in parts])[TOTAL]
    merged.sums[HIGHEST] = counts.max(initial=0.0)
    merged.ends[ENTRIES] = order.size
    since = sum(int(part.ends[MESSAGES] - part.ends[CLOSED]) for part in parts)
    merged.ends[MESSAGES] = -(-since // len(parts))
    return merged


def unordered_sum(arrays: Sequence[Float64Array]) -> Float64Array:
    """Add arrays so that their order does not matter, not even in the last bit."""
    total: Float64Array = np.sort(np.stack(arrays), axis=0).sum(axis=0)
    return total


@kernel
def _fill_table(table: KeyTable, keys: UInt64Array, size: int) -> None:
    for entry in range(size):
        table_insert(table, keys[entry], entry)


@inlined
def _first_of(c: EpochCounters, node: np.uint64, other: np.uint64) -> np.uint64:
    """Return which of two nodes of the heap comes first by (record, entry), without a branch."""
    record, rival = c.records[node], c.records[other]
    loses = (rival < record) | ((rival == record) & (c.heap[other] < c.heap[node]))
    return other if loses else node


@inlined
def _first_child(c: EpochCounters, node: np.uint64) -> np.uint64:
    """Return the first child of ``node``, or ``node`` if it has none."""
    size = np.uint64(c.heap.size)
    child = _4 * node + _1
    if child + _3 < size:
        return _first_of(c, _first_of(c, child, child + _1), _first_of(c, child + _2, child + _3))
    best = node if child >= size else child
    while child < size:
        best = _first_of(c, best, child)
        child += _1
    return best


@inlined
def _sink(c: EpochCounters, top: np.uint64, entry: np.uint32, record: float) -> None:
    """Put ``entry`` at node ``top`` of the heap or below it, ordered by (record, entry)."""
    node = top
    while True:  # to the bottom first, where a grown counter usually belongs
        child = _first_child(c, node)
        if child == node:
            break
        c.heap[node] = c.heap[child]
        c.records[node] = c.records[child]
        node = child
    while node > top:
        above = (node - _1) >> _2
        if c.records[above] < record or (c.records[above] == record and c.heap[above] < entry):
            break
        c.heap[node] = c.heap[above]
        c.records[node] = c.records[above]
        node = above
    c.heap[node] = entry
    c.records[node] = record


@inlined
def _lowest_entry(c: EpochCounters) -> int:
    """Return the entry with the lowest (count, entry) of a full sketch: the root of the heap."""
    if c.ends[HEAPED] == 0:  # the order of the previous epoch is nearly right
        for each in range(c.heap.size):
            c.records[each] = c.counts[c.heap[each]]
        for above in range((c.heap.size + 2) // 4, 0, -1):
            node = np.uint64(above - 1)
            child = _first_child(c, node)
            if child != node and _first_of(c, node, child) == child:
                _sink(c, node, c.heap[node], c.records[node])
        c.ends[HEAPED] = 1
    while True:
        entry = c.heap[0]
        count = c.counts[entry]
        if c.records[0] == count:
            return np.int64(entry)  # type: ignore[return-value]
        _sink(c, np.uint64(0), entry, count)


@inlined
def count_in_epoch(c: EpochCounters, key: np.uint64) -> tuple[int, bool]:
    """Count one message of ``key``; return its entry and whether the entry is new to it."""
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
    """Return whether the next message starts an epoch, so that ``close_epoch`` is due."""
    return c.ends[MESSAGES] - c.ends[CLOSED] == epoch


@inlined
def close_epoch(c: EpochCounters, decay: float) -> None:
    """Apply the decay to every counter."""
    c.ends[CLOSED] = c.ends[MESSAGES]
    if decay == 1.0:
        return
    for entry in range(c.ends[ENTRIES]):
        c.counts[entry] *= decay
    c.sums[TOTAL] *= decay
    c.sums[HIGHEST] *= decay
    c.ends[HEAPED] = 0  # rounding may have made different counts equal
