"""Streaming histograms against a slow reference and against the values themselves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.apps.histograms import EMPTY, Histogram, below, histogram, merged, reduced, uniform


def merge_one_by_one(full: Histogram, bins: int) -> Histogram:
    """Merge the closest neighbours, one pair after the other, as the paper says."""
    centres, counts = full.centres.tolist(), full.counts.tolist()
    while len(centres) > bins:
        gaps = [after - before for before, after in itertools.pairwise(centres)]
        at = gaps.index(min(gaps))
        both = counts[at] + counts[at + 1]
        mean = (centres[at] * counts[at] + centres[at + 1] * counts[at + 1]) / both
        centres[at : at + 2], counts[at : at + 2] = [mean], [both]
    return Histogram(np.array(centres), np.array(counts))


def values_of(kind: str, size: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    made: dict[str, np.ndarray] = {
        "normal": rng.normal(size=size),
        "whole": rng.integers(0, 300, size).astype(float),
        "steep": np.exp(3 * rng.normal(size=size)),
        "even": np.arange(size, dtype=float),
        "powers": 1.5 ** np.arange(size % 60),
        "exponential": rng.exponential(size=size),
    }
    return made[kind]


@pytest.mark.parametrize("kind", ["normal", "whole", "steep", "even", "powers"])
def test_merging_many_pairs_at_once_is_merging_one_by_one(kind: str) -> None:
    for seed in range(30):
        values = values_of(kind, 10 + 11 * seed, seed)
        centres, counts = np.unique(values, return_counts=True)
        full = Histogram(centres, counts.astype(float))
        bins = 1 + 3 * seed % 40
        slow, fast = merge_one_by_one(full, bins), reduced(full, bins)
        np.testing.assert_allclose(fast.centres, slow.centres, rtol=1e-9)
        np.testing.assert_array_equal(fast.counts, slow.counts)


@given(st.lists(st.floats(-1e6, 1e6), max_size=60), st.integers(1, 20))
def test_laws(values: list[float], bins: int) -> None:
    points = np.array(values, np.float64)
    found = histogram(points, bins)
    assert found.centres.size <= bins
    assert found.total == len(values)
    assert np.all(np.diff(found.centres) > 0)
    if values:
        slack = 1e-9 * max(1.0, float(np.abs(points).max()))
        assert points.min() - slack <= found.centres[0] <= found.centres[-1] <= points.max() + slack
        cuts = np.linspace(points.min() - 1, points.max() + 1, 7)
        counted = below(found, cuts)
        assert np.all(np.diff(counted) >= -1e-9)
        assert counted[0] == 0
        assert counted[-1] == pytest.approx(len(values))


def test_what_is_no_number_is_left_out() -> None:
    found = histogram(np.array([1.0, np.nan, np.inf, 2.0, -np.inf]), 8)
    assert found.centres.tolist() == [1.0, 2.0]
    assert histogram(np.array([np.nan]), 8).total == 0
    assert merged([], 8).total == merged([EMPTY, EMPTY], 8).total == 0
    assert below(EMPTY, np.array([0.0])).tolist() == [0.0]
    assert uniform(EMPTY, 4).size == 0


@pytest.mark.parametrize(("kind", "error"), [("normal", 0.01), ("even", 0.01), ("exponential", 0.06)])
def test_parts_merged_are_close_to_the_truth(kind: str, error: float) -> None:
    """Eight workers' histograms, merged; what lies before the first bin's centre is not seen."""
    values = values_of(kind, 8000, 1)
    whole = merged((histogram(part, 64) for part in np.split(values, 8)), 64)
    assert whole.total == values.size
    cuts = np.quantile(values, np.linspace(0.05, 0.95, 19))
    true = np.searchsorted(np.sort(values), cuts, side="right")
    assert np.abs(below(whole, cuts) - true).max() < error * values.size
    parts = np.searchsorted(np.sort(values), uniform(whole, 10)) / values.size
    assert np.abs(parts - np.arange(1, 10) / 10).max() < error
