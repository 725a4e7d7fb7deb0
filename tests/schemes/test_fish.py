"""`evolving`: FISH's worked examples, its switches, its feedback, and its cache that decides nothing."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenflow as ef
from evenflow.kernels import Float64Array, Int32Array, UInt64Array
from evenflow.ring import build_ring, ring_owners
from evenflow.schemes.fish import Fish, FishRouter
from evenflow.sketches.epochs import ENTRIES
from extent import long
from reference.evolving import FishReference

SMALL = {"epoch": 50, "capacity": 25, "theta": 0.04, "interval": 2.0, "replicas": 5}


def skewed(seed: int, messages: int, keys: int, skew: float, drift: bool = True) -> UInt64Array:
    rng = np.random.default_rng(seed)
    weights = np.arange(1, keys + 1, dtype=float) ** -skew
    ids = rng.choice(keys, messages, p=weights / weights.sum())
    if drift:
        ids[messages // 2 :] = keys - 1 - ids[messages // 2 :]
    return rng.integers(0, 2**64, keys, dtype=np.uint64)[ids]


def fish(workers: int, seed: int = 0, source: int = 0, sources: int = 1, **parameters: Any) -> FishRouter:
    router = ef.scheme("fish", **parameters).router(workers, seed, source=source, sources=sources)
    assert isinstance(router, FishRouter)
    return router


def pairs(router: FishRouter) -> dict[int, tuple[int, int]]:
    """The first two candidates of every key that is counted now."""
    used = int(router.state.sketch.ends[ENTRIES])
    two = router._cache.pairs[: 2 * used].reshape(-1, 2).tolist()
    return {
        int(key): (first, second)
        for key, (first, second) in zip(router.state.sketch.keys[:used], two, strict=True)
    }


def widths(router: FishRouter) -> dict[int, int]:
    """M_k of every key that is counted now and has been hot."""
    used = int(router.state.sketch.ends[ENTRIES])
    return {
        int(key): int(width)
        for key, width in zip(router.state.sketch.keys[:used], router.state.widths[:used], strict=True)
        if width
    }


# --- the worked examples of the paper ----------------------------------------------------------------------


LEFT = np.array([150.0, 100, 20, 100])  # C_w, so that 400, 440, 280, 180 more give the printed waits at 500
ASSIGNED = np.array([400, 440, 280, 180])
SECONDS = ef.WorkerReport(seconds_per_message=np.array([1.0, 1, 2, 2]))


def figure_7(**parameters: Any) -> FishRouter:
    """A router that has assigned what the figure says, and for which key 1 is hot."""
    router = fish(4, choices="w-choices", theta=0.5, epoch=1, epochs=False, interval=499.0, **parameters)
    router.route(np.array([1, 1], np.uint64), np.zeros(2))
    router.report(SECONDS)
    router.state.loads[:] = ASSIGNED
    router.state.queued[:] = LEFT + ASSIGNED
    router.state.waits[:] = router.state.queued * router.state.cost
    return router


def test_figure_7_waits_50_40_100_60_choose_w2() -> None:
    router = figure_7()
    assert router.route(np.array([1], np.uint64), np.array([500.0])).tolist() == [1]
    waits = router.state.waits.copy()
    waits[1] -= 1.0  # the message itself
    assert waits.tolist() == [50, 40, 100, 60]


def test_figure_7_by_counts_chooses_w4() -> None:
    router = figure_7(assignment="counts")
    assert router.route(np.array([1], np.uint64), np.array([500.0])).tolist() == [3]


def test_figure_8_a_ring_moves_only_the_keys_of_the_worker_that_comes_or_goes() -> None:
    keys = np.random.default_rng(1).integers(0, 2**64, 800, dtype=np.uint64)
    for before, after in ((8, 7), (8, 9)):
        router = fish(8, seed=3)
        router.route(keys)
        old = pairs(router)
        router.rescale(after)
        router.route(keys)
        new = pairs(router)
        last = min(before, after)  # the worker that leaves or joins
        moved = 0
        for key, two in old.items():
            assert two == new[key] or last in (*two, *new[key])
            moved += two != new[key]
        assert 0 < moved < 0.5 * len(old)


def test_without_the_ring_nearly_all_keys_move() -> None:
    keys = np.random.default_rng(1).integers(0, 2**64, 800, dtype=np.uint64)
    router = fish(8, seed=3, ring=False)
    router.route(keys)
    old = pairs(router)
    router.rescale(9)
    router.route(keys)
    new = pairs(router)
    assert sum(old[key] != new[key] for key in old) > 0.95 * len(old)


def test_figure_8_d_virtual_nodes_even_a_small_deployment() -> None:
    keys = np.random.default_rng(2).integers(0, 2**64, 2000, dtype=np.uint64)

    def largest_share(replicas: int) -> float:
        rings = [build_ring(2, np.uint64(salt), replicas) for salt in range(50)]
        return float(np.mean([np.bincount(ring_owners(ring, keys)).max() for ring in rings])) / keys.size

    assert largest_share(100) < 0.56
    assert largest_share(1) > 0.65


# --- how many candidates -----------------------------------------------------------------------------------


def test_a_hot_keys_candidates_halve_with_its_share() -> None:
    period = [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4, 5]
    router = fish(16, theta=0.05, least_choices=2, epoch=160, epochs=False)
    destinations = router.route(np.array(period * 200, np.uint64))
    assert widths(router) == {1: 16, 2: 8, 3: 4, 4: 2, 5: 2}
    used = defaultdict(set)
    for key, worker in zip(period * 200, destinations.tolist(), strict=True):
        used[key].add(worker)
    assert all(len(workers) <= widths(router)[key] for key, workers in used.items())
    assert len(used[1]) > 8


def test_d_min_is_the_mean_share_of_the_hot_keys() -> None:
    # four hot keys with 0.8 of the stream: d_min = ceil(40 * 0.8 / 4) = 8
    epoch = [1, 2, 3, 4] * 200 + list(range(100, 300))
    router = fish(40, theta=0.1, epoch=1000, decay=0.2)
    router.route(np.array([*epoch, *epoch, 1], np.uint64))
    assert router.state.least.tolist() == [8]


def test_a_frequency_is_a_share_of_at_least_one_epoch() -> None:
    router = fish(10, theta=0.01, epoch=2000, decay=0.5)
    router.route(np.full(20, 7, np.uint64))  # all messages so far, but 1 percent of an epoch
    assert widths(router) == {}
    router.route(np.full(1, 7, np.uint64))
    assert widths(router) == {7: 10}


def test_a_cold_key_is_not_hot_just_after_an_epoch() -> None:
    # the decayed total falls to 200 and then rises: 1 of 256 is above theta, 2 of 1000 is not
    router = fish(64, least_choices=2)
    router.route(np.arange(1001, 2001, dtype=np.uint64))
    router.route(np.repeat(np.arange(1, 101, dtype=np.uint64), 2))
    assert widths(router) == {}
    router.route(np.repeat(np.arange(1, 3, dtype=np.uint64), 2))  # 4 of 1000
    assert set(widths(router)) == {1, 2}


@pytest.mark.parametrize("workers", [300, 1000])
def test_a_key_seen_once_is_never_hot(workers: int) -> None:
    router = fish(workers)  # one message in an epoch of 1000 is more than theta
    router.route(np.random.default_rng(1).integers(0, 2**64, 5000, dtype=np.uint64))
    assert widths(router) == {}


def test_m_lives_and_dies_with_the_counter() -> None:
    router = fish(8, theta=0.3, capacity=2, epoch=10, decay=0.2, least_choices=2)
    router.route(np.array([1] * 9 + [2], np.uint64))
    assert widths(router) == {1: 8}
    router.route(np.array([2] * 30, np.uint64))  # 1 is not hot any more, but counted
    assert widths(router) == {1: 8, 2: 8}
    router.route(np.array([3] * 20, np.uint64))  # takes the counter of 1
    assert set(widths(router)) == {2, 3}


def test_w_choices_and_d_choices_replace_chk() -> None:
    keys = skewed(1, 30000, 1000, 1.4, drift=False)
    hot = np.unique(keys, return_counts=True)
    top = hot[0][np.argmax(hot[1])]
    reached = {}
    for choices in ("chk", "w-choices", "d-choices"):
        destinations = fish(50, choices=choices).route(keys)
        second = hot[0][np.argsort(-hot[1])[8]]
        reached[choices] = (
            len(set(destinations[keys == top].tolist())),
            len(set(destinations[keys == second].tolist())),
        )
    assert reached["w-choices"] == (50, 50)
    assert reached["chk"][0] == 50
    assert reached["chk"][1] < 40
    assert 2 < reached["d-choices"][0] < 50


# --- what the switches are for -----------------------------------------------------------------------------


def windows(destinations: Int32Array, workers: int, size: int) -> Float64Array:
    """The largest load of a worker in each window, over the mean."""
    cut = destinations[: destinations.size // size * size].reshape(-1, size)
    most = np.array([np.bincount(window, minlength=workers).max() for window in cut])
    return most * workers / size


def test_epochs_follow_a_hot_key_that_lifetime_counting_misses() -> None:
    steady = np.random.default_rng(1).integers(0, 2**64, 60000, dtype=np.uint64)
    burst = steady[-3000:].copy()
    burst[::3] = 7  # a third of the last 3000 messages, below theta of all 60000
    keys = np.concatenate([steady[:-3000], burst])
    recent = fish(20, theta=0.05, choices="w-choices").route(keys)[-2000:]
    lifetime = fish(20, theta=0.05, choices="w-choices", epochs=False).route(keys)[-2000:]
    assert windows(recent, 20, 2000)[0] < 1.5
    assert windows(lifetime, 20, 2000)[0] > 3


def test_the_inferred_backlog_loads_workers_by_their_speed() -> None:
    keys = skewed(2, 40000, 2000, 1.2)
    seconds = np.where(np.arange(20) < 10, 0.001, 0.002)
    finish = {}
    for assignment in ("inferred", "counts"):
        router = fish(20, assignment=assignment)
        router.report(ef.WorkerReport(seconds_per_message=seconds))
        router.route(keys)
        finish[assignment] = float((router.loads * seconds).max())
    assert finish["inferred"] < 0.8 * finish["counts"]


def test_what_waits_is_inferred_whatever_workers_report() -> None:
    backlog = np.array([0.0, 50, 100])
    deaf, told = (fish(3, assignment=assignment) for assignment in ("inferred", "reported"))
    for router in (deaf, told):
        router.route(skewed(1, 30, 9, 0.0))
        router.report(ef.WorkerReport(time=20.0, backlog=backlog, seconds_per_message=np.full(3, 0.5)))
        assert router.state.cost.tolist() == [0.5] * 3
    assert deaf.state.queued.tolist() == deaf.loads.tolist()
    assert told.state.queued.tolist() == backlog.tolist()
    assert deaf.state.clock[0] == 0.0  # so that the time up to now is still to be taken off


def test_backlog_drains_by_the_time_that_has_passed() -> None:
    router = fish(2, theta=1.0, interval=10.0, seconds_per_message=4.0)
    router.route(np.full(20, 7, np.uint64), np.zeros(20))
    assert router.state.queued.tolist() == [10, 10]
    router.route(np.full(1, 7, np.uint64), np.array([10.0]))  # not more than T yet
    assert sum(router.state.queued) == 21
    router.route(np.full(1, 7, np.uint64), np.array([15.0]))  # 3.75 served: 3 whole, 0.75 kept
    assert sum(router.state.queued) == 21 + 1 - 2 * 3
    router.route(np.full(1, 7, np.uint64), np.array([28.0]))  # 3.25 + 0.75: 4 more
    assert sum(router.state.queued) == 16 + 1 - 2 * 4
    router.route(np.full(1, 7, np.uint64), np.array([1000.0]))
    assert sum(router.state.queued) == 1


def test_each_of_several_sources_owns_its_share_of_a_worker() -> None:
    told: dict[str, Any] = {"assignment": "reported"}
    alone, one_of_four = fish(3, **told), fish(3, source=1, sources=4, **told)
    report = ef.WorkerReport(backlog=np.array([8.0, 4, 2]), seconds_per_message=np.full(3, 0.5))
    for router in (alone, one_of_four):
        router.report(report)
        assert router.state.waits.tolist() == [4.0, 2.0, 1.0]
    assert one_of_four.state.queued.tolist() == [2.0, 1.0, 0.5]


def test_a_hot_key_goes_where_a_report_says_that_nothing_waits() -> None:
    for idle in (33, 2, 17):
        router = fish(40, choices="w-choices", theta=0.1, epoch=10, epochs=False, assignment="reported")
        router.route(np.full(100, 7, np.uint64))  # the least wait found last was that of 2 messages
        router.report(ef.WorkerReport(backlog=np.where(np.arange(40) == idle, 0.0, 2.0)))
        assert router.route(np.full(2, 7, np.uint64)).tolist() == [idle] * 2


def test_a_report_holds_from_its_time_on() -> None:
    router = fish(2, theta=1.0, seconds_per_message=1.0, assignment="reported")
    router.route(np.full(4, 7, np.uint64), np.full(4, 5.0))
    router.report(ef.WorkerReport(time=100.0, backlog=np.array([30.0, 30.0])))
    assert router.state.queued.tolist() == [30, 30]
    router.route(np.full(1, 7, np.uint64), np.array([112.0]))
    assert sum(router.state.queued) == 2 * (30 - 12) + 1


def test_a_new_worker_has_no_backlog_and_the_mean_speed() -> None:
    router = fish(2, assignment="reported")
    router.report(ef.WorkerReport(backlog=np.array([5.0, 7.0]), seconds_per_message=np.array([1.0, 2.0])))
    router.rescale(3)
    assert router.state.queued.tolist() == [5, 7, 0]
    assert router.state.cost.tolist() == [1, 2, 1.5]


def test_the_logical_clock_runs_at_the_rate_of_all_sources() -> None:
    keys = skewed(4, 3000, 100, 1.0)
    own, told = (fish(5, source=1, sources=3, rate=50, interval=2.0) for _ in range(2))
    times = np.arange(3000) * (3 / 50)
    assert own.route(keys).tolist() == told.route(keys, times).tolist()
    assert own.state.clock.tolist() == told.state.clock.tolist()
    assert own.state.clock[1] == times[-1]


# --- against the reference, with feedback and churn --------------------------------------------------------

ACTION = st.one_of(
    st.tuples(st.just("route"), st.integers(1, 250), st.sampled_from([0.001, 0.05, 1.0])),
    st.tuples(st.just("backlog"), st.integers(0, 99), st.sampled_from([0.0, 5.0])),
    st.tuples(st.just("seconds"), st.integers(0, 99), st.just(0.0)),
    st.tuples(st.just("rescale"), st.sampled_from([1, 2, 3, 9, 24, 40]), st.just(0.0)),
    st.tuples(st.just("save"), st.just(0), st.just(0.0)),
)
PARAMETERS = st.fixed_dictionaries(
    {
        "choices": st.sampled_from(["chk", "d-choices", "w-choices"]),
        "assignment": st.sampled_from(["inferred", "reported", "counts"]),
        "ring": st.booleans(),
        "epochs": st.booleans(),
        "decay": st.sampled_from([0.0, 0.2, 0.7]),
    }
)


@given(
    actions=st.lists(ACTION, max_size=12),
    parameters=PARAMETERS,
    seed=st.integers(0, 99),
    skew=st.sampled_from([0.0, 1.0, 2.0]),
    place=st.sampled_from([(0, 1), (2, 3)]),
    workers=st.sampled_from([6, 40]),
)
def test_decides_like_the_reference_with_reports_and_rescaling(
    actions: list[tuple[str, int, float]],
    parameters: dict[str, Any],
    seed: int,
    skew: float,
    place: tuple[int, int],
    workers: int,
) -> None:
    scheme = Fish(**{**SMALL, "epsilon": 0.05, **parameters})
    router: ef.Router = scheme.router(workers, seed, source=place[0], sources=place[1])
    reference = FishReference(scheme, workers, seed, *place)
    keys = skewed(seed, 3000, 120, skew)
    now, routed = 0.0, 0
    for action, number, step in actions:
        rng = np.random.default_rng(number)
        if action == "route":
            piece = keys[routed : routed + number]
            times = now + step * np.arange(1, piece.size + 1)
            expected = [reference.route_one(int(k), float(t)) for k, t in zip(piece, times, strict=True)]
            assert router.route(piece, times).tolist() == expected
            routed += piece.size
            now += step * number
        elif action == "rescale":
            router.rescale(number)
            if number != reference.n:
                reference.rescale(number)
        elif action == "save":
            router = ef.Router.from_bytes(router.to_bytes())
        else:
            values = rng.integers(0, 40, router.workers) / (1 if action == "backlog" else 7)
            report = (
                ef.WorkerReport(time=now + step, backlog=values)
                if action == "backlog"
                else ef.WorkerReport(time=now, seconds_per_message=values + 0.01)
            )
            router.report(report)
            reference.report(report)
        assert router.loads.tolist() == reference.loads


@pytest.mark.parametrize("even", [long(True), False])
def test_decides_like_the_reference_with_lists_of_hundreds(even: bool) -> None:
    workers = 600  # a list of 300, and all, are looked through by blocks
    scheme = Fish(theta=0.002, capacity=600, epoch=200, interval=0.01, replicas=3)
    router, reference = scheme.router(workers, 1), FishReference(scheme, workers, 1, 0, 1)
    keys = skewed(5, 600, 50, 1.0)
    times = np.arange(600) * 5e-5
    if not even:
        seconds = np.random.default_rng(1).uniform(0.5, 2.0, workers) * workers / 1e4
        report = ef.WorkerReport(seconds_per_message=seconds)
        router.report(report)
        reference.report(report)
    expected = [reference.route_one(int(k), float(t)) for k, t in zip(keys, times, strict=True)]
    assert router.route(keys, times).tolist() == expected
    lengths = {int(length) for length in router._cache.length if length}  # type: ignore[attr-defined]
    assert {300, 600} <= lengths


def test_the_cache_decides_nothing() -> None:
    keys = skewed(6, 20000, 300, 1.0)
    plain, crowded = fish(12, theta=0.01), fish(12, theta=0.01)
    crowded._cache = crowded._cache._replace(cells=np.zeros(40, np.uint32), floors=np.zeros(1))
    assert crowded.route(keys).tolist() == plain.route(keys).tolist()
    assert crowded._cache.ends[1] > 2 * plain._cache.ends[1]  # it was emptied again and again


# --- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"decay": 1.2}, "decay is 1.2; it is a factor from 0"),
        ({"epoch": 0}, "epoch is 0; use a whole number of messages, 1 or more"),
        ({"epoch": 2.5}, "epoch is 2.5; use a whole number"),
        ({"capacity": 0}, "capacity is 0; use a whole number of counters"),
        ({"theta": 0}, "theta is 0; .* above 0 and at most 1"),
        ({"least_choices": 1}, "least_choices is 1; a hot key needs at least 2"),
        ({"interval": 0}, "interval is 0; use a number of seconds above 0"),
        ({"seconds_per_message": 0}, "seconds_per_message is 0; use seconds above 0"),
        ({"seconds_per_message": math.inf}, "seconds_per_message is inf"),
        ({"rate": -1}, "rate is -1; use a number of messages per second above 0"),
        ({"replicas": 0}, "replicas is 0; a worker needs at least one point"),
        ({"epsilon": 1}, "epsilon is 1; the allowed imbalance"),
        ({"choices": "d-choice"}, "choices is 'd-choice'; did you mean 'd-choices'"),
        ({"assignment": "count"}, "assignment is 'count'; did you mean 'counts'"),
    ],
)
def test_bad_parameters_get_a_sentence(parameters: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ef.EvenflowError, match=sentence):
        ef.scheme("fish", **parameters)


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        (ef.WorkerReport(backlog=np.zeros(3)), "backlog is .* for each of 4 workers"),
        (ef.WorkerReport(backlog=np.array([0, 0, -1.0, 0])), "report a number of 0 or more"),
        (ef.WorkerReport(backlog=np.full(4, np.nan)), "report a number of 0 or more"),
        (ef.WorkerReport(seconds_per_message=np.zeros(4)), "seconds_per_message is .* of 1e-09 or more"),
        (ef.WorkerReport(seconds_per_message=np.full(4, np.inf)), "seconds_per_message is"),
    ],
)
def test_bad_reports_get_a_sentence_and_change_nothing(report: ef.WorkerReport, sentence: str) -> None:
    router = fish(4)
    before = router.to_bytes()
    with pytest.raises(ef.EvenflowError, match=sentence):
        router.report(report)
    assert router.to_bytes() == before
