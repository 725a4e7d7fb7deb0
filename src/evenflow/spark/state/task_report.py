"""The report of a worker's task in a micro-batch: one row with a column of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from evenflow.spark.state.files import DamagedFile, StateFile

SCHEMA = "report string"


@dataclass(frozen=True)
class TaskReport:
    """The report of a task that succeeded, or that found a damaged file."""

    worker: int
    state: StateFile | None = None  # the file written
    outputs: dict[str, Any] | None = None  # name and size of the staged outputs
    rows: int = 0
    seconds: float = 0.0
    keys: list[int] = field(default_factory=list)  # hashes of the hottest keys
    counts: list[int] = field(default_factory=list)  # rows of each of these keys
    values: dict[int, str] | None = None  # of frequent keys by hash; None if they are not to be logged
    buckets: list[int] = field(default_factory=list)  # with rows
    bucket_rows: list[int] = field(default_factory=list)  # rows of each of these buckets
    touched: int = 0  # keys written
    created: int = 0
    forgotten: int = 0
    expired: int = 0
    late: int = 0  # rows
    latest: int | None = None  # event time in microseconds
    bytes_read: int = 0
    state_bytes: int = 0
    requests: int = 0  # of this Python process to the storage of the state, since its report before
    moved_keys: int = 0
    moved_bytes: int = 0
    damaged: str | None = None  # name of a file that cannot be read
    reason: str = ""

    @staticmethod
    def for_damaged_file(worker: int, error: DamagedFile) -> TaskReport:
        """Return the report of a task that found a damaged file."""
        return TaskReport(worker, damaged=error.name, reason=error.reason)

    def row(self) -> pa.RecordBatch:
        """Return the report as the output row of the task."""
        return pa.record_batch({"report": pa.array([json.dumps(asdict(self))])})

    @staticmethod
    def from_json(text: str) -> TaskReport:
        """Return a report from its JSON."""
        saved = json.loads(text)
        state, values = saved.pop("state"), saved.pop("values")
        return TaskReport(
            **saved,
            state=None if state is None else StateFile(**state),
            values=None if values is None else {int(key): value for key, value in values.items()},
        )
