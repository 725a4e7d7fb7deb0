"""Online routers with control in an object store: what a batch asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evenflow.control.directory import Control
from evenflow.spark import aggregate
from spark.stream_files import read_batches, write_batches
from spark.test_hearing import Waiting
from storage.s3_server import S3Server

pytestmark = pytest.mark.spark

WORKERS, BATCHES, ROWS = 3, 7, 300


def test_no_batch_lists_objects(spark: Any, tmp_path: Path, moto: S3Server) -> None:
    """Neither for what routers learned nor for what workers measured; only the start of a run does."""
    ids = np.random.default_rng(1).zipf(1.4, BATCHES * ROWS) % 40
    tables = [pa.table({"key": ids[at : at + ROWS]}) for at in range(0, ids.size, ROWS)]
    write_batches(tmp_path / "in", tables)
    place = moto.bucket() / "control"
    stream = read_batches(spark, tmp_path / "in", "key long")
    counted = aggregate(
        stream,
        "key",
        Waiting(str(tmp_path / "slow")),
        "n long",
        WORKERS,
        "fill",
        mode="online",
        control=place,
    )
    asked, found = list[list[str]](), dict[int, int]()

    def sink(frame: Any, batch: int) -> None:
        found.update((row["key"], row["n"]) for row in frame.collect())
        asked.append([f"{method} {path}" for method, path in moto.requests if place.parent.name in path])
        moto.requests.clear()

    moto.requests.clear()
    writer = counted.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path / "at"))
    query = writer.foreachBatch(sink).trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    assert found == {key: int((ids == key).sum()) for key in set(ids.tolist())}
    assert len(asked) == BATCHES
    listings = [request for requests in asked for request in requests if "list-type" in request]
    assert len(listings) == len(set(listings)) <= 2, listings  # by the driver, of what earlier runs left
    learned = [request for request in asked[-1] if request.startswith("PUT") and ".joined" in request]
    assert len(learned) >= 1
    assert len(asked[-1]) <= max(map(len, asked[1:3])) + 6, asked[-1]  # none for what is past
    control = Control(place)
    assert list(control.notes("fallback")) == []
    assert [note["batch"] for note in control.notes("report")] == list(range(BATCHES - 1))
    assert len(control.storage.entries("busy")) == WORKERS
