"""The results of a processor: checked key by key, then converted to columns of the state and the outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from evenflow.errors import EvenflowError
from evenflow.spark.grouped.record_columns import Record
from evenflow.spark.grouped.runs import key_text
from evenflow.spark.state.owner_lookup import Hashes
from evenflow.spark.state.schema import BATCH, EXPIRES, HASH, REMOVED

if TYPE_CHECKING:
    from evenflow.spark.state.worker_task import Task


class ProcessorResults:
    """The states and outputs that a processor returned for a group of keys."""

    def __init__(self, task: Task, keys: list[pa.Array], hashes: Hashes) -> None:
        self.task = task
        self.keys = keys
        self.hashes = hashes
        self.removed = np.zeros(hashes.size, np.bool_)
        self.expires: list[int | None] = [None] * hashes.size
        self.states: list[Record] = []
        self.kept: list[int] = []  # the rows of their keys
        self.outputs: list[Record] = []
        self.output_rows: list[int] = []

    def label(self, row: int) -> str:
        """Return a key as text for an error message."""
        return key_text(self.task.spec.state.key_names, self.keys, row)

    def add(self, row: int, result: Any, method: str) -> None:
        """Add the processor's result for a key."""
        name = f"{self.task.spec.name}.{method}"
        if not isinstance(result, tuple) or len(result) not in (2, 3) or isinstance(result[1], dict | str):
            raise EvenflowError(
                f"{name} returned a {type(result).__name__} for {self.label(row)}; return the state (or "
                "None), a list of outputs and, optionally, an expiry time."
            )
        state, outputs = result[0], result[1]
        if state is None:
            self.removed[row] = True
        else:
            self.states.append(self.task.states.record(state, self.label, row))
            self.kept.append(row)
            if len(result) == 3:
                self.expires[row] = self._expiry(result[2], name, row)
        writer = self.task.outputs.records
        try:
            for output in outputs:
                self.outputs.append(writer.record(output, self.label, row))
                self.output_rows.append(row)
        except TypeError as error:
            raise EvenflowError(
                f"{name} returned a {type(outputs).__name__} as outputs for {self.label(row)}; return a list "
                "of dicts."
            ) from error

    def _expiry(self, value: Any, name: str, row: int) -> int | None:
        if value is None:
            return None
        clock = self.task.spec.time
        expires = clock.expiry(value)
        if expires is None:
            raise EvenflowError(
                f"{name} returned {value!r} as the expiry time of {self.label(row)}; return a datetime with "
                "a time zone" + (", or a timedelta from self.now." if clock.clock == "processing" else ".")
            )
        return expires

    def flush(self) -> None:
        """Convert the results to columns and pass them to the task."""
        state = self.task.spec.state
        columns = self.task.states.columns(self.states, lambda number: self.label(self.kept[number]))
        if self.removed.any():
            indices = np.cumsum(~self.removed) - 1
            columns = [column.take(pa.array(indices, mask=self.removed)) for column in columns]
        metadata = {
            HASH: pa.array(self.hashes, pa.int64()),
            BATCH: pa.array(np.full(self.hashes.size, self.task.spec.batch), pa.int64()),
            EXPIRES: pa.array(self.expires, pa.int64()).cast(pa.timestamp("us", "UTC")),
            REMOVED: pa.array(self.removed),
        }
        self.task.written.append(
            pa.RecordBatch.from_arrays([*self.keys, *columns, *metadata.values()], schema=state.schema)
        )
        self.task.outputs.add(self.outputs, lambda number: self.label(self.output_rows[number]))
