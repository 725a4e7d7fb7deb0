"""A worker of a stream, inside a Python worker of Spark: it serves its messages one by one, in order.

A message costs seconds of sleep, as in the papers; sleeping workers share a few cores without slowing
each other down. What it costs each worker, and from which message on, is in a file that the harness may
replace while the query runs.
A worker sleeps once per slice of messages and keeps to a timetable: if one sleep was too long, the next
is shorter. A message is finished when its slice is. Where a worker ``computes``, a message costs rounds
of a loop instead. Which messages were finished when, and the processor seconds that all took, go to a
file per worker and micro-batch; downstream go the worker's partial states, one count per key.

Keep imports light: Python workers import this module.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from evenflow.files import replace_file

if TYPE_CHECKING:
    from evenflow.kernels import Float64Array, Int64Array

PARTIALS = "k long, n long"
SLICE = 0.02  # seconds of work between two looks at the clock
_SERVICE = "service.npy"


def write_service(folder: Path, costs: dict[int, Float64Array]) -> None:
    """Set what messages cost each worker, seconds or rounds of a loop, by the number of the first message."""
    content = io.BytesIO()
    np.save(content, np.array([[first, *cost] for first, cost in sorted(costs.items())]))
    replace_file(folder / _SERVICE, content.getvalue())


def read_service(folder: Path, worker: int, number: int) -> float:
    """Return what a worker's messages cost from this number on."""
    found = np.load(folder / _SERVICE)
    row = max(0, int(np.searchsorted(found[:, 0], number, side="right")) - 1)
    return float(found[row, 1 + worker])


@dataclass(frozen=True)
class Serve:
    """A pass over one worker's messages of one micro-batch: columns k, number, created."""

    folder: str
    computes: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Serve the messages; yield the worker's partial states at the end."""
        from pyspark import TaskContext

        from evenflow.spark.monitoring.task_timing import BATCH_ID

        task: Any = TaskContext.get()
        worker, batch = int(task.partitionId()), int(task.getLocalProperty(BATCH_ID))
        parts: list[tuple[Any, Any, Any, Any]] = []
        used = 0.0
        due = waiting_since = time.time()
        for incoming in batches:
            due += time.time() - waiting_since
            keys, numbers, created = (column.to_numpy() for column in incoming.columns)
            cost = read_service(Path(self.folder), worker, int(numbers[0])) if numbers.size else 0.0
            seconds, rounds = (0.0, round(cost)) if self.computes else (cost, 0)
            size = max(1, int(SLICE / seconds)) if seconds > 0 else 1 << 30
            finished = np.empty(keys.size)
            began = time.thread_time()
            for start in range(0, keys.size, size):
                end = min(start + size, keys.size)
                due += (end - start) * seconds
                for _ in range((end - start) * rounds):
                    pass
                if (left := due - time.time()) > 0:
                    time.sleep(left)
                finished[start:end] = time.time()
            used += time.thread_time() - began
            parts.append((keys, numbers, created, finished))
            waiting_since = time.time()
        if not parts:
            return
        keys, numbers, created, finished = map(np.concatenate, zip(*parts, strict=True))
        states, counts = np.unique(keys, return_counts=True)
        path = Path(self.folder) / f"{batch:06d}.{worker:05d}.npz"
        content = io.BytesIO()
        np.savez(content, keys=keys, numbers=numbers, created=created, finished=finished, used=used)
        replace_file(path, content.getvalue())  # in one step: a task may run again
        yield pa.RecordBatch.from_arrays([pa.array(states), pa.array(counts)], names=["k", "n"])


@dataclass(frozen=True)
class Served:
    """What the workers served, message by message, ordered by micro-batch."""

    batches: Int64Array
    workers: Int64Array
    keys: Int64Array
    numbers: Int64Array
    created: Float64Array
    finished: Float64Array

    @property
    def latencies(self) -> Float64Array:
        """Seconds from the creation of each message until it was finished."""
        found: Float64Array = self.finished - self.created
        return found

    def where(self, chosen: Any) -> Served:
        """Return some of the messages."""
        return Served(*(column[chosen] for column in vars(self).values()))


def read_served(folder: Path) -> Served:
    """Read what the workers wrote to a folder."""
    columns: list[list[Any]] = [[] for _ in range(6)]
    for path in sorted(folder.glob("[0-9]*.npz")):
        batch, worker = map(int, path.name.split(".")[:2])
        with np.load(path) as log:
            own = [log[name] for name in ("keys", "numbers", "created", "finished")]
        size = own[0].size
        for column, values in zip(columns, (np.full(size, batch), np.full(size, worker), *own), strict=True):
            column.append(values)
    return Served(*(np.concatenate(column) for column in columns))


def read_used(folder: Path) -> dict[tuple[int, int], tuple[int, float]]:
    """Return the messages and the processor seconds of each micro-batch and worker."""
    found = {}
    for path in sorted(folder.glob("[0-9]*.npz")):
        batch, worker = map(int, path.name.split(".")[:2])
        with np.load(path) as log:
            found[batch, worker] = int(log["keys"].size), float(log["used"])
    return found
