"""A bounded map from key hashes to slots, for kernels: open addressing, linear probing, no tombstones.

The map never grows: its owner fixes the maximum number of keys and removes one before adding to a full map.
The arrays have a power-of-two size, at least four times that number, so probes stay short.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenflow.kernels import Int32Array, UInt64Array, inlined

_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class KeyTable(NamedTuple):
    """The arrays of a map; ``slots`` is -1 in a free cell."""

    keys: UInt64Array
    slots: Int32Array


def new_table(capacity: int) -> KeyTable:
    """Return an empty map for at most ``capacity`` keys."""
    size = 16
    while size < 4 * capacity:
        size *= 2
    return KeyTable(np.zeros(size, np.uint64), np.full(size, -1, np.int32))


@inlined
def first_cell(key: np.uint64, mask: int) -> int:
    """Return the cell in which a search for ``key`` begins; ``mask`` is the number of cells less 1."""
    return np.int64((key * _SPREAD) >> np.uint64(20)) & mask  # type: ignore[return-value]


@inlined
def table_find(table: KeyTable, key: np.uint64) -> int:
    """Return the slot of ``key``, or -1."""
    mask = table.slots.size - 1
    cell = first_cell(key, mask)
    while True:
        slot = table.slots[cell]
        if (slot < 0) | (table.keys[cell] == key):
            return slot
        cell = (cell + 1) & mask


@inlined
def table_insert(table: KeyTable, key: np.uint64, slot: int) -> None:
    """Add ``key``, which must not be in the map."""
    mask = table.slots.size - 1
    cell = first_cell(key, mask)
    while table.slots[cell] >= 0:
        cell = (cell + 1) & mask
    table.keys[cell] = key
    table.slots[cell] = slot


@inlined
def table_remove(table: KeyTable, key: np.uint64) -> None:
    """Remove ``key``, which must be in the map, and close the gap."""
    mask = table.slots.size - 1
    gap = first_cell(key, mask)
    while table.keys[gap] != key or table.slots[gap] < 0:
        gap = (gap + 1) & mask
    cell = gap
    while True:
        cell = (cell + 1) & mask
        if table.slots[cell] < 0:
            break
        home = first_cell(table.keys[cell], mask)
        if ((cell - home) & mask) >= ((cell - gap) & mask):
            table.keys[gap] = table.keys[cell]
            table.slots[gap] = table.slots[cell]
            gap = cell
    table.slots[gap] = -1
