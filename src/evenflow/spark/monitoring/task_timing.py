"""Busy time of each worker, measured in its task and reported through the control directory.

Busy time is time spent processing rows, excluding time spent waiting for input. A retried task reports again,
and the last report counts. Where online routers hear of it, a file of each worker has what it measured in the
last few batches, which they read by its name, whereas the log would have to be searched. Keep imports light:
Python workers import this module.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

from evenflow.control.directory import Control
from evenflow.control.notes import notes_in
from evenflow.control.record import time_of

BATCH_ID = "streaming.sql.batchId"  # local properties of a micro-batch's tasks
QUERY_ID = "sql.streaming.queryId"
BATCHES_KEPT = 4  # in a worker's file; more than its speed is taken over

PartitionFunction = Callable[[Iterator[Any]], Iterator[Any]]


class TimedFunction:
    """A function over the record batches of a partition that reports its rows and busy seconds at the end."""

    def __init__(self, function: PartitionFunction, folder: str, heard: bool = False):
        self.function = function
        self.folder = folder
        self.heard = heard
        self.run = uuid4().hex[:12]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the results of the function."""
        rows, waited, worked = 0, 0.0, 0.0

        def incoming() -> Iterator[Any]:
            nonlocal rows, waited
            while True:
                start = time.perf_counter()
                batch = next(batches, None)
                waited += time.perf_counter() - start
                if batch is None:
                    return
                rows += batch.num_rows
                yield batch

        results = iter(self.function(incoming()))
        while True:
            start = time.perf_counter()
            result = next(results, None)
            worked += time.perf_counter() - start
            if result is None:
                break
            yield result
        if rows:
            self._report(rows, max(0.0, worked - waited))

    def _report(self, rows: int, seconds: float) -> None:
        from pyspark import TaskContext

        task = TaskContext.get()
        batch = None if task is None else task.getLocalProperty(BATCH_ID)
        note = {
            "event": "busy", "run": self.run, "batch": None if batch is None else int(batch),
            "worker": 0 if task is None else task.partitionId(), "rows": rows, "seconds": round(seconds, 6),
        }  # fmt: skip
        control = Control(self.folder)
        control.note_all([note])
        if self.heard and task is not None and batch is not None:
            _keep(control, _file(str(task.getLocalProperty(QUERY_ID)), task.partitionId()), note)


def _file(query: str, worker: int) -> str:
    return f"busy/{query}/{worker:05d}.jsonl"


def _keep(control: Control, name: str, note: dict[str, Any]) -> None:
    """Add a note to a worker's file, in the place of an earlier one of the same batch and of an old one."""
    with contextlib.suppress(OSError):  # costs balance, not results
        (known,) = control.storage.read_all([name])
        notes = {old["batch"]: old for old in notes_in(known or b"") if isinstance(old.get("batch"), int)}
        notes[note["batch"]] = {"time": round(time.time(), 3), **note}
        lines = [json.dumps(notes[batch]) + "\n" for batch in sorted(notes)[-BATCHES_KEPT:]]
        control.storage.put(name, "".join(lines).encode())


def measured_lately(control: Control, query: str, workers: int) -> list[dict[str, Any]]:
    """Return the notes of all workers on the last few batches of a query, oldest first."""
    with contextlib.suppress(OSError):
        contents = control.storage.read_all([_file(query, worker) for worker in range(workers)])
        return sorted((note for content in contents for note in notes_in(content or b"")), key=time_of)
    return []


def with_timing(function: PartitionFunction, folder: str | None, *, heard: bool = False) -> PartitionFunction:
    """Return ``function`` with its busy time reported to a control directory; unchanged if there is none.

    ``heard``: the routers of the next micro-batch use it.
    """
    return function if folder is None else TimedFunction(function, folder, heard)
