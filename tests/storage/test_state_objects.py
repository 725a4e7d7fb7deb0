"""`stateful` with its state in an object store: what comes out, what it asks for, what it shows."""

from __future__ import annotations

import logging
import subprocess
from pathlib import Path
from typing import Any

import pytest

from evenflow.control.directory import Control
from evenflow.spark import loads, read_state, rewind_state
from evenflow.spark.state.table import CHECKPOINT_EVERY, history
from evenflow.storage import open_storage
from extent import long
from spark.stateful_runs import ROWS, Sunk, cut, finish, held, numbers, start, totals
from spark.stream_files import write_batches
from storage.s3_server import SECRET, S3Server

pytestmark = pytest.mark.spark

WORKERS = 3
PER_BATCH = 3 + 2 * WORKERS
BESIDE = ("_lease", "checkpoint", "planned", "?delete", "list-type")  # the thread that renews the lease


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
    seen = shown(spark)
    assert str(tmp_path / "in") in seen
    assert SECRET not in seen
    assert not (tmp_path / "state").exists()


def shown(spark: Any) -> str:
    """Return what Spark's UI shows of its queries, jobs and settings, and the arguments of all processes."""
    store = spark._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    texts = []
    for number in range(executions.size()):
        one = executions.apply(number)
        shown_of_one = one.description(), one.details(), one.physicalPlanDescription(), one.modifiedConfigs()
        texts += [str(value) for value in shown_of_one if value is not None]  # None: it is about to start
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    texts += [str(jobs.apply(number).description()) for number in range(jobs.size())]
    texts += [str(dict(spark.conf.getAll)), str(spark.sparkContext.getConf().getAll())]
    listed = subprocess.run(["ps", "-A", "-ww", "-o", "args="], capture_output=True, text=True, check=True)
    return "\n".join([*texts, listed.stdout])


@pytest.mark.parametrize("files", [14, long(60)])
@pytest.mark.timeout(900)
def test_requests_per_batch(spark: Any, tmp_path: Path, moto: S3Server, files: int) -> None:
    """Three and two per worker, as the server counts them and as the loads say; no more with history.

    Nor more when files are merged, the log gets a checkpoint, or files are removed.
    """
    table, sunk, root = numbers(files), Sunk(), moto.bucket() / "state"
    seen = list[list[tuple[str, str]]]()

    def sink(outputs: Any, batch: int) -> None:
        sunk(outputs, batch)
        seen.append([(method, path) for method, path in moto.requests if root.parent.parent.name in path])
        moto.requests.clear()

    write_batches(tmp_path / "in", cut(table))
    moto.requests.clear()
    query = start(spark, tmp_path, sink, state=root, checkpoint=tmp_path / "checkpoint")
    finish(query)
    assert held(read_state(spark, root)) == totals(table)
    for batch, requests in enumerate(seen[1:], 1):  # the first one opens and creates the table
        own = [path for method, path in requests if method != "HEAD" and not any(x in path for x in BESIDE)]
        assert len(own) <= PER_BATCH, (batch, own)
    said = {committed.batch: committed.loads["requests"] for _, committed in history(open_storage(root))}
    assert [said[batch] for batch in range(2, files)] == [PER_BATCH] * (files - 2)
    merged = [note["batch"] for note in Control(root / "_evenflow").notes("merged")]
    assert 1 <= len(merged) <= 1 + files / 6
    if files > 2 * CHECKPOINT_EVERY:
        assert [path for requests in seen for _, path in requests if ".checkpoint.parquet" in path]
