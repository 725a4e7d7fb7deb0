"""The bounded map behaves like a dict, also where every key wants the same place."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenflow.sketches.table import _SPREAD, KeyTable, new_table, table_find, table_insert, table_remove

CAPACITY = 16
PLACES = 64  # of a table for 16 keys
UNSPREAD = pow(int(_SPREAD), -1, 2**64)


def key_at(place: int, which: int) -> int:
    """A key whose home is ``place``."""
    return ((which * PLACES + place) << 20) * UNSPREAD % 2**64


# A few homes next to each other and across the end of the array: probes overlap, wrap and move back.
CROWDED = st.builds(key_at, place=st.sampled_from([0, 1, 2, 61, 62, 63]), which=st.integers(0, 5))
KEYS = CROWDED | st.sampled_from([0, 1, 2**64 - 1]) | st.integers(0, 2**64 - 1)


def find(table: KeyTable, key: int) -> int:
    return table_find(table, np.uint64(key))


def test_size_is_a_power_of_two_with_room() -> None:
    for capacity in (1, 4, 5, 1000, 1024, 1025):
        size = new_table(capacity).slots.size
        assert size >= 4 * capacity
        assert size & (size - 1) == 0
    assert new_table(CAPACITY).slots.size == PLACES


def test_keys_made_for_a_place_start_there() -> None:
    for place in (0, 17, 63):
        table = new_table(CAPACITY)
        table_insert(table, np.uint64(key_at(place, 3)), 5)
        assert np.flatnonzero(table.slots >= 0).tolist() == [place]


@given(steps=st.lists(st.tuples(KEYS, st.booleans()), max_size=150))
def test_behaves_like_a_dict(steps: list[tuple[int, bool]]) -> None:
    table = new_table(CAPACITY)
    expected: dict[int, int] = {}
    for number, (key, remove) in enumerate(steps):
        assert find(table, key) == expected.get(key, -1)
        if key in expected and remove:
            table_remove(table, np.uint64(key))
            del expected[key]
        elif key not in expected and len(expected) < CAPACITY:
            table_insert(table, np.uint64(key), number)
            expected[key] = number
        for known, slot in expected.items():
            assert find(table, known) == slot
        assert np.count_nonzero(table.slots >= 0) == len(expected)
