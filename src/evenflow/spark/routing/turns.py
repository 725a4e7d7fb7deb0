"""Draws by which the rows of a key take turns, so that its pieces differ by a few rows at most.

Independent draws leave pieces of n rows about the root of n apart: of eight pieces with 150 rows each, the
fullest has some 12 percent more than the mean. Here the rows of a key in a task get the multiples of the
golden ratio, modulo 1, in the order in which they come. Keys are told apart by a few bits of their hash, so
memory is bounded; the rows of a hot key are hardly disturbed by those of rare keys with the same bits.

Keep imports light: Python workers import this module.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

COUNTERS = 2**12
_GOLDEN = (5**0.5 - 1) / 2
_FIRST = 2**20  # counters start anywhere below this, or small tasks would all begin with the same piece


def taking_turns(seed: int) -> Callable[[pa.Array], pa.Array]:
    """Return a function that maps the key hashes of a task, batch by batch, to draws in [0, 1).

    A retry repeats the draws if the order of the rows is fixed.

    >>> hot = pa.array([7] * 1000, pa.int64())
    >>> rows = np.bincount((taking_turns(1)(hot).to_numpy() * 8).astype(int))
    >>> int(rows.min()), int(rows.max())
    (124, 126)
    """
    counters: list[np.ndarray] = []  # made in the task, whose partition decides where they start

    def draw(hashes: pa.Array) -> pa.Array:
        if not counters:
            counters.append(_first_counts(seed))
        groups = hashes.to_numpy(zero_copy_only=False).astype(np.int64) & (COUNTERS - 1)
        order = np.argsort(groups, kind="stable")
        rows = np.bincount(groups, minlength=COUNTERS)
        before = np.cumsum(rows) - rows
        turns = np.empty(groups.size, np.int64)
        turns[order] = np.arange(groups.size) - np.repeat(before - counters[0], rows)
        counters[0] += rows
        return pa.array(turns * _GOLDEN % 1.0)

    return draw


def _first_counts(seed: int) -> np.ndarray:
    from pyspark import TaskContext

    task = TaskContext.get()
    partition = 0 if task is None else task.partitionId()
    return np.random.default_rng((seed, partition)).integers(0, _FIRST, COUNTERS)
