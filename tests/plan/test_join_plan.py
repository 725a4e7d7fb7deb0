"""Plans for joins: every pair of rows of a key meets on exactly one worker, and the work is even."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow import EvenflowError
from evenflow.plan import JoinPlan, make_join_plan
from evenflow.plan.counted import Counted
from evenflow.plan.join_build import KINDS, _grid
from evenflow.plan.join_plan import SidePieces


def counted(rows: dict[int, float], total: float) -> Counted:
    keys = np.array(list(rows), np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return Counted(keys, np.array(list(rows.values()), np.float64), total)


def homes(side: SidePieces, key: int, piece: int) -> set[int]:
    """Return where the rows of one piece go, as the docstring says it."""
    first = int(side.starts[key]) + piece * int(side.copies[key])
    return set(side.homes[first : first + int(side.copies[key])].tolist())


counts = st.dictionaries(st.integers(1, 12), st.floats(1, 1e6), max_size=8)


@given(
    left=counts,
    right=counts,
    workers=st.integers(1, 40),
    how=st.sampled_from(KINDS),
    tail=st.sampled_from([0.0, 10.0, 1e6]),
)
def test_every_pair_meets_once(left: Any, right: Any, workers: int, how: str, tail: float) -> None:
    plan = make_join_plan(
        workers, counted(left, sum(left.values()) + tail), counted(right, sum(right.values()) + tail), how
    )
    ours, theirs = plan.left, plan.right
    for key in range(plan.keys.size):
        for i, j in product(range(plan.left_pieces[key]), range(plan.right_pieces[key])):
            assert len(homes(ours, key, i)) == plan.right_pieces[key]  # no worker twice
            assert len(homes(theirs, key, j)) == plan.left_pieces[key]
            assert len(homes(ours, key, i) & homes(theirs, key, j)) == 1
    assert ((plan.homes >= 0) & (plan.homes < workers)).all()
    assert plan.expected.sum() == pytest.approx(1 if left or right or tail else 0)
    again = JoinPlan.from_json(plan.to_json())
    for name in ("keys", "weights", "left_rows", "right_pieces", "homes", "expected", "starts"):
        assert getattr(again, name).tolist() == getattr(plan, name).tolist()


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({1: 300_000}, {}),
        ({}, {1: 300_000}),
        ({1: 3000}, {1: 3000}),
        ({1: 500_000, 2: 400_000}, {1: 10}),
        (dict.fromkeys(range(1, 30), 20000), dict.fromkeys(range(1, 30), 2)),
    ],
)
@pytest.mark.parametrize("workers", [3, 8, 32])
def test_the_work_is_even(how: str, left: Any, right: Any, workers: int) -> None:
    plan = make_join_plan(workers, counted(left, 1_000_000), counted(right, 1_000_000), how)
    assert plan.max_over_mean < 1.1
    plain = counted(left, 1_000_000), counted(right, 1_000_000)
    assert "hot keys" in plan.explain()
    assert make_join_plan(workers, *plain, how).homes.tolist() == plan.homes.tolist()  # determinism


def test_only_what_must_be_copied_is() -> None:
    """A row that is wanted whether it matches or not is copied only if nothing else makes its key fit."""
    fact, dimension = counted({1: 500_000}, 1_000_000), counted({1: 10}, 100_000)
    for how in ("inner", "left", "left_semi", "left_anti", "full"):
        assert make_join_plan(16, fact, dimension, how).right_pieces.tolist() == [1]
    for how in ("inner", "right", "full"):
        assert make_join_plan(16, dimension, fact, how).left_pieces.tolist() == [1]
    assert make_join_plan(16, fact, dimension, "right").left_pieces.tolist()[0] > 1  # nothing else helps
    both = counted({1: 30_000}, 1_000_000)
    plan = make_join_plan(16, both, both, "inner")
    assert plan.left_pieces[0] > 1
    assert plan.right_pieces[0] > 1


@given(left=st.floats(1, 1e4), right=st.floats(1, 1e4), most=st.floats(1, 1e7), workers=st.integers(1, 12))
def test_the_grid_has_the_fewest_copies(left: float, right: float, most: float, workers: int) -> None:
    joined = left * right
    r, c = _grid(workers, left, right, joined, most, "inner")
    assert r * c <= workers
    fitting = [
        (left * (b - 1) + right * (a - 1))
        for a, b in product(range(1, workers + 1), repeat=2)
        if a * b <= workers and left / a + right / b + joined / (a * b) <= most
    ]
    if fitting:
        assert left / r + right / c + joined / (r * c) <= most
        assert left * (c - 1) + right * (r - 1) == pytest.approx(min(fitting))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "balance"}, "kind is 'balance'"),
        ({"version": 9}, "version 9"),
        ({"workers": 0}, "workers is 0"),
        ({"hot": [{"key": "7", "weight": 1, "rows": [1, 1], "pieces": [2, 1], "homes": [0]}]}, "2 x 1 cells"),
        ({"hot": [{"key": "7", "weight": 1, "rows": [1, 1], "pieces": [2, 1], "homes": [1, 1]}]}, "twice"),
        ({"hot": [{"key": "7", "weight": 1, "rows": [1], "pieces": [1, 0], "homes": [0]}]}, "from 1 on"),
    ],
)
def test_a_damaged_plan_is_refused(change: Any, said: str) -> None:
    plan = make_join_plan(2, counted({1: 100}, 100), counted({1: 1}, 1))
    with pytest.raises(EvenflowError, match=said):
        JoinPlan.from_json(json.dumps({**json.loads(plan.to_json()), **change}))
    with pytest.raises(EvenflowError, match="workers is 0"):
        make_join_plan(0, counted({}, 0), counted({}, 0))
