"""Busy time of each worker, measured in its task and reported through the control directory.

Busy time is time spent processing rows, excluding time spent waiting for input. A retried task reports again,
and the last report counts. Keep imports light: Python workers import this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

from evenflow.control.directory import Control

BATCH_ID = "streaming.sql.batchId"  # a local property of a micro-batch's tasks

PartitionFunction = Callable[[Iterator[Any]], Iterator[Any]]


class TimedFunction:
    """A function over the record batches of a partition that reports its rows and busy seconds at the end."""

    def __init__(self, function: PartitionFunction, folder: str):
        self.function = function
        self.folder = folder
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
        Control(self.folder).note(
            "busy",
            run=self.run,
            batch=None if batch is None else int(batch),
            worker=0 if task is None else task.partitionId(),
            rows=rows,
            seconds=round(seconds, 6),
        )


def with_timing(function: PartitionFunction, folder: str | None) -> PartitionFunction:
    """Return ``function`` with its busy time reported to a control directory; unchanged if there is none."""
    return function if folder is None else TimedFunction(function, folder)
