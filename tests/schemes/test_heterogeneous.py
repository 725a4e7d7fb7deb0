"""`heterogeneous`: the bounds of PoRC and bounded loads, and what Consistent Grouping makes of signals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import evenflow as ef
from benchmarks import peers_porc
from evenflow.kernels import Float64Array, Int8Array, UInt64Array
from evenflow.schemes.consistent import (
    ALLOCATIONS,
    ConsistentGrouping,
    ConsistentGroupingRouter,
    busy_threshold,
    signals,
)
from reference import REFERENCES

BOUNDED = ["random-choices", "bounded-load"]


def zipf(z: float, keys: int, messages: int, seed: int = 1) -> UInt64Array:
    rng = np.random.default_rng(seed)
    weights = np.arange(1, keys + 1, dtype=float) ** -z
    ids = rng.choice(keys, messages, p=weights / weights.sum())
    return rng.integers(0, 2**64, keys, dtype=np.uint64)[ids]


# --- bounds ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BOUNDED)
@given(
    z=st.sampled_from([0.0, 1.0, 2.0, 5.0]),
    epsilon=st.sampled_from([0.0, 0.01, 0.1, 1.0, 30.0]),
    workers=st.sampled_from([1, 2, 3, 7, 64]),
    seed=st.integers(0, 99),
)
def test_no_worker_ever_exceeds_its_capacity(
    name: str, z: float, epsilon: float, workers: int, seed: int
) -> None:
    loads = [0] * workers
    router = ef.scheme(name, epsilon=epsilon).router(workers, seed)
    for count, worker in enumerate(router.route(zipf(z, 50, 800, seed)).tolist(), start=1):
        loads[worker] += 1
        assert loads[worker] <= math.ceil((1 + epsilon) * count / workers)


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("z", [0.8, 1.4, 2.0])
def test_imbalance_is_at_most_epsilon_of_the_mean(name: str, z: float) -> None:
    workers, epsilon, messages = 10, 0.25, 80_000  # (1 + epsilon) m / n is whole: nothing is rounded
    router = ef.scheme(name, epsilon=epsilon).router(workers, seed=3)
    router.route(zipf(z, 5000, messages))
    assert router.loads.max() - messages / workers <= epsilon * messages / workers


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("workers", [2, 3, 10, 100])
def test_no_key_is_everywhere_if_epsilon_is_above_one_by_n_minus_one(name: str, workers: int) -> None:
    enough = 1.01 / (workers - 1)
    for seed, keys in enumerate([np.zeros(3000, np.uint64), zipf(3.0, 20, 3000), zipf(1.2, 20, 3000)]):
        destinations = ef.scheme(name, epsilon=enough).router(workers, seed).route(keys)
        for key in np.unique(keys):
            assert np.unique(destinations[keys == key]).size < workers
    everywhere = ef.scheme(name, epsilon=0).router(workers).route(np.zeros(3000, np.uint64))
    assert np.unique(everywhere).size == workers


@pytest.mark.parametrize("workers", [10, 100, 1000])
def test_normalised_imbalance_as_in_table_1(workers: int) -> None:
    keys = zipf(1.2, 10_000, 400_000)
    hottest = np.unique(keys, return_counts=True)[1].max() / keys.size

    def normalised(name: str, **parameters: Any) -> float:
        router = ef.scheme(name, **parameters).router(workers, seed=2)
        router.route(keys)
        return float(router.loads.max() / router.loads.mean() - 1)

    rounding = workers / keys.size
    assert normalised("random-choices", epsilon=0.3) == pytest.approx(0.3, abs=rounding)
    assert normalised("bounded-load", epsilon=0.3) == pytest.approx(0.3, abs=rounding)
    assert normalised("shuffle") <= rounding
    assert normalised("two-choices") < 0.02
    assert normalised("key") == pytest.approx(workers * hottest - 1, rel=0.6, abs=0.5)
    assert normalised("partial-key") >= workers * hottest / 2 - 1 - rounding


def test_a_key_comes_to_every_worker_even_if_its_hashes_miss_one() -> None:
    scheme = ef.scheme("random-choices", epsilon=0)
    keys = np.zeros(30, np.uint64)
    lacking = 0
    for seed in range(300):
        reference = REFERENCES["random-choices"](scheme, 3, seed, 1, 3)
        lacking += len({reference.candidate(0, index) for index in range(12)}) < 3
        expected = [reference.route_one(0) for _ in keys]
        assert scheme.router(3, seed, source=1, sources=3).route(keys).tolist() == expected
        assert reference.loads == [10, 10, 10]
    assert lacking > 0


def test_a_cache_place_shared_by_two_hot_keys_changes_nothing() -> None:
    scheme = ef.scheme("random-choices", epsilon=0.0)
    router, reference = scheme.router(50), REFERENCES["random-choices"](scheme, 50, 0, 0, 1)
    keys = zipf(0.3, 3000, 6000)  # more keys than places, so many share one
    assert keys.size > router.cache.keys.size  # type: ignore[attr-defined]
    assert router.route(keys).tolist() == [reference.route_one(int(key)) for key in keys]


# --- workers that come and go ------------------------------------------------------------------------------


def test_consistent_hash_moves_only_to_and_from_who_comes_and_goes() -> None:
    keys = np.random.default_rng(4).integers(0, 2**64, 20_000, np.uint64)
    router = ef.scheme("consistent-hash").router(9)
    nine = router.route(keys)
    router.rescale(10)
    ten = router.route(keys)
    assert set(ten[nine != ten].tolist()) == {9}
    assert (nine != ten).mean() == pytest.approx(0.1, rel=0.15)
    router.rescale(9)
    assert router.route(keys).tolist() == nine.tolist()
    assert router.loads.sum() == 2 * keys.size + np.sum(ten != 9)


@pytest.mark.parametrize("name", ["consistent-hash", "bounded-load"])
@given(sizes=st.lists(st.sampled_from([1, 2, 3, 8, 20]), max_size=4), seed=st.integers(0, 9))
def test_rescaled_ring_routers_decide_like_the_reference(name: str, sizes: list[int], seed: int) -> None:
    scheme = ef.scheme(name, replicas=5)
    router: ef.Router = scheme.router(4, seed)
    reference = REFERENCES[name](scheme, 4, seed, 0, 1)
    for workers in [4, *sizes]:
        router.rescale(workers)
        if workers != reference.n:
            reference.rescale(workers)
        router = ef.Router.from_bytes(router.to_bytes())
        keys = zipf(1.2, 60, 200, seed)
        assert router.route(keys).tolist() == [reference.route_one(int(key)) for key in keys]
        assert router.loads.tolist() == reference.loads


def test_bounded_load_does_not_flood_a_newcomer() -> None:
    router = ef.scheme("bounded-load", epsilon=0.1).router(9)
    router.route(zipf(1.0, 5000, 90_000))
    router.rescale(10)
    after = np.bincount(router.route(zipf(1.0, 5000, 1000)), minlength=10)
    assert after.max() <= math.ceil(1.1 * 1000 / 10)


# --- Consistent Grouping -----------------------------------------------------------------------------------


def grouping(workers: int = 4, **parameters: Any) -> ConsistentGroupingRouter:
    router = ConsistentGrouping(**parameters).router(workers)
    assert isinstance(router, ConsistentGroupingRouter)
    return router


def say(router: ef.Router, **said: int) -> None:
    """Deliver one signal after another: say(router, w2=+1, w0=-1)."""
    for worker, signal in said.items():
        values = np.zeros(router.workers, np.int8)
        values[int(worker[1:])] = signal
        router.report(ef.WorkerReport(signal=values))


def owned_by(router: ConsistentGroupingRouter, worker: int) -> set[int]:
    return set(np.flatnonzero(router.state.assignment.owner == worker).tolist())


def test_without_signals_it_is_its_allocation_folded_onto_the_workers() -> None:
    keys = zipf(1.4, 1000, 20_000)
    for allocation in ALLOCATIONS:
        inner = ef.scheme(allocation).router(40, seed=5).route(keys)
        folded = grouping(allocation=allocation).scheme.router(4, seed=5).route(keys)
        assert folded.tolist() == (inner % 4).tolist()


def test_load_moves_from_a_busy_to_an_idle_worker() -> None:
    keys = zipf(1.0, 5000, 40_000)
    router = grouping()
    assert np.bincount(router.route(keys)) / keys.size == pytest.approx([0.25] * 4, rel=0.03)
    say(router, w0=+1, w2=-1)
    assert router.held.tolist() == [9, 10, 11, 10]
    assert router.moved == 1
    shares = np.bincount(router.route(keys)) / keys.size
    assert shares == pytest.approx([0.225, 0.25, 0.275, 0.25], rel=0.03)


def test_what_was_routed_before_a_late_signal_stays() -> None:
    keys = zipf(1.0, 500, 10_000)
    quiet, late = grouping(), grouping()
    assert quiet.route(keys).tolist() == late.route(keys).tolist()
    before = late.loads.copy()
    say(late, w0=+1, w2=-1)
    assert late.loads.tolist() == before.tolist()
    moved = quiet.route(keys) != (destinations := late.route(keys))
    assert set(destinations[moved].tolist()) == {2}
    assert moved.mean() == pytest.approx(1 / 40, rel=0.1)


def test_pairs_are_made_first_come_first_served() -> None:
    busy_first = grouping()
    say(busy_first, w2=+1, w0=+1)
    assert busy_first.moved == 0
    say(busy_first, w3=-1)
    assert busy_first.held.tolist() == [10, 10, 9, 11]
    say(busy_first, w1=-1)
    assert busy_first.held.tolist() == [9, 11, 9, 11]

    idle_first = grouping()
    say(idle_first, w3=-1, w1=-1)
    say(idle_first, w3=-1)  # said before: keeps its place
    say(idle_first, w0=+1)
    assert idle_first.held.tolist() == [9, 10, 10, 11]
    say(idle_first, w0=+1)
    assert idle_first.held.tolist() == [8, 11, 10, 11]
    say(idle_first, w0=+1)  # nobody is idle any more
    assert idle_first.moved == 2


def test_one_report_may_hold_many_signals() -> None:
    router = grouping()
    router.report(ef.WorkerReport(signal=np.array([-1, +1, +1, -1], np.int8)))
    assert router.held.tolist() == [11, 9, 9, 11]
    router.report(ef.WorkerReport())
    router.report(ef.WorkerReport(signal=np.zeros(4, np.int8)))
    assert router.moved == 2


def test_a_new_signal_cancels_an_opposite_older_one() -> None:
    router = grouping()
    say(router, w0=+1)
    say(router, w0=-1)  # no longer busy, now idle
    say(router, w1=-1)
    assert router.moved == 0
    say(router, w2=+1)  # the oldest idle signal is that of 0
    assert router.held.tolist() == [11, 10, 9, 10]

    router = grouping()
    say(router, w0=-1)
    say(router, w0=+1)  # no longer idle, now busy
    say(router, w1=+1)
    assert router.moved == 0
    say(router, w3=-1)
    assert router.held.tolist() == [9, 10, 10, 11]


def test_the_virtual_worker_acquired_last_moves_on() -> None:
    router = grouping()
    assert owned_by(router, 0) == set(range(0, 40, 4))
    say(router, w0=+1, w3=-1)
    assert 36 in owned_by(router, 3)
    say(router, w3=+1, w1=-1)
    assert owned_by(router, 3) == set(range(3, 40, 4))
    assert 36 in owned_by(router, 1)


def test_every_worker_keeps_one_virtual_worker() -> None:
    router = grouping(2, virtual_workers=3)
    for _ in range(5):
        say(router, w0=+1, w1=-1)
    assert router.held.tolist() == [1, 5]
    say(router, w0=+1)
    say(router, w0=-1)
    say(router, w1=+1)
    assert router.held.tolist() == [2, 4]


def test_who_finds_no_idle_worker_for_a_slot_tries_one_that_never_said_busy() -> None:
    router = grouping()
    say(router, w0=+1)
    assert router.moved == 0  # it waits
    say(router, w0=+1)
    assert router.held.tolist() == [9, 11, 10, 10]
    for _ in range(2):  # it waits again, then the next one is tried
        say(router, w0=+1)
    assert router.held.tolist() == [8, 11, 11, 10]
    say(router, w1=+1, w2=+1)
    for _ in range(2):
        say(router, w0=+1)
    assert router.held.tolist() == [7, 11, 11, 11]  # only 3 never said busy


def test_when_all_have_said_busy_the_least_recent_one_is_tried() -> None:
    router = grouping()
    say(router, w2=+1, w1=+1, w3=+1, w0=+1)
    assert router.moved == 0
    say(router, w0=+1)
    assert router.held.tolist() == [9, 10, 11, 10]
    alone = grouping(1)
    for _ in range(3):
        say(alone, w0=+1)
    assert alone.moved == 0


def test_sources_try_different_workers() -> None:
    tried = set()
    for source in range(4):
        router = ConsistentGrouping().router(4, source=source, sources=4)
        for _ in range(2):
            say(router, w0=+1)
        tried.add(int(router.held.argmax()))  # type: ignore[attr-defined]
    assert tried == {1, 2, 3}


def test_key_allocation_keeps_one_owner_per_key_between_moves() -> None:
    keys = np.random.default_rng(3).integers(0, 2**64, 10_000, np.uint64).repeat(2)
    router = grouping(allocation="key")
    owners = []
    for _ in range(2):
        destinations = router.route(keys)
        pairs = {(int(key), int(worker)) for key, worker in zip(keys, destinations, strict=True)}
        assert len(pairs) == np.unique(keys).size
        owners.append(dict(pairs))
        say(router, w0=+1, w2=-1)
    moved = {key for key in owners[0] if owners[0][key] != owners[1][key]}
    assert {(owners[0][key], owners[1][key]) for key in moved} == {(0, 2)}
    assert len(moved) / len(owners[0]) == pytest.approx(1 / 40, rel=0.2)


def test_virtual_workers_stay_as_many_when_workers_come_and_go() -> None:
    router = grouping(4)
    router.rescale(5)
    assert router.held.tolist() == [8, 8, 8, 8, 8]
    for _ in range(6):
        say(router, w0=+1, w1=-1)
    assert router.held.tolist() == [2, 14, 8, 8, 8]
    router.rescale(3)  # 16 are spread in the proportion 2 : 14 : 8
    assert router.held.tolist() == [3, 24, 13]
    router.rescale(40)
    assert router.held.tolist() == [1] * 40
    router.rescale(41)  # more workers than virtual workers
    assert router.held.tolist() == [10] * 41


def test_signals_of_leavers_are_forgotten() -> None:
    router = grouping(4)
    say(router, w3=-1)
    router.rescale(3)
    say(router, w0=+1)
    assert router.moved == 10  # only those of the leaver


def test_load_follows_capacity() -> None:
    """`heterogeneous` Fig. 8: 3 of 10 workers are 5 times faster; the whole runs at 80 percent."""
    capacity = np.array([5.0] * 3 + [1.0] * 7)
    scheme = ConsistentGrouping()
    router = scheme.router(10, seed=1)
    slot = scheme.slot * 10
    capacity *= slot / 0.8 / capacity.sum()  # messages per slot
    stream = zipf(1.0, 10_000, slot * 60).reshape(60, slot)
    backlog: Float64Array = np.zeros(10)
    spread, heard = [], 0
    for keys in stream:
        arrived = np.bincount(router.route(keys), minlength=10).astype(float)
        said = signals(arrived, backlog, capacity, 1.0, scheme.idle, scheme.busy)
        spread.append(np.ptp((arrived + backlog) / capacity))
        backlog = np.maximum(0, backlog + arrived - capacity)
        heard += int(np.abs(said).sum())
        router.report(ef.WorkerReport(signal=said))
    assert heard > 0
    assert spread[0] > 1.2
    assert np.mean(spread[-10:]) < 0.5
    assert backlog.max() < 0.1 * slot
    assert isinstance(router, ConsistentGroupingRouter)
    assert router.held[:3].mean() > 3 * router.held[3:].mean()


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("route"), st.integers(0, 60)),
        st.tuples(st.just("report"), st.lists(st.integers(-2, 2), min_size=12, max_size=12)),
        st.tuples(st.just("save"), st.just(0)),
        st.tuples(st.just("rescale"), st.integers(1, 12)),
    ),
    max_size=40,
)
# a worker that is perhaps busy keeps its last virtual worker, although others join
JOINED = [("report", [0, 2] + [0] * 10), ("rescale", 10), ("report", [0] * 9 + [-1, 0, 0])]


@example(actions=JOINED, allocation="bounded-load", workers=4, virtual_workers=3, place=(0, 1), seed=0)
@given(
    actions=ACTIONS,
    allocation=st.sampled_from(ALLOCATIONS),
    workers=st.integers(1, 6),
    virtual_workers=st.integers(1, 4),
    place=st.sampled_from([(0, 1), (1, 2)]),
    seed=st.integers(0, 9),
)
def test_any_history_is_that_of_the_reference(
    actions: list[tuple[str, Any]],
    allocation: str,
    workers: int,
    virtual_workers: int,
    place: tuple[int, int],
    seed: int,
) -> None:
    scheme = ConsistentGrouping(allocation=allocation, virtual_workers=virtual_workers, epsilon=0.1)
    router: ef.Router = scheme.router(workers, seed, source=place[0], sources=place[1])
    reference = REFERENCES["consistent"](scheme, workers, seed, *place)
    rng = np.random.default_rng(seed)
    for action, value in actions:
        if action == "route":
            keys = rng.zipf(1.3, value).astype(np.uint64)
            assert router.route(keys).tolist() == [reference.route_one(int(key)) for key in keys]
        elif action == "report":
            report = ef.WorkerReport(signal=np.array(value[: router.workers], np.int8))
            router.report(report)
            reference.report(report)
        elif action == "save":
            router = ef.Router.from_bytes(router.to_bytes())
        elif value != router.workers:
            router.rescale(value)
            reference.rescale(value)
        assert router.loads.tolist() == reference.loads
    assert router.held.tolist() == [len(mine) for mine in reference.has]  # type: ignore[attr-defined]
    assert min(router.held) >= 1  # type: ignore[attr-defined]


def test_workers_say_busy_or_idle_by_their_utilisation() -> None:
    said: Int8Array = signals(
        arrived=np.array([70.0, 70, 80, 75, 85, 0, 0]),
        backlog=np.array([0.0, 20, 0, 0, 0, 0, 1]),
        capacity=np.array([50.0, 50, 50, 50, 50, 50, 0]),
        seconds=2.0,
        idle=0.75,
        busy=0.85,
    )
    assert said.dtype == np.int8
    assert said.tolist() == [-1, 1, 0, 0, 0, -1, 1]


def test_workers_are_sure_before_they_signal() -> None:
    arrived = np.array([30.0, 40, 90, 110, 130])
    hundred, thousand = (
        signals(
            scale * arrived, np.zeros(5), np.full(5, 100.0), float(scale), idle=0.75, busy=0.85, certainty=3.0
        ).tolist()
        for scale in (1, 10)
    )
    assert hundred == [-1, -1, 2, 2, 1]  # sure beyond three times the square root of the count
    assert thousand == [-1, -1, 2, 1, 1]


def test_a_virtual_worker_moves_only_if_one_of_two_is_sure() -> None:
    for busy, idle, moved in ((1, -1, 1), (1, -2, 1), (2, -1, 1), (2, -2, 0)):
        for order in ((("w0", busy), ("w3", idle)), (("w3", idle), ("w0", busy))):
            router = grouping(4)
            for worker, signal in order:
                say(router, **{worker: signal})
            assert router.moved == moved
    router = grouping(4)
    for _ in range(5):
        say(router, w0=2)  # not sure, so no worker is probed
    assert router.moved == 0
    say(router, w0=1)
    say(router, w0=1)
    assert router.moved == 1


def test_theta_b_follows_the_paper() -> None:
    assert busy_threshold(epsilon=0.001, workers=10, virtual_workers=10) == pytest.approx(1.1)


# --- peers and bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allocation", "z", "workers", "within"),
    [
        ("random-choices", 1.0, 10, 0.06),
        ("random-choices", 1.4, 50, 0.03),
        ("random-choices", 2.0, 100, 0.03),
        ("bounded-load", 1.4, 100, 0.2),
        ("bounded-load", 2.0, 10, 0.2),
    ],
)
def test_pairs_and_imbalance_agree_with_a_peer(
    allocation: str, z: float, workers: int, within: float
) -> None:
    row = peers_porc.measure(allocation, z, workers, seeds=3, messages=10**6)
    assert row["pairs_relative_to_peer"] == pytest.approx(1, abs=within)
    assert row["imbalance_times_workers"] == pytest.approx(0.01, abs=2e-4)


@pytest.mark.parametrize(
    ("name", "parameters", "sentence"),
    [
        ("random-choices", {"epsilon": -0.1}, "epsilon is -0.1; it is how far a worker may exceed"),
        ("random-choices", {"epsilon": math.nan}, "epsilon is nan"),
        ("random-choices", {"epsilon": math.inf}, "epsilon is inf"),
        ("bounded-load", {"epsilon": "small"}, "epsilon is 'small'"),
        ("bounded-load", {"replicas": 0}, "replicas is 0; use a whole number of points per worker"),
        ("consistent-hash", {"replicas": 1.5}, "replicas is 1.5"),
        (
            "consistent",
            {"allocation": "partialkey"},
            "allocation is 'partialkey'; did you mean 'partial-key'",
        ),
        ("consistent", {"allocation": 3}, "allocation is 3; it must be a string"),
        ("consistent", {"virtual_workers": 0}, "virtual_workers is 0; use a whole number per worker"),
        ("consistent", {"epsilon": -1}, "epsilon is -1"),
        ("consistent", {"idle": 0.9}, "idle is 0.9; .* from 0 to busy"),
        ("consistent", {"busy": 0}, "busy is 0; .* above 0"),
        ("consistent", {"slot": 0}, "slot is 0; use a whole number of messages per worker"),
    ],
)
def test_bad_parameters_get_a_sentence(name: str, parameters: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ef.EvenflowError, match=sentence):
        ef.scheme(name, **parameters)


def test_signals_of_another_number_of_workers_get_a_sentence() -> None:
    with pytest.raises(ef.EvenflowError, match="signal has 3 values for 4 workers"):
        grouping(4).report(ef.WorkerReport(signal=np.zeros(3, np.int8)))


@pytest.mark.parametrize(
    ("alias", "name"),
    [("ch", "consistent-hash"), ("chbl", "bounded-load"), ("porc", "random-choices"), ("cg", "consistent")],
)
def test_short_names(alias: str, name: str) -> None:
    assert ef.scheme(alias).name == name
