"""plan.py: a plan routes as it says, explains itself and survives JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenflow as ef
from evenflow.plan import Plan, bucket_of, make_plan


def counted(z: float, keys: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    counts = (1e6 * np.arange(1, keys + 1) ** -z / (np.arange(1, keys + 1) ** -z).sum()).astype(np.int64) + 1
    return rng.integers(0, 2**64, keys, dtype=np.uint64), counts


@given(
    z=st.sampled_from([0.0, 0.8, 1.4, 3.0]),
    keys=st.integers(1, 300),
    n=st.integers(1, 40),
    split=st.booleans(),
)
def test_rows_go_where_the_plan_expects_them(z: float, keys: int, n: int, split: bool) -> None:
    hashes, counts = counted(z, keys)
    plan = make_plan(n, hashes, counts, split=split)
    rows = np.repeat(hashes, counts // 100)
    draws = np.concatenate([(np.arange(count) + 0.5) / max(1, count) for count in counts // 100])
    share = np.bincount(plan.route(rows, draws), minlength=n) / max(1, rows.size)
    assert plan.expected.sum() == pytest.approx(1)
    # every home of a key may be off by a row, and counts were cut to hundreds
    assert np.abs(share - plan.expected).max() <= (2 * plan.homes.size + 2 * keys) / max(1, rows.size)
    for key in hashes:
        assert set(plan.route(np.full(50, key), np.linspace(0, 0.999, 50)).tolist()) <= set(
            plan.homes_of(int(key))
        )
        if not split:
            assert len(plan.homes_of(int(key))) == 1


def test_a_skewed_stream_is_even_with_few_homes_more_than_keys() -> None:
    hashes, counts = counted(1.4, 1000)
    plan = make_plan(32, hashes, counts)
    assert plan.max_over_mean <= 1.02
    assert plan.splits <= 31 + 1
    assert make_plan(32, hashes, counts, split=False).max_over_mean > 5


def test_few_equal_keys_are_placed_one_by_one() -> None:
    hashes, _ = counted(0.0, 100)
    plan = make_plan(100, hashes, np.full(100, 7), split=False)
    assert sorted(plan.homes.tolist()) == list(range(100))


def test_bucket_counts_say_where_the_tail_is_heavy() -> None:
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 2**64, 5000, dtype=np.uint64)[rng.zipf(1.3, 200_000) % 5000]
    keys, counts = np.unique(rows, return_counts=True)
    hot = np.argsort(-counts)[:50]
    buckets = np.bincount(bucket_of(rows, 64 * 16), minlength=64 * 16)
    plan = make_plan(16, keys[hot], counts[hot], bucket_counts=buckets)
    load = np.bincount(plan.route(rows, rng.random(rows.size)), minlength=16)
    blind = make_plan(16, keys[hot], counts[hot], total=rows.size)
    blind_load = np.bincount(blind.route(rows, rng.random(rows.size)), minlength=16)
    assert load.max() * 16 / rows.size < 1.04 < blind_load.max() * 16 / rows.size


def test_a_new_plan_stays_with_the_old_one_where_it_fits() -> None:
    hashes, counts = counted(1.2, 500)
    first = make_plan(20, hashes, counts)
    again = make_plan(20, hashes, counts, previous=first)
    assert again.homes.tolist() == first.homes.tolist()
    assert "0 keys became hot, 0 cooled, 0 homes opened, 0 buckets moved" in again.changes(first)
    drifted = counts.copy()
    drifted[[0, 400]] = drifted[[400, 0]]
    kept = make_plan(20, hashes, drifted, previous=first)
    fresh = make_plan(20, hashes, drifted)
    stayed = sum(set(kept.homes_of(int(k))) <= set(first.homes_of(int(k))) for k in hashes)
    assert stayed > sum(set(fresh.homes_of(int(k))) <= set(first.homes_of(int(k))) for k in hashes)
    fewer = make_plan(15, hashes, counts, previous=first)
    assert fewer.homes.max() < 15
    assert "20 -> 15 workers" in fewer.explain(first)


def test_shares_follow_capacities() -> None:
    hashes, counts = counted(1.0, 500)
    plan = make_plan(4, hashes, counts, shares=[1, 1, 1, 5])
    assert plan.expected == pytest.approx([1 / 8, 1 / 8, 1 / 8, 5 / 8], rel=0.03)


def test_json_round_trip_and_refusals() -> None:
    hashes, counts = counted(1.2, 50)
    plan = make_plan(5, hashes, counts)
    again = Plan.from_json(plan.to_json())
    rows, draws = np.repeat(hashes, 3), np.random.default_rng(1).random(150)
    assert again.route(rows, draws).tolist() == plan.route(rows, draws).tolist()
    assert again.explain() == plan.explain()
    content = json.loads(plan.to_json())
    for damage, sentence in [
        ({"version": 9}, "version 9"),
        ({"workers": 2}, "outside 0 to 1"),
        ({"hot": 3}, "not a plan"),
    ]:
        with pytest.raises(ef.EvenflowError, match=sentence):
            Plan.from_json(json.dumps({**content, **damage}))
    with pytest.raises(ef.EvenflowError, match="not a plan"):
        Plan.from_json(plan.to_json()[:-5])


def test_bad_input_gets_a_sentence() -> None:
    keys = np.array([1], np.uint64)
    with pytest.raises(ef.EvenflowError, match="workers is 0"):
        make_plan(0, keys, [1])
    with pytest.raises(ef.EvenflowError, match="1 keys and 2 counts"):
        make_plan(2, keys, [1, 2])
    with pytest.raises(ef.EvenflowError, match="3 values for 2 workers"):
        make_plan(2, keys, [1], shares=[1, 2, 3])
    empty = make_plan(3, np.zeros(0, np.uint64), [], total=10)
    assert empty.max_over_mean == 1
