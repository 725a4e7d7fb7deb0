"""What the loop is told of a batch, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, UInt64Array


@dataclass(frozen=True, eq=False)
class Measured:
    """One finished batch; lists have one value per worker of the plan that the batch ran with."""

    batch: int
    keys: UInt64Array  # hashes of the hottest keys, or of all if they are few
    counts: Float64Array  # their rows in this batch
    total: float  # rows in this batch
    rows: list[int]
    seconds: list[float]  # that each worker was busy
    state_bytes: list[int]
    touched: list[int]  # distinct keys
    buckets: Float64Array | None = None  # rows of each bucket of the plan, named keys included
    elapsed: float | None = None  # seconds since the batch before was finished; `workers="auto"` needs it

    def check(self, workers: int) -> None:
        """Refuse lists of another number of workers, with a sentence."""
        for name in ("rows", "seconds", "state_bytes", "touched"):
            size = len(getattr(self, name))
            if size != workers:
                raise EvenflowError(
                    f"{name} of batch {self.batch} has {size} values for {workers} workers; pass one each."
                )
        if np.shape(self.keys) != np.shape(self.counts):
            raise EvenflowError(
                f"batch {self.batch} has {np.size(self.keys)} keys and {np.size(self.counts)} counts; "
                "pass one count per key."
            )


@dataclass(frozen=True)
class Decision:
    """What the loop did after a batch, why, and the numbers that led to it (plain numbers and lists)."""

    batch: int
    adopted: bool
    reason: str
    before: int  # workers
    after: int
    numbers: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as one flat object, for a line of JSON."""
        return {
            "batch": self.batch,
            "adopted": self.adopted,
            "reason": self.reason,
            "workers_before": self.before,
            "workers_after": self.after,
            **self.numbers,
        }
