"""The Spark task that this process runs. Keep imports light: Python workers import this module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenflow.errors import EvenflowError

if TYPE_CHECKING:
    from pyspark import TaskContext


def current_task() -> TaskContext:
    """Return the context of the current task."""
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is None:
        raise EvenflowError(
            "there is no Spark task in this process; call the operator on a DataFrame instead."
        )
    return task


def current_worker() -> int:
    """Return the number of the current worker, which is the task's partition."""
    return int(current_task().partitionId())
