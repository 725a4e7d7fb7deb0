"""Input and output of the adaptivity loop: the measurements of a batch, and the decision."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, UInt64Array


@dataclass(frozen=True, eq=False)
class Measured:
    """The measurements of one batch; lists have one value per worker of the plan that it ran with."""

    batch: int
    keys: UInt64Array  # hashes of the hottest keys, or of all keys if there are few
    counts: Float64Array  # their rows in this batch
    total: float  # rows in this batch
    rows: list[int]
    seconds: list[float]  # busy time of each worker
    state_bytes: list[int]
    touched: list[int]  # distinct keys in this batch
    buckets: Float64Array | None = None  # rows of each bucket of the plan, including named keys
    elapsed: float | None = None  # seconds since the previous batch finished; required for `workers="auto"`

    def check(self, workers: int) -> None:
        """Raise an error unless lists have one value per worker."""
        for name in ("rows", "seconds", "state_bytes", "touched"):
            size = len(getattr(self, name))
            if size != workers:
                raise EvenflowError(
                    f"{name} of batch {self.batch} has {size} values for {workers} workers; pass one each."
                )
        if np.shape(self.keys) != np.shape(self.counts):
            raise EvenflowError(
                f"batch {self.batch} has {np.size(self.keys)} keys but {np.size(self.counts)} counts; "
                "pass one count per key."
            )


@dataclass(frozen=True)
class Decision:
    """What the loop did after a batch, why, and the numbers behind it (plain numbers and lists)."""

    batch: int
    adopted: bool
    reason: str
    before: int  # workers
    after: int
    numbers: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as a flat dict, for a line of JSON."""
        return {
            "batch": self.batch,
            "adopted": self.adopted,
            "reason": self.reason,
            "workers_before": self.before,
            "workers_after": self.after,
            **self.numbers,
        }
