"""What a processor gave for some keys: checked key by key, then made columns of the state and the outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from evenflow.errors import EvenflowError
from evenflow.spark.grouped.record_columns import Record
from evenflow.spark.grouped.runs import key_text
from evenflow.spark.state.owner_lookup import Hashes
from evenflow.spark.state.schema import BATCH, HASH, REMOVED, UNTIL

if TYPE_CHECKING:
    from evenflow.spark.state.worker_task import Task


class Given:
    """States and outputs of some keys."""

    def __init__(self, task: Task, keys: list[pa.Array], hashes: Hashes) -> None:
        self.task = task
        self.keys = keys
        self.hashes = hashes
        self.removed = np.zeros(hashes.size, np.bool_)
        self.until: list[int | None] = [None] * hashes.size
        self.states: list[Record] = []
        self.kept: list[int] = []  # the keys that they are of
        self.outputs: list[Record] = []
        self.output_rows: list[int] = []

    def label(self, row: int) -> str:
        """Name a key for a message."""
        return key_text(self.task.work.state.key_names, self.keys, row)

    def take(self, row: int, result: Any, method: str) -> None:
        """Take what the processor returned for a key."""
        name = f"{self.task.work.name}.{method}"
        if not isinstance(result, tuple) or len(result) not in (2, 3) or isinstance(result[1], dict | str):
            raise EvenflowError(
                f"{name} returned {type(result).__name__} for {self.label(row)}; return the state (or None) "
                "and a list of outputs, and, if the key is to expire, a time."
            )
        state, outputs = result[0], result[1]
        if state is None:
            self.removed[row] = True
        else:
            self.states.append(self.task.states.record(state, self.label, row))
            self.kept.append(row)
            if len(result) == 3:
                self.until[row] = self._until(result[2], name, row)
        writer = self.task.outputs.records
        try:
            for output in outputs:
                self.outputs.append(writer.record(output, self.label, row))
                self.output_rows.append(row)
        except TypeError as error:
            raise EvenflowError(
                f"{name} gave {type(outputs).__name__} as outputs for {self.label(row)}; give a list of "
                "dicts."
            ) from error

    def _until(self, given: Any, name: str, row: int) -> int | None:
        if given is None:
            return None
        clock = self.task.work.time
        until = clock.until(given)
        if until is None:
            raise EvenflowError(
                f"{name} gave {given!r} as the time at which {self.label(row)} expires; give a datetime with "
                "a time zone" + (", or a timedelta from self.now." if clock.clock == "processing" else ".")
            )
        return until

    def done(self) -> None:
        """Make columns of all that was taken."""
        state = self.task.work.state
        columns = self.task.states.columns(self.states, lambda number: self.label(self.kept[number]))
        if self.removed.any():
            places = np.cumsum(~self.removed) - 1
            columns = [column.take(pa.array(places, mask=self.removed)) for column in columns]
        ours = {
            HASH: pa.array(self.hashes, pa.int64()),
            BATCH: pa.array(np.full(self.hashes.size, self.task.work.batch), pa.int64()),
            UNTIL: pa.array(self.until, pa.int64()).cast(pa.timestamp("us", "UTC")),
            REMOVED: pa.array(self.removed),
        }
        self.task.written.append(
            pa.RecordBatch.from_arrays([*self.keys, *columns, *ours.values()], schema=state.schema)
        )
        self.task.outputs.add(self.outputs, lambda number: self.label(self.output_rows[number]))
