"""Staged outputs: a file with the outputs of a worker in a batch, kept until the sink has received them.

They are part of the batch's commit, so a replayed batch emits exactly the same outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from evenflow.spark.grouped.record_columns import Record, Records
from evenflow.spark.grouped.runs import Batches
from evenflow.spark.state.files import DamagedFile, ParquetObject, open_parquet, unique_name
from evenflow.storage import Location, Storage, open_storage

OUTPUTS = "_outputs"
FLUSH_ROWS = 50_000  # collected before they are written


class StagedOutputs:
    """The outputs of one worker in one batch."""

    def __init__(self, storage: Storage, batch: int, worker: int, epoch: int, records: Records) -> None:
        self.records = records
        self.storage = storage
        self.name = unique_name(OUTPUTS, batch, worker, epoch)
        self.pending: list[pa.RecordBatch] = []
        self.rows = 0
        self.file: ParquetObject | None = None

    def add(self, records: list[Record], label: Any) -> None:
        """Add outputs."""
        if records:
            columns = self.records.columns(records, label)
            self.pending.append(pa.RecordBatch.from_arrays(columns, schema=self.records.schema))
            self.rows += len(records)
            if sum(batch.num_rows for batch in self.pending) >= FLUSH_ROWS:
                self._flush()

    def _flush(self) -> None:
        if self.file is None:
            self.file = ParquetObject(self.storage, self.name, self.records.schema, compression="zstd")
        self.file.write(pa.Table.from_batches(self.pending).combine_chunks())
        self.pending = []

    def close(self) -> dict[str, Any] | None:
        """Close the file; return its name, size and rows, or None if there are no outputs."""
        if self.pending:
            self._flush()
        if self.file is None:
            return None
        with self.file:
            pass
        return {"name": self.name, "bytes": self.file.size, "rows": self.rows}

    def abort(self) -> None:
        """Leave no file."""
        if self.file is not None:
            self.file.abort()


@dataclass(frozen=True)
class ReadFiles:
    """The task that reads Parquet files of a state, each in a partition of its own, given their numbers."""

    root: Location
    files: tuple[tuple[str, int], ...]  # names and sizes
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the files whose numbers arrive."""
        storage = open_storage(self.root)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                name, size = self.files[number]
                try:
                    for rows in open_parquet(storage, name, size).iter_batches():
                        yield rows if rows.schema.equals(self.schema) else rows.cast(self.schema)
                except DamagedFile as error:
                    raise FileNotFoundError(f"{self.root / name}: {error.reason}") from None
