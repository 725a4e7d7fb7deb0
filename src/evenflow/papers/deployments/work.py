"""What a worker does with its messages, inside a Python worker of Spark: serve them one by one, in order.

A message costs ``service`` seconds, divided by the worker's speed: of sleep, as in the papers, or of
computation. Sleeping workers share a few cores without slowing each other down. A worker sleeps once per
slice of messages and keeps to a timetable: if one sleep was too long, the next is shorter. The start
and end of each slice go to a file that :mod:`evenflow.papers.deployments.finished` reads; downstream go the
worker's partial states, one count per key.

Keep imports light: Python workers import this module.
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
_ROUNDS = 40_000_000  # of the computing loop, per second of service: roughly what a current core manages


@dataclass(frozen=True)
class Serve:
    """A pass over one worker's messages; every worker writes one file to ``folder``."""

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
        size = max(1, int(SLICE / seconds)) if seconds > 0 else 1 << 30
        slices: list[tuple[float, float, float, float]] = []
        keys: list[Any] = []
        due = waiting_since = time.time()
        for batch in batches:
            due += time.time() - waiting_since
            for start in range(0, batch.num_rows, size):
                rows = min(size, batch.num_rows - start)
                began, used = time.time(), time.thread_time()
                due += rows * seconds
                self._work(rows, seconds, due)
                slices.append((began, time.time(), rows, time.thread_time() - used))
            keys.append(batch.column(0).to_numpy())
            waiting_since = time.time()
        found = np.unique(np.concatenate(keys), return_counts=True) if keys else (np.empty(0, np.int64),) * 2
        states = pa.RecordBatch.from_arrays([pa.array(part) for part in found], names=["k", "n"])
        path = Path(self.folder) / f"{worker:05d}.npz"
        draft = path.with_name(f".{uuid4().hex}.npz")
        np.savez(draft, slices=np.array(slices, np.float64).reshape(-1, 4), state_bytes=states.nbytes)
        os.replace(draft, path)  # in one step: a task that runs again replaces its file
        yield states

    def _work(self, rows: int, seconds: float, due: float) -> None:
        """Sleep until the timetable says that the messages are served, or compute the same for each."""
        if self.kind == "cpu":
            for _ in range(rows * round(seconds * _ROUNDS)):
                pass
        elif (left := due - time.time()) > 0:
            time.sleep(left)
