"""Fill's table of homes: keys that have homes of their own, in a bounded table, in rings of groups of four.

When the table is full, the least recently used of eight consecutive entries is evicted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenflow.kernels import Int32Array, Int64Array, UInt64Array, inlined, kernel
from evenflow.keys import mix, to_range
from evenflow.sketches.table import KeyTable, new_table, table_find, table_insert, table_remove

ENTRIES = 64  # table entries per worker
FEWEST_ENTRIES = 16_384
GROUP = 4  # homes that are looked at for every row of a key
LOOK = 16  # homes that are looked at before another is opened
AHEAD = 64  # messages that are counted and looked up before the first of them is routed
NEVER = 2**60


class Homes(NamedTuple):
    """Keys with homes of their own: entries in a table, each with a ring of groups of up to four homes.

    A group that is not full repeats homes: of a key with fewer than four its own, else those of another.
    The last entry and the last groups are for messages of keys without an entry, while they are routed.
    """

    table: KeyTable
    keys: UInt64Array
    turn: Int32Array  # the group in an entry's ring that is looked at next; -1 for a free entry
    newest: Int32Array  # the group that was added last, the only one that need not be full
    size: Int32Array  # number of homes of an entry; of a free entry: the next free one
    used: Int64Array  # message at which an entry was last used
    workers: Int32Array  # of a group: four of them
    after: Int32Array  # the next group in the ring, or in the list of free groups
    free: Int32Array  # [first free group, or -1; first free entry, or -1; next entry to consider for reuse]


def new_homes(workers: int, entries: int | None = None) -> Homes:
    """Return an empty table of homes for ``workers`` workers."""
    entries = entries or max(FEWEST_ENTRIES, ENTRIES * workers)
    groups = entries + entries // 4 + workers
    return Homes(
        table=new_table(entries),
        keys=np.zeros(entries, np.uint64),
        turn=np.full(entries + 1, -1, np.int32),
        newest=np.full(entries, -1, np.int32),
        size=np.append(_chain(entries), np.int32(1)),
        used=np.zeros(entries + 1, np.int64),
        workers=np.zeros(GROUP * (groups + AHEAD), np.int32),
        after=np.append(_chain(groups), np.arange(groups, groups + AHEAD, dtype=np.int32)),
        free=np.zeros(3, np.int32),
    )


def _chain(length: int) -> Int32Array:
    """Return a linked list of free numbers: each points to the next, the last to -1."""
    chain = np.arange(1, length + 1, dtype=np.int32)
    chain[-1] = -1
    return chain


def further_homes(homes: Homes) -> int:
    """Return how many homes keys have beyond their first."""
    return int(np.maximum(homes.size[:-1][homes.turn[:-1] >= 0] - 1, 0).sum())


@inlined
def _release(homes: Homes, entry: int) -> None:
    """Forget an entry and return its groups to the free list."""
    table_remove(homes.table, homes.keys[entry])
    newest = homes.newest[entry]
    first = homes.after[newest]
    homes.after[newest] = homes.free[0]
    homes.free[0] = first
    homes.turn[entry] = -1
    homes.size[entry] = homes.free[1]
    homes.free[1] = entry


@inlined
def _evict(homes: Homes, keep: int) -> None:
    """Forget the least recently used of the next eight entries, except ``keep``."""
    entries = homes.keys.size
    oldest = -1
    entry = homes.free[2]
    looked = 0
    while looked < 8 or oldest < 0:
        if (
            homes.turn[entry] >= 0
            and entry != keep
            and (oldest < 0 or homes.used[entry] < homes.used[oldest])
        ):
            oldest = entry
        entry += 1
        if entry == entries:
            entry = 0
        looked += 1
    homes.free[2] = entry
    _release(homes, oldest)


@inlined
def _add_home(homes: Homes, entry: int, worker: int) -> None:
    """Add ``worker`` to the newest group or, if it is full, to a new one."""
    size, newest = homes.size[entry], homes.newest[entry]
    filled = size % GROUP
    if filled == 0:
        if homes.free[0] < 0:
            _evict(homes, entry)
        group = homes.free[0]
        homes.free[0] = homes.after[group]
        if size == 0:
            homes.after[group] = homes.turn[entry] = group
        else:
            homes.after[group] = homes.after[newest]
            homes.after[newest] = group
        homes.newest[entry] = group
        for place in range(GROUP):
            homes.workers[GROUP * group + place] = (
                worker if size == 0 else homes.workers[GROUP * newest + place]
            )
        newest = group
    homes.workers[GROUP * newest + filled] = worker
    homes.size[entry] = size + 1


@inlined
def _homes_of(homes: Homes, entry: int, workers: Int32Array) -> int:
    """Write an entry's homes to ``workers``, those of the newest group last; return their number."""
    group = homes.newest[entry]
    size = homes.size[entry]
    for home in range(size):
        if home % GROUP == 0:
            group = homes.after[group]
        workers[home] = homes.workers[GROUP * group + home % GROUP]
    return size


@inlined
def _new_entry(homes: Homes, key: np.uint64) -> int:
    """Return a new entry for ``key``, without homes."""
    if homes.free[1] < 0:
        _evict(homes, -1)
    entry = homes.free[1]
    homes.free[1] = homes.size[entry]
    homes.size[entry] = 0
    homes.turn[entry] = 0  # no longer free
    homes.keys[entry] = key
    table_insert(homes.table, key, entry)
    return entry


@inlined
def open_home(homes: Homes, entry: int, key: np.uint64, worker: int, other: int, message: int) -> int:
    """Add ``other`` to a key's homes, of which ``worker`` was the only one if it has no entry yet."""
    if entry == homes.keys.size:
        entry = int(_new_entry(homes, key))
        homes.used[entry] = message
        _add_home(homes, entry, worker)
    _add_home(homes, entry, other)
    return entry


@inlined
def first_of(homes: Homes, group: int, free: Int64Array) -> tuple[np.uint64, int]:
    """Return the first home of a group to be free, and when, without a branch that would be mispredicted."""
    workers, first = homes.workers, np.uint64(GROUP * group)
    one, when = _earlier(workers[first], workers[first + np.uint64(1)], free)
    other, at = _earlier(workers[first + np.uint64(2)], workers[first + np.uint64(3)], free)
    return np.uint64(other if at < when else one), min(when, at)


@inlined
def _earlier(one: int, other: int, free: Int64Array) -> tuple[int, int]:
    """Return the worker that is free first, and when."""
    when, at = free[np.uint64(one)], free[np.uint64(other)]
    return other if at < when else one, min(when, at)


@inlined
def first_of_more(
    homes: Homes, group: int, size: int, free: Int64Array, levels: Int64Array, highest: int
) -> tuple[np.uint64, int]:
    """Return the first to be free of LOOK homes; those above the highest level only if all are."""
    following = group
    best, at = np.uint64(0), NEVER
    for _ in range(0, min(size, LOOK), GROUP):
        worker, when = first_of(homes, following, free)
        best, at = (worker, when) if when < at else (best, at)
        following = homes.after[following]
    if levels[best] <= highest:
        return best, at
    best, at = np.uint64(homes.workers[GROUP * group]), NEVER
    for _ in range(0, min(size, LOOK), GROUP):
        for place in range(GROUP):
            worker = np.uint64(homes.workers[GROUP * group + place])
            if levels[worker] <= highest and free[worker] < at:
                best, at = worker, free[worker]
        group = homes.after[group]
    return best, free[best]


@inlined
def is_home(homes: Homes, entry: int, worker: int) -> bool:
    """Return whether a worker is a home of an entry."""
    group = homes.newest[entry]
    for _ in range(0, homes.size[entry], GROUP):
        for place in range(GROUP):
            if homes.workers[GROUP * group + place] == worker:
                return True
        group = homes.after[group]
    return False


@kernel
def homes_in(homes: Homes, entry: int, workers: Int32Array) -> int:
    """Write an entry's homes to ``workers``; return their number."""
    return _homes_of(homes, entry, workers)


@kernel
def forget_workers(homes: Homes, workers: int, own: Int32Array) -> None:
    """Remove workers numbered ``workers`` or higher from every ring, and entries without homes."""
    for entry in range(homes.keys.size):
        if homes.turn[entry] < 0:
            continue
        size = _homes_of(homes, entry, own)
        left = 0
        for home in range(size):
            if own[home] < workers:
                own[left] = own[home]
                left += 1
        if left < size:
            key, used = homes.keys[entry], homes.used[entry]
            _release(homes, entry)
            if left > 0:
                entry = _new_entry(homes, key)
                homes.used[entry] = used
                for home in range(left):
                    _add_home(homes, entry, own[home])


@kernel
def further_pairs(
    homes: Homes, buckets: Int32Array, salt: np.uint64, keys: UInt64Array, workers: Int32Array
) -> int:
    """Write the pairs of keys and homes, without the homes of the keys' buckets; return their number."""
    count = 0
    for entry in range(homes.keys.size):
        if homes.turn[entry] < 0:
            continue
        key = homes.keys[entry]
        first = buckets[to_range(mix(key ^ salt), buckets.size)]
        start = count
        for home in range(_homes_of(homes, entry, workers[count:])):
            if workers[start + home] != first:
                keys[count] = key
                workers[count] = workers[start + home]
                count += 1
    return count


@kernel
def adopt_homes(
    homes: Homes, keys: UInt64Array, workers: Int32Array, buckets: Int32Array, salt: np.uint64, now: int
) -> None:
    """Add homes one by one; a key that has none of its own yet also gets its bucket's."""
    for i in range(keys.size):
        entry = table_find(homes.table, keys[i])
        if entry < 0:
            entry = _new_entry(homes, keys[i])
            _add_home(homes, entry, buckets[to_range(mix(keys[i] ^ salt), buckets.size)])
        homes.used[entry] = now
        if not is_home(homes, entry, workers[i]):
            _add_home(homes, entry, workers[i])


@kernel
def join_homes(homes: Homes, others: Homes, now: int, workers: Int32Array) -> None:
    """Add the homes of another source's table; ``workers`` is room for those of one key."""
    for entry in range(others.keys.size):
        if others.turn[entry] < 0:
            continue
        mine = table_find(homes.table, others.keys[entry])
        if mine < 0:
            mine = _new_entry(homes, others.keys[entry])
        homes.used[mine] = now
        for home in range(_homes_of(others, entry, workers)):
            if not is_home(homes, mine, workers[home]):
                _add_home(homes, mine, workers[home])
