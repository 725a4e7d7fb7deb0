"""Lossy counting against exact counts, and against the algorithm as `functions` 4.1.2 tells it."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenflow as ef
from evenflow.kernels import UInt64Array
from evenflow.sketches.lossy_counting import LossyCounting, add_up, top_lossy, with_epsilon
from reference.functions import Lossy, SlidingLossy


def zipf(seed: int, messages: int, keys: int, skew: float) -> UInt64Array:
    rng = np.random.default_rng(seed)
    weights = np.arange(1, keys + 1, dtype=float) ** -skew
    return rng.choice(keys, messages, p=weights / weights.sum()).astype(np.uint64)


def all_new(messages: int) -> UInt64Array:
    """No key comes twice."""
    return np.arange(messages, dtype=np.uint64)


def just_too_rare(messages: int, width: int) -> UInt64Array:
    """Keys come back right after they have been let go, and one key comes exactly once per bucket."""
    keys = np.arange(messages, dtype=np.uint64) % np.uint64(width)
    keys[::width] = 10**6
    return keys


def full_house(messages: int, width: int) -> UInt64Array:
    """Hold as many keys as possible: a key that came in i buckets ago comes just often enough to stay."""
    blocks: list[UInt64Array] = []
    total = math.ceil(messages / width)
    fresh = 0
    for bucket in range(total):
        times = total - bucket  # what keys of this bucket need in order to stay to the end
        count = max(1, width // times)
        keys = np.repeat(np.arange(fresh, fresh + count, dtype=np.uint64), times)[:width]
        fresh += count
        blocks.append(np.pad(keys, (0, width - keys.size), constant_values=2**60))
    return np.concatenate(blocks)[:messages]


STREAMS = st.one_of(
    st.builds(
        zipf,
        st.integers(0, 2**32),
        st.integers(1, 3000),
        st.integers(1, 500),
        st.sampled_from([0.0, 0.8, 1.2, 2.0]),
    ),
    st.builds(all_new, st.integers(1, 3000)),
    st.builds(just_too_rare, st.integers(1, 3000), st.sampled_from([10, 37, 100])),
    st.builds(full_house, st.integers(1, 3000), st.sampled_from([10, 37, 100])),
)
EPSILONS = st.sampled_from([0.3, 0.1, 0.027, 0.01, 0.001])


def check_bounds(sketch: LossyCounting, past: UInt64Array) -> None:
    """``past`` is what the sketch says it covers."""
    true = Counter(past.tolist())
    keys, counts, errors = sketch.top()
    held = dict(zip(keys.tolist(), counts.tolist(), strict=True))
    for key, count, error in zip(keys.tolist(), counts.tolist(), errors.tolist(), strict=True):
        assert count <= true[key] <= count + error
        assert error <= sketch.epsilon * past.size
    for key, count in true.items():
        assert held.get(key, 0) >= count - sketch.epsilon * past.size
        if count > sketch.epsilon * past.size:
            assert key in held
    assert sketch.counts_of(np.array(list(true), np.uint64)).tolist() == [held.get(key, 0) for key in true]
    assert sketch.held <= sketch.capacity


@given(keys=STREAMS, epsilon=EPSILONS)
def test_counts_are_too_low_by_at_most_epsilon(keys: UInt64Array, epsilon: float) -> None:
    sketch = LossyCounting(epsilon)
    sketch.update(keys)
    assert sketch.covered == keys.size
    check_bounds(sketch, keys)


@given(keys=STREAMS, epsilon=EPSILONS, window=st.integers(1, 1500), counters=st.sampled_from([2, 3, 5]))
def test_the_window_is_counted_too_low_by_at_most_epsilon(
    keys: UInt64Array, epsilon: float, window: int, counters: int
) -> None:
    sketch = LossyCounting(epsilon, window, counters)
    for piece in np.array_split(keys, 4):
        sketch.update(piece)
    check_bounds(sketch, keys[keys.size - sketch.covered :])


@given(messages=st.integers(1, 5000), window=st.integers(1, 1500), counters=st.sampled_from([2, 3, 4, 5, 11]))
def test_the_window_covers_what_the_paper_says(messages: int, window: int, counters: int) -> None:
    sketch = LossyCounting(0.05, window, counters)
    sketch.update(zipf(1, messages, 50, 1.0))
    step = math.ceil(window / (counters - 1))  # a window that is no multiple of a step is rounded up
    assert sketch.covered >= min(messages, window)
    assert sketch.covered < counters * step or messages < counters * step
    if window % (counters - 1) == 0:
        assert sketch.covered <= (1 + 1 / (counters - 1)) * window


def test_three_counters_take_turns() -> None:
    sketch = LossyCounting(0.01, window=1000)
    seen = []
    for _ in range(6):
        sketch.update(zipf(1, 499, 50, 1.0))
        seen.append(sketch.covered)
        sketch.update(zipf(2, 1, 50, 1.0))
    assert seen == [499, 999, 1499, 1499, 1499, 1499]  # then the oldest starts again and 1000 are covered
    assert sketch.covered == 1000


@given(keys=STREAMS, epsilon=EPSILONS)
def test_holds_what_the_algorithm_holds(keys: UInt64Array, epsilon: float) -> None:
    sketch, slow = LossyCounting(epsilon), Lossy(math.ceil(1 / epsilon))
    sketch.update(keys)
    for key in keys.tolist():
        slow.count(key)
    found = zip(*(column.tolist() for column in sketch.top()), strict=True)
    assert {key: (count, error) for key, count, error in found} == slow.entries


@given(keys=STREAMS, epsilon=EPSILONS, window=st.integers(1, 1500), counters=st.sampled_from([2, 3, 5]))
def test_the_window_holds_what_separate_counters_hold(
    keys: UInt64Array, epsilon: float, window: int, counters: int
) -> None:
    sketch, slow = LossyCounting(epsilon, window, counters), SlidingLossy(epsilon, window, counters)
    sketch.update(keys)
    for key in keys.tolist():
        slow.count(key)
    found = zip(*(column.tolist() for column in sketch.top()), strict=True)
    assert {key: (count, error) for key, count, error in found} == slow.oldest.entries
    assert sketch.covered == slow.oldest.messages


@given(keys=STREAMS, rates=st.tuples(EPSILONS, EPSILONS), window=st.integers(1, 1500), cut=st.floats(0, 1))
def test_goes_on_with_another_epsilon(
    keys: UInt64Array, rates: tuple[float, float], window: int, cut: float
) -> None:
    sketch, slow = LossyCounting(rates[0], window), SlidingLossy(rates[0], window, 3)
    before, after = np.split(keys, [int(cut * keys.size)])
    sketch.update(before)
    sketch.counters = with_epsilon(sketch.counters, rates[1], window)
    sketch.update(after)
    for key in before.tolist():
        slow.count(key)
    slow.set_epsilon(rates[1])
    for key in after.tolist():
        slow.count(key)
    found = zip(*(column.tolist() for column in sketch.top()), strict=True)
    assert {key: (count, error) for key, count, error in found} == slow.oldest.entries


@pytest.mark.parametrize("width", [10, 100, 1000])
def test_the_fullest_stream_fits(width: int) -> None:
    keys = full_house(40 * width, width)
    whole, recent = LossyCounting(1 / width), LossyCounting(1 / width, window=20 * width)
    most = 0
    for piece in np.array_split(keys, 400):
        whole.update(piece)
        recent.update(piece)
        most = max(most, whole.held)
        assert recent.held <= recent.capacity
    assert most > 2 * width  # the stream does what it is made for
    assert most <= whole.capacity


def test_finds_every_frequent_key_and_no_rare_one() -> None:
    keys = zipf(3, 200_000, 10_000, 1.0)
    delta, epsilon = 0.002, 0.0002
    sketch = LossyCounting(epsilon)
    sketch.update(keys)
    found = set(sketch.top(delta - epsilon)[0].tolist())
    shares = np.bincount(keys.astype(np.int64)) / keys.size
    assert set(np.flatnonzero(shares >= delta).tolist()) <= found
    assert all(shares[key] >= delta - epsilon for key in found)
    assert sketch.held < 2000  # of 10,000 keys


def test_sources_add_up() -> None:
    parts = [zipf(seed, 5000, 300, 1.1) for seed in range(3)]
    sketches = [LossyCounting(0.004) for _ in parts]
    for sketch, part in zip(sketches, parts, strict=True):
        sketch.update(part)
    keys, counts = add_up([top_lossy(sketch.counters)[:2] for sketch in sketches])
    true = Counter(np.concatenate(parts).tolist())
    assert counts.tolist() == sorted(counts.tolist(), reverse=True)
    found = dict(zip(keys.tolist(), counts.tolist(), strict=True))
    for key, count in true.items():
        assert count - 0.004 * 15000 <= found.get(key, 0) <= count


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((0.0,), "epsilon is 0.0; choose an error between 0 and 1"),
        ((1.5,), "epsilon is 1.5"),
        ((0.1, 0), "window is 0; use at least one message"),
        ((0.1, 2.5), "window is 2.5"),
        ((0.1, 100, 1), "counters is 1; a window needs at least 2 counters"),
    ],
)
def test_bad_input_gets_a_sentence(arguments: tuple[float, ...], sentence: str) -> None:
    with pytest.raises(ef.EvenflowError, match=sentence):
        LossyCounting(*arguments)  # type: ignore[arg-type]
