"""Control files that vanish or are damaged under a running query: it goes on, balanced again, and says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evenflow.control.directory import Control
from evenflow.control.notes import LOG
from evenflow.spark import balance
from evenflow.streams import Zipf
from evenflow.testing import wait_for
from extent import long
from spark.stream_files import read_batches, write_batches

pytestmark = pytest.mark.spark

ROWS, WORKERS = 6000, 6
DAMAGES = ("delete", "cut", "other version")


@pytest.mark.parametrize(
    ("mode", "scheme", "place"),
    [
        ("planned", "fill", "folder"),
        long("online", "d-choices", "folder"),
        long("planned", "fill", "store"),
        long("online", "d-choices", "store"),
    ],
)
def test_a_query_survives_damaged_control_files(
    spark: Any, tmp_path: Path, mode: str, scheme: str, place: str, request: pytest.FixtureRequest
) -> None:
    store = request.getfixturevalue("s3").bucket() / "control" if place == "store" else None
    control = Control(store or tmp_path / "control")
    name = f"damaged_{mode}_{place}"
    write_batches(tmp_path / "in", [])
    frame = read_batches(spark, tmp_path / "in", "key int, number long")
    query = (
        frame.transform(balance("key", WORKERS, scheme, mode, control=control.location))
        .writeStream.format("memory")
        .queryName(name)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        for number in range(2):
            feed(query, tmp_path / "in", number, control, mode)
        for turn, kind in enumerate(DAMAGES):
            before = len(list(control.notes("fallback")))
            damage(control, kind)
            for number in range(2 + 3 * turn, 5 + 3 * turn):
                feed(query, tmp_path / "in", number, control, mode)
            assert len(list(control.notes("fallback"))) == before + 1, kind
            assert max(rows_of_last_batch(control)) <= 1.25 * ROWS / WORKERS, kind
        assert sum(entry.size for entry in control.storage.entries()) < 1_000_000
    finally:
        query.stop()
    rows = spark.table(name).toPandas()
    assert sorted(rows["number"]) == list(range(ROWS * (2 + 3 * len(DAMAGES))))


def feed(query: Any, folder: Path, number: int, control: Control, mode: str) -> None:
    """Add a file and wait until its batch is done, noted and, where plans are made, planned from."""
    last = "plan" if mode == "planned" else "batch"
    ids = Zipf(z=1.4, keys=1000, messages=ROWS, seed=number).generate(0, ROWS).ids
    numbers = np.arange(number * ROWS, (number + 1) * ROWS)
    draft = folder.with_name("draft")
    write_batches(draft, [pa.table({"key": ids, "number": numbers})])
    (draft / "0000.parquet").rename(folder / f"{number:04}.parquet")
    query.processAllAvailable()
    wait_for(lambda: len(list(control.notes(last))) > number, f"the note of batch {number}")


def rows_of_last_batch(control: Control) -> list[int]:
    return list(list(control.notes("batch"))[-1]["rows"])


def damage(control: Control, kind: str) -> None:
    """Do something to every file but the log."""
    storage = control.storage
    for name in [entry.name for entry in storage.entries()]:
        if name.startswith(LOG.partition(".")[0]):
            continue
        if kind == "delete":
            storage.delete([name])
        else:
            content = storage.read(name)
            storage.put(
                name, content[: len(content) // 2] if kind == "cut" else b"evenflow\xff\x00" + content
            )
