"""Streaming histograms (Ben-Haim and Tom-Tov, JMLR 2010): a distribution in a bounded number of bins.

A histogram consists of bins (p_i, m_i): m_i points around p_i. Its only operation merges the two closest
neighbours into their weighted mean, until there are at most ``bins`` bins. A new point is a bin of its own;
histograms are merged by concatenating their bins first (Algorithms 1 and 2). ``below`` counts the points up
to b by the trapezoid rule between neighbours, and ``uniform`` finds points that split the values into equal
parts (Algorithms 3 and 4).

Merging pairs one at a time is slow in numpy, and unnecessary. A pair whose gap is smaller than both
neighbouring gaps remains so until it is merged, since merging only widens adjacent gaps; and at most as many
merges precede it as there are smaller gaps. So all such pairs whose gap ranks below the number of remaining
merges can be merged at once, with the same result. (In a run of equal gaps these are the first, third, fifth,
..., as when merging from left to right.)

Bins follow gaps, so extreme outliers use them all up: for log-normal values with sigma 3, 64 bins left two
thirds of the points in the first. Take the logarithm of such a feature.

Not specified by the paper: NaN and infinity are ignored; among equal gaps the leftmost is merged first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from evenflow.kernels import BoolArray, Float64Array


class Histogram(NamedTuple):
    """Bin centres in ascending order, and the number of points in each bin."""

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
    """Merge histograms."""
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
    """Return the gaps that are certain to be closed by ``merges`` merges of the smallest gap."""
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
    """Return the approximate number of values up to each of ``points``.

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
    """Return at most ``parts - 1`` points that split the values into parts of about equal size.

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
    # slope z^2 + 2 here z - 2 missing = 0, in a form that also holds for a slope of 0
    share = 2 * missing / (here + np.sqrt(here * here + 2 * slope * missing))
    return np.unique(centres[left] + share * (centres[left + 1] - centres[left]))
