"""lookup.py without Spark: the perfect hash finds every hot key and no other, homes get their parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.plan import bucket_of, make_plan
from evenflow.spark.routing.plan_sql import alias_cells, perfect_slots, route


@given(count=st.integers(0, 3000), seed=st.integers(0, 2**32))
def test_every_key_has_a_slot_of_its_own(count: int, seed: int) -> None:
    keys = np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)
    slots = perfect_slots(keys)
    size = slots.key.size
    assert size <= 8 * max(1, count)
    lower, upper = keys & np.uint64(size - 1), (keys >> np.uint64(20)) & np.uint64(size - 1)
    placed = np.sort(slots.key[slots.key >= 0])
    for key in np.setdiff1d(
        np.arange(count), placed
    ):  # only keys that share all their bits go by their bucket
        assert ((lower == lower[key]) & (upper == upper[key])).sum() > 1
    assert np.unique(placed).size == placed.size >= count - 8
    shift = slots.shift[lower.astype(np.int64)]
    slot = ((keys >> np.uint64(20)).astype(np.int64) + shift) & (size - 1)
    assert (slots.key[slot[placed]] == placed).all()


def test_keys_whose_bits_clash_go_by_their_bucket() -> None:
    same_low_bits = np.arange(200, dtype=np.uint64) << np.uint64(44)
    plan = make_plan(4, same_low_bits, np.full(200, 10.0))
    rows = np.repeat(same_low_bits, 5)
    by_bucket = plan.buckets[bucket_of(rows, plan.buckets.size)]
    assert (route(plan, rows, np.zeros(rows.size)) == by_bucket).all()


@pytest.mark.parametrize("workers", [1, 2, 7, 60])
def test_rows_go_to_homes_in_their_parts(workers: int) -> None:
    rng = np.random.default_rng(workers)
    keys = rng.integers(0, 2**64, 200, np.uint64)
    counts = np.floor(1e5 * np.arange(1, 201) ** -1.5) + 1
    plan = make_plan(workers, keys, counts, total=float(counts.sum()) * 1.2)
    cells = alias_cells(plan)
    for i in range(plan.keys.size):
        part = slice(plan.starts[i], plan.starts[i + 1])
        size = plan.starts[i + 1] - plan.starts[i]
        got = np.bincount(cells.below[part], cells.cut[part] / size, workers)
        got += np.bincount(cells.above[part], (1 - cells.cut[part]) / size, workers)
        assert got == pytest.approx(np.bincount(plan.homes[part], plan.parts[part], workers), abs=1e-9)
    # strangers go by bucket, hot keys to their homes
    rows = np.concatenate([np.repeat(keys, 20), rng.integers(0, 2**64, 2000, np.uint64)])
    workers_of = route(plan, rows, rng.random(rows.size))
    for key, worker in zip(rows.tolist(), workers_of.tolist(), strict=True):
        assert worker in plan.homes_of(key)


def test_a_key_of_hash_zero_is_not_taken_for_a_free_slot() -> None:
    plan = make_plan(4, np.array([5], np.uint64), [10], total=20)
    zero = np.zeros(10, np.uint64)
    assert set(route(plan, zero, np.linspace(0, 0.9, 10)).tolist()) == set(plan.homes_of(0))
