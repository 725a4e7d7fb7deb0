"""The plan of a join of streams, read in a task of every micro-batch and broadcast to the rows of a side.

One row per hot key: its hash, and for each span of the rows' times into how many pieces the side's rows are
divided, to how many cells a row is copied, and the join keys of its cells. Keep imports light: Python workers
import this module.
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

EVER, NEVER = -(2**62), 2**62  # before and after all times
SCHEMA = (
    "hash bigint, serial bigint, "
    "spans array<struct<start: bigint, stop: bigint, pieces: int, copies: int, cells: array<bigint>>>"
)
_SPAN = pa.struct(
    [
        ("start", pa.int64()), ("stop", pa.int64()), ("pieces", pa.int32()), ("copies", pa.int32()),
        ("cells", pa.list_(pa.int64())),
    ]
)  # fmt: skip
_ARROW = pa.schema([("hash", pa.int64()), ("serial", pa.int64()), ("spans", pa.list_(_SPAN))])


class Span(NamedTuple):
    """The cells of a key in a span of time: piece p has ``copies`` cells from ``cells[p * copies]`` on."""

    start: int
    stop: int
    pieces: int
    copies: int
    cells: list[int]


Spans = tuple[int, dict[int, list[Span]]]  # the serial number of the last plan, and the spans of each hot key


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


def hot_keys(spark: SparkSession, read: Callable[[MicroBatch], Spans]) -> DataFrame:
    """Return the hot keys that ``read`` finds in the current micro-batch, as the rows of a side need them."""

    def read_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:  # one row
            serial, keys = read(MicroBatch.current())
            hashes = np.fromiter(keys, np.uint64, len(keys)).view(np.int64)
            spans = [[span._asdict() for span in own] for own in keys.values()]
            serials = pa.array(np.full(len(keys), serial), pa.int64())
            columns = [pa.array(hashes), serials, pa.array(spans, pa.list_(_SPAN))]
            yield pa.RecordBatch.from_arrays(columns, schema=_ARROW)

    return spark.range(0, 1, 1, 1).mapInArrow(read_once, SCHEMA)


def at_all_times(plan: JoinPlan, side: str) -> dict[int, list[Span]]:
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
