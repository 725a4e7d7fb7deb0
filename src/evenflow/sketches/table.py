"""A bounded map from key hashes to slots, for kernels: open addressing, linear probing, no tombstones.

The map never grows: its owner says how many keys it may hold and removes one before it adds one too many. All
arrays are powers of two at least four times that size, so probes stay short.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenflow.kernels import Int32Array, UInt64Array, inlined

_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class KeyTable(NamedTuple):
    """The arrays of a map; ``slots`` is -1 where a place is free."""

    keys: UInt64Array
    slots: Int32Array


def new_table(capacity: int) -> KeyTable:
    """Return an empty map for at most ``capacity`` keys."""
    size = 16
    while size < 4 * capacity:
        size *= 2
    return KeyTable(np.zeros(size, np.uint64), np.full(size, -1, np.int32))


@inlined
def _place(key: np.uint64, mask: int) -> int:
    return np.int64((key * _SPREAD) >> np.uint64(20)) & mask  # type: ignore[return-value]


@inlined
def table_find(table: KeyTable, key: np.uint64) -> int:
    """Return the slot of ``key``, or -1."""
    mask = table.slots.size - 1
    place = _place(key, mask)
    while True:
        slot = table.slots[place]
        if slot < 0 or table.keys[place] == key:
            return slot
        place = (place + 1) & mask


@inlined
def table_insert(table: KeyTable, key: np.uint64, slot: int) -> None:
    """Add ``key``, which must not be there yet."""
    mask = table.slots.size - 1
    place = _place(key, mask)
    while table.slots[place] >= 0:
        place = (place + 1) & mask
    table.keys[place] = key
    table.slots[place] = slot


@inlined
def table_remove(table: KeyTable, key: np.uint64) -> None:
    """Remove ``key``, which must be there, and close the gap behind it."""
    mask = table.slots.size - 1
    gap = _place(key, mask)
    while table.keys[gap] != key or table.slots[gap] < 0:
        gap = (gap + 1) & mask
    place = gap
    while True:
        place = (place + 1) & mask
        if table.slots[place] < 0:
            break
        home = _place(table.keys[place], mask)
        if ((place - home) & mask) >= ((place - gap) & mask):
            table.keys[gap] = table.keys[place]
            table.slots[gap] = table.slots[place]
            gap = place
    table.slots[gap] = -1
