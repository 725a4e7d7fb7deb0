"""The pace of a source: messages come at a rate that the harness sets, each with its creation time.

Time is divided into windows of ``interval`` seconds. The harness writes to a file how many messages come in
each window, before the window begins; they are created at even distances in it. A micro-batch gets the
messages of the windows that are over, so at a steady rate all batches are of one size. Message i has the key
of the stream's i-th message (the stream repeats); source j of s creates those whose number is j modulo s.

Keep imports light: Python workers import this module.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evenflow.files import replace_file

if TYPE_CHECKING:
    from evenflow.kernels import Float64Array, Int64Array

_PACE, _KEYS = "pace.json", "keys.npy"


@dataclass(frozen=True)
class Pace:
    """When messages are created: how many in each window of ``interval`` seconds from ``start`` on.

    >>> pace = Pace(100.0, 2.0, (2, 0, 4))
    >>> pace.created_by(102.0), pace.created_by(105.9), pace.created_by(106.0)
    (2, 2, 6)
    >>> pace.creation(np.array([0, 1, 2, 5])).tolist()
    [100.5, 101.5, 104.25, 105.75]
    """

    start: float
    interval: float
    counts: tuple[int, ...] = ()

    def window(self, now: float) -> int:
        """Return how many windows are over."""
        return max(0, int((now - self.start + 1e-6) // self.interval))

    def created_by(self, now: float) -> int:
        """Return how many messages were created in windows that are over."""
        return sum(self.counts[: self.window(now)])

    def created_until(self, now: float) -> int:
        """Return how many messages were created.

        >>> pace = Pace(100.0, 2.0, (2, 0, 4))
        >>> [pace.created_until(now) for now in (99.0, 100.4, 100.6, 103.0, 104.3, 200.0)]
        [0, 0, 1, 2, 3, 6]
        """
        whole = self.window(now)
        if now < self.start or whole >= len(self.counts):
            return self.created_by(now)
        part = (now - self.start) / self.interval - whole
        return self.created_by(now) + int(part * self.counts[whole] + 0.5)

    def creation(self, numbers: Int64Array) -> Float64Array:
        """Return when these messages are created, in seconds of the Unix epoch."""
        ends = np.cumsum(self.counts)
        window = np.searchsorted(ends, numbers, side="right")
        counts = np.asarray(self.counts)[window]
        first = ends[window] - counts
        part = (numbers - first + 0.5) / counts
        found: Float64Array = self.start + (window + part) * self.interval
        return found

    def due(self, number: int) -> float:
        """Return when the micro-batch of a message must be done: an interval after its window.

        >>> pace = Pace(100.0, 2.0, (2, 0, 4))
        >>> [pace.due(number) for number in (0, 1, 2, 5)]
        [104.0, 104.0, 108.0, 108.0]
        """
        window = int(np.searchsorted(np.cumsum(self.counts), number, side="right"))
        return self.start + (window + 2) * self.interval

    def write(self, folder: Path) -> None:
        """Replace the file that the source reads."""
        replace_file(folder / _PACE, json.dumps(asdict(self)).encode())

    @staticmethod
    def read(folder: Path) -> Pace:
        """Read the file."""
        found = json.loads((folder / _PACE).read_text())
        return Pace(found["start"], found["interval"], tuple(found["counts"]))


def write_keys(folder: Path, keys: Int64Array) -> None:
    """Write the keys of the stream's messages."""
    np.save(folder / _KEYS, keys)


def keys_of(folder: Path, numbers: Int64Array) -> Int64Array:
    """Return the keys of these messages."""
    keys = np.load(folder / _KEYS, mmap_mode="r")
    found: Int64Array = keys[numbers % keys.size]
    return found
