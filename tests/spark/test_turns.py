"""Rows of a key that take turns: pieces of equal size, however the rows come in batches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.spark.routing import turns
from evenflow.spark.routing.turns import taking_turns


def drawn(hashes: np.ndarray, cuts: list[int], seed: int = 1) -> np.ndarray:
    """Return the draws of rows that come in batches."""
    draw = taking_turns(seed)
    return np.concatenate([draw(pa.array(part)).to_numpy() for part in np.split(hashes, cuts)])


@settings(max_examples=60)
@given(
    pieces=st.integers(1, 300),
    share=st.sampled_from([0.05, 0.3, 1.0]),
    cuts=st.lists(st.integers(0, 4000), max_size=5).map(sorted),
    seed=st.integers(0, 2**32),
)
def test_pieces_are_of_equal_size(pieces: int, share: float, cuts: list[int], seed: int) -> None:
    """Also if the rows of other keys stand between those of the hot one."""
    rng = np.random.default_rng(seed)
    hashes = rng.integers(-(2**63), 2**63, 4000)
    hot = rng.random(4000) < share
    hashes[hot] = -7
    draws = drawn(hashes, cuts, seed)
    assert (draws >= 0).all()
    assert (draws < 1).all()
    assert (draws == drawn(hashes, [], seed)).all()
    rows = np.bincount((draws[hot] * pieces).astype(int), minlength=pieces)
    assert rows.size == pieces
    assert abs(rows - hot.sum() / pieces).max() <= 6


def test_tasks_start_with_different_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many tasks with one row of a key each fill all of its pieces."""
    from pyspark import TaskContext

    starts = []
    for number in range(400):
        monkeypatch.setattr(TaskContext, "get", staticmethod(lambda n=number: Task(n)))
        starts.append(float(drawn(np.array([7]), [])[0]))
    rows = np.bincount((np.array(starts) * 4).astype(int), minlength=4)
    assert rows.min() > 70
    monkeypatch.setattr(TaskContext, "get", staticmethod(lambda: Task(3)))
    assert drawn(np.array([7]), [])[0] == starts[3]


class Task:
    def __init__(self, partition: int):
        self.partition = partition

    def partitionId(self) -> int:
        """Return the number of the partition."""
        return self.partition


def test_memory_is_bounded() -> None:
    draw = taking_turns(1)
    for number in range(5):
        draw(pa.array(np.random.default_rng(number).integers(-(2**63), 2**63, 10**5)))
    [counters] = draw.__closure__[0].cell_contents  # type: ignore[index]
    assert counters.size == turns.COUNTERS
