"""The key space promotes as Algorithms 1-3 say, on a clock of its messages, in bounded memory."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenflow.kernels import Float64Array, Int64Array, UInt64Array, kernel
from evenflow.sketches.generations import (
    BABY,
    OLD,
    TEENAGE,
    KeySpace,
    new_key_space,
    note_key,
    run_cycles,
    sizes_for,
)
from reference.dynamic import PlainSpaces


@kernel
def note_all(
    space: KeySpace, keys: UInt64Array, times: Float64Array, teenage_cycle: float, old_cycle: float
) -> None:
    for i in range(keys.size):
        run_cycles(space, times[i], teenage_cycle, old_cycle)
        note_key(space, keys[i])


class Generations:
    """The key space as `dynamic-key` uses it, with its cycles."""

    def __init__(
        self,
        expected_keys: int = 100,
        teenage_cycle: float = 15.0,
        old_cycle: float = 60.0,
        baby_limit: int | None = None,
    ):
        self.cycles = teenage_cycle, old_cycle
        self.key_space = new_key_space(expected_keys, baby_limit)

    def update(self, keys: UInt64Array, times: Float64Array) -> None:
        note_all(self.key_space, keys, times, *self.cycles)

    def old(self) -> tuple[UInt64Array, Int64Array]:
        return self._items(OLD)

    def teenage(self) -> tuple[UInt64Array, Int64Array]:
        return self._items(TEENAGE)

    def baby(self) -> tuple[UInt64Array, Int64Array]:
        return self._items(BABY)

    def _items(self, space: int) -> tuple[UInt64Array, Int64Array]:
        items = (self.key_space.baby, self.key_space.teenage, self.key_space.old)[space]
        chosen = items[: self.key_space.sizes[space]]
        return self.key_space.keys[chosen], self.key_space.counts[chosen]


def random_messages(seed: int, messages: int, keys: int, skew: float) -> tuple[list[int], list[float]]:
    """Keys, hot ones changing half way, and times with gaps of all sizes."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1, keys + 1, dtype=float) ** -skew
    ids = rng.choice(keys, messages, p=weights / weights.sum())
    ids[messages // 2 :] = keys - 1 - ids[messages // 2 :]
    return ids.tolist(), np.cumsum(rng.choice([0.0, 0.01, 0.3, 2.0, 40.0], messages)).tolist()


MESSAGES = st.builds(
    random_messages,
    seed=st.integers(0, 2**32),
    messages=st.integers(0, 800),
    keys=st.integers(1, 200),
    skew=st.sampled_from([0.0, 0.8, 1.5]),
)


def generations(keys: list[int], times: list[float], **parameters: Any) -> Generations:
    space = Generations(**parameters)
    space.update(np.array(keys, np.uint64), np.array(times, np.float64))
    return space


def pairs(items: tuple[Any, Any]) -> list[tuple[int, int]]:
    return [(int(key), int(count)) for key, count in zip(*items, strict=True)]


@given(
    messages=MESSAGES,
    expected=st.sampled_from([10, 13, 30, 100]),
    limit=st.sampled_from([None, 1, 20, 70]),
    cycles=st.sampled_from([(15.0, 60.0), (1.0, 3.0), (5.0, 2.0)]),
)
def test_promotes_as_the_algorithms(
    messages: tuple[list[int], list[float]],
    expected: int,
    limit: int | None,
    cycles: tuple[float, float],
) -> None:
    keys, times = messages
    plain = PlainSpaces(expected, limit, *cycles)
    for key, time in zip(keys, times, strict=True):
        plain.run(time)
        plain.note(key)
    space = generations(
        keys, times, expected_keys=expected, baby_limit=limit, teenage_cycle=cycles[0], old_cycle=cycles[1]
    )
    assert pairs(space.old()) == [(item.key, item.count) for item in plain.old]
    assert pairs(space.teenage()) == [(item.key, item.count) for item in plain.teenage]
    assert pairs(space.baby()) == [(item.key, item.count) for item in plain.baby]


@given(messages=MESSAGES)
def test_no_count_exceeds_the_true_count_and_spaces_keep_their_sizes(
    messages: tuple[list[int], list[float]],
) -> None:
    keys, times = messages
    space = generations(keys, times, expected_keys=20, baby_limit=40)
    true = Counter(keys)
    held = pairs(space.old()) + pairs(space.teenage()) + pairs(space.baby())
    assert all(1 <= count <= true[key] for key, count in held)
    assert len({key for key, _ in held}) == len(held)
    assert len(pairs(space.old())) <= 2
    assert len(pairs(space.teenage())) <= 8
    assert len(pairs(space.baby())) <= 40


def test_sizes_are_the_papers() -> None:
    assert sizes_for(100) == (50, 40, 10)


def test_a_key_waits_for_its_cycles() -> None:
    def spaces(now: float) -> tuple[list[int], list[int]]:
        times = [*np.arange(0, now, 0.5), now]
        space = generations([7] * len(times), times)
        return space.old()[0].tolist(), space.teenage()[0].tolist()

    assert spaces(14.5) == ([], [])
    assert spaces(15.0) == ([], [7])
    assert spaces(59.5) == ([], [7])
    assert spaces(60.0) == ([7], [])


def test_the_next_cycle_counts_from_the_last_run() -> None:
    # the teenage cycle is due at 15, found due at 20, and next due at 35
    assert generations([1, 1, 2, 2], [0, 20, 21, 34.9]).teenage()[0].tolist() == [1]
    assert generations([1, 1, 2, 2], [0, 20, 21, 35.0]).teenage()[0].tolist() == [1, 2]


def test_an_empty_space_is_filled_and_a_full_one_swaps_until_its_lowest_is_higher() -> None:
    # ten expected keys: the teenage space has room for 4, the baby space is cut to 5
    first = [1] * 4 + [2] * 3 + [3] * 2 + [4] * 2 + [5]
    keys, times = [*first], [0.0] * len(first)
    keys += [6] * 3 + [5]  # found at 15 s: 1, 2, 3, 4 fill the space, 5 stays a baby
    times += [15.0] * 4
    space = generations(keys, times, expected_keys=10)
    assert pairs(space.teenage()) == [(1, 4), (2, 3), (3, 2), (4, 2)]
    assert pairs(space.baby()) == [(5, 2), (6, 3)]
    # at 30 s: 6 (3) takes the place of 4 (2); 5 (2) of 3 (2), equal swaps; then 4 (2) does not beat 2 (3)
    space.update(np.array([1], np.uint64), np.array([30.0]))
    assert pairs(space.teenage()) == [(5, 2), (6, 3), (1, 5), (2, 3)]
    assert pairs(space.baby()) == [(4, 2), (3, 2)]


def test_the_frequent_keys_of_a_skewed_stream_grow_old() -> None:
    rng = np.random.default_rng(3)
    weights = np.arange(1, 10**4 + 1, dtype=float) ** -1.2
    keys = rng.choice(10**4, 10**5, p=weights / weights.sum())
    space = generations(keys.tolist(), (np.arange(keys.size) / 1000).tolist())
    assert set(range(8)) <= set(space.old()[0].tolist())
    assert len(space.old()[0]) == 10


def test_a_key_that_rises_after_a_full_baby_space_is_still_born() -> None:
    keys = [*range(100, 400), 7, 7, *range(400, 700)]
    space = generations(keys, [0.0] * len(keys), expected_keys=10, baby_limit=20)
    space.update(np.array([1], np.uint64), np.array([15.0]))
    assert (7, 2) in pairs(space.teenage())


def test_memory_is_that_of_an_empty_space() -> None:
    space = Generations()
    before = [array.nbytes for array in space.key_space if isinstance(array, np.ndarray)]
    space.update(np.arange(10**5, dtype=np.uint64), np.arange(10**5) / 1e4)
    assert [array.nbytes for array in space.key_space if isinstance(array, np.ndarray)] == before
    assert len(space.baby()[0]) <= 5000
