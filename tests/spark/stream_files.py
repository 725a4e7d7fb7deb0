"""Streams for tests: one parquet file per micro-batch, read in order until all are read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = "ts timestamp, user string, word string, x double"


def write_batches(folder: Path, batches: Sequence[pa.Table], first: int = 0) -> None:
    """Write a file for each batch; the times of the files put them in order."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, batch in enumerate(batches, first):
        path = folder / f"{number:04}.parquet"
        pq.write_table(batch, path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def read_batches(spark: Any, folder: Path, schema: str) -> Any:
    """Return the stream of these files, one per micro-batch."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run_to_end(frame: Any, mode: str, name: str, checkpoint: Path) -> list[Any]:
    """Run a query over all files and return what it wrote, batch after batch."""
    query = (
        frame.writeStream.format("memory")
        .queryName(name)
        .outputMode(mode)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()
    spark = frame.sparkSession
    rows = spark.table(name).collect()
    spark.sql(f"drop view if exists {name}")
    return list(rows)
