"""The bounded map behaves like a dict, also where every key wants the same place."""

from __future__ import annotations

from random import Random

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
CROWDED = [key_at(place, which) for place in (0, 1, 62, 63) for which in range(5)]


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


@given(seed=st.integers(0, 2**32), others=st.lists(st.integers(0, 2**64 - 1), max_size=8))
def test_behaves_like_a_dict(seed: int, others: list[int]) -> None:
    random = Random(seed)
    keys = [0, 2**64 - 1, *others, *CROWDED]
    table = new_table(CAPACITY)
    expected: dict[int, int] = {}
    for number in range(200):
        key = random.choice(keys)
        if key in expected:
            table_remove(table, np.uint64(key))
            del expected[key]
        elif len(expected) < CAPACITY:
            table_insert(table, np.uint64(key), number)
            expected[key] = number
        assert {key: find(table, key) for key in keys} == {key: expected.get(key, -1) for key in keys}
        assert np.count_nonzero(table.slots >= 0) == len(expected)
