"""Recent key frequencies: counts of the hottest keys of each batch, with exponential decay.

After every batch ``count = keep * count + rows``, for each named key, for each bucket and for all rows, so a
share is a mean over about 1 / (1 - keep) batches. A batch with fewer rows than usual decays the past less, in
proportion, and an empty batch not at all: an idle stream forgets nothing. A key that a batch does not name
counts as absent from it. The ``MOST`` most frequent keys are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenflow.blob import array_from_text, array_to_text
from evenflow.kernels import Float64Array, UInt64Array
from evenflow.plan.counted import Counted

MOST = 1024
_SURE = 4.0  # rows from which a key counts; fewer may be chance


@dataclass
class Frequencies:
    """Decayed counts; ``buckets`` only if batches have them.

    >>> recent = Frequencies(keep=0.5)
    >>> for _ in range(2):
    ...     recent.add(np.array([7], np.uint64), np.array([60.0]), 100.0, None)
    >>> recent.counted().counts.tolist(), recent.total
    ([90.0], 150.0)
    """

    keep: float
    keys: UInt64Array = field(default_factory=lambda: np.zeros(0, np.uint64))
    counts: Float64Array = field(default_factory=lambda: np.zeros(0))
    total: float = 0.0
    buckets: Float64Array | None = None

    def add(
        self, keys: UInt64Array, counts: Float64Array, total: float, buckets: Float64Array | None
    ) -> None:
        """Decay the past and add one batch."""
        usual = (1 - self.keep) * self.total  # estimated rows of a batch
        keep = 1 - (1 - self.keep) * (min(1.0, float(total) / usual) if usual > 0 else 1.0)
        both = np.concatenate([self.keys, np.asarray(keys, np.uint64)])
        rows = np.concatenate([keep * self.counts, np.asarray(counts, np.float64)])
        unique, where = np.unique(both, return_inverse=True)
        summed = np.bincount(where, rows, unique.size) if unique.size else np.zeros(0)
        order = np.lexsort((unique, -summed))[:MOST]
        order = order[summed[order] >= 0.5]
        self.keys, self.counts = unique[order], summed[order].astype(np.float64)
        self.total = max(keep * self.total + float(total), float(self.counts.sum()))
        if buckets is None:
            self.buckets = None
        else:
            now = np.asarray(buckets, np.float64)
            past = self.buckets
            fits = past is not None and past.size == now.size
            self.buckets = keep * past + now if fits and past is not None else now
            self.buckets = self.buckets.astype(np.float32).astype(
                np.float64
            )  # the precision in which it is saved

    def cut(self, buckets: int) -> None:
        """Follow buckets that were split into equal parts."""
        if self.buckets is not None and self.buckets.size < buckets:
            parts = buckets // self.buckets.size
            self.buckets = np.repeat(self.buckets / parts, parts)

    def counted(self) -> Counted:
        """Return the input for planning: keys beyond chance, the number of all rows, rows of buckets."""
        sure = self.counts >= _SURE
        return Counted(self.keys[sure], self.counts[sure], self.total, self.buckets)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "keep": self.keep,
            "keys": array_to_text(self.keys),
            "counts": array_to_text(self.counts),
            "total": self.total,
            "buckets": None if self.buckets is None else array_to_text(self.buckets.astype(np.float32)),
        }

    @staticmethod
    def from_dict(saved: dict[str, Any]) -> Frequencies:
        """Read what ``to_dict`` returned."""
        buckets = saved["buckets"]
        return Frequencies(
            float(saved["keep"]),
            array_from_text(saved["keys"], np.uint64),
            array_from_text(saved["counts"], np.float64),
            float(saved["total"]),
            None if buckets is None else array_from_text(buckets, np.float32).astype(np.float64),
        )
