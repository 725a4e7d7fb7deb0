"""Key ids 0, 1, 2, ... in order of first appearance.

Keys are identified by 64-bit hashes, as in every router. The hash table doubles when half full, so memory
grows with the number of distinct keys and the cost per row stays constant.
"""

from __future__ import annotations

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Int32Array, Int64Array, UInt64Array, kernel
from evenflow.keys import GOLDEN, mix
from evenflow.sketches.table import KeyTable, table_find, table_insert

_MOST = 2**31 - 1  # an id is an int32


class KeyNumbers:
    """The ids of all keys seen so far.

    >>> numbers = KeyNumbers()
    >>> ids, fresh = numbers.of(np.array([7, 9, 7, 8], np.uint64))
    >>> ids.tolist(), fresh.tolist()
    ([0, 1, 0, 2], [0, 1, 3])
    """

    def __init__(self, room: int = 1 << 12):
        self._known = np.empty(room, np.uint64)
        self._table = _table_for(room)
        self._count = np.zeros(1, np.int64)

    def __len__(self) -> int:
        return int(self._count[0])

    def of(self, keys: UInt64Array) -> tuple[Int32Array, Int32Array]:
        """Return the id of every key, and the rows in which a key appeared for the first time."""
        ids = np.empty(keys.size, np.int32)
        fresh = np.empty(keys.size, np.int32)
        before = len(self)
        done = 0
        while done < keys.size:
            done = _number(keys, self._table, self._known, self._count, before, done, ids, fresh)
            if len(self) == self._known.size:
                self._grow()
        return ids, fresh[: len(self) - before].copy()

    def _grow(self) -> None:
        room = min(2 * self._known.size, _MOST)
        if room == self._known.size:
            raise EvenflowError(f"the stream has more than {_MOST} distinct keys; choose a coarser key.")
        known = np.empty(room, np.uint64)
        known[: len(self)] = self._known[: len(self)]
        self._known, self._table = known, _table_for(room)
        _insert_all(self._known[: len(self)], self._table)


def _table_for(room: int) -> KeyTable:
    size = 1 << (2 * room - 1).bit_length()
    return KeyTable(np.zeros(size, np.uint64), np.full(size, -1, np.int32))


@kernel
def _number(
    keys: UInt64Array,
    table: KeyTable,
    known: UInt64Array,
    count: Int64Array,
    before: int,
    start: int,
    ids: Int32Array,
    fresh: Int32Array,
) -> int:
    """Assign ids from row ``start``; return the row for which the table is full, or the number of rows."""
    for i in range(start, keys.size):
        key = keys[i]
        slot = table_find(table, key)
        if slot < 0:
            slot = count[0]
            if slot == known.size:
                return i
            known[slot] = key
            table_insert(table, key, slot)
            fresh[slot - before] = i
            count[0] += 1
        ids[i] = slot
    return keys.size


@kernel
def _insert_all(known: UInt64Array, table: KeyTable) -> None:
    for slot in range(known.size):
        table_insert(table, known[slot], slot)


@kernel
def fold(so_far: UInt64Array, column: UInt64Array) -> None:
    """Combine the hashes of a further column with those of the preceding ones, sensitive to order and nulls.

    Spark's hash of several columns skips nulls, so (a, null) and (null, a) have the same hash, but they are
    different keys.
    """
    for i in range(so_far.size):
        so_far[i] = mix(so_far[i] + GOLDEN) ^ column[i]
