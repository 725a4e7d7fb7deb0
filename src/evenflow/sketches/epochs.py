"""Epoch counting with decay (`evolving` 4.1.1, Algorithm 1): the keys that are frequent of late, in bounded memory.

Rule: inside an epoch of ``epoch`` messages count as SpaceSaving does: a monitored key's counter goes up by one, a new key
takes the place of the key with the lowest counter and starts at that counter plus one. Between two epochs all counters, and
the total, are multiplied by ``decay`` (the paper's alpha). With ``capacity`` counters (K_max) and the decayed total N:
``true decayed count <= count <= true decayed count + N / capacity``, and every key above N / capacity is monitored.

Left open by the paper, and chosen here: of several keys with the lowest counter the one in the lowest entry goes, entries
being numbered as they were first filled; an epoch is closed by the message after its last, as Algorithm 1 has it.

Cost: closing an epoch is one pass over the counters. The lowest counter is the root of a heap that is built at the first
replacement after that pass and mended lazily: counters only grow inside an epoch, so what the heap has on record is a lower
bound, and a root whose record is true is the lowest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, inlined, kernel
from evenflow.sketches.table import KeyTable, new_table, table_find, table_insert, table_remove

TOTAL, HIGHEST = 0, 1  # in EpochCounters.sums
ENTRIES, IN_EPOCH, MESSAGES, HEAPED = 0, 1, 2, 3  # in EpochCounters.ends


class EpochCounters(NamedTuple):
    """The arrays of a sketch; an entry is a number into ``keys`` and ``counts``."""

    table: KeyTable
    keys: UInt64Array
    counts: Float64Array
    heap: Int32Array  # entries, the lowest record first
    records: Float64Array  # of each place of the heap: its entry's count when it was put there
    sums: Float64Array  # [decayed total, highest count]
    ends: Int64Array  # [entries in use, messages in this epoch, messages ever, 1 if there is a heap]


def new_epoch_counters(capacity: int) -> EpochCounters:
    """Return an empty sketch of ``capacity`` counters."""
    return EpochCounters(
        table=new_table(capacity),
        keys=np.zeros(capacity, np.uint64),
        counts=np.zeros(capacity),
        heap=np.arange(capacity, dtype=np.int32),
        records=np.zeros(capacity),
        sums=np.zeros(2),
        ends=np.zeros(4, np.int64),
    )


@inlined
def _before(c: EpochCounters, one: int, other: int) -> bool:
    """Say whether one place of the heap comes before another by (record, entry); without a branch."""
    less = c.records[one] < c.records[other]
    return less | ((c.records[one] == c.records[other]) & (c.heap[one] < c.heap[other]))


@inlined
def _sink(c: EpochCounters, top: int, entry: int, record: float) -> None:
    """Put ``entry`` at place ``top`` of the heap or below it, where it belongs by (record, entry)."""
    heap, records = c.heap, c.records
    size = heap.size
    place = top
    child = 2 * place + 1
    while child + 1 < size:  # to the bottom first: that is where a grown counter mostly belongs
        child += _before(c, child + 1, child)
        heap[place] = heap[child]
        records[place] = records[child]
        place = child
        child = 2 * place + 1
    if child < size:
        heap[place] = heap[child]
        records[place] = records[child]
        place = child
    while place > top:
        above = (place - 1) >> 1
        if records[above] < record or (records[above] == record and heap[above] < entry):
            break
        heap[place] = heap[above]
        records[place] = records[above]
        place = above
    heap[place] = entry
    records[place] = record


@inlined
def _lowest_entry(c: EpochCounters) -> int:
    """Return the entry with the lowest (count, entry) of a full sketch; it is the root of the heap."""
    size = c.heap.size
    if c.ends[HEAPED] == 0:  # the order of the epoch before is nearly right
        for place in range(size):
            c.records[place] = c.counts[c.heap[place]]
        for place in range(size // 2 - 1, -1, -1):
            child = 2 * place + 1
            if child + 1 < size:
                child += _before(c, child + 1, child)
            if _before(c, child, place):
                _sink(c, place, c.heap[place], c.records[place])
        c.ends[HEAPED] = 1
    while True:
        entry = c.heap[0]
        count = c.counts[entry]
        if c.records[0] == count:
            return entry
        _sink(c, 0, entry, count)


@inlined
def count_in_epoch(c: EpochCounters, key: np.uint64) -> tuple[int, bool]:
    """Count one message of ``key``; return its entry and whether the entry was another key's, or free, until now."""
    c.ends[IN_EPOCH] += 1
    c.ends[MESSAGES] += 1
    c.sums[TOTAL] += 1.0
    entry = table_find(c.table, key)
    fresh = entry < 0
    if fresh:
        if c.ends[ENTRIES] < c.keys.size:
            entry = c.ends[ENTRIES]
            c.ends[ENTRIES] += 1
            c.counts[entry] = 0.0
        else:
            entry = _lowest_entry(c)
            table_remove(c.table, c.keys[entry])
        c.keys[entry] = key
        table_insert(c.table, key, entry)
    count = c.counts[entry] + 1.0
    c.counts[entry] = count
    if count > c.sums[HIGHEST]:
        c.sums[HIGHEST] = count
    return entry, fresh


@inlined
def close_epoch(c: EpochCounters, decay: float) -> None:
    """Let every counter decay; the next message begins an epoch."""
    c.ends[IN_EPOCH] = 0
    if decay == 1.0:
        return
    for entry in range(c.ends[ENTRIES]):
        c.counts[entry] *= decay
    c.sums[TOTAL] *= decay
    c.sums[HIGHEST] *= decay
    c.ends[HEAPED] = 0  # rounding may have made counts equal that were not


@kernel
def _count_all(c: EpochCounters, keys: UInt64Array, epoch: int, decay: float) -> None:
    for i in range(keys.size):
        if c.ends[IN_EPOCH] == epoch:
            close_epoch(c, decay)
        count_in_epoch(c, keys[i])


class EpochCounting:
    """The keys that are frequent of late, with at most ``capacity`` counters.

    >>> sketch = EpochCounting(capacity=2, epoch=4, decay=0.5)
    >>> sketch.update(np.array([7, 7, 7, 8, 8, 8], np.uint64))
    >>> [(int(key), float(count)) for key, count in zip(*sketch.top())]
    [(8, 2.5), (7, 1.5)]
    """

    def __init__(self, capacity: int = 1000, epoch: int = 1000, decay: float = 0.2):
        if capacity < 1:
            raise EvenflowError(f"capacity is {capacity}; a sketch needs at least 1 counter.")
        if epoch < 1:
            raise EvenflowError(f"epoch is {epoch}; an epoch has at least 1 message.")
        if not 0 <= decay <= 1:
            raise EvenflowError(f"decay is {decay}; counters are multiplied by 0 (forget) to 1 (keep).")
        self.epoch = epoch
        self.decay = decay
        self.counters = new_epoch_counters(capacity)

    @property
    def capacity(self) -> int:
        """Number of counters."""
        return self.counters.keys.size

    @property
    def total(self) -> float:
        """Number of messages counted, decayed as the counters are."""
        return float(self.counters.sums[TOTAL])

    def update(self, keys: UInt64Array) -> None:
        """Count one message for every key hash."""
        _count_all(self.counters, np.ascontiguousarray(keys, np.uint64), self.epoch, self.decay)

    def top(self, threshold: float = 0.0) -> tuple[UInt64Array, Float64Array]:
        """Return keys and counts of keys with ``count >= threshold * total``, most frequent first, then by key."""
        used = int(self.counters.ends[ENTRIES])
        keys, counts = self.counters.keys[:used], self.counters.counts[:used]
        chosen = np.flatnonzero(counts >= threshold * self.total)
        order = chosen[np.lexsort((keys[chosen], -counts[chosen]))]
        return keys[order], counts[order]
