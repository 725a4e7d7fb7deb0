"""Runs as a whole: reproducible, whatever the chunks; head and tail, periods, moves; bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import evenflow as ef
from evenflow.schemes.cost_model import Costs
from evenflow.simulator import Aggregation, Capacities, Configuration, Queueing, Rescale, Result, simulate
from evenflow.simulator.run import Simulation
from evenflow.simulator.setup import SimulationSetup
from evenflow.streams import Zipf
from simulator.fakes import ListStream, Modulo
from simulator.same import assert_same

STREAM = Zipf(z=1.2, keys=2000, messages=30_000, seed=4)


@pytest.mark.parametrize("name", sorted(ef.list_schemes()))
@pytest.mark.parametrize("feed", ["shuffle", "key", "skewed:1.5"])
def test_the_seed_makes_the_result_and_chunks_do_not_matter(name: str, feed: str) -> None:
    kind = ef.list_schemes()[name]
    stream = Zipf(z=1.2, keys=2000, messages=30_000, seed=4, rate=5000)
    arguments: dict[str, Any] = {
        "workers": 20,
        "sources": 3,
        "seed": 5,
        "feed": feed,
        "queueing": Queueing(capacity="5x3,15x1", load=0.9, service="exponential"),
        "events": [Rescale(12_345, 25)] if kind.rescales else [Capacities(12_345, "20x1.2")],
        "aggregation": Aggregation(700, cost=1e-4),
        "head": 0.01,
    }
    first = simulate(name, stream, **arguments)
    assert_same(first, simulate(name, stream, **arguments, chunk=1009))
    assert_same(first, simulate(ef.scheme(name), stream.name, **arguments, chunk=30_000))


def test_another_seed_makes_another_result() -> None:
    loads = {simulate("key", STREAM, 10, 1, seed=seed).loads.tobytes() for seed in range(4)}
    assert len(loads) == 4


def test_partial_key_grouping_is_as_uneven_as_its_hottest_key() -> None:
    stream = Zipf(z=2.0, keys=10_000, messages=200_000, seed=1)
    row = simulate("partial-key", stream, 50, 5).row()
    hottest = np.bincount(next(stream.chunks(200_000)).ids).max() / 200_000
    assert hottest / 2 - 1 / 50 <= row["imbalance"] <= hottest / 2
    assert 1 <= row["memory"] <= 2
    assert row["distribution_cost"] == row["memory"]


def test_the_row_has_what_the_command_line_promises() -> None:
    row = simulate("d-choices", STREAM, 10, 2, queueing=Queueing()).row()
    promised = "scheme workers sources messages keys imbalance imbalance_mean max_over_mean replicas memory"
    queued = "latency_mean latency_worst_mean latency_p50 latency_p95 latency_p99 throughput makespan"
    assert {*promised.split(), *queued.split(), "messages_per_second"} <= set(row)
    assert row["scheme"] == "d-choices"
    assert "latency_mean" not in simulate("key", STREAM, 10, 2).row()


def test_i_of_t_is_taken_at_every_percent() -> None:
    result = simulate("key", STREAM, 10, 3)
    assert result.over_time["messages"].tolist() == [300 * k for k in range(1, 101)]
    assert result.row()["imbalance_mean"] == pytest.approx(np.mean(result.over_time["imbalance"]))
    assert result.row()["imbalance"] == result.over_time["imbalance"][-1]
    assert simulate("key", ListStream([1, 2, 3]), 2, 1).over_time["messages"].tolist() == [1, 2, 3]
    assert simulate("key", STREAM, 10, 3, marks=4).over_time["messages"].tolist() == [
        7500,
        15000,
        22500,
        30000,
    ]


def test_head_by_ids_and_by_share() -> None:
    ids = [0] * 50 + [1] * 30 + [2] * 20
    by_share = simulate("shuffle", ListStream(ids), 4, 1, head=0.25)
    by_ids = simulate("shuffle", ListStream(ids), 4, 1, head=[1, 0])
    assert_same(by_share, by_ids)
    assert by_share.row()["head_keys"] == 2
    assert by_share.row()["head_share"] == 0.8
    assert by_share.by_worker["head"].tolist() == [20] * 4
    assert by_share.by_worker["tail"].tolist() == [5] * 4
    assert simulate("shuffle", ListStream(ids), 4, 1, head=0.2).row()["head_keys"] == 3


def test_choices_in_use_are_shown_where_a_scheme_has_them() -> None:
    stream = Zipf(z=2.0, keys=1000, messages=50_000, seed=1)
    choices = simulate("d-choices", stream, 50, 2).over_time["choices"]
    assert choices[0] <= choices[-1]
    assert 2 < choices[-1] <= 50
    assert "choices" not in simulate("key", stream, 50, 2).over_time


def test_partials_are_the_pairs_of_a_period_and_the_aggregator_serves_them_in_order() -> None:
    stream = ListStream([0, 1, 0, 1, 2, 2, 2], np.arange(7.0))
    queueing = Queueing(capacity=[1.0], load=None)
    result = simulate("key", stream, 1, 1, queueing=queueing, aggregation=Aggregation(4, cost=5.0))
    assert result.periods["messages"].tolist() == [4, 7]
    assert result.periods["partials"].tolist() == [2, 1]
    # the first two are merged from 3.0 to 13.0, the next one from 13.0 to 18.0
    assert result.periods["lag"].tolist() == [10, 12]
    assert result.row()["aggregator_lag"] == 12
    assert result.row()["aggregator_utilisation"] == pytest.approx(15 / 18)
    assert result.row()["partials_per_period"] == 1.5


def test_moves_of_a_scheme_with_one_owner() -> None:
    ids = [0, 0, 0, 1, 1, 2, 3, 0]
    stream = ListStream(ids)
    before, after = (stream.hashes % np.uint64(n) for n in (3, 4))
    moved = before != after
    counts = np.array([3, 2, 1, 1])
    result = simulate(Modulo(), stream, 3, 1, events=[Rescale(7, 4)], resources="LCL")
    assert result.rescales["keys_moved"].tolist() == [moved.sum()]
    assert result.rescales["state_moved"].tolist() == [counts[moved].sum()]
    assert result.rescales["keys_ideal"].tolist() == [1]
    assert result.rescales["state_ideal"].tolist() == [7 / 4]
    migration = Costs("LCL").migration(counts / 7, before.astype(np.int32), after.astype(np.int32), 4)
    assert result.rescales["migration"].tolist() == pytest.approx([migration.relative])
    assert result.row()["keys_moved"] == moved.sum()
    balance = Costs("LCL").imbalance(np.array([4, 2, 1, 1]) / 8, after.astype(np.int32), 4)
    assert result.row()["ratio_state"] == balance.ratios[0]
    assert result.row()["balance"] == balance.overall


def test_a_ring_moves_about_what_must_move() -> None:
    stream = Zipf(z=0.2, keys=20_000, messages=60_000, seed=1)
    rescales = simulate("consistent-hash", stream, 20, 4, events=[Rescale(30_000, 21)]).rescales
    assert rescales["keys_moved"][0] == pytest.approx(rescales["keys_ideal"][0], rel=0.2)
    uniform = simulate(Modulo(), stream, 20, 4, events=[Rescale(30_000, 21)]).rescales
    assert uniform["keys_moved"][0] > 15 * uniform["keys_ideal"][0]


def test_a_splitting_scheme_moves_what_the_leavers_hold() -> None:
    events = [Rescale(10_000, 8), Rescale(20_000, 12)]
    result = simulate("bounded-load", STREAM, 10, 2, events=events)
    half = simulate("bounded-load", ListStream(next(STREAM.chunks()).ids[:10_000]), 10, 2)
    assert result.rescales["state_moved"].tolist()[1] == 0
    assert result.rescales["keys_moved"].tolist()[1] == 0
    assert result.rescales["state_moved"][0] == pytest.approx(half.loads[8:].sum(), rel=0.2)
    assert result.rescales["keys_moved"][0] == pytest.approx(half.by_worker["keys"][8:].sum(), rel=0.2)
    assert result.loads.size == 12
    assert result.row()["workers"] == 10


def test_after_a_rescale_balance_is_measured_anew() -> None:
    result = simulate("bounded-load", STREAM, 4, 1, events=[Rescale(15_000, 8)])
    assert result.row()["max_over_mean"] < 1.1
    assert result.over_time["imbalance"].max() < 0.3
    assert result.over_time["workers"].tolist() == [4] * 50 + [8] * 50


def test_an_unknown_length_is_counted_first() -> None:
    ids = next(STREAM.chunks()).ids
    assert_same(
        simulate("partial-key", ListStream(ids), 10, 3),
        simulate("partial-key", ListStream(ids, known=False), 10, 3, chunk=999),
    )


class Shrinking(ListStream):
    """Says it has more than it has."""

    def __init__(self, more: int):
        super().__init__([1, 2, 3])
        self.messages = 3 + more


def run(**changes: Any) -> Result:
    arguments: dict[str, Any] = {
        "scheme": "key",
        "stream": ListStream(range(100)),
        "workers": 4,
        "sources": 2,
    }
    return simulate(**(arguments | changes))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"workers": 0}, "workers is 0; a router needs at least one worker"),
        ({"workers": 2.5}, "workers is 2.5"),
        ({"sources": 0}, "sources is 0; a stream needs at least one source"),
        ({"seed": "x"}, "seed is 'x'; pass an integer"),
        ({"scheme": "ky"}, "there is no scheme 'ky'; did you mean"),
        ({"scheme": 3}, "scheme is 3; pass a name such as 'partial-key'"),
        ({"stream": ListStream([])}, "the stream list of 0 has no messages"),
        ({"stream": ListStream([], known=False)}, "has no messages"),
        ({"stream": "zipff:z=1"}, "zipf"),
        ({"stream": Shrinking(1)}, "does not have its declared 4 messages"),
        ({"stream": Shrinking(-1)}, "does not have its declared 2 messages"),
        ({"feed": "sideways"}, "feed is 'sideways'; use 'shuffle', 'key', 'skewed' or an exponent"),
        ({"feed": "skewed:x"}, "feed is 'skewed:x'"),
        ({"feed": "key:2"}, "feed is 'key:2'"),
        ({"feed": "skewed:-1"}, "exponent between 0 and 100"),
        ({"marks": 0}, "marks is 0"),
        ({"head": 0.0}, "head is 0.0; use a share"),
        ({"head": 2}, "head is 2; use a share"),
        ({"head": [-1]}, "or key ids"),
        ({"head": ["a"]}, "or key ids"),
        ({"events": [Rescale(50, 5)]}, "key cannot change its number of workers; choose one of bounded-load"),
        (
            {"scheme": "consistent-hash", "events": [Rescale(100, 5)]},
            "Rescale is at message 100, but the stream has 100 messages; use a number below 100",
        ),
        (
            {"scheme": "consistent-hash", "events": [Rescale(0, 5)]},
            "at is 0; use the number of a message, 1 or more",
        ),
        ({"scheme": "consistent-hash", "events": [Rescale(5, 0)]}, "workers is 0; a stream needs at least"),
        ({"events": ["later"]}, "events contains 'later'"),
        ({"events": [Capacities(5, "4x1")]}, "events change capacities without queues"),
        (
            {"events": [Capacities(5, "3x1")], "queueing": Queueing()},
            "capacities has 3 values for 4 workers",
        ),
        (
            {
                "scheme": "consistent-hash",
                "events": [Rescale(5, 6), Capacities(7, "4x1")],
                "queueing": Queueing(),
            },
            "capacities has 4 values for 6 workers",
        ),
        ({"queueing": Queueing(capacity="3x1")}, "capacity has 3 values for 4 workers"),
        ({"queueing": Queueing(key_cost=[1.0] * 99)}, "key_cost has 99 values but the stream has 100 keys"),
        ({"queueing": Queueing(warm_up=100)}, "warm_up is 100, but the stream has 100 messages"),
        (
            {"stream": ListStream([1, 2], [5.0, 5.0]), "queueing": Queueing()},
            "have the same time; pass a rate",
        ),
        ({"scheme": "partial-key", "resources": "LCL"}, "partial-key splits keys"),
        ({"resources": "XYZ"}, "resources is 'XYZ'; pass three letters"),
        ({"scheme": Modulo(wrong=1)}, "modulo did not return a worker from 0 to 3 for every message"),
    ],
)
def test_bad_input_gets_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ef.EvenflowError, match=sentence):
        run(**changes)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"rate": 0}, "rate is 0; use messages per second"),
        ({"rate": float("nan")}, "rate is nan"),
        ({"load": -1}, "load is -1; use a share of the workers' capacity"),
        ({"cost": None}, "cost is None; use a number above 0"),
        ({"arrivals": "monday"}, "arrivals is 'monday'; use 'regular' or 'poisson'"),
        ({"arrivals": "poisson"}, "without a rate; pass rate=1000"),
        ({"service": "slow"}, "service is 'slow'"),
        ({"warm_up": -1}, "warm_up is -1"),
        ({"feedback_delay": -1}, "feedback_delay is -1"),
        ({"acknowledge_every": 0}, "acknowledge_every is 0"),
        ({"key_cost": [1.0, 0.0]}, "key_cost has a value that is not above 0"),
    ],
)
def test_bad_queueing_gets_a_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ef.EvenflowError, match=sentence):
        Queueing(**arguments)


def test_bad_aggregation_gets_a_sentence() -> None:
    with pytest.raises(ef.EvenflowError, match="every is 0"):
        Aggregation(0)
    with pytest.raises(ef.EvenflowError, match="cost is -1"):
        Aggregation(5, cost=-1)


def explicit(**parameters: Any) -> ef.Scheme:
    return ef.scheme("explicit", domain=2000, window=6000, **parameters)


def test_several_sources_of_explicit_share_one_map_and_balance_like_one() -> None:
    stream = Zipf(z=0.9, keys=2000, messages=60_000, seed=1)
    ring = simulate("consistent-hash", stream, 8, 4).row()
    alone = simulate(explicit(), stream, 8, 1).row()
    shared = simulate(explicit(), stream, 8, 4).row()
    assert alone["max_over_mean"] < ring["max_over_mean"]
    assert shared["max_over_mean"] == pytest.approx(alone["max_over_mean"], rel=0.1)
    assert 0 < shared["keys_moved"] < 2000
    # a key is elsewhere only because it moved, not because sources disagree
    assert shared["replicas"] <= shared["keys"] + shared["keys_moved"]


def test_explicit_rescales_with_little_migration() -> None:
    stream = Zipf(z=0.9, keys=2000, messages=60_000, seed=1)
    events = [Rescale(30_000, 9)]
    ring = simulate("consistent-hash", stream, 8, 4, events=events, resources="LCL").row()
    for sources in (1, 4):
        result = simulate(explicit(), stream, 8, sources, events=events, resources="LCL")
        assert result.rescales["migration"][0] < 3
        assert result.rescales["keys_moved"][0] < 3 * result.rescales["keys_ideal"][0]
        assert result.row()["ratio_state"] < 0.8 * ring["ratio_state"]
        assert result.row()["balance"] < ring["balance"]


def test_progress_is_told_after_every_chunk() -> None:
    told: list[tuple[int, int]] = []
    simulate("key", STREAM, 5, 1, chunk=12_000, progress=lambda done, of: told.append((done, of)))
    assert told == [(12_000, 30_000), (24_000, 30_000), (30_000, 30_000)]


def test_memory_is_keys_times_workers_bits() -> None:
    held = []
    for messages in (10_000, 300_000):
        stream = Zipf(z=1.0, keys=5000, messages=messages)
        run = Simulation(SimulationSetup(Configuration("shuffle", stream)))
        run.run()
        held.append(run.observer.pairs.state.bits.nbytes)
    assert held[0] == held[1] <= 5000 * (100 + 64) / 8


@pytest.mark.parametrize("events", [[], [Rescale(at=30_000, workers=7)]])
def test_several_sources_of_fill_without_splitting_agree_on_every_owner(events: list[Rescale]) -> None:

    spec = "zipf:z=1.0,keys=2000,messages=60000,seed=3"
    one, four = (
        simulate(ef.scheme("fill", split=False), spec, workers=8, sources=sources, events=events)
        for sources in (1, 4)
    )
    # a key has one owner at a time, so replicas are keys and what moved
    assert four.row()["replicas"] <= four.row()["keys"] + four.row()["keys_moved"]
    assert four.row()["max_over_mean"] <= 1.2 * one.row()["max_over_mean"]
