"""planning.py: which schemes can be planned, and that their plans are theirs."""

from __future__ import annotations

import numpy as np
import pytest

import evenflow as ef
from evenflow.plan import make_plan
from evenflow.plan.counted import Counted
from evenflow.schemes.explicit import ExplicitRouter
from evenflow.schemes.registry import list_schemes

PLANNABLE = [name for name, kind in list_schemes().items() if kind.plannable]


def counted(z: float = 1.4, keys: int = 500, seed: int = 1) -> Counted:
    rng = np.random.default_rng(seed)
    counts = np.floor(1e6 * np.arange(1, keys + 1) ** -z) + 1
    return Counted(rng.integers(0, 2**64, keys, np.uint64), counts, float(counts.sum()))


@pytest.mark.parametrize("name", PLANNABLE)
def test_every_plannable_scheme_has_a_plan_whose_expectations_add_up(name: str) -> None:
    seen = counted()
    plan = ef.scheme(name).plan(12, seen, seed=3)
    assert plan.workers == 12
    assert plan.buckets.size == ef.scheme(name).plan_buckets(12)
    assert plan.expected.sum() == pytest.approx(1)
    assert set(plan.route(seen.keys, np.zeros(seen.keys.size)).tolist()) <= set(range(12))
    if not ef.scheme(name).splits_keys:
        assert plan.splits == 0


@pytest.mark.parametrize("name", sorted(set(list_schemes()) - set(PLANNABLE)))
def test_a_scheme_that_cannot_be_planned_says_so(name: str) -> None:
    with pytest.raises(ef.EvenflowError, match=rf"{name} decides row by row .*mode='online'.*fill"):
        ef.scheme(name).plan(4)


def test_fill_is_even_and_key_is_not() -> None:
    assert ef.scheme("fill").plan(12, counted()).max_over_mean <= 1.01
    blind = ef.scheme("key").plan(12, counted())
    assert blind.keys.size == 0
    assert (np.diff(blind.buckets) >= 0).all()
    assert np.bincount(blind.buckets).tolist() == [64] * 12


def test_consistent_hash_moves_few_buckets_when_a_worker_joins() -> None:
    scheme = ef.scheme("consistent-hash")
    before, after = scheme.plan(20).buckets, scheme.plan(21).buckets
    moved = before != after
    assert set(after[moved].tolist()) == {20}
    assert 0 < moved.mean() < 2 / 21


def test_explicit_has_the_map_of_its_router() -> None:
    scheme, seen = ef.scheme("explicit", domain=10_000), counted()
    router = scheme.router(12, 3)
    assert isinstance(router, ExplicitRouter)
    router.rebuild(seen.keys, seen.counts, seen.total)
    plan = scheme.plan(12, seen, seed=3)
    assert {int(key): plan.homes_of(int(key))[0] for key in plan.keys} == router.mapping
    assert plan.keys.size > 5
    assert plan.weights.sum() <= 1


def test_only_schemes_that_count_need_counts() -> None:
    assert [name for name in PLANNABLE if ef.scheme(name).counts_keys] == ["explicit", "fill"]


def test_nothing_counted_is_a_plan_too() -> None:
    for name in PLANNABLE:
        assert ef.scheme(name).plan(5).expected.sum() == pytest.approx(1)


@pytest.mark.parametrize("spread", [0.0, 0.03, 0.2])
def test_hundred_giants_that_are_nearly_equal_get_a_worker_each(spread: float) -> None:
    rng = np.random.default_rng(5)
    keys = rng.integers(0, 2**64, 100, np.uint64)
    counts = 1000 * (1 + spread * (rng.random(100) - 0.5))
    plan = make_plan(100, keys, counts, split=False)
    assert sorted(plan.homes.tolist()) == list(range(100))
    before = make_plan(100, keys, rng.permutation(counts), split=False)
    again = make_plan(100, keys, counts, split=False, previous=before)
    assert {int(key): again.homes_of(int(key)) for key in keys} == {
        int(key): before.homes_of(int(key)) for key in keys
    }


def test_giants_that_a_plan_left_together_are_parted() -> None:
    keys = np.arange(4, dtype=np.uint64) << np.uint64(60)  # all in the first quarter of the hashes
    together = make_plan(4, keys, [1.0, 1, 1, 1], total=1e6, split=False)
    apart = make_plan(4, keys, [95.0, 95, 95, 95], total=400, split=False, previous=together)
    assert sorted(apart.homes.tolist()) == [0, 1, 2, 3]


def test_buckets_stay_when_told_to() -> None:
    rng = np.random.default_rng(7)
    seen = counted(keys=300)
    tail = rng.random(64 * 12) * 9000 * np.linspace(0.1, 3, 64 * 12)  # the last workers' buckets are heavy
    first = make_plan(12, seen.keys[:0], [])
    for split in (True, False):
        plan = ef.scheme("fill").plan(
            12,
            Counted(seen.keys, seen.counts, seen.total, tail),
            split=split,
            previous=first,
            move_buckets=False,
        )
        assert (plan.buckets == first.buckets).all()
        assert plan.expected.sum() == pytest.approx(1)
    moved = ef.scheme("fill").plan(12, Counted(seen.keys, seen.counts, seen.total, tail), previous=first)
    assert (moved.buckets != first.buckets).any()
