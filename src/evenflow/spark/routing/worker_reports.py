"""What workers measured, for the routers of the next micro-batch.

Every worker logs its rows and busy seconds when its task ends (:mod:`evenflow.spark.monitoring.task_timing`).
When the first task of a later batch freezes what the routers learned, it reads these notes, gives the merged
router a `WorkerReport`, and logs what was heard and decided. A note that is lost costs balance, not rows.

A worker's speed is taken over three batches, in which small differences do not count
(:mod:`evenflow.owners.speeds`): it is heard as slow when it was slow in each of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from evenflow.kernels import Float64Array
from evenflow.owners.speeds import BATCHES, Speeds
from evenflow.schemes.base import WorkerReport


class Measured(NamedTuple):
    """Rows and busy seconds of each worker in one micro-batch."""

    batch: int
    rows: Float64Array
    seconds: Float64Array


def measured_batches(notes: Iterable[dict[str, Any]], workers: int, last: int) -> list[Measured]:
    """Return what was measured in the last few batches up to ``last``, oldest first.

    A task that was retried reported again, and its last report counts; of several runs of a batch, the last.
    """
    found: dict[int, tuple[Any, Measured]] = {}
    for note in notes:
        batch, worker = note.get("batch"), note.get("worker")
        if note["event"] != "busy" or not isinstance(batch, int) or not isinstance(worker, int):
            continue
        if last - BATCHES < batch <= last and 0 <= worker < workers:
            run = note.get("run")
            if batch not in found or found[batch][0] != run:
                found[batch] = run, Measured(batch, np.zeros(workers), np.zeros(workers))
            found[batch][1].rows[worker] = float(note["rows"])
            found[batch][1].seconds[worker] = float(note["seconds"])
    return [measured for _, (_, measured) in sorted(found.items())]


def report_of(batches: list[Measured], time: float) -> WorkerReport | None:
    """Return the report at the end of the last batch, or None if nothing was measured.

    ``backlog`` is what a worker still had to do when the first one was done.
    """
    if not batches or not batches[-1].rows.any():
        return None
    speeds = Speeds(batches[-1].rows.size)
    for batch in batches:
        speeds.add(batch.rows.astype(int).tolist(), [0] * batch.rows.size, batch.seconds.tolist())
    shares = speeds.shares()
    _, rows, seconds = batches[-1]
    pace = max(1e-9, float((seconds * shares).sum() / rows.sum()))  # seconds per row at the mean speed
    first = seconds[rows > 0].min()
    return WorkerReport(
        time=time,
        backlog=np.floor(rows * np.clip(1 - first / np.maximum(seconds, 1e-9), 0, 1)),
        seconds_per_message=np.maximum(1e-9, pace / shares),
        capacity=shares / pace,
        arrived=rows,
    )
