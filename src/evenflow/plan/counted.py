"""What was counted of the rows before planning."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from evenflow.kernels import Float64Array, UInt64Array


@dataclass(frozen=True, eq=False)
class Counted:
    """Keys that stand out with their rows, the rows of all keys and, if known, the rows of each bucket."""

    keys: UInt64Array = field(default_factory=lambda: np.zeros(0, np.uint64))
    counts: Float64Array = field(default_factory=lambda: np.zeros(0))
    total: float = 0.0
    buckets: Float64Array | None = None


NOTHING = Counted()
