"""The kernels of `fish` and `dynamic-key` that count keys, run on their own over a stream."""

from __future__ import annotations

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, kernel
from evenflow.sketches.epochs import (
    ENTRIES,
    TOTAL,
    EpochCounters,
    close_epoch,
    count_in_epoch,
    epoch_is_over,
    new_epoch_counters,
)
from evenflow.sketches.generations import BABY, OLD, TEENAGE, KeySpace, new_key_space, note_key, run_cycles


@kernel
def _count_all(c: EpochCounters, keys: UInt64Array, epoch: int, decay: float) -> None:
    for i in range(keys.size):
        if epoch_is_over(c, epoch):
            close_epoch(c, decay)
        count_in_epoch(c, keys[i])


class EpochCounting:
    """The keys that are frequent of late, with at most ``capacity`` counters.

    A count is never below the key's decayed count and above it by at most ``total / capacity``.

    >>> sketch = EpochCounting(capacity=2, epoch=4, decay=0.5)
    >>> sketch.update(np.array([7, 7, 7, 8, 8, 8], np.uint64))
    >>> [(int(key), float(count)) for key, count in zip(*sketch.top())]
    [(8, 2.5), (7, 1.5)]
    """

    def __init__(self, capacity: int = 1000, epoch: int = 1000, decay: float = 0.2):
        self.epoch = epoch
        self.decay = decay
        self.counters = new_epoch_counters(capacity)

    @property
    def capacity(self) -> int:
        """Number of counters."""
        return self.counters.keys.size

    @property
    def total(self) -> float:
        """Number of messages counted, decayed as the counters are."""
        return float(self.counters.sums[TOTAL])

    def update(self, keys: UInt64Array) -> None:
        """Count one message for every key hash."""
        _count_all(self.counters, np.ascontiguousarray(keys, np.uint64), self.epoch, self.decay)

    def top(self, threshold: float = 0.0) -> tuple[UInt64Array, Float64Array]:
        """Return keys and counts with ``count >= threshold * total``, most frequent first, then by key."""
        used = int(self.counters.ends[ENTRIES])
        keys, counts = self.counters.keys[:used], self.counters.counts[:used]
        chosen = np.flatnonzero(counts >= threshold * self.total)
        order = chosen[np.lexsort((keys[chosen], -counts[chosen]))]
        return keys[order], counts[order]


@kernel
def _note_all(
    s: KeySpace, keys: UInt64Array, times: Float64Array, teenage_cycle: float, old_cycle: float
) -> None:
    for i in range(keys.size):
        run_cycles(s, times[i], teenage_cycle, old_cycle)
        note_key(s, keys[i])


class Generations:
    """Which keys have stayed frequent, among about ``expected_keys``.

    >>> space = Generations(expected_keys=10)
    >>> space.update(np.array([7, 7, 8, 7, 9], np.uint64), np.array([0.0, 1.0, 2.0, 70.0, 140.0]))
    >>> space.old()[0].tolist(), space.teenage()[0].tolist(), space.baby()[0].tolist()
    ([7], [8], [9])
    """

    def __init__(
        self,
        expected_keys: int = 100,
        teenage_cycle: float = 15.0,
        old_cycle: float = 60.0,
        baby_limit: int | None = None,
    ):
        self.teenage_cycle = teenage_cycle
        self.old_cycle = old_cycle
        self.key_space = new_key_space(expected_keys, baby_limit)

    def update(self, keys: UInt64Array, times: Float64Array) -> None:
        """Count one message for every key hash; ``times`` are seconds, not decreasing."""
        hashed = np.ascontiguousarray(keys, np.uint64)
        clock = np.ascontiguousarray(times, np.float64)
        _note_all(self.key_space, hashed, clock, self.teenage_cycle, self.old_cycle)

    def old(self) -> tuple[UInt64Array, Int64Array]:
        """Return keys and counts of the old space."""
        return self._items(self.key_space.old, OLD)

    def teenage(self) -> tuple[UInt64Array, Int64Array]:
        """Return keys and counts of the teenage space."""
        return self._items(self.key_space.teenage, TEENAGE)

    def baby(self) -> tuple[UInt64Array, Int64Array]:
        """Return keys and counts of the baby space."""
        return self._items(self.key_space.baby, BABY)

    def _items(self, items: Int32Array, space: int) -> tuple[UInt64Array, Int64Array]:
        chosen = items[: self.key_space.sizes[space]]
        return self.key_space.keys[chosen], self.key_space.counts[chosen]
