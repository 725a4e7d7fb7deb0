"""Staged outputs: what a worker's processor gave out in a batch, in a file, until the sink has it.

They are part of the batch's commit, so a batch that comes again gives out what it gave out before.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.spark.grouped.record_columns import Record, Records

OUTPUTS = "_outputs"
WRITTEN_ROWS = 50_000  # outputs that are written together


class Outputs:
    """The outputs of one worker in one batch."""

    def __init__(self, root: str, batch: int, worker: int, records: Records) -> None:
        self.records = records
        self.root = Path(root)
        self.name = f"{OUTPUTS}/{batch}/{worker:05}-{uuid4().hex}.parquet"
        self.waiting: list[pa.RecordBatch] = []
        self.rows = 0
        self.writer: pq.ParquetWriter | None = None

    def add(self, records: list[Record], label: Any) -> None:
        """Take some outputs."""
        if records:
            columns = self.records.columns(records, label)
            self.waiting.append(pa.RecordBatch.from_arrays(columns, schema=self.records.schema))
            self.rows += len(records)
            if sum(batch.num_rows for batch in self.waiting) >= WRITTEN_ROWS:
                self._flush()

    def _flush(self) -> None:
        if self.writer is None:
            path = self.root / self.name
            path.parent.mkdir(parents=True, exist_ok=True)
            self.handle = path.open("wb")
            self.writer = pq.ParquetWriter(self.handle, self.records.schema, compression="zstd")
        self.writer.write_table(pa.Table.from_batches(self.waiting).combine_chunks())
        self.waiting = []

    def close(self) -> dict[str, Any] | None:
        """Finish the file; return its name, size and rows, or None if there was nothing to write."""
        if self.waiting:
            self._flush()
        if self.writer is None:
            return None
        self.writer.close()
        self.handle.flush()
        os.fsync(self.handle.fileno())
        size = self.handle.tell()
        self.handle.close()
        return {"name": self.name, "bytes": size, "rows": self.rows}

    def abandon(self) -> None:
        """Leave what was written; it is swept."""
        if self.writer is not None and not self.handle.closed:
            self.handle.close()
