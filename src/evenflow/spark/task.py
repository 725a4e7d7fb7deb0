"""The Spark task that this Python worker runs. Keep imports light: Python workers import this module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenflow.errors import EvenflowError

if TYPE_CHECKING:
    from pyspark import TaskContext


def current_task() -> TaskContext:
    """Return the context of the task that runs here."""
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is None:
        raise EvenflowError("this runs only inside a Spark task; call the operator on a DataFrame instead.")
    return task


def current_worker() -> int:
    """Return the worker that runs here: worker w is partition w."""
    return int(current_task().partitionId())
