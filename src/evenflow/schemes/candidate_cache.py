"""A bounded cache of keys' candidates that finds the one with the shortest wait quickly; used by `fish`.

The candidates of a key are the first d distinct values of ``ring(hash(key, i))``, i = 0, 1, ..., or, without
a ring, of ``hash(key, i) mod n``. They are nested (a larger d only adds some) and, on the ring,
monotone: when workers join or leave, a list changes only if it had or gets one of them. With d = n > 2 every
worker is a candidate, in the order offset, offset + 1, ... (mod n). Ties go to the first candidate.

The cache does not affect decisions: it may be emptied at any time. Every entry of the owner's sketch has its
first two candidates here; longer lists are stored in one array of fixed size, which is emptied when full.

Finding the shortest wait exactly: waits only grow within a wave (the owner starts a new wave when some may
have fallen). So the shortest wait last found in a list remains a lower bound, and a candidate that still has
it, at the last position or soon after, is the answer. Otherwise the list is scanned; a long list in blocks
that remember their own lower bounds, rescanning the block with the lowest bound until its bound is exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenflow.kernels import Float64Array, Int64Array, UInt32Array, inlined
from evenflow.keys import GOLDEN, mix
from evenflow.ring import Ring, ring_lookup

SHORT = 16  # lists up to this length are scanned at once
LONG = 256  # longer lists are scanned by blocks
BLOCK = 64
USED, BUILT, WAVE = 0, 1, 2  # in CandidateCache.ends

# Unsigned numbers avoid numba's handling of negative indices, which took a third of a scan's time.
_1, _2, _3, _4 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
_5, _6, _7, _8 = np.uint64(5), np.uint64(6), np.uint64(7), np.uint64(8)


class CandidateCache(NamedTuple):
    """The arrays of the cache; one entry more than in the sketch holds the list of all workers."""

    pairs: UInt32Array  # the first two candidates of every entry's key
    reach: Float64Array  # how far f_top / f_k must fall before d exceeds M_k; 0: unknown entry
    start: UInt32Array  # of an entry's list in ``cells``
    length: UInt32Array  # of the list; 0: none
    position: UInt32Array  # after the candidate last chosen from the list
    bound: Float64Array  # its wait: no wait in the list was below, none before ``position`` is equal
    wave: Int64Array  # the wave in which ``bound`` was found
    cells: UInt32Array  # the lists, padded to a multiple of 8 with their first candidate
    floors: Float64Array  # of each block of a long list: a lower bound of its waits
    seen: Int64Array  # the list for which a worker was last found
    ends: Int64Array  # [cells in use, lists built, wave]


def new_candidate_cache(entries: int, workers: int) -> CandidateCache:
    """Return an empty cache for a sketch of ``entries`` entries."""
    cells = 64 * (workers + BLOCK)
    return CandidateCache(
        pairs=np.zeros(2 * entries + 2, np.uint32),
        reach=np.zeros(entries + 1),
        start=np.zeros(entries + 1, np.uint32),
        length=np.zeros(entries + 1, np.uint32),
        position=np.zeros(entries + 1, np.uint32),
        bound=np.zeros(entries + 1),
        wave=np.full(entries + 1, -1, np.int64),
        cells=np.zeros(cells, np.uint32),
        floors=np.zeros(cells // BLOCK),
        seen=np.zeros(workers, np.int64),
        ends=np.zeros(3, np.int64),
    )


@inlined
def _worker_at(key: np.uint64, index: int, salt: np.uint64, n: int, ring: Ring, ringed: bool) -> int:
    hashed = mix(key ^ (salt + np.uint64(index) * GOLDEN))
    if ringed:
        return ring_lookup(ring, hashed)
    return np.int64(hashed % np.uint64(n))  # type: ignore[return-value]


@inlined
def find_pair(
    cache: CandidateCache, entry: np.uint64, key: np.uint64, salt: np.uint64, ring: Ring, ringed: bool
) -> None:
    """Assign ``entry`` to ``key`` with its first two candidates, which are equal if there is one worker."""
    n = cache.seen.size
    first = _worker_at(key, 0, salt, n, ring, ringed)
    second = first
    index = 1
    while second == first and n > 1:
        second = _worker_at(key, index, salt, n, ring, ringed)
        index += 1
    cache.pairs[_2 * entry] = first
    cache.pairs[_2 * entry + _1] = second
    cache.length[entry] = 0
    cache.reach[entry] = np.inf


@inlined
def less_waiting_of_pair(cache: CandidateCache, entry: np.uint64, waits: Float64Array) -> np.uint32:
    """Return the one of the first two candidates with the shorter wait."""
    first, second = cache.pairs[_2 * entry], cache.pairs[_2 * entry + _1]
    return second if waits[second] < waits[first] else first


@inlined
def find_list(
    cache: CandidateCache,
    entry: np.uint64,
    key: np.uint64,
    d: int,
    offset: int,
    salt: np.uint64,
    ring: Ring,
    ringed: bool,
) -> np.uint64:
    """Make sure that the first d > 2 candidates of ``key`` are in a list; return the entry that holds it."""
    n = cache.seen.size
    if d >= n:
        entry = np.uint64(cache.length.size - 1)
    if cache.length[entry] == d:
        return entry
    start = cache.ends[USED]
    size = (d + 7) // 8 * 8
    if d > LONG:
        start = (start + BLOCK - 1) // BLOCK * BLOCK
    if start + size > cache.cells.size:
        for other in range(cache.length.size):
            cache.length[other] = 0
        start = 0
    cache.ends[USED] = start + size
    cache.start[entry] = start
    cache.length[entry] = d
    cache.wave[entry] = -1
    if d >= n:
        for index in range(n):
            cache.cells[start + index] = index + offset if index + offset < n else index + offset - n
    else:
        cache.ends[BUILT] += 1
        found = 0
        index = 0
        while found < d:
            worker = _worker_at(key, index, salt, n, ring, ringed)
            index += 1
            if cache.seen[worker] != cache.ends[BUILT]:
                cache.seen[worker] = cache.ends[BUILT]
                cache.cells[start + found] = worker
                found += 1
    for padding in range(d, size):
        cache.cells[start + padding] = cache.cells[start]
    return entry


@inlined
def least_waiting(cache: CandidateCache, entry: np.uint64, waits: Float64Array) -> np.uint32:
    """Return the first candidate with the shortest wait in the list of ``entry``."""
    cells = cache.cells
    start = np.uint64(cache.start[entry])
    length = np.uint64(cache.length[entry])
    if length <= np.uint64(SHORT):
        best, _ = _least_between(cells, start, start + length, waits)
        return cells[best]
    known = cache.wave[entry] == cache.ends[WAVE]
    if known:
        bound = cache.bound[entry]
        cell = start + np.uint64(cache.position[entry])
        stop = min(cell + _8, start + length)
        while cell < stop:
            if waits[cells[cell]] == bound:
                cache.position[entry] = cell + _1 - start
                return cells[cell]
            cell += _1
    if length <= np.uint64(LONG):
        best, bound = _least_between(cells, start, start + length, waits)
    else:
        best, bound = _least_by_blocks(cache, start, start + length, waits, known)
    cache.wave[entry] = cache.ends[WAVE]
    cache.position[entry] = best + _1 - start
    cache.bound[entry] = bound
    return cells[best]


@inlined
def _least_by_blocks(
    cache: CandidateCache, start: np.uint64, end: np.uint64, waits: Float64Array, known: bool
) -> tuple[np.uint64, float]:
    """Return cell and wait of the candidate with the shortest wait in a long list."""
    block = np.uint64(BLOCK)
    low, high = start // block, (end + block - _1) // block
    if not known:
        for index in range(low, high):
            cache.floors[index] = -1.0  # below every wait, so never exact
    while True:
        lowest = low
        each = low + _1
        while each < high:
            lowest = each if cache.floors[each] < cache.floors[lowest] else lowest
            each += _1
        best, wait = _least_between(cache.cells, lowest * block, min(lowest * block + block, end), waits)
        if wait == cache.floors[lowest]:
            return best, wait
        cache.floors[lowest] = wait


@inlined
def _least_between(
    cells: UInt32Array, cell: np.uint64, end: np.uint64, waits: Float64Array
) -> tuple[np.uint64, float]:
    """Return cell and wait of the first candidate with the shortest wait, comparing eight at a time."""
    best, wait = _least_of_eight(cells, cell, waits)
    cell += _8
    while cell < end:
        other, least = _least_of_eight(cells, cell, waits)
        best, wait = _lesser(best, wait, other, least)
        cell += _8
    return best, wait


@inlined
def _least_of_eight(cells: UInt32Array, at: np.uint64, waits: Float64Array) -> tuple[np.uint64, float]:
    first, least = _lesser(at, waits[cells[at]], at + _1, waits[cells[at + _1]])
    second, wait = _lesser(at + _2, waits[cells[at + _2]], at + _3, waits[cells[at + _3]])
    left, left_wait = _lesser(first, least, second, wait)
    first, least = _lesser(at + _4, waits[cells[at + _4]], at + _5, waits[cells[at + _5]])
    second, wait = _lesser(at + _6, waits[cells[at + _6]], at + _7, waits[cells[at + _7]])
    right, right_wait = _lesser(first, least, second, wait)
    return _lesser(left, left_wait, right, right_wait)


@inlined
def _lesser(cell: np.uint64, wait: float, other: np.uint64, least: float) -> tuple[np.uint64, float]:
    """Return the cell with the shorter wait, the first in a tie, and its wait; without a branch."""
    less = least < wait
    return (other if less else cell), (least if less else wait)
