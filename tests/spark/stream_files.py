"""Streams for tests: one parquet file per micro-batch, read in order until all are read."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = "ts timestamp, user string, word string, x double"
ARROW = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("user", pa.string()), ("word", pa.string()), ("x", pa.float64())]
)
START = datetime(2024, 3, 10, 6, tzinfo=UTC)
BATCHES = 4


def late_batches() -> list[pa.Table]:
    """Batches over half an hour: a hot user, null users, no time, and rows that are late by far."""
    choose = random.Random(5)
    batches = []
    for number in range(BATCHES):
        rows: list[dict[str, Any]] = []
        for _ in range(40):
            minute = number * 8 + choose.uniform(-9, 8)
            rows.append(
                {
                    "ts": None if choose.random() < 0.03 else START + timedelta(minutes=minute),
                    "user": choose.choice(["hot"] * 6 + ["a", "b", None, "c"]),
                    "word": choose.choice(["x", "y", None]),
                    "x": float(choose.randrange(10)),
                }
            )
        if number >= 3:
            rows.append({"ts": START + timedelta(minutes=1), "user": "hot", "word": "late", "x": 1000.0})
        batches.append(pa.Table.from_pylist(rows, ARROW))
    return batches


def write_batches(folder: Path, batches: Sequence[pa.Table], first: int = 0) -> None:
    """Write a file for each batch; the times of the files put them in order.

    A running query sees a file only with its final time: Spark ignores files much older than one that it saw.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number, batch in enumerate(batches, first):
        hidden = folder / f".{number:04}.parquet"
        pq.write_table(batch, hidden)
        os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
        hidden.rename(folder / f"{number:04}.parquet")


def read_batches(spark: Any, folder: Path, schema: str, files: int = 1) -> Any:
    """Return the stream of these files, one, or so many, per micro-batch."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(folder))


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
        assert query.awaitTermination(500)
    finally:
        query.stop()
    spark = frame.sparkSession
    rows = spark.table(name).collect()
    spark.sql(f"drop view if exists {name}")
    return list(rows)
