"""What a worker does with its messages, inside a Python worker of Spark: serve them one by one, in order.

A message costs ``service`` seconds, divided by the worker's speed: of sleep, as the papers have it, or of
computing. Sleeping workers share a few cores without slowing each other down. A worker sleeps once for a
slice of messages and keeps to its timetable: what one sleep was too long, the next is shorter. When each
slice began and ended is told in a file, as :mod:`evenflow.papers.deployments.finished` reads it; what goes
on are the worker's partial states, one count per key.

Light to import: a Python worker does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

SLICE = 0.05  # seconds of work between two looks at the clock
PARTIALS = "k long, n long"
KINDS = ("sleep", "cpu")
_ROUNDS = 40_000  # of the computing loop, per millisecond of service: about as much on a core of today


@dataclass(frozen=True)
class Serve:
    """A pass over one worker's messages; ``folder`` gets the file of each worker."""

    service: float
    speeds: tuple[float, ...]
    folder: str
    kind: str = "sleep"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Serve the messages of one partition; yield its partial states at the end."""
        from pyspark import TaskContext

        task: Any = TaskContext.get()
        worker = int(task.partitionId())
        seconds = self.service / self.speeds[worker]
        serve = _Asleep(seconds) if self.kind == "sleep" else _Computing(seconds)
        size = max(1, int(SLICE / seconds)) if seconds > 0 else 1 << 30
        slices: list[tuple[float, float, float, float]] = []
        keys: list[Any] = []
        waited_since = time.time()
        for batch in batches:
            serve.wait(time.time() - waited_since)
            for start in range(0, batch.num_rows, size):
                rows = min(size, batch.num_rows - start)
                began, used = time.time(), time.thread_time()
                serve.serve(rows)
                slices.append((began, time.time(), rows, time.thread_time() - used))
            keys.append(batch.column(0).to_numpy())
            waited_since = time.time()
        found = np.unique(np.concatenate(keys), return_counts=True) if keys else (np.empty(0, np.int64),) * 2
        states = pa.RecordBatch.from_arrays([pa.array(part) for part in found], names=["k", "n"])
        self._tell(worker, slices, states.nbytes)
        yield states

    def _tell(self, worker: int, slices: list[tuple[float, float, float, float]], state_bytes: int) -> None:
        """Write the file in one step; a task that is run again replaces it."""
        path = Path(self.folder) / f"{worker:05d}.npz"
        draft = path.with_name(f".{uuid4().hex}.npz")
        np.savez(draft, slices=np.array(slices, np.float64).reshape(-1, 4), state_bytes=state_bytes)
        os.replace(draft, path)


class _Asleep:
    """Sleep until the timetable says that the messages are served."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self.due = time.time()

    def wait(self, waited: float) -> None:
        """Move the timetable by a time without messages."""
        self.due += waited

    def serve(self, rows: int) -> None:
        """Sleep."""
        self.due += rows * self.seconds
        left = self.due - time.time()
        if left > 0:
            time.sleep(left)


class _Computing:
    """Compute the same for every message, however long that takes."""

    def __init__(self, seconds: float):
        self.rounds = round(seconds * 1000 * _ROUNDS)

    def wait(self, waited: float) -> None:
        """Nothing is owed."""

    def serve(self, rows: int) -> None:
        """Count."""
        for _ in range(rows * self.rounds):
            pass
