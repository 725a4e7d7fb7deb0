"""The simulator against the same thing in plain Python, on small random runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenflow as ef
from evenflow.simulator import Aggregation, Capacities, Queueing, Rescale, simulate
from simulator.fakes import ListStream
from simulator.slow import SlowSimulation


def small_stream(seed: int, messages: int, keys: int, timed: bool) -> ListStream:
    rng = np.random.default_rng(seed)
    ids = rng.zipf(1.5, messages) % keys
    times = 100 + np.cumsum(rng.exponential(0.01, messages)) if timed else None
    return ListStream(ids, times, known=bool(seed % 2))


STREAMS = st.builds(
    small_stream, st.integers(0, 2**20), st.integers(2, 400), st.sampled_from([1, 5, 90]), st.booleans()
)
RESCALING = ["bounded-load", "consistent", "consistent-hash", "fish"]
QUICK: dict[str, dict[str, Any]] = {
    "consistent": {"slot": 3, "certainty": 0.5, "patience": 4},
    "fish": {"interval": 0.3, "epoch": 50, "theta": 0.05},
}
NAMES = ["key", "shuffle", "partial-key", "d-choices", "w-choices", "consistent-hash", "random-choices"]


@given(
    stream=STREAMS,
    name=st.sampled_from(NAMES),
    workers=st.sampled_from([1, 3, 63, 64, 70]),
    sources=st.sampled_from([1, 2, 5]),
    every=st.sampled_from([1, 7, 50, 1000]),
    chunk=st.sampled_from([1, 13, 1 << 20]),
)
def test_loads_pairs_and_partials(
    stream: ListStream, name: str, workers: int, sources: int, every: int, chunk: int
) -> None:
    aggregation = Aggregation(every)
    scheme = ef.scheme(name)
    slow = SlowSimulation(scheme, stream, workers, sources, 3, aggregation=aggregation, head=0.1).run()
    fast = simulate(scheme, stream, workers, sources, 3, head=0.1, aggregation=aggregation, chunk=chunk)
    row = fast.row()
    assert fast.loads.tolist() == slow.loads
    assert fast.by_worker["head"].tolist() == slow.head_loads
    assert (fast.by_worker["head"] + fast.by_worker["tail"]).tolist() == slow.loads
    assert fast.over_time["imbalance"].tolist() == slow.imbalances
    assert fast.periods["partials"].tolist() == slow.partials
    assert (row["keys"], row["replicas"]) == (len(slow.counts), slow.ever)
    assert row["memory"] == slow.ever / len(slow.counts)
    assert row["imbalance_mean"] == pytest.approx(np.mean(slow.imbalances))
    assert row["max_over_mean"] == pytest.approx(max(slow.loads) / np.mean(slow.loads))
    shares = [100 * load / len(stream.ids) for load in slow.loads]
    assert row["standard_deviation"] == pytest.approx(
        math.sqrt(sum((share - 100 / workers) ** 2 for share in shares) / workers)
    )
    assert fast.by_worker["keys"].sum() == row["replicas"]


def compare_queues(fast: Any, slow: SlowSimulation) -> None:
    row = fast.row()
    latencies = sorted(latency for worker in slow.crew for latency in worker.latencies)
    makespan = max(worker.free for worker in slow.crew)
    assert fast.loads.tolist() == slow.loads
    assert row["makespan"] == pytest.approx(makespan)
    assert row["throughput"] == pytest.approx(row["messages"] / makespan)
    assert row["latency_mean"] == pytest.approx(np.mean(latencies))
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        rank = max(0, math.ceil(share * len(latencies)) - 1)
        assert row[f"latency_{name}"] == pytest.approx(latencies[rank], rel=1e-6)
    for worker, own in enumerate(member.latencies for member in slow.crew):
        expected = np.mean(own) if own else math.nan
        assert fast.by_worker["latency_mean"][worker] == pytest.approx(expected, nan_ok=True)
        median = sorted(own)[max(0, math.ceil(0.5 * len(own)) - 1)] if own else math.nan
        assert fast.by_worker["latency_p50"][worker] == pytest.approx(median, rel=1e-6, nan_ok=True)
    assert fast.over_time["queue_spread"].tolist() == slow.queue_spreads
    assert fast.over_time["imbalance"].tolist() == slow.imbalances


@given(
    stream=STREAMS,
    name=st.sampled_from([*NAMES, "consistent", "fish"]),
    workers=st.sampled_from([1, 3, 7]),
    sources=st.sampled_from([1, 4]),
    load=st.sampled_from([0.3, 0.83, 1.7, None]),
    warm_up=st.sampled_from([0, 1]),
    changed=st.booleans(),
    chunk=st.sampled_from([1, 13, 1 << 20]),
    seed=st.integers(0, 9),
)
def test_queues(
    stream: ListStream,
    name: str,
    workers: int,
    sources: int,
    load: float | None,
    warm_up: int,
    changed: bool,
    chunk: int,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    queueing = Queueing(
        capacity=rng.uniform(0.5, 40, workers).tolist(),
        load=load,
        cost=1.3,
        key_cost=rng.uniform(0.2, 3, 90).tolist(),
        warm_up=warm_up,
    )
    at = len(stream.ids) // 2
    events = [Capacities(at, rng.uniform(0.5, 40, workers).tolist())] if changed else []
    scheme = ef.scheme(name, **QUICK.get(name, {}))
    slow = SlowSimulation(scheme, stream, workers, sources, seed, queueing, events).run()
    compare_queues(
        simulate(scheme, stream, workers, sources, seed, queueing=queueing, events=events, chunk=chunk), slow
    )


@given(
    stream=STREAMS,
    name=st.sampled_from(RESCALING),
    sizes=st.lists(st.sampled_from([1, 2, 4, 66]), min_size=1, max_size=3),
    sources=st.sampled_from([1, 3]),
    delay=st.sampled_from([0.0, 0.25]),
    every=st.sampled_from([None, 1, 5]),
    chunk=st.sampled_from([1, 13, 1 << 20]),
)
def test_workers_that_leave_and_join(
    stream: ListStream,
    name: str,
    sizes: list[int],
    sources: int,
    delay: float,
    every: int | None,
    chunk: int,
) -> None:
    points = np.linspace(1, len(stream.ids) - 1, len(sizes)).astype(int)
    events = [Rescale(int(at), size) for at, size in zip(points, sizes, strict=True)]
    queueing = Queueing(
        capacity=[1.0313, 2.5171, 0.7319], load=0.8731234567, feedback_delay=delay, acknowledge_every=every
    )
    scheme = ef.scheme(name, **QUICK.get(name, {}))
    slow = SlowSimulation(scheme, stream, 3, sources, 1, queueing, events).run()
    fast = simulate(scheme, stream, 3, sources, 1, queueing=queueing, events=events, chunk=chunk)
    compare_queues(fast, slow)
    assert fast.row()["replicas"] == slow.ever
    assert fast.row()["keys"] == len(slow.counts)
