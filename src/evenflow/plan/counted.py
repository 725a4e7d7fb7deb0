"""Row counts from which plans are made."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from evenflow.kernels import Float64Array, UInt64Array


@dataclass(frozen=True, eq=False)
class Counted:
    """The hot keys and their rows, the number of all rows and, if known, the rows of each bucket."""

    keys: UInt64Array = field(default_factory=lambda: np.zeros(0, np.uint64))
    counts: Float64Array = field(default_factory=lambda: np.zeros(0))
    total: float = 0.0
    buckets: Float64Array | None = None


NOTHING = Counted()
