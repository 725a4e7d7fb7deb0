"""The adaptivity loop: one owner per key always, little migration, slow workers, the same from JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenflow as ef
from evenflow.owners import AutoWorkers, Measured, Ownership
from evenflow.streams.sampling import zipf_weights
from owners.simulated import Query

SCHEMES = [
    ef.scheme("explicit", algorithm="scan"),
    ef.scheme("explicit", algorithm="redist"),
    ef.scheme("explicit", algorithm="readj"),
    ef.scheme("fill", split=False),
    ef.scheme("consistent-hash"),
    ef.scheme("key"),
    ef.scheme("consistent", allocation="key"),
]
FOLLOW_SPEED = SCHEMES[:5]
SLOW = 1 / 0.3
every_scheme = pytest.mark.parametrize("scheme", SCHEMES, ids=str)

actions = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), st.sampled_from([0.0, 0.8, 1.5]), st.booleans()),
        st.tuples(st.just("rescale"), st.integers(1, 9), st.just(False)),
    ),
    min_size=1,
    max_size=8,
)


def act(query: Query, action: tuple[Any, ...]) -> dict[str, Any]:
    """Do one thing to the query; return the decision."""
    kind, value, slow = action
    if kind == "rescale":
        return query.own.rescale(value).to_dict()
    query.slow = {0: 3.0} if slow else {}
    heat = np.asarray(zipf_weights(query.distinct, value))
    query.heat = heat / heat.sum()
    return query.step().to_dict()


def assert_one_owner_each(query: Query) -> None:
    plan = query.own.plan
    assert plan.workers == query.own.workers
    assert plan.splits == 0
    assert np.unique(plan.keys).size == plan.keys.size
    assert plan.buckets.size >= 4096
    where = query.owners()
    assert where.min() >= 0
    assert where.max() < plan.workers
    some = query.keys[:3].tolist() + plan.keys[:3].tolist()
    assert all(len(plan.homes_of(int(key))) == 1 for key in some)
    assert plan.expected.sum() == pytest.approx(1)


@every_scheme
@settings(max_examples=12)
@given(workers=st.integers(1, 6), todo=actions, seed=st.integers(0, 5))
def test_every_key_has_one_owner_whatever_happens(
    scheme: ef.Scheme, workers: int, todo: list[tuple[Any, ...]], seed: int
) -> None:
    query = Query(Ownership.start(scheme, workers, seed=seed), distinct=300, rows=3000, seed=seed)
    assert_one_owner_each(query)
    for action in todo:
        decision = act(query, action)
        assert json.loads(json.dumps(decision, allow_nan=False)) == decision
        assert_one_owner_each(query)


@every_scheme
@settings(max_examples=8)
@given(todo=actions, at=st.integers(0, 7), counted=st.booleans())
def test_json_goes_on_as_if_nothing_had_happened(
    scheme: ef.Scheme, todo: list[tuple[Any, ...]], at: int, counted: bool
) -> None:
    def run(save: bool) -> tuple[list[dict[str, Any]], str]:
        own = Ownership.start(scheme, 3, auto=AutoWorkers(1, 9, patience=2))
        query = Query(own, distinct=300, rows=3000, elapsed=0.2, count_buckets=counted)
        said = []
        for place, action in enumerate(todo):
            if save and place >= at:
                query.own = Ownership.from_json(query.own.to_json(), scheme)
            said.append(act(query, action))
        return said, query.own.to_json()

    assert run(save=True) == run(save=False) == run(save=False)


@pytest.mark.parametrize("scheme", FOLLOW_SPEED, ids=str)
def test_a_slow_worker_gets_its_part_within_three_batches(scheme: ef.Scheme) -> None:
    query = Query(Ownership.start(scheme, 8), z=0.6)
    for _ in range(3):
        query.step()
    query.slow = {1: SLOW, 5: SLOW}
    for _ in range(3):
        query.step()
    shares = query.shares()
    others = np.delete(shares, [1, 5]).mean()
    assert shares[[1, 5]] / others == pytest.approx([0.3, 0.3], rel=0.25)
    assert max(query.measure().seconds) < 1.5 * np.mean(query.measure().seconds)


@pytest.mark.parametrize("scheme", FOLLOW_SPEED, ids=str)
def test_a_worker_that_recovers_gets_its_part_back(scheme: ef.Scheme) -> None:
    query = Query(Ownership.start(scheme, 8), z=0.4, slow={2: 4.0})
    for _ in range(3):
        query.step()
    assert query.shares()[2] * 8 < 0.5
    query.slow = {}
    for _ in range(4):
        query.step()
    assert query.shares()[2] * 8 == pytest.approx(1, abs=0.25)


@pytest.mark.parametrize("z", [0.0, 0.6])
@pytest.mark.parametrize("k", [2.0, SLOW])
def test_signals_move_one_virtual_worker_at_a_time_to_who_has_time(z: float, k: float) -> None:
    scheme = ef.scheme("consistent", allocation="key")
    query = Query(Ownership.start(scheme, 8), z=z, slow={1: k, 5: k})
    slots = math.ceil(10 * (1 - 1 / k) + 3)
    for _ in range(slots):
        before = query.own.plan.buckets
        query.step()
        given_away = [
            int(((before == worker) & (query.own.plan.buckets != worker)).sum()) for worker in (1, 5)
        ]
        assert max(given_away) <= before.size / 80
    shares = query.shares()
    others = np.delete(shares, [1, 5]).mean()
    assert (np.abs(shares[[1, 5]] - others / k) <= 1.0 / 80).all()  # within one virtual worker


@every_scheme
def test_an_even_stream_is_left_alone(scheme: ef.Scheme) -> None:
    query = Query(Ownership.start(scheme, 8), z=0.0, noise=0.02)
    assert not any(query.step().adopted for _ in range(20))


def test_one_stalled_batch_is_no_slow_worker() -> None:
    query = Query(Ownership.start(ef.scheme("explicit"), 8), z=0.3)
    said = []
    for batch in range(9):
        query.slow = {3: 8.0} if batch == 4 else {}
        said.append(query.step().adopted)
    assert not any(said)


def test_many_cold_keys_are_not_a_slow_worker() -> None:
    query = Query(Ownership.start(ef.scheme("explicit"), 8), z=1.2, per_key=20.0)
    for _ in range(6):
        query.step()
    assert query.own.shares.tolist() == [1.0] * 8


@pytest.mark.parametrize("scheme", SCHEMES[:4], ids=str)
def test_new_hot_keys_are_followed(scheme: ef.Scheme) -> None:
    query = Query(Ownership.start(scheme, 8), z=1.0, distinct=5000)
    for _ in range(8):
        query.step()
    settled = query.shares().max()
    where = query.owners()
    crowded = np.flatnonzero(where == where[0])[:12]  # keys of one worker become the hottest
    others = np.setdiff1d(np.arange(query.distinct), crowded)
    query.keys = query.keys[np.concatenate([crowded, others])]
    shocked = query.shares().max()
    for _ in range(10):
        query.step()
    assert shocked > 1.5 * settled
    assert query.shares().max() < 0.8 * shocked


def test_a_plan_is_adopted_only_when_it_gains_more_than_it_moves() -> None:
    query = Query(Ownership.start(ef.scheme("explicit"), 8), z=1.0)
    missed, adopted = 0.0, 0
    for _ in range(10):
        decision = query.step()
        numbers = decision.numbers
        if "b_after" not in numbers:
            missed = 0.0
            continue
        gain = numbers["b_before"] / numbers["b_after"] - 1
        missed += gain if gain > 0.03 else 0.0
        gains = missed > numbers["relative_migration"] and gain > 0.03
        assert decision.adopted == gains
        assert numbers["missed"] == pytest.approx(missed, abs=1e-4)
        if decision.adopted:
            adopted, missed = adopted + 1, 0.0
    assert adopted >= 1


@pytest.mark.parametrize("scheme", SCHEMES[:5], ids=str)
def test_migration_is_what_all_keys_say(scheme: ef.Scheme) -> None:
    query = Query(Ownership.start(scheme, 4), z=1.0, distinct=2000, rows=200_000)
    for _ in range(4):
        query.step()
    before = query.owners()
    decision = query.own.rescale(5)
    moved = float(query.heat[before != query.owners()].sum())
    assert decision.numbers["moved"] == pytest.approx(moved, abs=0.03)
    assert decision.numbers["ideal"] == pytest.approx(1 / 5)
    assert decision.numbers["relative_migration"] == pytest.approx(5 * moved, abs=0.15)
    assert (decision.before, decision.after, decision.adopted) == (4, 5, True)


@pytest.mark.parametrize(
    "scheme", [*SCHEMES[:5], ef.scheme("consistent", allocation="key", virtual_workers=40)], ids=str
)
def test_workers_come_and_go_with_little_migration(scheme: ef.Scheme) -> None:
    query = Query(Ownership.start(scheme, 4), z=0.3)
    query.step()
    for workers in (5, 9, 8, 3, 12):
        before, n = query.owners(), query.own.workers
        query.own.rescale(workers)
        after = query.owners()
        share = abs(workers - n) / max(workers, n)
        assert float((before != after).mean()) <= 1.35 * share + 0.02
        assert query.shares().max() * workers < 1.45
        query.step()


def test_key_grouping_never_moves_by_itself() -> None:
    query = Query(Ownership.start(ef.scheme("key"), 4), z=1.5, slow={0: 5.0})
    assert not any(query.step().adopted for _ in range(6))


def test_buckets_are_cut_when_workers_become_many() -> None:
    for scheme in SCHEMES:
        query = Query(Ownership.start(scheme, 60), distinct=5000, rows=20_000, count_buckets=True)
        query.step()
        query.own.rescale(100)
        query.step()
        assert_one_owner_each(query)
        assert len(set(query.owners().tolist())) > 90


def test_a_batch_seen_before_changes_nothing() -> None:
    query = Query(Ownership.start(ef.scheme("explicit"), 3), z=1.3)
    measured = query.measure()
    query.own.observe(measured)
    saved = query.own.to_json()
    assert query.own.observe(measured).reason == "batch 0 was already observed"
    assert query.own.to_json() == saved


def test_few_keys_many_workers_and_empty_batches() -> None:
    for scheme in SCHEMES:
        query = Query(Ownership.start(scheme, 8), distinct=2, rows=1000)
        for _ in range(3):
            query.step()
        assert_one_owner_each(query)
        none = np.zeros(0, np.uint64), np.zeros(0)
        query.own.observe(Measured(9, *none, 0.0, [0] * 8, [0.0] * 8, [0] * 8, [0] * 8))
        assert_one_owner_each(query)


def test_an_idle_stream_forgets_nothing() -> None:
    query = Query(Ownership.start(ef.scheme("explicit"), 4), z=1.2, slow={1: 4.0})
    for _ in range(4):
        query.step()
    known, shares = query.own.frequencies.counted(), query.own.speeds.shares().tolist()
    full, query.rows = query.rows, 0
    said = [query.step().reason for _ in range(30)]
    assert set(said) == {"the batch had no rows"}
    query.rows = 20  # a trickle
    for _ in range(10):
        query.step()
    after = query.own.frequencies.counted()
    assert after.keys[:5].tolist() == known.keys[:5].tolist()
    assert after.counts[:5] / after.total == pytest.approx(known.counts[:5] / known.total, rel=0.05)
    assert query.own.speeds.shares().tolist() == pytest.approx(shares, rel=0.2)
    query.rows = full
    assert not query.step().adopted


def test_refusals_are_sentences() -> None:
    with pytest.raises(ef.EvenflowError, match=r"fill gives a key several workers.*split=False"):
        Ownership.start(ef.scheme("fill"), 4)
    with pytest.raises(ef.EvenflowError, match=r"consistent gives.*allocation=\"key\""):
        Ownership.start(ef.scheme("consistent"), 4)
    with pytest.raises(ef.EvenflowError, match=r"d-choices gives a key several.*choose one of"):
        Ownership.start(ef.scheme("d-choices"), 4)
    with pytest.raises(ef.EvenflowError, match=r"speeds is 'signals' with explicit"):
        Ownership.start(ef.scheme("explicit"), 4, speeds="signals")
    with pytest.raises(ef.EvenflowError, match=r"speeds is 'fast'; choose"):
        Ownership.start(ef.scheme("explicit"), 4, speeds="fast")
    own = Ownership.start(ef.scheme("explicit"), 4)
    with pytest.raises(ef.EvenflowError, match=r"the saved owners are from explicit"):
        Ownership.from_json(own.to_json(), ef.scheme("key"))
    with pytest.raises(ef.EvenflowError, match=r"not a saved ownership"):
        Ownership.from_json("{}", ef.scheme("key"))
    with pytest.raises(ef.EvenflowError, match=r"rows of batch 0 has 1 values for 4 workers"):
        own.observe(Measured(0, np.zeros(0, np.uint64), np.zeros(0), 0.0, [0], [0.0], [0], [0]))
    with pytest.raises(ef.EvenflowError, match=r"workers is 0"):
        own.rescale(0)
