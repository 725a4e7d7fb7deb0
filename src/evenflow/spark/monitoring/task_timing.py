"""How long did each worker work? Measured where the work is done, reported through the control directory.

Busy are the seconds between a worker's asking for rows and its asking for more, without the waiting for them.
A task that is run again tells again; the last word counts. Light to import: a Python worker does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

from evenflow.spark.monitoring.control_dir import Control

_BATCH = "streaming.sql.batchId"  # a local property of a micro-batch's tasks

Work = Callable[[Iterator[Any]], Iterator[Any]]


class Timed:
    """A pass over a partition's record batches that notes its rows and its seconds at the end."""

    def __init__(self, work: Work, folder: str):
        self.work = work
        self.folder = folder
        self.run = uuid4().hex[:12]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield what the work yields."""
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

        results = iter(self.work(incoming()))
        while True:
            start = time.perf_counter()
            result = next(results, None)
            worked += time.perf_counter() - start
            if result is None:
                break
            yield result
        if rows:
            self._tell(rows, max(0.0, worked - waited))

    def _tell(self, rows: int, seconds: float) -> None:
        from pyspark import TaskContext

        task = TaskContext.get()
        batch = None if task is None else task.getLocalProperty(_BATCH)
        Control(self.folder).note(
            "busy",
            run=self.run,
            batch=None if batch is None else int(batch),
            worker=0 if task is None else task.partitionId(),
            rows=rows,
            seconds=round(seconds, 6),
        )


def take_time(work: Work, folder: str | None) -> Work:
    """Return ``work`` as it is, or, where there is a control directory to tell it to, with its time taken."""
    return work if folder is None else Timed(work, folder)
