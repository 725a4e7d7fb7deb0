"""How fast each worker is: from rows, keys and seconds, in the presence of noise.

A worker's **slowness** in a batch is its seconds per unit of work, over the median worker's. A row is one
unit; a key that was touched costs c units more, since a worker with many cold keys is not slow. c is what
makes the workers' slownesses agree best (least median deviation), so that a few slow workers do not bend it.

A machine is never quiet: a worker that needed no more than ``JITTER`` seconds more or less than the median
worker would have, or that is within ``DEAD_BAND`` of it, is as fast. Slower or faster is who was so in all of
the last three batches, by the median of them: a stall is ignored, a lasting change is seen after three.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evenflow.kernels import Float64Array
from evenflow.schemes.owner_plans import JITTER

BATCHES = 3
DEAD_BAND = 0.2
_PER_KEY = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)  # rows that a touched key costs, at most a hundred
_SHORT = 0.01  # seconds; less is too short to tell a speed
_FEW = 0.01  # of the mean worker's rows; fewer are too few
_RANGE = 50.0  # nobody is taken to be faster or slower than so many times the median


def slowness(rows: Sequence[int], touched: Sequence[int], seconds: Sequence[float]) -> Float64Array:
    """Return each worker's seconds per unit of work over the median's; NaN where that cannot be told.

    >>> slowness([100, 100, 100, 90], [5, 5, 5, 5], [1.0, 1.0, 3.0, 0.9]).round(2).tolist()
    [1.0, 1.0, 3.0, 1.0]
    """
    done, keys, busy = (np.asarray(values, np.float64) for values in (rows, touched, seconds))
    told = (done > 0) & (done >= _FEW * done.mean()) & (busy >= _SHORT)
    result = np.full(done.size, np.nan)
    if told.sum() < 2:
        return result
    best, least = result, np.inf
    for per_key in _PER_KEY:
        pace = busy[told] / (done[told] + per_key * keys[told])
        relative = pace / np.median(pace)
        deviation = float(np.median(np.abs(relative - 1)))
        if deviation < least * (1 - 1e-9):
            best, least = relative, deviation
    expected = busy[told] / best
    best = np.where(np.abs(busy[told] - expected) <= JITTER, 1.0, best)
    result[told] = np.clip(best, 1 / _RANGE, _RANGE)
    return result


class Speeds:
    """The last three slownesses that are known of every worker, oldest first."""

    def __init__(self, workers: int):
        self.history: list[list[float]] = [[] for _ in range(workers)]

    def add(self, rows: Sequence[int], touched: Sequence[int], seconds: Sequence[float]) -> None:
        """Remember one batch."""
        for known, value in zip(self.history, slowness(rows, touched, seconds).tolist(), strict=True):
            if not math.isnan(value):
                known.append(value)
                del known[:-BATCHES]

    def rescale(self, workers: int) -> None:
        """Forget workers that left; those that joined are unknown."""
        self.history = self.history[:workers] + [[] for _ in range(workers - len(self.history))]

    def shares(self) -> Float64Array:
        """Return each worker's capacity, 1 on average."""
        slow = np.ones(len(self.history))
        for worker, known in enumerate(self.history):
            if len(known) == BATCHES and (min(known) > 1 + DEAD_BAND or max(known) < 1 - DEAD_BAND):
                slow[worker] = np.median(known)
        speed = 1 / slow
        return np.asarray(speed / speed.mean(), np.float64)
