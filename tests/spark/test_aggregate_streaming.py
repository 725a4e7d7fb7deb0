"""`aggregate` on streams equals Spark's own aggregate: windows, watermarks, late rows, append and update."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from evenflow.spark import aggregate
from evenflow.spark.merging import PROVIDER, ROCKS_DB
from spark.aggregators import SCHEMA, Declared, Profile, plain
from spark.stream_files import read_batches, run_to_end, write_batches

pytestmark = pytest.mark.spark

ROWS = "ts timestamp, user string, word string, x double"
START = datetime(2024, 3, 10, 6, tzinfo=UTC)


@pytest.fixture(scope="module")
def rocks(spark: Any) -> Iterator[Any]:
    before = spark.conf.get(PROVIDER)
    spark.conf.set(PROVIDER, ROCKS_DB)
    yield spark
    spark.conf.set(PROVIDER, before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    """Six batches over half an hour: a hot user, null users, no time, and rows that are late by far."""
    path = tmp_path_factory.mktemp("stream") / "in"
    choose = random.Random(5)
    batches = []
    for number in range(6):
        rows = []
        for _ in range(60):
            minute = number * 6 + choose.uniform(-9, 6)
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
        batches.append(
            pa.Table.from_pylist(
                rows,
                pa.schema(
                    [
                        ("ts", pa.timestamp("us", "UTC")),
                        ("user", pa.string()),
                        ("word", pa.string()),
                        ("x", pa.float64()),
                    ]
                ),
            )
        )
    write_batches(path, batches)
    return path


def rows_of(rows: list[Any]) -> list[str]:
    return sorted(str(row.asDict(recursive=True)) for row in rows)


@pytest.mark.parametrize("mode", ["append", "update"])
@pytest.mark.parametrize("using", [Declared(), Profile()], ids=["merged by Spark", "merged in Python"])
def test_windows_with_late_rows(rocks: Any, folder: Path, tmp_path: Path, mode: str, using: Any) -> None:
    from pyspark.sql import functions as F

    stream = read_batches(rocks, folder, ROWS).withWatermark("ts", "4 minutes")
    key = [F.window("ts", "5 minutes"), F.col("user")]
    wanted = run_to_end(plain(stream.groupBy(*key)), mode, "wanted", tmp_path / "wanted")
    ours = aggregate(stream, key, using, SCHEMA, workers=3, scheme="key", output_mode=mode)
    assert ours.schema.names == ["window", "user", "n", "total", "words", "last"]
    found = run_to_end(ours, mode, "found", tmp_path / "found")
    assert rows_of(found) == rows_of(wanted)
    assert not any(row["total"] >= 1000 for row in wanted)  # the late rows were late
