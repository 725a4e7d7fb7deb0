"""The speed of each worker, estimated from rows, keys and seconds in the presence of noise.

A worker's **slowness** in a batch is its seconds per unit of work relative to the median worker. A row is one
unit; each distinct key costs c more units, so that a worker with many cold keys does not count as slow. c is
chosen such that the workers' slownesses agree best (least median deviation), so that a few slow workers do
not distort it.

Measurements are noisy: a worker within ``JITTER`` seconds of what the median worker would have needed, or
within ``DEAD_BAND`` of its slowness, counts as equally fast. A worker is slower or faster only if it was so
in each of the last three batches, and then by their median: a stall is ignored, a lasting change is detected
after three batches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evenflow.kernels import Float64Array
from evenflow.schemes.owner_plans import JITTER

BATCHES = 3
DEAD_BAND = 0.2
_PER_KEY = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)  # candidates for the cost of a key, in rows
_SHORT = 0.01  # seconds; less is too short to estimate a speed
_FEW = 0.01  # of the mean worker's rows; fewer are too few
_RANGE = 50.0  # most by which a worker can be faster or slower than the median


def slowness(rows: Sequence[int], touched: Sequence[int], seconds: Sequence[float]) -> Float64Array:
    """Return each worker's seconds per unit of work relative to the median, NaN if unknown.

    >>> slowness([100, 100, 100, 90], [5, 5, 5, 5], [1.0, 1.0, 3.0, 0.9]).round(2).tolist()
    [1.0, 1.0, 3.0, 1.0]
    """
    done, keys, busy = (np.asarray(values, np.float64) for values in (rows, touched, seconds))
    known = (done > 0) & (done >= _FEW * done.mean()) & (busy >= _SHORT)
    result = np.full(done.size, np.nan)
    if known.sum() < 2:
        return result
    best, least = result, np.inf
    for per_key in _PER_KEY:
        pace = busy[known] / (done[known] + per_key * keys[known])
        relative = pace / np.median(pace)
        deviation = float(np.median(np.abs(relative - 1)))
        if deviation < least * (1 - 1e-9):
            best, least = relative, deviation
    expected = busy[known] / best
    best = np.where(np.abs(busy[known] - expected) <= JITTER, 1.0, best)
    result[known] = np.clip(best, 1 / _RANGE, _RANGE)
    return result


class Speeds:
    """The last three known slownesses of every worker, oldest first."""

    def __init__(self, workers: int):
        self.history: list[list[float]] = [[] for _ in range(workers)]

    def add(self, rows: Sequence[int], touched: Sequence[int], seconds: Sequence[float]) -> None:
        """Add one batch."""
        for known, value in zip(self.history, slowness(rows, touched, seconds).tolist(), strict=True):
            if not math.isnan(value):
                known.append(value)
                del known[:-BATCHES]

    def rescale(self, workers: int) -> None:
        """Drop workers that left; nothing is known of new ones."""
        self.history = self.history[:workers] + [[] for _ in range(workers - len(self.history))]

    def shares(self) -> Float64Array:
        """Return each worker's capacity, 1 on average."""
        slow = np.ones(len(self.history))
        for worker, known in enumerate(self.history):
            if len(known) == BATCHES and (min(known) > 1 + DEAD_BAND or max(known) < 1 - DEAD_BAND):
                slow[worker] = np.median(known)
        speed = 1 / slow
        return np.asarray(speed / speed.mean(), np.float64)
