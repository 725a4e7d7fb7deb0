"""The Spark task that this process runs. Keep imports light: Python workers import this module."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

from evenflow.errors import EvenflowError

if TYPE_CHECKING:
    from pyspark import TaskContext

_settled = {"modules": 0}


def settle() -> None:
    """Leave what this Python worker has loaded out of garbage collection, which Spark starts after each task.

    It goes over every object of every module, for 15 ms and more, while a small task takes two. What is
    loaded later is left out by the next task.
    """
    from pyspark import TaskContext

    if TaskContext.get() is not None and len(sys.modules) != _settled["modules"]:
        gc.collect()
        gc.freeze()
        _settled["modules"] = len(sys.modules)


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
