"""Queues against closed forms, arrivals and costs, capacities and how they are spelled, feedback in time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenflow as ef
from evenflow.simulator import Capacities, Queueing, Rescale, parse_capacities, simulate
from evenflow.streams import Zipf
from simulator.fakes import Listening, ListStream, ModuloRouter, Signalled

LONG = Zipf(z=1.0, keys=100, messages=400_000, seed=3)


def mean_wait(load: float, service: str, arrivals: str = "poisson", workers: int = 1) -> float:
    """Return the mean wait before service, in units of the service time."""
    queueing = Queueing(rate=1000.0, arrivals=arrivals, load=load, service=service)
    row = simulate("shuffle", LONG, workers, 1, seed=2, queueing=queueing).row()
    service_time = workers * load / 1000
    return float(row["latency_mean"] / service_time - 1)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_poisson_arrivals_and_constant_service_wait_as_in_m_d_1(load: float) -> None:
    assert mean_wait(load, "constant") == pytest.approx(load / (2 * (1 - load)), rel=0.05)


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_poisson_arrivals_and_exponential_service_wait_as_in_m_m_1(load: float) -> None:
    assert mean_wait(load, "exponential") == pytest.approx(load / (1 - load), rel=0.08)


def test_exponential_quantiles() -> None:
    queueing = Queueing(rate=1000.0, arrivals="poisson", load=0.5, service="exponential")
    row = simulate("shuffle", LONG, 1, 1, queueing=queueing).row()
    # the time in an M/M/1 queue is exponential with mean s / (1 - load)
    mean = 0.0005 / (1 - 0.5)
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        assert row[f"latency_{name}"] == pytest.approx(-np.log(1 - share) * mean, rel=0.08)


@pytest.mark.parametrize("workers", [1, 10])
def test_regular_arrivals_below_capacity_never_wait(workers: int) -> None:
    queueing = Queueing(rate=1000.0, load=0.8)
    result = simulate("shuffle", LONG, workers, 1, queueing=queueing)
    row = result.row()
    service = workers * 0.8 / 1000
    for name in ("latency_mean", "latency_p50", "latency_p99"):
        assert row[name] == pytest.approx(service, rel=1e-6)
    assert row["utilisation"] == pytest.approx(0.8, rel=1e-3)
    assert result.over_time["utilisation_mean"][1:] == pytest.approx(0.8, rel=1e-3)
    assert row["throughput"] == pytest.approx(1000, rel=1e-3)
    assert row["queue_max"] == 1


def test_regular_arrivals_above_capacity_queue_up_as_in_d_d_1() -> None:
    queueing = Queueing(rate=1000.0, load=1.25)
    result = simulate("shuffle", LONG, 1, 1, queueing=queueing)
    row = result.row()
    service, gap = 0.00125, 0.001
    # message i waits i (service - gap)
    assert row["latency_mean"] == pytest.approx(service + (400_000 - 1) / 2 * (service - gap))
    assert row["latency_p50"] == pytest.approx(service + (200_000 - 1) * (service - gap), rel=1e-6)
    assert row["makespan"] == pytest.approx(400_000 * service)
    assert row["throughput"] == pytest.approx(800)
    lengths = result.over_time["queue_mean"]
    assert lengths == pytest.approx(0.2 * result.over_time["messages"], abs=2)


def test_shuffle_runs_at_the_stated_load_and_key_costs_count() -> None:
    costs = np.linspace(0.1, 5, 100)
    queueing = Queueing(rate=500.0, load=0.6, key_cost=costs)
    row = simulate("shuffle", LONG, 4, 1, queueing=queueing).row()
    assert row["utilisation"] == pytest.approx(0.6, rel=0.01)


def test_load_follows_the_times_of_the_stream() -> None:
    stream = ListStream(np.zeros(5000, int), 1e9 + np.arange(5000) * 0.02)
    row = simulate("shuffle", stream, 5, 1, queueing=Queueing(load=0.5)).row()
    assert row["utilisation"] == pytest.approx(0.5, rel=1e-3)
    assert row["latency_mean"] == pytest.approx(0.5 * 5 * 0.02, rel=1e-3)


def test_fast_workers_serve_faster() -> None:
    queueing = Queueing(rate=100.0, capacity="1x5,1x1", load=None)
    result = simulate("shuffle", ListStream([0] * 10), 2, 1, queueing=queueing)
    assert result.by_worker["capacity"].tolist() == [5, 1]
    # worker 0 gets a message every 0.02 s and needs 0.2 s, worker 1 needs 1 s
    assert result.by_worker["latency_mean"] == pytest.approx([0.2 + 2 * 0.18, 1 + 2 * 0.98])
    assert result.row()["latency_worst_mean"] == pytest.approx(1 + 2 * 0.98)


def test_what_waits_is_served_at_the_new_speed() -> None:
    stream = ListStream([0, 0, 0, 0], [0.0, 0.0, 0.0, 1.0])
    queueing = Queueing(capacity=[1.0], load=None)
    latencies = simulate("key", stream, 1, 1, queueing=queueing, events=[Capacities(3, [4.0])])
    # one is done at 1, then the others take a quarter of a second each
    assert latencies.row()["latency_mean"] == pytest.approx((1 + 1.25 + 1.5 + 0.75) / 4)
    assert latencies.row()["makespan"] == pytest.approx(1.75)
    assert latencies.by_worker["utilisation"].tolist() == pytest.approx([1.0])


def test_a_worker_that_leaves_finishes_its_queue() -> None:
    stream = ListStream(list(range(40)), np.arange(40) * 0.001)
    queueing = Queueing(capacity=[1.0, 1.0], load=None)
    result = simulate("consistent-hash", stream, 2, 1, queueing=queueing, events=[Rescale(20, 1)])
    assert result.loads.sum() == 40
    assert result.row()["makespan"] == pytest.approx(result.loads[0], rel=0.1)
    assert np.isfinite(result.by_worker["latency_mean"]).all()


def test_utilisation_imbalance_is_zero_when_load_follows_capacity() -> None:
    ids = [0, 0, 0, 1] * 500
    stream = ListStream(ids)
    owners = [0, 1]
    seed = next(
        s for s in range(100) if ef.scheme("key").router(2, s).route(stream._hashes).tolist() == owners
    )
    queueing = Queueing(capacity=[3.0, 1.0], load=0.8)
    result = simulate("key", stream, 2, 1, seed, queueing=queueing)
    assert result.row()["imbalance_utilisation"] == pytest.approx(0, abs=1e-3)
    assert result.row()["imbalance"] == pytest.approx(0.25)


def test_warm_up_is_left_out() -> None:
    stream = ListStream([0] * 20, [0.0] * 10 + [100.0 + i for i in range(10)])
    queueing = Queueing(capacity=[10.0], load=None, warm_up=10)
    row = simulate("key", stream, 1, 1, queueing=queueing).row()
    assert row["latency_mean"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (None, [1, 1, 1]),
        ("3x5", [5, 5, 5]),
        ("1x5,2x1", [5, 1, 1]),
        (" 1 x 5 , 2*0.5 ", [5, 0.5, 0.5]),
        ("2,3,4", [2, 3, 4]),
        ("1x1e3,2x2", [1000, 2, 2]),
        ([1, 2.5, 3], [1, 2.5, 3]),
    ],
)
def test_capacities(spec: Any, expected: list[float]) -> None:
    assert parse_capacities(spec, 3).tolist() == expected


@pytest.mark.parametrize("text", ["5\n1\n1\n", "5, 1, 1", "[5, 1, 1]"])
def test_capacities_from_a_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "speeds.txt"
    path.write_text(text)
    assert parse_capacities(str(path), 3).tolist() == [5, 1, 1]
    assert parse_capacities(path, 3).tolist() == [5, 1, 1]


def test_a_file_that_is_no_list_of_capacities(tmp_path: Path) -> None:
    path = tmp_path / "speeds.txt"
    path.write_text("fast\nslow\n")
    with pytest.raises(ef.EvenflowError, match="not a list of capacities; write one number per worker"):
        parse_capacities(str(path), 2)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("3x5,7x1", "capacity has 10 values for 3 workers; pass one per worker"),
        ("three", "capacity is 'three'; write '3x5,7x1'"),
        ("", "write '3x5,7x1'"),
        ("3x5x1", "write '3x5,7x1'"),
        ("1x0,2x1", "capacities must be finite and above 0"),
        ([1, -2, 3], "capacities must be finite and above 0"),
        ([1, float("nan"), 3], "capacities must be finite and above 0"),
        ([1, float("inf"), 3], "capacities must be finite and above 0"),
        ([1, "fast", 3], "write '3x5,7x1'"),
        (7, "write '3x5,7x1'"),
    ],
)
def test_bad_capacities_get_a_sentence(spec: Any, sentence: str) -> None:
    with pytest.raises(ef.EvenflowError, match=sentence):
        parse_capacities(spec, 3)


def test_reports_come_every_interval_and_late_by_the_delay() -> None:
    stream = ListStream([0] * 50, np.arange(50) * 0.1)
    for delay, routed in ((0.0, [10, 20, 30, 40]), (0.35, [14, 24, 34, 44])):
        ModuloRouter.told.clear()
        queueing = Queueing(capacity=[4.0, 1.0], load=None, feedback_delay=delay)
        simulate(Listening(interval=1.0), stream, 2, 1, queueing=queueing, chunk=7)
        told = [(routed, report.time) for _, routed, report in ModuloRouter.told]
        assert [count for count, _ in told] == routed
        assert [time for _, time in told] == pytest.approx([1, 2, 3, 4])
        report = ModuloRouter.told[-1][2]
        assert report.seconds_per_message is not None
        assert report.seconds_per_message.tolist() == [0.25, 1]
        assert report.capacity is not None
        assert report.capacity.tolist() == [4, 1]
        assert report.backlog is not None
        busy = int(stream.hashes[0] % np.uint64(2))
        rate = [4, 1][busy]
        assert report.backlog.tolist()[busy] == pytest.approx(40 - 4 * rate, abs=1)
        assert report.backlog.tolist()[1 - busy] == 0


def test_no_queues_no_reports() -> None:
    ModuloRouter.told.clear()
    simulate(Listening(), ListStream([0] * 50, np.arange(50.0)), 2, 1)
    assert ModuloRouter.told == []


def test_after_a_silence_only_the_latest_report_counts() -> None:
    ModuloRouter.told.clear()
    stream = ListStream([0] * 3, [0.0, 0.5, 1e6])
    simulate(Listening(), stream, 2, 1, queueing=Queueing(capacity=[4.0, 1.0], load=None))
    assert [report.time for _, _, report in ModuloRouter.told] == [1e6]


def test_signals_come_with_the_acknowledgement_of_an_own_message() -> None:
    # all messages go to one worker that is busy all the time: source 1 sends nothing after message 40
    stream = ListStream([0] * 200, np.arange(200) * 0.1)
    ModuloRouter.told.clear()
    queueing = Queueing(capacity=[1.0, 1.0], load=None, acknowledge_every=1)
    simulate(Signalled(slot=5), stream, 2, 2, queueing=queueing)
    busy = int(stream.hashes[0] % np.uint64(2))
    first: dict[int, tuple[int, float]] = {}
    for source, routed, report in ModuloRouter.told:
        assert report.signal is not None
        if report.signal[busy] == 1:
            first.setdefault(source, (routed, report.time))
        assert report.signal[1 - busy] == 0  # who gets no message cannot acknowledge one
    # the slot ends at message 10, at 1.0 s; messages finish at 1.0 (source 0, too early), 2.0 (source 1), 3.0
    assert first[1] == pytest.approx((10, 2.0))
    assert first[0] == pytest.approx((15, 3.0))


def test_consistent_grouping_follows_the_capacities_where_key_and_shuffle_cannot() -> None:
    stream = Zipf(z=1.0, keys=10_000, messages=400_000, seed=1)
    queueing = Queueing(capacity="3x5,7x1", load=0.8)
    events = [Capacities(200_000, "7x1,3x5")]  # the same sum, elsewhere
    runs = {
        name: simulate(name, stream, 10, 5, queueing=queueing, events=events)
        for name in ("key", "shuffle", "consistent")
    }
    settled = runs["consistent"].over_time
    for name in ("key", "shuffle"):
        assert runs[name].row()["latency_mean"] > 20 * runs["consistent"].row()["latency_mean"]
        for mark in (48, 99):
            assert runs[name].over_time["queue_spread"][mark] > 20 * settled["queue_spread"][mark]
            assert runs[name].over_time["utilisation_spread"][mark] > 2 * settled["utilisation_spread"][mark]
    assert (
        settled["queue_spread"][52:60].max() > settled["queue_spread"][48]
    )  # the change is seen, and mended
