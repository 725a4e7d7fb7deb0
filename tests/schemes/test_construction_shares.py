"""scan, redist and readj with workers of unequal capacity: beyond the paper, and the paper's where equal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.schemes.cost_model import Costs
from evenflow.schemes.key_placement import ALGORITHMS, place


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(seed=st.integers(0, 1000), resources=st.sampled_from(["LCL", "LQL", "LLL"]))
def test_equal_capacities_are_the_paper(algorithm: str, seed: int, resources: str) -> None:
    random = np.random.default_rng(seed)
    f = np.sort(random.random(20))[::-1] / 20
    old, ring = (random.integers(0, 4, 20).astype(np.int32) for _ in range(2))
    given_ = (algorithm, "APM", Costs(resources), 4, f, old, ring, 0.0, 0.25)
    assert place(*given_, shares=np.full(4, 3.0)).tolist() == place(*given_).tolist()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_slow_worker_carries_less(algorithm: str) -> None:
    f = np.full(60, 1 / 60)
    old = (np.arange(60) % 3).astype(np.int32)
    shares = np.array([1.0, 0.25, 1.0])
    where = place(algorithm, "A", Costs("LLL", domain=60), 3, f, old, old, 0.0, 1 / 3, shares)
    carried = np.bincount(where, f, 3)
    assert carried / carried.sum() == pytest.approx(shares / shares.sum(), abs=0.03)
