"""`dynamic`: Table 1, when a key is widened and narrowed, and which keys are."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenflow as ef
from evenflow.kernels import Float64Array, UInt64Array
from evenflow.keys import candidate
from evenflow.schemes.dynamic_key import (
    DynamicKey,
    DynamicKeyRouter,
    _set_width,
    threshold_for,
    width_limit_for,
)
from evenflow.sketches.table import table_find
from reference.dynamic import DynamicKeyReference

HOT = 7


def router_of(workers: int, seed: int = 0, **parameters: Any) -> DynamicKeyRouter:
    router = ef.scheme("dynamic-key", **parameters).router(workers, seed)
    assert isinstance(router, DynamicKeyRouter)
    return router


def country_stream(ratio: float, messages: int, rate: float = 100.0) -> tuple[UInt64Array, Float64Array]:
    """A share of one key, the rest uniform over 204 countries, and times."""
    rng = np.random.default_rng(1)
    keys = rng.integers(100, 304, messages).astype(np.uint64)
    keys[rng.random(messages) < ratio] = HOT
    return keys, np.arange(messages) / rate


def widths_over_time(
    router: DynamicKeyRouter, keys: UInt64Array, times: Float64Array
) -> list[tuple[float, int]]:
    """The width of the hot key after each message of it."""
    found = []
    for key, time in zip(keys, times, strict=True):
        router.route(np.array([key]), np.array([time]))
        if key == HOT:
            found.append((float(time), router.widths.get(HOT, 2)))
    return found


@pytest.mark.parametrize(
    ("workers", "threshold", "limit"),
    [(5, 24.47, 5), (10, 13.16, 8), (20, 7.24, 14), (50, 3.41, 30), (100, 2.00, 51)],
)
def test_table_1(workers: int, threshold: float, limit: int) -> None:
    assert round(threshold_for(workers), 2) == threshold
    assert width_limit_for(workers) == limit


@given(workers=st.integers(1, 2000))
def test_the_width_limit_is_at_most_the_number_of_workers(workers: int) -> None:
    assert 1 <= width_limit_for(workers) <= workers


def test_a_hot_key_is_widened_by_one_worker_a_minute_once_it_is_old() -> None:
    found = widths_over_time(router_of(20), *country_stream(0.8, 20000, rate=50))
    assert all(width == 2 for time, width in found if time < 60)
    changes = [(time, width) for (_, before), (time, width) in pairwise(found) if width != before]
    assert [width for _, width in changes] == [3, 4, 5, 6, 7, 8]
    gaps = np.diff([time for time, _ in changes])
    assert 60 <= changes[0][0] < 61
    assert (gaps >= 60).all()
    assert (gaps < 61).all()


def test_no_key_is_widened_before_the_warm_up() -> None:
    keys, times = country_stream(0.8, 4000, rate=100)
    early: dict[str, Any] = {"teenage_cycle": 1.0, "old_cycle": 2.0, "check_every": 0.0}
    assert max(width for _, width in widths_over_time(router_of(20, warm_up=20.0, **early), keys, times)) > 2
    found = widths_over_time(router_of(20, warm_up=20.0, **early), keys[:2000], times[:2000])
    assert {width for _, width in found} == {2}


@pytest.mark.parametrize("workers", [5, 10, 20])
def test_a_key_is_widened_up_to_the_limit_and_no_further(workers: int) -> None:
    router = router_of(workers)
    keys, times = country_stream(1.0, 40000, rate=10)
    widest = 0
    for begin in range(0, keys.size, 100):
        router.route(keys[begin : begin + 100], times[begin : begin + 100])
        widest = max(widest, router.widths.get(HOT, 2))
    assert widest == width_limit_for(workers)


def test_only_old_keys_are_widened() -> None:
    # ten old places are taken by keys of 1 percent each before a key with half of the stream comes
    rng = np.random.default_rng(1)
    first = rng.integers(100, 110, 7000).astype(np.uint64)
    second = np.where(rng.random(2000) < 0.5, HOT, rng.integers(100, 110, 2000)).astype(np.uint64)
    keys = np.concatenate([first, second])
    router = router_of(20, check_every=0.0)
    router.route(keys, np.arange(keys.size) / 100)  # 70 s, then 20 s: not old before 120 s
    assert HOT not in router.widths


def test_a_key_that_cools_down_is_narrowed_by_one_worker_a_minute() -> None:
    keys, times = country_stream(0.9, 30000, rate=50)
    router = router_of(10)
    router.route(keys, times)
    wide = router.widths[HOT]
    assert wide > 4
    cold, after = country_stream(0.05, 60000, rate=50)
    found = widths_over_time(router, cold, after + times[-1] + 0.02)
    changes = [(time, width) for (_, before), (time, width) in pairwise(found) if width != before]
    assert found[-1][1] == 2
    assert [width for _, width in changes] == list(range(found[0][1] - 1, 1, -1))
    assert (np.diff([time for time, _ in changes]) >= 60).all()


@given(seed=st.integers(0, 99), workers=st.sampled_from([3, 10, 30]))
def test_a_key_stays_within_its_width_of_its_first_worker(seed: int, workers: int) -> None:
    keys, times = country_stream(0.7, 3000, rate=20)
    router = router_of(workers, seed, check_every=5.0, old_cycle=10.0)
    salt = router.place.salt
    for key, time in zip(keys.tolist(), times.tolist(), strict=True):
        worker = int(router.route(np.array([key], np.uint64), np.array([time]))[0])
        home = candidate(np.uint64(key), 0, salt, workers)
        width = router.widths.get(key, 2)
        assert (worker - home) % workers < width
        assert width <= width_limit_for(workers)


def test_dkg_balances_what_two_choices_cannot() -> None:
    keys, times = country_stream(0.8, 200000, rate=200)
    dynamic, partial = router_of(10), ef.scheme("partial-key").router(10)
    dynamic.route(keys, times)
    partial.route(keys)
    assert partial.loads.max() / keys.size > 0.4
    assert dynamic.loads.max() / keys.size < 0.2


def test_wide_keys_are_bounded_and_the_one_away_longest_gives_way() -> None:
    scheme = DynamicKey(
        expected_keys=10, teenage_cycle=1.0, old_cycle=1.0, warm_up=0.0, check_every=0.1, baby_limit=30
    )
    # for ten seconds each, one key after the other has nearly everything, and more than the one before
    lengths = (50 * 1.3 ** np.arange(18)).astype(int)
    hot = np.repeat(np.arange(1000, 1018), lengths)
    times = np.concatenate([10 * k + np.linspace(0, 9.9, length) for k, length in enumerate(lengths)])
    rng = np.random.default_rng(2)
    keys = np.where(rng.random(hot.size) < 0.95, hot, rng.integers(0, 50, hot.size)).astype(np.uint64)
    router, reference = scheme.router(50, 1), DynamicKeyReference(scheme, 50, 1, 0, 1)
    assert isinstance(router, DynamicKeyRouter)
    widened: set[int] = set()
    for begin in range(0, keys.size, 100):
        piece = slice(begin, begin + 100)
        expected = [
            reference.route_one(int(k), float(t)) for k, t in zip(keys[piece], times[piece], strict=True)
        ]
        assert router.route(keys[piece], times[piece]).tolist() == expected
        assert router.widths == reference.widths
        assert len(router.widths) <= 10
        widened |= set(router.widths)
    assert len(widened) > 12  # so some had to give way


def test_a_key_that_gave_way_has_two_workers_again() -> None:
    router = router_of(50, expected_keys=10)
    keys = np.arange(1, 12, dtype=np.uint64)
    router.route(keys, np.zeros(11))
    for now, key in enumerate(keys):  # one more than the map holds
        _set_width(router.state, table_find(router.state.space.table, key), key, 4, float(now))
    assert router.widths == dict.fromkeys(range(2, 12), 4)
    assert router.state.wide_at[table_find(router.state.space.table, keys[0])] == -1
    used = router.route(np.full(40, 1, np.uint64), np.full(40, 20.0))
    assert len(set(used.tolist())) == 2


def test_paper_defaults() -> None:
    scheme = DynamicKey()
    assert (scheme.expected_keys, scheme.teenage_cycle, scheme.old_cycle, scheme.warm_up) == (
        100,
        15.0,
        60.0,
        15.0,
    )
    state = router_of(10).state.space
    assert (state.old.size, state.teenage.size, state.sizes[4]) == (10, 40, 50)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"expected_keys": 9}, "expected_keys is 9; use a whole number from 10"),
        ({"expected_keys": 20.5}, "expected_keys is 20.5"),
        ({"baby_limit": 0}, "baby_limit is 0; use a whole number of keys, 1 or more"),
        ({"teenage_cycle": 0}, "teenage_cycle is 0; use a number of seconds above 0"),
        ({"old_cycle": -1}, "old_cycle is -1; use a number of seconds above 0"),
        ({"warm_up": -1}, "warm_up is -1; use a number of seconds, 0 or more"),
        ({"check_every": -1}, "check_every is -1; use a number of seconds, 0 or more"),
        ({"rate": 0}, "rate is 0; use a number of messages per second above 0"),
    ],
)
def test_bad_parameters_get_a_sentence(parameters: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ef.EvenflowError, match=sentence):
        ef.scheme("dkg", **parameters)
