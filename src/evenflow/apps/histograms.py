"""Streaming histograms (Ben-Haim and Tom-Tov, JMLR 2010): a distribution in at most so many bins.

A histogram is bins (p_i, m_i): m_i points around p_i. The one operation is to merge the two neighbours whose
p are closest into their weighted mean, until there are at most ``bins`` bins. A new point is a bin of its
own; merging histograms is putting their bins together first (Algorithms 1 and 2). ``below`` counts the points
up to b by the trapezoid between neighbours, and ``uniform`` finds points with equally many between them
(Algorithms 3 and 4).

Merging one pair after the other is slow in numpy, and not needed. A pair whose gap is smaller than both
neighbouring gaps stays that until it is merged, since merging only widens the gaps beside it; and at most as
many merges come before it as there are smaller gaps. So all such pairs whose gap ranks below the number of
merges that are left can be merged at once, with the same result. (Of a run of equal gaps the first, third,
fifth, ... are meant: merging left to right takes the same.)

Bins follow gaps, so far outliers take them all: of values whose logarithm is normal with deviation 3, 64 bins
left two thirds of the points in the first. Give such a feature as its logarithm.

Left open by the paper: NaN and infinity are left out; of equal gaps the leftmost is merged first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from evenflow.kernels import BoolArray, Float64Array


class Histogram(NamedTuple):
    """Bins in order: where they are and how many points each has."""

    centres: Float64Array
    counts: Float64Array

    @property
    def total(self) -> float:
        """Number of points."""
        return float(self.counts.sum())


EMPTY = Histogram(np.zeros(0), np.zeros(0))


def histogram(values: Float64Array, bins: int) -> Histogram:
    """Return the histogram of ``values``.

    >>> histogram(np.array([23.0, 19, 10, 16, 36]), 3).centres.tolist()
    [10.0, 19.333333333333332, 36.0]
    """
    centres, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    return reduced(Histogram(centres, counts.astype(np.float64)), bins)


def merged(parts: Iterable[Histogram], bins: int) -> Histogram:
    """Return the histogram of the points of all ``parts``."""
    parts = list(parts)
    points = np.concatenate([part.centres for part in parts]) if parts else np.zeros(0)
    counts = np.concatenate([part.counts for part in parts]) if parts else np.zeros(0)
    centres, where = np.unique(points, return_inverse=True)
    return reduced(Histogram(centres, np.bincount(where, counts, centres.size).astype(np.float64)), bins)


def reduced(full: Histogram, bins: int) -> Histogram:
    """Merge closest neighbours until at most ``bins`` bins are left."""
    centres, counts = full
    while centres.size > bins:
        chosen = _sure(np.diff(centres), centres.size - bins)
        keep = np.ones(centres.size, bool)
        keep[1:] = ~chosen
        left = np.flatnonzero(chosen)
        both = counts[left] + counts[left + 1]
        centres, counts = centres.copy(), counts.copy()
        centres[left] = (centres[left] * counts[left] + centres[left + 1] * counts[left + 1]) / both
        counts[left] = both
        centres, counts = centres[keep], counts[keep]
    return Histogram(centres, counts)


def _sure(gaps: Float64Array, merges: int) -> BoolArray:
    """Return which gaps merging the smallest first, ``merges`` times, would close for sure."""
    starts = np.flatnonzero(np.diff(gaps, prepend=-1.0) != 0)  # of runs of equal gaps
    run = np.zeros(gaps.size, np.int64)
    run[starts[1:]] = 1
    first = starts[np.cumsum(run)]
    padded = np.concatenate([[np.inf], gaps, [np.inf]])
    lowest = (padded[first] > gaps) & (padded[2:] >= gaps)
    rank = np.empty(gaps.size, np.int64)
    rank[np.argsort(gaps, kind="stable")] = np.arange(gaps.size)
    return lowest & ((np.arange(gaps.size) - first) % 2 == 0) & (rank < merges)


def below(of: Histogram, points: Float64Array) -> Float64Array:
    """Return about how many values are at most each of ``points``.

    >>> below(Histogram(np.array([0.0, 2.0]), np.array([4.0, 4.0])), np.array([-1.0, 0.0, 1.0, 2.0])).tolist()
    [0.0, 2.0, 4.0, 8.0]
    """
    centres, counts = of
    points = np.asarray(points, np.float64)
    if not centres.size:
        return np.zeros(points.size)
    result = np.where(points >= centres[-1], of.total, 0.0)
    inside = np.flatnonzero((points >= centres[0]) & (points < centres[-1]))
    left = np.searchsorted(centres, points[inside], side="right") - 1
    part = (points[inside] - centres[left]) / (centres[left + 1] - centres[left])
    here = counts[left]
    at_point = here + (counts[left + 1] - here) * part
    before = np.cumsum(counts)[left] - here / 2
    result[inside] = before + (here + at_point) / 2 * part
    return result


def uniform(of: Histogram, parts: int) -> Float64Array:
    """Return at most ``parts - 1`` points that cut the values into parts of about equal size.

    >>> uniform(Histogram(np.array([0.0, 2.0]), np.array([4.0, 4.0])), 2).tolist()
    [1.0]
    """
    centres, counts = of
    if centres.size < 2:
        return np.zeros(0)
    before = np.cumsum(counts) - counts / 2
    wanted = of.total * np.arange(1, parts) / parts
    wanted = wanted[(wanted > before[0]) & (wanted < before[-1])]
    left = np.searchsorted(before, wanted, side="right") - 1
    missing = wanted - before[left]
    here = counts[left]
    slope = counts[left + 1] - here
    # slope z^2 + 2 here z - 2 missing = 0, in the form that needs no case for a slope of 0
    share = 2 * missing / (here + np.sqrt(here * here + 2 * slope * missing))
    return np.unique(centres[left] + share * (centres[left + 1] - centres[left]))
