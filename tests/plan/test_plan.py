"""A plan routes as it says, explains itself and survives JSON."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenflow as ef
from evenflow.plan import Plan, bucket_of, make_plan
from plan.plans import plans, rows_for


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
    assert "0 keys became hot, 0 cooled, 0 homes added, 0 buckets moved" in again.changes(first)
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


@given(plan=plans(most_keys=60))
def test_json_round_trip_is_exact(plan: Plan) -> None:
    again = Plan.from_json(plan.to_json())
    for field in fields(Plan):
        before, after = getattr(plan, field.name), getattr(again, field.name)
        assert np.array_equal(before, after)
        assert getattr(before, "dtype", int) == getattr(after, "dtype", int)
    hashes, draws = rows_for(plan, 100, 1)
    assert again.route(hashes, draws).tolist() == plan.route(hashes, draws).tolist()
    assert again.to_json() == plan.to_json()
    assert again.explain() == plan.explain()


HOT = {"key": "7", "weight": 0.5, "homes": [0, 1], "parts": [0.25, 0.75]}


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        ({"version": 9}, "version 9, but this evenflow reads 1; make a new plan"),
        ({"workers": 0}, "workers is 0"),
        ({"workers": 1.5}, r"workers has 1\.5, not a 32-bit integer"),
        ({"workers": None}, "workers has null, not a 32-bit integer"),
        ({"workers": True}, "workers has true, not a 32-bit integer"),
        ({"buckets": []}, "buckets is empty"),
        ({"buckets": [0, 2]}, "buckets has worker 2, outside 0 to 1"),
        ({"buckets": [0, 1.5]}, r"buckets has 1\.5"),
        ({"buckets": None}, "buckets is null, not an array"),
        ({"expected": [1.0]}, "expected has 1 values for 2 workers"),
        ({"expected": [0.5, None]}, "expected has null, not a finite non-negative number"),
        ({"expected": [float("nan"), 0.5]}, "expected has NaN, not a finite non-negative number"),
        ({"hot": 3}, "hot is 3, not an array"),
        ({"hot": [3]}, "hot holds 3, not an object"),
        ({"hot": [HOT, HOT]}, "key 7 is listed twice"),
        ({"hot": [{**HOT, "key": 7}]}, "key is 7, not a decimal string"),
        ({"hot": [{**HOT, "key": "-1"}]}, "not a decimal string"),
        ({"hot": [{**HOT, "key": str(2**64)}]}, "not a decimal string"),
        ({"hot": [{**HOT, "key": "0" * 30}]}, "not a decimal string"),
        ({"hot": [{**HOT, "weight": -0.5}]}, r"weight of key 7 has -0\.5"),
        ({"hot": [{**HOT, "weight": None}]}, "weight of key 7 has null"),
        ({"hot": [{**HOT, "weight": float("inf")}]}, "weight of key 7 has Infinity"),
        ({"hot": [{**HOT, "weight": 10**400}]}, "weight of key 7 has 1000"),
        ({"hot": [{**HOT, "homes": []}]}, "homes of key 7 is empty"),
        ({"hot": [{**HOT, "homes": [0, -1]}]}, "homes of key 7 has worker -1, outside 0 to 1"),
        ({"hot": [{**HOT, "homes": [0]}]}, "key 7 has 1 homes and 2 parts"),
        ({"hot": [{**HOT, "parts": [0.25, 0.5]}]}, r"parts of key 7 sum to 0\.75, not 1"),
        ({"hot": [{**HOT, "parts": [1.5, -0.5]}]}, r"parts of key 7 has -0\.5"),
        ({"hot": [{"key": "7"}]}, "weight of key 7 is missing"),
    ],
)
def test_json_that_is_no_plan_gets_a_sentence(damage: dict[str, Any], sentence: str) -> None:
    content = {"version": 1, "workers": 2, "buckets": [0, 1], "expected": [0.5, 0.5], "hot": [HOT]}
    assert Plan.from_json(json.dumps(content)).homes_of(7) == [0, 1]
    with pytest.raises(ef.EvenflowError, match=sentence):
        Plan.from_json(json.dumps({**content, **damage}))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", "{}", "[" * 100_000])
def test_text_that_is_no_plan_gets_a_sentence(text: str) -> None:
    with pytest.raises(ef.EvenflowError, match=r"^this is not a plan: .*; pass the result of to_json\(\)\.$"):
        Plan.from_json(text)


def test_bad_input_gets_a_sentence() -> None:
    keys = np.array([1], np.uint64)
    with pytest.raises(ef.EvenflowError, match="workers is 0"):
        make_plan(0, keys, [1])
    with pytest.raises(ef.EvenflowError, match="1 keys but 2 counts"):
        make_plan(2, keys, [1, 2])
    with pytest.raises(ef.EvenflowError, match=r"shares is \[1, 2, 3\]; .* each of 2 workers"):
        make_plan(2, keys, [1], shares=[1, 2, 3])
    empty = make_plan(3, np.zeros(0, np.uint64), [], total=10)
    assert empty.max_over_mean == 1
