"""What the sides of a join of streams look up in a micro-batch: one value for both.

For every hot key, which is found as in :mod:`evenflow.spark.routing.plan_sql`, and for each span of the rows'
times it has into how many pieces a side's rows are divided, to how many cells a row is copied, and the join
keys of its cells. Both sides have the same scalar subquery, of which Spark computes one value per execution.
Keep imports light: Python workers import this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from evenflow.errors import EvenflowError
from evenflow.plan.join_plan import JoinPlan
from evenflow.plan.table import perfect_slots
from evenflow.spark.joining.join_keys import key_on_worker
from evenflow.spark.routing.slot_arrays import SLOTS, slot_arrays

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

EVER, NEVER = -(2**62), 2**62  # before and after all times
SIDES = ("left", "right")
_SPAN = pa.struct(
    [
        ("start", pa.int64()), ("stop", pa.int64()), ("pieces", pa.int32()), ("copies", pa.int32()),
        ("cells", pa.list_(pa.int64())),
    ]
)  # fmt: skip
_SPAN_FIELDS = "start: bigint, stop: bigint, pieces: int, copies: int, cells: array<bigint>"
_FIELDS = {
    "serial": ("bigint", pa.int64()),
    "made": ("bigint", pa.int64()),  # a number of its own for every plan, also of another driver
    "error": ("string", pa.string()),  # why there is nothing to look up, for the rows' tasks to raise
    "mask": ("bigint", pa.int64()),
    **{name: (f"array<{kind}>", pa.list_(pa.int64())) for name, kind in SLOTS.items()},
    **{side: (f"array<array<struct<{_SPAN_FIELDS}>>>", pa.list_(pa.list_(_SPAN))) for side in SIDES},
}
LOOK_UP = ", ".join(f"{name} {sql}" for name, (sql, _) in _FIELDS.items())
_ARROW = pa.schema([(name, arrow) for name, (_, arrow) in _FIELDS.items()])


class Span(NamedTuple):
    """The cells of a key in a span of time: piece p has ``copies`` cells from ``cells[p * copies]`` on."""

    start: int
    stop: int
    pieces: int
    copies: int
    cells: list[int]


Spans = dict[int, list[Span]]  # of every hot key


class MicroBatch(NamedTuple):
    """The micro-batch that the current task belongs to."""

    query: str  # id of the query, the same after a restart
    batch: int

    @staticmethod
    def current() -> MicroBatch:
        """Return the micro-batch of this task."""
        from pyspark import TaskContext

        task: Any = TaskContext.get()
        of = task.getLocalProperty
        query, batch = of("sql.streaming.queryId") or "", of("streaming.sql.batchId") or "0"
        return MicroBatch(query, int(batch))


def look_up(serial: int, sides: Mapping[str, Spans], made: int = 0) -> dict[str, Any]:
    """Return what rows look up, by the names in `LOOK_UP`; both sides have the same hot keys."""
    keys = np.fromiter(sides["left"], np.uint64, len(sides["left"]))
    slots = perfect_slots(keys)
    arrays = slot_arrays(keys, slots, np.arange(keys.size))
    return {
        "serial": serial,
        "made": made,
        "mask": slots.slots.size - 1,
        **{name: array.tolist() for name, array in arrays.items()},
        **{side: [[span._asdict() for span in sides[side][key]] for key in keys.tolist()] for side in SIDES},
    }


def looked_up_in_task(spark: SparkSession, read: Callable[[MicroBatch], dict[str, Any]]) -> Column:
    """Return what ``read`` returns for the current micro-batch, in a task of Python, as a struct."""
    from pyspark.sql import functions as F

    def read_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:  # one row
            try:
                found = read(MicroBatch.current())
            except (EvenflowError, OSError) as error:  # Spark does not show why a subquery failed
                found = {"error": str(error)}
            yield pa.RecordBatch.from_pylist([found], schema=_ARROW)

    found = spark.range(0, 1, 1, 1).mapInArrow(read_once, LOOK_UP)
    return found.select(F.struct("*").alias("look_up")).scalar()


def at_all_times(plan: JoinPlan, side: str) -> Spans:
    """Return the cells of a plan for the rows of one side, whatever their times are.

    >>> from evenflow.plan import make_join_plan
    >>> from evenflow.plan.counted import Counted
    >>> hot = Counted(np.array([7], np.uint64), np.array([900.0]), 1000.0)
    >>> plan = make_join_plan(2, hot, Counted())
    >>> [at_all_times(plan, side)[7][0].pieces for side in ("left", "right")]
    [2, 1]
    """
    pieces = plan.left if side == "left" else plan.right
    cells = key_on_worker(np.repeat(plan.keys, np.diff(plan.starts)), pieces.homes).tolist()
    return {
        key: [
            Span(
                EVER, NEVER, int(pieces.pieces[number]), int(pieces.copies[number]),
                cells[plan.starts[number] : plan.starts[number + 1]],
            )
        ]
        for number, key in enumerate(plan.keys.tolist())
    }  # fmt: skip
