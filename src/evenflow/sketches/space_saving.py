"""SpaceSaving (Metwally et al., ICDT 2005): the most frequent keys of a stream, in bounded memory.

Rule: a monitored key's counter is incremented; a new key replaces the key with the lowest counter, inherits
that counter plus one, and records the inherited part as its error. With ``capacity`` counters and N messages,
and with the **floor** defined as the lowest counter of a full sketch (0 while one is free):

* ``count - error <= true count <= count`` for every monitored key, and the error is at most the floor;
* a key that is not monitored has occurred at most floor times;
* the floor is at most N / capacity, and at most R_k / (capacity - k) for every k < capacity, where R_k is the
  number of messages outside the k most frequent keys (Berinde et al., TODS 2010).

The paper does not specify which of several lowest keys is replaced; here it is the one that has had that
count longest.

Updates are O(1): entries of equal count share a bucket, buckets form a list ordered by count (the paper's
stream summary), and a bounded hash table finds a key's entry.

**Merging** preserves all of this (Agarwal et al., Mergeable Summaries, PODS 2012). A key that a part does not
monitor may have occurred floor times there, so it gets that part's floor as count and as error; counts and
errors of equal keys are added and the largest ``capacity`` are kept. Every counter is then still an upper
bound, and a dropped key has occurred at most as often as the new floor. If all parts have the same capacity,
the new floor is at most N / capacity and R_k / (capacity - k), as if one sketch had seen every message
(Berinde et al. prove it up to a factor of 3); otherwise it is at most the sum of N_i / min(capacity,
capacity_i). A merged sketch continues to count under the same guarantees.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Int32Array, Int64Array, UInt64Array, inlined, kernel
from evenflow.sketches.table import KeyTable, new_table, table_find, table_insert, table_remove


class Counters(NamedTuple):
    """The arrays of a SpaceSaving sketch; entries and buckets are indices into them."""

    table: KeyTable
    keys: UInt64Array
    errors: Int64Array
    before: Int32Array  # neighbours of an entry in its bucket, oldest first
    after: Int32Array
    bucket: Int32Array
    bucket_count: Int64Array
    bucket_first: Int32Array
    bucket_last: Int32Array
    bucket_below: Int32Array
    bucket_above: Int32Array  # of a free bucket: the next free one
    total: Int64Array  # [messages]
    ends: Int32Array  # [entries in use, lowest bucket, first free bucket]


def new_counters(capacity: int) -> Counters:
    """Return an empty sketch of ``capacity`` counters."""
    buckets = capacity + 2
    above = np.arange(1, buckets + 1, dtype=np.int32)
    above[-1] = -1
    return Counters(
        table=new_table(capacity),
        keys=np.zeros(capacity, np.uint64),
        errors=np.zeros(capacity, np.int64),
        before=np.full(capacity, -1, np.int32),
        after=np.full(capacity, -1, np.int32),
        bucket=np.full(capacity, -1, np.int32),
        bucket_count=np.zeros(buckets, np.int64),
        bucket_first=np.full(buckets, -1, np.int32),
        bucket_last=np.full(buckets, -1, np.int32),
        bucket_below=np.full(buckets, -1, np.int32),
        bucket_above=above,
        total=np.zeros(1, np.int64),
        ends=np.array([0, -1, 0], np.int32),
    )


@inlined
def _bucket_after(c: Counters, below: int, count: int) -> int:
    """Return the bucket of ``count`` just above ``below`` (-1: at the bottom), creating it if necessary."""
    above = c.ends[1] if below < 0 else c.bucket_above[below]
    if above >= 0 and c.bucket_count[above] == count:
        return above
    fresh = c.ends[2]
    c.ends[2] = c.bucket_above[fresh]
    c.bucket_count[fresh] = count
    c.bucket_first[fresh] = -1
    c.bucket_last[fresh] = -1
    c.bucket_below[fresh] = below
    c.bucket_above[fresh] = above
    if above >= 0:
        c.bucket_below[above] = fresh
    if below < 0:
        c.ends[1] = fresh
    else:
        c.bucket_above[below] = fresh
    return fresh


@inlined
def _append(c: Counters, entry: int, bucket: int) -> None:
    last = c.bucket_last[bucket]
    c.before[entry] = last
    c.after[entry] = -1
    if last < 0:
        c.bucket_first[bucket] = entry
    else:
        c.after[last] = entry
    c.bucket_last[bucket] = entry
    c.bucket[entry] = bucket


@inlined
def _raise_entry(c: Counters, entry: int) -> None:
    """Move ``entry`` from its bucket to the one for a count higher by one."""
    bucket = c.bucket[entry]
    before = c.before[entry]
    after = c.after[entry]
    count = c.bucket_count[bucket] + 1
    if before < 0 and after < 0:  # alone: raise the bucket itself if the next count is free
        above = c.bucket_above[bucket]
        if above < 0 or c.bucket_count[above] != count:
            c.bucket_count[bucket] = count
            return
    target = _bucket_after(c, bucket, count)
    if before < 0:
        c.bucket_first[bucket] = after
    else:
        c.after[before] = after
    if after < 0:
        c.bucket_last[bucket] = before
    else:
        c.before[after] = before
    if c.bucket_first[bucket] < 0:  # empty: free it
        below = c.bucket_below[bucket]
        above = c.bucket_above[bucket]
        if below < 0:
            c.ends[1] = above
        else:
            c.bucket_above[below] = above
        if above >= 0:
            c.bucket_below[above] = below
        c.bucket_above[bucket] = c.ends[2]
        c.ends[2] = bucket
    _append(c, entry, target)


@inlined
def count_key(c: Counters, key: np.uint64) -> int:
    """Count one message of ``key`` and return its entry."""
    c.total[0] += 1
    entry = table_find(c.table, key)
    if entry >= 0:
        _raise_entry(c, entry)
        return entry
    if c.ends[0] < c.keys.size:
        entry = c.ends[0]
        c.ends[0] += 1
        c.keys[entry] = key
        table_insert(c.table, key, entry)
        _append(c, entry, _bucket_after(c, -1, 1))
        return entry
    entry = c.bucket_first[c.ends[1]]
    table_remove(c.table, c.keys[entry])
    c.errors[entry] = c.bucket_count[c.ends[1]]
    c.keys[entry] = key
    table_insert(c.table, key, entry)
    _raise_entry(c, entry)
    return entry


@inlined
def count_of(c: Counters, entry: int) -> int:
    """Return the counter of ``entry``."""
    return c.bucket_count[c.bucket[entry]]


@kernel
def _count_all(c: Counters, keys: UInt64Array) -> None:
    for i in range(keys.size):
        count_key(c, keys[i])


class SpaceSaving:
    """The most frequent keys of a stream with at most ``capacity`` counters.

    >>> sketch = SpaceSaving(capacity=2)
    >>> sketch.update(np.array([7, 7, 7, 8], np.uint64))
    >>> [(int(key), int(count)) for key, count, error in zip(*sketch.top())]
    [(7, 3), (8, 1)]
    """

    def __init__(self, capacity: int):
        if not isinstance(capacity, int) or not 1 <= capacity < 2**30:
            raise EvenflowError(f"capacity is {capacity!r}; use 1 to 2**30 counters.")
        self.counters = new_counters(capacity)

    @classmethod
    def over(cls, counters: Counters) -> SpaceSaving:
        """Return a sketch that is a view of these arrays."""
        sketch = cls.__new__(cls)
        sketch.counters = counters
        return sketch

    @property
    def capacity(self) -> int:
        """Number of counters."""
        return self.counters.keys.size

    @property
    def total(self) -> int:
        """Number of messages counted."""
        return int(self.counters.total[0])

    @property
    def floor(self) -> int:
        """The most occurrences of a key that is not monitored."""
        c = self.counters
        return int(c.bucket_count[c.ends[1]]) if c.ends[0] == self.capacity else 0

    def update(self, keys: UInt64Array) -> None:
        """Count one message for every key hash."""
        _count_all(self.counters, np.ascontiguousarray(keys, np.uint64))

    def top(self, threshold: float = 0.0) -> tuple[UInt64Array, Int64Array, Int64Array]:
        """Return keys, counts and errors of keys with ``count >= threshold * total``, most frequent first."""
        return top_counters(self.counters, threshold)

    def scaled(self, share: float) -> SpaceSaving:
        """Return a sketch with every count multiplied by ``share``, so that later messages weigh more.

        Counts are rounded up and what is sure of them down: the bounds still hold.
        """
        keys, counts, errors = self.top()
        most = np.ceil(counts * share).astype(np.int64)
        sure = np.floor((counts - errors) * share).astype(np.int64)
        result = SpaceSaving(self.capacity)
        load_counters(result.counters, keys, most, most - sure)
        result.counters.total[0] = int(np.ceil(self.total * share))
        return result

    @staticmethod
    def merged(sketches: Iterable[SpaceSaving], capacity: int | None = None) -> SpaceSaving:
        """Merge sketches of several sources into one of ``capacity`` counters (default: the largest).

        Once a part is full, free counters would promise that a new key had never come before. The result
        therefore has at most as many counters as there are monitored keys.

        >>> parts = SpaceSaving(capacity=2), SpaceSaving(capacity=2)
        >>> parts[0].update(np.array([7, 7, 7, 8], np.uint64))
        >>> parts[1].update(np.array([7, 9, 9], np.uint64))
        >>> keys, counts, errors = SpaceSaving.merged(parts).top()
        >>> keys.tolist(), counts.tolist(), errors.tolist()
        ([7, 9], [4, 3], [0, 1])
        """
        parts = list(sketches)
        if not parts:
            raise EvenflowError("there are no sketches to merge; pass at least one.")
        size = max(part.capacity for part in parts) if capacity is None else capacity
        tops = [part.top() for part in parts]
        keys = np.unique(np.concatenate([top[0] for top in tops]))
        floor = sum(part.floor for part in parts)
        counts = np.full(keys.size, floor, np.int64)
        errors = np.full(keys.size, floor, np.int64)
        for part, top in zip(parts, tops, strict=True):
            where = np.searchsorted(keys, top[0])
            counts[where] += top[1] - part.floor
            errors[where] += top[2] - part.floor
        result = SpaceSaving(min(size, keys.size) if floor else size)
        order = np.lexsort((keys, -counts))[: result.capacity]
        load_counters(result.counters, keys[order], counts[order], errors[order])
        result.counters.total[0] = sum(part.total for part in parts)
        return result


def top_counters(c: Counters, threshold: float = 0.0) -> tuple[UInt64Array, Int64Array, Int64Array]:
    """Return keys, counts and errors above a share of the total, highest count first, then by key."""
    used = int(c.ends[0])
    counts = c.bucket_count[c.bucket[:used]]
    chosen = np.flatnonzero(counts >= threshold * c.total[0])
    order = chosen[np.lexsort((c.keys[chosen], -counts[chosen]))]
    return c.keys[order], counts[order], c.errors[order]


@kernel
def load_counters(c: Counters, keys: UInt64Array, counts: Int64Array, errors: Int64Array) -> None:
    """Fill an empty sketch with known counters, given highest count first."""
    top = -1
    for i in range(keys.size - 1, -1, -1):
        entry = c.ends[0]
        c.ends[0] += 1
        c.keys[entry] = keys[i]
        c.errors[entry] = errors[i]
        table_insert(c.table, keys[i], entry)
        if top < 0 or c.bucket_count[top] != counts[i]:
            top = _bucket_after(c, top, counts[i])
        _append(c, entry, top)
