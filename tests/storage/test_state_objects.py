"""`stateful` with its state in an object store: what comes out, what it asks for, what it shows."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from evenflow.spark import loads, read_state, rewind_state
from evenflow.storage import open_storage
from spark.stateful_runs import ROWS, Sunk, cut, finish, held, numbers, start, totals
from spark.stream_files import write_batches
from storage.s3_server import SECRET, S3Server

pytestmark = pytest.mark.spark


def test_a_query_with_its_state_in_s3(
    spark: Any, tmp_path: Path, moto: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    """Run, rescale, restart, read, rewind: the same as in a folder."""
    caplog.set_level(logging.INFO)
    table, sunk = numbers(5), Sunk()
    batches, root = cut(table), moto.bucket() / "state"
    options: dict[str, Any] = {"state": root, "checkpoint": tmp_path / "checkpoint", "order_by": "number"}
    write_batches(tmp_path / "in", batches[:2])
    query = start(spark, tmp_path, sunk, **options)
    query.processAllAvailable()
    query.rescale(4)
    write_batches(tmp_path / "in", batches[2:3], first=2)
    query.processAllAvailable()
    carried = query.loads()
    assert (carried.batch, carried.workers, sum(carried.rows)) == (2, 4, ROWS)
    assert loads(root / "_evenflow").rows == carried.rows
    assert query.migrations()[-1]["to"] == 4
    query.stop()
    assert held(read_state(spark, root)) == totals(table.slice(0, 3 * ROWS)) == sunk.last()
    assert held(read_state(spark, root, batch=0)) == totals(batches[0])

    write_batches(tmp_path / "in", batches[3:], first=3)
    finish(start(spark, tmp_path, sunk, **options))
    assert held(read_state(spark, root)) == totals(table) == sunk.last()
    assert [batch for batch, _ in sunk.calls] == [0, 1, 2, 3, 4]

    for path in (tmp_path / "checkpoint" / "commits").glob("*4*"):  # Spark runs the last batch again
        path.unlink()
    rewind_state(root, 3)
    assert held(read_state(spark, root)) == totals(table.slice(0, 4 * ROWS))
    finish(start(spark, tmp_path, sunk, **options))
    assert held(read_state(spark, root)) == totals(table)
    assert sunk.calls[-1] == sunk.calls[-2]
    storage = open_storage(root)
    contents = [storage.read(entry.name) for entry in storage.entries()]
    assert not [content for content in contents if SECRET.encode() in content]
    assert SECRET not in caplog.text
    assert SECRET not in str(query.config)
    assert not (tmp_path / "state").exists()
