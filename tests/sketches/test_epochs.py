"""Epoch counting keeps its promise against exact decayed counts, and counts as Algorithm 1 does."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.sketches.epochs import HIGHEST
from reference.evolving import PlainEpochs
from sketches.drivers import EpochCounting


def random_stream(seed: int, messages: int, keys: int, skew: float) -> list[int]:
    rng = np.random.default_rng(seed)
    weights = np.arange(1, keys + 1, dtype=float) ** -skew
    return [int(key) for key in rng.choice(keys, messages, p=weights / weights.sum())]


STREAMS = st.builds(
    random_stream,
    seed=st.integers(0, 2**32),
    messages=st.integers(0, 1200),
    keys=st.integers(1, 300),
    skew=st.sampled_from([0.0, 0.8, 1.2, 2.0]),
)
CAPACITIES = st.sampled_from([1, 2, 3, 5, 6, 7, 20, 64])
EPOCHS = st.sampled_from([1, 7, 50, 200])
DECAYS = st.sampled_from([0.0, 0.2, 1 / 3, 0.5, 0.99, 1.0])

ADVERSARIAL = {
    "all different": list(range(1000)),
    "one more key than counters, in turn": [i % 21 for i in range(1000)],
    "one key": [5] * 1000,
    "hot first, then a flood": [1] * 300 + list(range(100, 800)),
    "a flood, then hot": list(range(100, 800)) + [1] * 300,
    "a hot key between strangers": [i if i % 3 else 1 for i in range(1000)],
    "counts 1, 2, 3, ...": [key for key in range(40) for _ in range(key + 1)],
    "counts ..., 3, 2, 1": [key for key in range(40) for _ in range(40 - key)],
}


def sketch_of(keys: list[int], capacity: int, epoch: int, decay: float) -> EpochCounting:
    sketch = EpochCounting(capacity, epoch, decay)
    sketch.update(np.array(keys, np.uint64))
    return sketch


def counts_of(sketch: EpochCounting) -> dict[int, float]:
    return {int(key): float(count) for key, count in zip(*sketch.top(), strict=True)}


def exact_counts(keys: list[int], epoch: int, decay: float) -> tuple[Counter[int], float]:
    """Count every key, with decay between epochs."""
    counts: Counter[int] = Counter()
    total = 0.0
    for begin in range(0, len(keys), epoch):
        if begin:
            counts = Counter({key: count * decay for key, count in counts.items()})
            total *= decay
        counts.update(keys[begin : begin + epoch])
        total += len(keys[begin : begin + epoch])
    return counts, total


def check_guarantee(keys: list[int], capacity: int, epoch: int, decay: float) -> None:
    sketch = sketch_of(keys, capacity, epoch, decay)
    found = counts_of(sketch)
    exact, total = exact_counts(keys, epoch, decay)
    assert sketch.total == pytest.approx(total)
    bound = total / capacity
    for key, count in found.items():
        assert exact[key] - 1e-9 <= count <= exact[key] + bound + 1e-9
    missed = {key for key, count in exact.items() if key not in found and count > bound + 1e-9}
    assert not missed


@given(keys=STREAMS, capacity=CAPACITIES, epoch=EPOCHS, decay=DECAYS)
def test_counts_are_within_the_bound_of_the_decayed_counts(
    keys: list[int], capacity: int, epoch: int, decay: float
) -> None:
    check_guarantee(keys, capacity, epoch, decay)


@pytest.mark.parametrize("name", ADVERSARIAL)
@pytest.mark.parametrize("decay", [0.2, 1.0])
def test_the_bound_holds_on_hostile_streams(name: str, decay: float) -> None:
    check_guarantee(ADVERSARIAL[name], 20, 100, decay)


@given(keys=STREAMS, capacity=CAPACITIES, epoch=EPOCHS, decay=DECAYS)
def test_counts_as_algorithm_1(keys: list[int], capacity: int, epoch: int, decay: float) -> None:
    plain = PlainEpochs(capacity, epoch, decay)
    for key in keys:
        if plain.epoch_is_over():
            plain.time_decaying_update()
        plain.count(key)
    sketch = sketch_of(keys, capacity, epoch, decay)
    assert counts_of(sketch) == {v.k: v.c for v in plain.K}
    assert sketch.total == plain.total
    assert sketch.counters.sums[HIGHEST] == max((v.c for v in plain.K), default=0.0)


@given(keys=STREAMS, cuts=st.lists(st.integers(0, 1200), max_size=4))
def test_pieces_count_as_one_stream(keys: list[int], cuts: list[int]) -> None:
    sketch = EpochCounting(7, 50, 0.2)
    for piece in np.split(np.array(keys, np.uint64), sorted(min(cut, len(keys)) for cut in cuts)):
        sketch.update(piece)
    assert counts_of(sketch) == counts_of(sketch_of(keys, 7, 50, 0.2))


def test_an_epoch_is_closed_by_the_message_after_its_last() -> None:
    assert counts_of(sketch_of([1, 1, 2, 2], 5, 4, 0.5)) == {1: 2.0, 2: 2.0}
    assert counts_of(sketch_of([1, 1, 2, 2, 2], 5, 4, 0.5)) == {1: 1.0, 2: 2.0}


def test_a_new_key_inherits_the_lowest_count() -> None:
    assert counts_of(sketch_of([1, 1, 2, 3], 2, 100, 0.2)) == {1: 2.0, 3: 2.0}


def test_counters_that_decayed_to_nothing_go_in_the_order_of_their_entries() -> None:
    idle = [3, 1, 2]  # entries 0, 1, 2, and 1 has been counted more
    keys = [*idle, 1, *([9] * 600), 20, 21]
    sketch = sketch_of(keys, 4, 1, 0.2)  # 600 epochs: 0.2 ** 600 is 0
    assert set(counts_of(sketch)) == {2, 9, 20, 21}


def test_memory_is_that_of_an_empty_sketch() -> None:
    sketch = EpochCounting(50, 100, 0.2)
    before = [array.nbytes for array in sketch.counters if isinstance(array, np.ndarray)]
    sketch.update(np.arange(10**5, dtype=np.uint64))
    assert [array.nbytes for array in sketch.counters if isinstance(array, np.ndarray)] == before


def test_top_is_a_share_of_the_decayed_total() -> None:
    sketch = sketch_of([1] * 90 + [2] * 10 + [3] * 30, 5, 100, 0.1)
    assert sketch.total == pytest.approx(40)
    assert sketch.top(0.2)[0].tolist() == [3, 1]
    assert sketch.top(0.5)[0].tolist() == [3]
