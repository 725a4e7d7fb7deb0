"""Quantiles: of the sample while it is small, within 1/256 beyond."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evenflow.simulator.latency import Latencies

SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def collect(values: np.ndarray, workers: np.ndarray, limit: int, step: int) -> Latencies:
    latencies = Latencies(4, limit)
    for start in range(0, values.size, step):
        part = slice(start, start + step)
        log = latencies.make_room(values[part].size)
        used = int(log.used[0])
        log.latency[used : used + values[part].size] = values[part]
        log.worker[used : used + values[part].size] = workers[part]
        log.used[0] += values[part].size
    return latencies


@pytest.mark.parametrize(("limit", "error"), [(10**6, 1e-6), (10**5, 1e-6), (1000, 1 / 256 + 1e-6)])
@pytest.mark.parametrize("scale", [1e-9, 1e-3, 50.0])
def test_quantiles(limit: int, error: float, scale: float) -> None:
    rng = np.random.default_rng(1)
    values = rng.lognormal(0, 2, 100_000) * scale
    workers = rng.integers(0, 3, 100_000)  # worker 3 has none
    latencies = collect(values, workers, limit, 700)
    overall, by_worker = latencies.quantiles()
    for name, share in SHARES.items():
        assert overall[name] == pytest.approx(np.quantile(values, share, method="inverted_cdf"), rel=error)
        for worker in range(3):
            own = np.quantile(values[workers == worker], share, method="inverted_cdf")
            assert by_worker[name][worker] == pytest.approx(own, rel=error)
        assert math.isnan(by_worker[name][3])
    assert (latencies.histogram is None) == (limit >= 10**5)


def test_memory_is_bounded_beyond_the_limit() -> None:
    values = np.ones(50_000)
    latencies = collect(values, np.zeros(50_000, int), 1000, 100)
    assert latencies.log.latency.size <= 1 << 16


def test_one_value_and_none() -> None:
    latencies = collect(np.array([0.25]), np.array([2]), 10, 1)
    assert latencies.quantiles()[0] == {"p50": 0.25, "p95": 0.25, "p99": 0.25}
    assert math.isnan(Latencies(2).quantiles()[0]["p50"])
