"""Lossy counting (Manku and Motwani, VLDB 2002) over a whole stream or a recent window (`functions` 4.1.2).

Rule: the stream is divided into buckets of 1 / epsilon messages. A new key enters in bucket b with count 1
and error b
- 1; a known key's count is incremented; when bucket b closes, keys with count + error <= b are dropped. After
  N messages ``true count - epsilon N <= count <= true count``, every key above epsilon N is held, and at most
  (1 / epsilon) log(epsilon N) keys are held. For a window of ``window`` messages, x such counters start at
  intervals of one step = window / (x - 1) messages, run for x steps and restart; the oldest one is used, and
  covers ``window`` to x / (x - 1) times ``window`` messages.

Not specified by the papers, and chosen here: bucket ends coincide with step ends, so every bucket has at
least 1 / epsilon messages and the buckets of all counters close at the same time. The counters can then share
one table of keys (the oldest holds every key that a younger one holds), and a message costs one probe for all
of them. If a step is shorter than 1 / epsilon, nothing is dropped before its counter ends, and counts are
exact.

A key that is held for b buckets has been counted at least b times, so closing buckets costs O(1) per message,
amortised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Int64Array, UInt64Array, inlined, kernel
from evenflow.sketches.table import KeyTable, new_table, table_find, table_insert, table_remove

_FOREVER = 2**63 - 1

# indices of LossyCounters.clock
_MESSAGES = 0
_BOUNDARY = 1  # the message count at which the open bucket closes
_BUCKET = 2  # the open bucket, from 1
_OLDEST = 3  # the counter in use
_START = 4  # the step in which it started
_USED = 5  # entries in use

# indices of LossyCounters.shape
_STEP = 0
_BUCKETS = 1  # per step; 0: nothing is dropped early


class LossyCounters(NamedTuple):
    """The arrays of a lossy counting sketch; entries are indices into them, those in use first."""

    table: KeyTable
    keys: UInt64Array
    counts: Int64Array  # [entry, counter, 0]: count; [entry, counter, 1]: last bucket in which it is held
    clock: Int64Array
    shape: Int64Array


def new_lossy_counters(
    epsilon: float, window: int | None = None, counters: int = 3, *, room: int = 0
) -> LossyCounters:
    """Return an empty sketch with error at most ``epsilon``, of all messages or of the last ``window``.

    ``room`` entries are added to those that the theory requires, for keys taken over from another sketch.
    """
    if window is None:
        counters, step, buckets = 1, math.ceil(1 / epsilon), 1
        capacity = _most_entries(step, _FOREVER // step)
    else:
        step = math.ceil(window / (counters - 1))
        buckets = math.floor(step * epsilon)
        capacity = counters * step
        if buckets:
            capacity = min(capacity, _most_entries(math.ceil(step / buckets), counters * buckets) + room)
    return LossyCounters(
        table=new_table(capacity),
        keys=np.zeros(capacity, np.uint64),
        counts=np.zeros((capacity, counters, 2), np.int64),
        clock=np.array([0, math.ceil(step / max(1, buckets)), 1, 0, 0, 0], np.int64),
        shape=np.array([step, buckets], np.int64),
    )


def _most_entries(width: int, buckets: int) -> int:
    """Return the most keys held after ``buckets`` buckets: ``width`` times their harmonic number."""
    return math.ceil(width * (math.log(buckets) + 0.5773 + 0.5 / buckets))


@inlined
def count_key(c: LossyCounters, key: np.uint64, bucket: int) -> None:
    """Count one message of ``key`` in the open ``bucket``; the caller advances the clock."""
    entry = table_find(c.table, key)
    if entry < 0:
        entry = c.clock[_USED]
        c.clock[_USED] += 1
        c.keys[entry] = key
        table_insert(c.table, key, entry)
        for counter in range(c.counts.shape[1]):
            c.counts[entry, counter, 0] = 1
            c.counts[entry, counter, 1] = bucket
    else:
        for counter in range(c.counts.shape[1]):
            if c.counts[entry, counter, 1] < bucket:  # was dropped from this counter and returns
                c.counts[entry, counter, 0] = 1
                c.counts[entry, counter, 1] = bucket
            else:
                c.counts[entry, counter, 0] += 1
                c.counts[entry, counter, 1] += 1


@inlined
def open_bucket(c: LossyCounters) -> int:
    """Return the number of the open bucket."""
    return c.clock[_BUCKET]


@inlined
def bucket_room(c: LossyCounters) -> int:
    """Return the number of messages left in the open bucket."""
    return c.clock[_BOUNDARY] - c.clock[_MESSAGES]


@kernel
def advance(c: LossyCounters, messages: int) -> None:
    """Advance the clock by ``messages``, at most ``bucket_room``; close the bucket when it is full."""
    c.clock[_MESSAGES] += messages
    if c.clock[_MESSAGES] < c.clock[_BOUNDARY]:
        return
    step, counters = c.shape[_STEP], c.counts.shape[1]
    steps = c.clock[_MESSAGES] // step
    into = c.clock[_MESSAGES] - steps * step
    if counters > 1 and into == 0:
        for entry in range(c.clock[_USED]):
            c.counts[entry, steps % counters, 0] = 0
            c.counts[entry, steps % counters, 1] = 0
        c.clock[_START] = max(0, steps - counters + 1)
        c.clock[_OLDEST] = c.clock[_START] % counters
    _set_bucket(c, steps, into)
    _let_go(c)


@kernel
def _set_bucket(c: LossyCounters, steps: int, into: int) -> None:
    """Open the bucket that message number ``into`` of step ``steps`` falls into."""
    step, buckets = c.shape[_STEP], c.shape[_BUCKETS]
    if buckets == 0:
        c.clock[_BUCKET] = 1
        c.clock[_BOUNDARY] = (steps + 1) * step
        return
    closed = into * buckets // step
    c.clock[_BUCKET] = steps * buckets + closed + 1
    c.clock[_BOUNDARY] = steps * step + ((closed + 1) * step + buckets - 1) // buckets


@inlined
def _let_go(c: LossyCounters) -> None:
    """Remove the keys that no counter holds any more; the last entry fills each gap."""
    for entry in range(c.clock[_USED] - 1, -1, -1):
        stays = False
        for counter in range(c.counts.shape[1]):
            stays |= c.counts[entry, counter, 1] >= c.clock[_BUCKET]
        if stays:
            continue
        table_remove(c.table, c.keys[entry])
        last = c.clock[_USED] - 1
        c.clock[_USED] = last
        if entry < last:
            table_remove(c.table, c.keys[last])
            table_insert(c.table, c.keys[last], entry)
            c.keys[entry] = c.keys[last]
            for counter in range(c.counts.shape[1]):
                c.counts[entry, counter, 0] = c.counts[last, counter, 0]
                c.counts[entry, counter, 1] = c.counts[last, counter, 1]


@kernel
def _count_all(c: LossyCounters, keys: UInt64Array) -> None:
    done = 0
    while done < keys.size:
        stop = min(keys.size, done + bucket_room(c))
        bucket = open_bucket(c)
        for i in range(done, stop):
            count_key(c, keys[i], bucket)
        advance(c, stop - done)
        done = stop


@kernel
def _counts_of(c: LossyCounters, keys: UInt64Array, out: Int64Array) -> None:
    for i in range(keys.size):
        entry = table_find(c.table, keys[i])
        out[i] = 0
        if entry >= 0 and c.counts[entry, c.clock[_OLDEST], 1] >= c.clock[_BUCKET]:
            out[i] = c.counts[entry, c.clock[_OLDEST], 0]


def covered(c: LossyCounters) -> int:
    """Return the number of recent messages that the counts cover."""
    return int(c.clock[_MESSAGES] - c.clock[_START] * c.shape[_STEP])


def counts_of(c: LossyCounters, keys: UInt64Array) -> Int64Array:
    """Return the counts of ``keys`` in the covered messages, 0 for keys not held."""
    out = np.empty(keys.size, np.int64)
    _counts_of(c, np.ascontiguousarray(keys, np.uint64), out)
    return out


def top_lossy(c: LossyCounters, threshold: float = 0.0) -> tuple[UInt64Array, Int64Array, Int64Array]:
    """Return keys, counts, errors with ``count >= threshold * covered``, highest count first, then by key."""
    entries = c.counts[: c.clock[_USED], c.clock[_OLDEST]]
    counts, lasts = entries[:, 0], entries[:, 1]
    chosen = np.flatnonzero((lasts >= c.clock[_BUCKET]) & (counts >= threshold * covered(c)))
    order = chosen[np.lexsort((c.keys[chosen], -counts[chosen]))]
    errors = lasts[order] - counts[order] - c.clock[_START] * c.shape[_BUCKETS]
    return c.keys[order], counts[order], errors


def with_epsilon(c: LossyCounters, epsilon: float, window: int) -> LossyCounters:
    """Return a sketch of the same ``window`` that continues with another ``epsilon``; past errors remain."""
    used, counters = int(c.clock[_USED]), c.counts.shape[1]
    new = new_lossy_counters(epsilon, window, counters, room=used)
    new.clock[:] = c.clock
    steps, into = divmod(int(c.clock[_MESSAGES]), int(c.shape[_STEP]))
    starts = np.maximum(0, steps - (steps - np.arange(counters)) % counters)
    _set_bucket(new, steps, into)
    counts = c.counts[:used].copy()
    counts[counts[:, :, 1] < c.clock[_BUCKET]] = 0
    held = counts[:, :, 1] > 0
    counts[:, :, 1] += np.where(held, starts * (new.shape[_BUCKETS] - c.shape[_BUCKETS]), 0)
    stays = (counts[:, :, 1] >= new.clock[_BUCKET]).any(axis=1)
    new.clock[_USED] = stays.sum()
    new.keys[: new.clock[_USED]] = c.keys[:used][stays]
    new.counts[: new.clock[_USED]] = counts[stays]
    _fill_table(new)
    return new


@kernel
def _fill_table(c: LossyCounters) -> None:
    for entry in range(c.clock[_USED]):
        table_insert(c.table, c.keys[entry], entry)


class LossyCounting:
    """Counts of the frequent keys of a stream or its last ``window`` messages, at most epsilon too low.

    >>> sketch = LossyCounting(epsilon=0.1)
    >>> sketch.update(np.array([7, 7, 8, 7, 9, 7, 7, 7, 7, 7, 7, 1], np.uint64))
    >>> [(int(key), int(count)) for key, count, error in zip(*sketch.top())]
    [(7, 9), (1, 1)]
    """

    def __init__(self, epsilon: float, window: int | None = None, counters: int = 3):
        if not 0 < epsilon < 1:
            raise EvenflowError(f"epsilon is {epsilon!r}; choose an error between 0 and 1.")
        if window is not None and (not isinstance(window, int | np.integer) or window < 1):
            raise EvenflowError(
                f"window is {window!r}; use at least one message, or None for the whole stream."
            )
        if not isinstance(counters, int | np.integer) or counters < 2:
            raise EvenflowError(f"counters is {counters!r}; a window needs at least 2 counters.")
        self.epsilon = epsilon
        self.counters = new_lossy_counters(epsilon, window, counters)

    @property
    def capacity(self) -> int:
        """Most keys that can be held; according to the theory, more are never needed."""
        return self.counters.keys.size

    @property
    def held(self) -> int:
        """Number of keys held now."""
        return int(self.counters.clock[_USED])

    @property
    def covered(self) -> int:
        """Number of recent messages that the counts cover."""
        return covered(self.counters)

    def update(self, keys: UInt64Array) -> None:
        """Count one message for every key hash."""
        _count_all(self.counters, np.ascontiguousarray(keys, np.uint64))

    def top(self, threshold: float = 0.0) -> tuple[UInt64Array, Int64Array, Int64Array]:
        """Return keys, counts and errors of keys with ``count >= threshold * covered``, most frequent first.

        With ``threshold = delta - epsilon`` no key of frequency delta or more is missing.
        """
        return top_lossy(self.counters, threshold)

    def counts_of(self, keys: UInt64Array) -> Int64Array:
        """Return the counts of ``keys``, 0 for keys not held."""
        return counts_of(self.counters, keys)


def add_up(parts: Sequence[tuple[UInt64Array, Int64Array]]) -> tuple[UInt64Array, Int64Array]:
    """Add the counts of several sources' sketches by key; at most the sum of their errors too low."""
    keys, where = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
    counts = np.zeros(keys.size, np.int64)
    np.add.at(counts, where, np.concatenate([part[1] for part in parts]))
    order = np.lexsort((keys, -counts))
    return keys[order], counts[order]
