"""workers="auto": grows and shrinks by utilisation, and a constant load has one answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenflow as ef
from evenflow.owners import AutoWorkers, Ownership
from evenflow.owners.sizing import Sizing
from owners.simulated import Query


@given(
    work=st.floats(0.01, 40),
    start=st.integers(1, 40),
    noise=st.floats(0, 0.15),
    seed=st.integers(0, 1000),
    patience=st.integers(1, 4),
)
def test_a_constant_load_comes_to_rest(
    work: float, start: int, noise: float, seed: int, patience: int
) -> None:
    rule = AutoWorkers(1, 32, patience=patience)
    sizing, random, workers = Sizing(rule), np.random.default_rng(seed), rule.clamp(start)
    seen = []
    for _ in range(60):
        workers = sizing.add(work * float(np.exp(random.uniform(-noise, noise))), workers)
        seen.append(workers)
    changes = np.count_nonzero(np.diff(seen[10:]))
    directions = np.sign(np.diff(seen))
    assert not ((directions > 0).any() and (directions < 0).any())  # never up and down
    assert changes <= 1
    assert all(1 <= workers <= 32 for workers in seen)
    if rule.target < work < 32 * rule.low:
        assert rule.low * 0.8 <= work / seen[-1] <= rule.high * 1.2


def test_bounds_hold_from_the_start() -> None:
    auto = AutoWorkers(least=2, most=4)
    assert Ownership.start(ef.scheme("explicit"), 9, auto=auto).workers == 4
    assert Ownership.start(ef.scheme("explicit"), 1, auto=auto).workers == 2
    with pytest.raises(ef.EvenflowError, match=r"least is 3 and most is 2"):
        AutoWorkers(3, 2)
    with pytest.raises(ef.EvenflowError, match=r"low is 0.9 and high is 0.8"):
        AutoWorkers(low=0.9, high=0.8)


def test_workers_follow_the_load_up_and_down() -> None:
    own = Ownership.start(ef.scheme("explicit"), 2, auto=AutoWorkers(1, 12))
    query = Query(own, z=0.5, rows=50_000, elapsed=1.0)  # 5 worker-seconds per second
    sizes = []
    for rows in [50_000] * 10 + [5000] * 10 + [0] * 5:
        query.rows = rows
        query.step()
        sizes.append(own.workers)
    assert sizes[2] > 2
    assert sizes[4:10] == [9] * 6
    assert sizes[19] == 1
    assert sizes[-1] == 1
    assert np.count_nonzero(np.diff(sizes)) == 2


def test_without_a_clock_the_number_stays() -> None:
    own = Ownership.start(ef.scheme("explicit"), 2, auto=AutoWorkers(1, 12))
    query = Query(own, rows=50_000)
    for _ in range(5):
        query.step()
    assert own.workers == 2
