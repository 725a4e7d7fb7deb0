"""Counters of a simulation: loads, distinct (key, worker) pairs, partial results, owners.

Pairs are bits: key i has ``words`` 64-bit words in row i, where bit 0 means that the key was seen and bit w +
1 that it was sent to worker w. A run thus needs keys x workers bits, regardless of the number of messages.
Loads and pairs do not depend on the order of messages between two readings, so they are counted source by
source; owners are tracked in stream order.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np

from evenflow.kernels import BoolArray, Int32Array, Int64Array, UInt64Array, inlined, kernel

AnyArray = TypeVar("AnyArray", UInt64Array, Int64Array)

_ONE = np.uint64(1)
_SIX = 6
_LOW_SIX = 63


class PairState(NamedTuple):
    """The bits, and [distinct keys, distinct pairs]."""

    bits: UInt64Array  # flat: row i begins at i * words
    totals: Int64Array


class Pairs:
    """Exact counts of distinct keys, (key, worker) pairs and messages per worker.

    >>> pairs = Pairs(workers=3)
    >>> pairs.make_room(2)
    >>> pairs.count(np.array([0, 1, 0, 0], np.int32), np.array([2, 2, 1, 2], np.int32))
    >>> pairs.keys, pairs.ever, pairs.loads.tolist()
    (2, 3, [0, 1, 3])
    """

    def __init__(self, workers: int):
        self.words = workers // 64 + 1
        self.loads = np.zeros(workers, np.int64)
        self.state = PairState(np.zeros(0, np.uint64), np.zeros(2, np.int64))

    def make_room(self, keys: int, at_most: int | None = None) -> None:
        """Make room for ``keys`` rows; ``at_most`` is their final number, if known."""
        rows = self.state.bits.size // self.words
        if rows < keys:
            rows = at_most if at_most is not None and at_most >= keys else max(keys, 2 * rows)
            self.state = self.state._replace(bits=grown(self.state.bits, rows * self.words))

    def count(self, ids: Int32Array, workers: Int32Array) -> None:
        """Count messages of the keys ``ids`` that went to ``workers``."""
        _count(ids, workers, self.loads, self.state, self.words)

    def count_marked(
        self, ids: Int32Array, workers: Int32Array, marked: BoolArray, marked_loads: Int64Array
    ) -> None:
        """Count messages, and separately those of ``marked`` keys."""
        _count_marked(ids, workers, self.loads, self.state, self.words, marked, marked_loads)

    def forget_from(self, worker: int) -> int:
        """Clear the bits of ``worker`` and all higher numbers; return the number of pairs cleared."""
        return _forget_from(self.state, self.words, worker)

    @property
    def keys(self) -> int:
        """Distinct keys so far."""
        return int(self.state.totals[0])

    @property
    def ever(self) -> int:
        """Distinct pairs so far, including those of workers that have left."""
        return int(self.state.totals[1])

    def seen(self) -> Int64Array:
        """The ids of the keys so far, ascending."""
        return np.flatnonzero(self.state.bits[:: self.words] & _ONE)


class Partials:
    """Distinct (key, worker) pairs within a period: the partial results of a merge step."""

    def __init__(self, workers: int, period: int):
        self.period = period
        self.pairs = Pairs(workers)
        self._touched = np.zeros(0, np.int64)  # words to clear when the period ends
        self._used = np.zeros(1, np.int64)

    def make_room(self, keys: int, at_most: int | None = None) -> None:
        """Make room for ``keys`` rows."""
        self.pairs.make_room(keys, at_most)
        words = min(self.period, self.pairs.state.bits.size)
        if self._touched.size < words:
            self._touched = grown(self._touched, words)

    def count(self, ids: Int32Array, workers: Int32Array) -> None:
        """Count messages of the keys ``ids`` that went to ``workers``."""
        _touch(ids, workers, self.pairs.state, self.pairs.words, self._touched, self._used)

    def close(self) -> int:
        """End the period; return its number of pairs."""
        touched = int(self.pairs.state.totals[1])
        self.pairs.state.bits[self._touched[: int(self._used[0])]] = 0
        self.pairs.state.totals[:] = 0
        self._used[0] = 0
        return touched


class OwnerState(NamedTuple):
    """By key: number of messages and worker of the last one (-1: none); [moves, state moved]."""

    counts: Int64Array
    owner: Int32Array
    moved: Int64Array


class KeyOwners:
    """Tracks the owner of each key: a message to another worker than the last moves the key's state."""

    def __init__(self) -> None:
        self.state = OwnerState(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(2, np.int64))

    def make_room(self, keys: int) -> None:
        """Make room for ``keys`` keys."""
        held = self.state.counts.size
        if held < keys:
            size = max(keys, 2 * held)
            owner = np.full(size, -1, np.int32)
            owner[:held] = self.state.owner
            self.state = OwnerState(grown(self.state.counts, size), owner, self.state.moved)

    def follow(self, ids: Int32Array, workers: Int32Array) -> None:
        """Take messages in stream order."""
        _follow(ids, workers, self.state)


def grown(array: AnyArray, size: int) -> AnyArray:
    """Return a copy of ``array``, padded with zeros to ``size``."""
    result: AnyArray = np.zeros(size, array.dtype)
    result[: array.size] = array
    return result


@inlined
def _count_one(key: int, worker: int, loads: Int64Array, state: PairState, words: int) -> None:
    rows = state.bits
    loads[worker] += 1
    row = key * words
    word = row + ((worker + 1) >> _SIX)
    bit = _ONE << np.uint64((worker + 1) & _LOW_SIX)
    if rows[word] & bit == 0:
        rows[word] |= bit
        state.totals[1] += 1
        state.totals[0] += np.int64(rows[row] & _ONE == 0)
        rows[row] |= _ONE


@kernel
def _count(ids: Int32Array, workers: Int32Array, loads: Int64Array, state: PairState, words: int) -> None:
    for i in range(ids.size):
        _count_one(ids[i], workers[i], loads, state, words)


@kernel
def _count_marked(
    ids: Int32Array,
    workers: Int32Array,
    loads: Int64Array,
    state: PairState,
    words: int,
    marked: BoolArray,
    marked_loads: Int64Array,
) -> None:
    for i in range(ids.size):
        marked_loads[workers[i]] += marked[ids[i]]
        _count_one(ids[i], workers[i], loads, state, words)


@kernel
def _touch(
    ids: Int32Array, workers: Int32Array, state: PairState, words: int, touched: Int64Array, used: Int64Array
) -> None:
    rows = state.bits
    for i in range(ids.size):
        worker = workers[i]
        word = ids[i] * words + ((worker + 1) >> _SIX)
        bit = _ONE << np.uint64((worker + 1) & _LOW_SIX)
        held = rows[word]
        if held & bit == 0:
            if held == 0:
                touched[used[0]] = word
                used[0] += 1
            rows[word] = held | bit
            state.totals[1] += 1


@kernel
def _forget_from(state: PairState, words: int, worker: int) -> int:
    forgotten = 0
    first = (worker + 1) >> _SIX
    keep = (_ONE << np.uint64((worker + 1) & _LOW_SIX)) - _ONE
    for row in range(0, state.bits.size, words):
        for word in range(first, words):
            held = state.bits[row + word]
            kept = held & keep if word == first else np.uint64(0)
            gone = held ^ kept
            while gone != 0:
                gone &= gone - _ONE
                forgotten += 1
            state.bits[row + word] = kept
    return forgotten


@kernel
def _follow(ids: Int32Array, workers: Int32Array, state: OwnerState) -> None:
    for i in range(ids.size):
        key = ids[i]
        before = state.owner[key]
        if before != workers[i]:
            if before >= 0:
                state.moved[0] += 1
                state.moved[1] += state.counts[key]
            state.owner[key] = workers[i]
        state.counts[key] += 1


def keys_by_worker(pairs: Pairs) -> Int64Array:
    """Return the number of distinct keys of each worker."""
    held = np.zeros(pairs.loads.size, np.int64)
    _count_bits(pairs.state, pairs.words, held)
    return held


@kernel
def _count_bits(state: PairState, words: int, held: Int64Array) -> None:
    for index in range(state.bits.size):
        word = state.bits[index]
        first = (index % words) * 64 - 1
        if word != 0:
            for bit in range(64):
                worker = first + bit
                if 0 <= worker < held.size and (word >> np.uint64(bit)) & _ONE != 0:
                    held[worker] += 1
