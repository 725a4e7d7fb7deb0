"""The plan of a join of streams, read in a task of every micro-batch and broadcast to the rows of a side.

One row per hot key: its hash, into how many pieces the side's rows are divided, to how many cells a row is
copied, and the join keys of its cells. Keep imports light: Python workers import this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from evenflow.plan.join_plan import JoinPlan
from evenflow.spark.joining.join_keys import key_on_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "hash bigint, serial bigint, pieces int, copies int, cells array<bigint>"
_ARROW = pa.schema(
    [
        ("hash", pa.int64()), ("serial", pa.int64()), ("pieces", pa.int32()), ("copies", pa.int32()),
        ("cells", pa.list_(pa.int64())),
    ]
)  # fmt: skip


class MicroBatch(NamedTuple):
    """The micro-batch that the current task belongs to."""

    query: str  # id of the query, the same after a restart
    batch: int
    execution: str  # unique to this attempt at the batch; empty if Spark does not tell
    is_retry: bool  # another attempt at the task was made before
    has_one_slot: bool  # no other task runs beside this one

    @staticmethod
    def current() -> MicroBatch:
        """Return the micro-batch of this task."""
        from pyspark import TaskContext

        task: Any = TaskContext.get()
        of = task.getLocalProperty
        query, batch = of("sql.streaming.queryId") or "", of("streaming.sql.batchId") or "0"
        number = of("spark.sql.execution.root.id")
        execution = f"{of('spark.app.id')}-{number}" if number else ""
        one_slot = of("spark.master") in ("local", "local[1]")
        return MicroBatch(query, int(batch), execution, task.attemptNumber() > 0, one_slot)


Read = Callable[[MicroBatch], "tuple[int, JoinPlan]"]  # the plan and its serial number


def hot_keys(spark: SparkSession, read: Read, side: str) -> DataFrame:
    """Return the hot keys of the plan that ``read`` finds in the current micro-batch, for a side."""

    def read_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:  # one row
            serial, plan = read(MicroBatch.current())
            yield rows_of(plan, serial, side)

    return spark.range(0, 1, 1, 1).mapInArrow(read_once, SCHEMA)


def rows_of(plan: JoinPlan, serial: int, side: str) -> pa.RecordBatch:
    """Return the hot keys of a plan as the rows of one side need them.

    >>> from evenflow.plan import make_join_plan
    >>> from evenflow.plan.counted import Counted
    >>> hot = Counted(np.array([7], np.uint64), np.array([900.0]), 1000.0)
    >>> plan = make_join_plan(2, hot, Counted())
    >>> [rows_of(plan, 1, side).column("pieces").to_pylist() for side in ("left", "right")]
    [[2], [1]]
    """
    pieces = plan.left if side == "left" else plan.right
    cells = key_on_worker(np.repeat(plan.keys, np.diff(plan.starts)), pieces.homes)
    serials = np.full(plan.keys.size, serial)
    lists = pa.ListArray.from_arrays(pa.array(plan.starts, pa.int32()), pa.array(cells, pa.int64()))
    columns = [plan.keys.view(np.int64), serials, pieces.pieces, pieces.copies]
    return pa.RecordBatch.from_arrays([*map(pa.array, columns), lists], schema=_ARROW)
