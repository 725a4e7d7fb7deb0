"""Staged outputs: a file with the outputs of a worker in a batch, kept until the sink has received them.

They are part of the batch's commit, so a replayed batch emits exactly the same outputs.
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
FLUSH_ROWS = 50_000  # collected before they are written


class StagedOutputs:
    """The outputs of one worker in one batch."""

    def __init__(self, root: str, batch: int, worker: int, records: Records) -> None:
        self.records = records
        self.root = Path(root)
        self.name = f"{OUTPUTS}/{batch}/{worker:05}-{uuid4().hex}.parquet"
        self.pending: list[pa.RecordBatch] = []
        self.rows = 0
        self.writer: pq.ParquetWriter | None = None

    def add(self, records: list[Record], label: Any) -> None:
        """Add outputs."""
        if records:
            columns = self.records.columns(records, label)
            self.pending.append(pa.RecordBatch.from_arrays(columns, schema=self.records.schema))
            self.rows += len(records)
            if sum(batch.num_rows for batch in self.pending) >= FLUSH_ROWS:
                self._flush()

    def _flush(self) -> None:
        if self.writer is None:
            path = self.root / self.name
            path.parent.mkdir(parents=True, exist_ok=True)
            self.handle = path.open("wb")
            self.writer = pq.ParquetWriter(self.handle, self.records.schema, compression="zstd")
        self.writer.write_table(pa.Table.from_batches(self.pending).combine_chunks())
        self.pending = []

    def close(self) -> dict[str, Any] | None:
        """Close the file; return its name, size and rows, or None if there are no outputs."""
        if self.pending:
            self._flush()
        if self.writer is None:
            return None
        self.writer.close()
        self.handle.flush()
        os.fsync(self.handle.fileno())
        size = self.handle.tell()
        self.handle.close()
        return {"name": self.name, "bytes": size, "rows": self.rows}

    def abort(self) -> None:
        """Close the file without committing it; it is swept later."""
        if self.writer is not None and not self.handle.closed:
            self.handle.close()
