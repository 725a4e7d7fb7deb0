"""SpaceSaving keeps its promises against exact counts, alone and merged, and decides as the slow one does."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenflow as ef
from evenflow.kernels import UInt64Array
from evenflow.sketches.space_saving import SpaceSaving
from reference.space_saving import SlowSpaceSaving

CAPACITIES = st.sampled_from([1, 2, 3, 7, 20, 64])
SHORT = st.lists(st.integers(0, 12), max_size=300)


def random_stream(seed: int, messages: int, keys: int, skew: float) -> list[int]:
    rng = np.random.default_rng(seed)
    weights = np.arange(1, keys + 1, dtype=float) ** -skew
    return [int(key) for key in rng.choice(keys, messages, p=weights / weights.sum())]


STREAMS = st.builds(
    random_stream,
    seed=st.integers(0, 2**32),
    messages=st.integers(0, 1500),
    keys=st.integers(1, 300),
    skew=st.sampled_from([0.0, 0.8, 1.2, 2.0]),
)

ADVERSARIAL = {
    "all different": list(range(1000)),
    "one more key than counters, in turn": [i % 21 for i in range(1000)],
    "one key": [5] * 1000,
    "hot first, then a flood": [1] * 300 + list(range(100, 800)),
    "a flood, then hot": list(range(100, 800)) + [1] * 300,
    "every counter raised once, then a flood": [i % 20 for i in range(40)] + list(range(100, 500)),
    "a hot key between strangers": [i if i % 3 else 1 for i in range(1000)],
    "counts 1, 2, 3, ...": [key for key in range(40) for _ in range(key + 1)],
    "counts ..., 3, 2, 1": [key for key in range(40) for _ in range(40 - key)],
}


def hashes(keys: list[int]) -> UInt64Array:
    return np.array(keys, np.uint64)


def sketch_of(keys: list[int], capacity: int) -> SpaceSaving:
    sketch = SpaceSaving(capacity)
    sketch.update(hashes(keys))
    return sketch


def counters(sketch: SpaceSaving) -> dict[int, tuple[int, int]]:
    return {int(key): (int(count), int(error)) for key, count, error in zip(*sketch.top(), strict=True)}


def check_bounds(sketch: SpaceSaving, true: Counter[int]) -> None:
    """The guarantees that hold for every sketch, whatever it was merged from."""
    known = counters(sketch)
    assert len(known) <= sketch.capacity
    assert sketch.total == true.total()
    for key, (count, error) in known.items():
        assert count - error <= true[key] <= count
        assert 0 <= error <= sketch.floor
    for key, count in true.items():
        assert key in known or count <= sketch.floor


def check_floor(sketch: SpaceSaving, true: Counter[int]) -> None:
    """The floor of a sketch of ``capacity`` counters: N / capacity, and the tail guarantee."""
    rest = true.total()
    for k, (_, count) in enumerate([*true.most_common(), (0, 0)]):
        if k < sketch.capacity:
            assert sketch.floor * (sketch.capacity - k) <= rest
        rest -= count


@given(keys=SHORT, capacity=st.integers(1, 8))
def test_decides_like_the_slow_sketch(keys: list[int], capacity: int) -> None:
    sketch, slow = SpaceSaving(capacity), SlowSpaceSaving(capacity)
    for key in keys:
        sketch.update(hashes([key]))
        slow.count(key)
        expected = {key: (count, error) for key, (count, error, _) in slow.counters.items()}
        assert counters(sketch) == expected


@given(keys=STREAMS, capacity=CAPACITIES)
def test_ends_like_the_slow_sketch(keys: list[int], capacity: int) -> None:
    slow = SlowSpaceSaving(capacity)
    for key in keys:
        slow.count(key)
    expected = {key: (count, error) for key, (count, error, _) in slow.counters.items()}
    assert counters(sketch_of(keys, capacity)) == expected


@given(keys=STREAMS, capacity=CAPACITIES)
def test_guarantees_on_random_streams(keys: list[int], capacity: int) -> None:
    sketch = sketch_of(keys, capacity)
    check_bounds(sketch, Counter(keys))
    check_floor(sketch, Counter(keys))


@pytest.mark.parametrize("keys", ADVERSARIAL.values(), ids=ADVERSARIAL.keys())
@pytest.mark.parametrize("capacity", [1, 20, 64])
def test_guarantees_on_adversarial_streams(keys: list[int], capacity: int) -> None:
    sketch = sketch_of(keys, capacity)
    check_bounds(sketch, Counter(keys))
    check_floor(sketch, Counter(keys))
    assert sum(count for count, _ in counters(sketch).values()) == len(keys)


def test_the_bound_is_reached() -> None:
    assert sketch_of(ADVERSARIAL["all different"], 20).floor == 1000 // 20


def test_every_key_above_its_share_is_monitored() -> None:
    keys = random_stream(3, 20000, 2000, 1.0)
    known = counters(sketch_of(keys, 50))
    frequent = {key for key, count in Counter(keys).items() if count > 20000 / 50}
    assert 0 < len(frequent) < 50
    assert frequent <= set(known)


def test_top_lists_the_most_frequent_first_and_cuts_at_the_share() -> None:
    keys, counts, errors = sketch_of([4, 4, 4, 4, 2, 2, 2, 1, 1, 9], 10).top(threshold=0.2)
    assert keys.tolist() == [4, 2, 1]
    assert counts.tolist() == [4, 3, 2]
    assert errors.tolist() == [0, 0, 0]


@given(parts=st.lists(STREAMS, min_size=1, max_size=4), capacity=CAPACITIES)
def test_merging_sketches_of_one_capacity_keeps_every_guarantee(
    parts: list[list[int]], capacity: int
) -> None:
    merged = SpaceSaving.merged(sketch_of(part, capacity) for part in parts)
    true = Counter(key for part in parts for key in part)
    check_bounds(merged, true)
    check_floor(merged, true)


@given(first=STREAMS, second=STREAMS, later=STREAMS, capacity=CAPACITIES)
def test_a_merged_sketch_goes_on_and_merges_again(
    first: list[int], second: list[int], later: list[int], capacity: int
) -> None:
    merged = SpaceSaving.merged([sketch_of(first, capacity), sketch_of(second, capacity)])
    merged.update(hashes(later))
    check_bounds(merged, Counter(first + second + later))
    check_floor(merged, Counter(first + second + later))
    again = SpaceSaving.merged([merged, sketch_of(first, capacity)])
    check_bounds(again, Counter(first + second + later + first))
    check_floor(again, Counter(first + second + later + first))


@given(
    parts=st.lists(st.tuples(STREAMS, CAPACITIES), min_size=1, max_size=4),
    capacity=st.none() | CAPACITIES,
    later=STREAMS,
)
def test_merging_sketches_of_several_capacities(
    parts: list[tuple[list[int], int]], capacity: int | None, later: list[int]
) -> None:
    merged = SpaceSaving.merged((sketch_of(keys, size) for keys, size in parts), capacity)
    true = Counter(key for keys, _ in parts for key in keys)
    check_bounds(merged, true)
    assert merged.floor <= sum(len(keys) / min(merged.capacity, size) for keys, size in parts)
    merged.update(hashes(later))
    check_bounds(merged, true + Counter(later))


def test_a_key_missing_from_a_full_sketch_counts_with_its_floor() -> None:
    full = sketch_of([1, 1, 1, 2, 2], 2)
    other = sketch_of([3, 3, 3, 3], 2)
    assert counters(SpaceSaving.merged([full, other])) == {3: (6, 2), 1: (3, 0)}


def test_a_merged_sketch_has_no_free_counter_once_a_part_was_full() -> None:
    full = sketch_of([1, 1, 2, 2, 3], 2)
    roomy = SpaceSaving(capacity=100)
    assert SpaceSaving.merged([full, roomy]).capacity == 2
    assert SpaceSaving.merged([roomy, roomy]).capacity == 100


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: SpaceSaving(0), "capacity is 0; use 1 to"),
        (lambda: SpaceSaving(2.5), "capacity is 2.5"),  # type: ignore[arg-type]
        (lambda: SpaceSaving.merged([]), "there are no sketches to merge"),
        (lambda: SpaceSaving.merged([SpaceSaving(3)], capacity=0), "capacity is 0"),
    ],
)
def test_bad_input_gets_a_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(ef.EvenflowError, match=sentence):
        call()
