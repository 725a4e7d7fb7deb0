"""Bitsets against Python sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenflow.simulator.metrics import KeyOwners, Pairs, Partials, keys_by_worker

MESSAGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 129)), max_size=200)


def arrays(messages: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    ids = np.array([key for key, _ in messages], np.int32)
    return ids, np.array([worker for _, worker in messages], np.int32)


@given(first=MESSAGES, second=MESSAGES, left=st.integers(1, 129))
def test_pairs_and_workers_that_leave(
    first: list[tuple[int, int]], second: list[tuple[int, int]], left: int
) -> None:
    pairs = Pairs(130)
    pairs.make_room(3)
    pairs.make_room(41)
    pairs.count(*arrays(first))
    assert (pairs.keys, pairs.ever) == (len({key for key, _ in first}), len(set(first)))
    assert pairs.forget_from(left) == sum(worker >= left for _, worker in set(first))
    held = {pair for pair in first if pair[1] < left}
    pairs.count(*arrays(second))
    assert pairs.keys == len({key for key, _ in first + second})
    assert pairs.ever == len(set(first)) + len(set(second) - held)
    assert pairs.loads.tolist() == [sum(worker == w for _, worker in first + second) for w in range(130)]
    now = held | set(second)
    assert keys_by_worker(pairs).tolist() == [sum(pair[1] == w for pair in now) for w in range(130)]
    assert pairs.seen().tolist() == sorted({key for key, _ in first + second})


@given(periods=st.lists(MESSAGES, max_size=4))
def test_partials_start_again_every_period(periods: list[list[tuple[int, int]]]) -> None:
    partials = Partials(130, period=200)
    partials.make_room(41)
    for messages in periods:
        partials.count(*arrays(messages))
        assert partials.close() == len(set(messages))


@given(messages=MESSAGES)
def test_owners_move_with_all_their_messages(messages: list[tuple[int, int]]) -> None:
    owners = KeyOwners()
    owners.make_room(41)
    owners.follow(*arrays(messages))
    moves = state = 0
    last: dict[int, int] = {}
    counts: dict[int, int] = {}
    for key, worker in messages:
        if last.setdefault(key, worker) != worker:
            moves += 1
            state += counts[key]
            last[key] = worker
        counts[key] = counts.get(key, 0) + 1
    assert owners.state.moved.tolist() == [moves, state]
