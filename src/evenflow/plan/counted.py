"""Row counts from which plans are made."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from evenflow.kernels import Float64Array, UInt64Array

HOT_DIVISOR = 64  # a key is hot from 1/64 of a worker's share


@dataclass(frozen=True, eq=False)
class Counted:
    """The hot keys and their rows, the number of all rows and, if known, of the buckets' rows and of keys."""

    keys: UInt64Array = field(default_factory=lambda: np.zeros(0, np.uint64))
    counts: Float64Array = field(default_factory=lambda: np.zeros(0))
    total: float = 0.0
    buckets: Float64Array | None = None
    distinct: float | None = None


NOTHING = Counted()


def hot_only(
    keys: UInt64Array,
    counts: Float64Array,
    total: float,
    buckets: Float64Array | None,
    workers: int,
    min_count: int = 1,
) -> Counted:
    """Keep the hot keys among those counted at least ``min_count`` times."""
    is_hot = (counts * HOT_DIVISOR * workers >= total) & (counts >= min_count)
    return Counted(keys[is_hot], counts[is_hot], total, buckets)
