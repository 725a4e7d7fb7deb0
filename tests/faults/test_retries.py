"""On a real cluster: a task that runs again puts the same rows on the same workers, and results are right."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import reduce
from operator import xor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenflow.streams import Zipf
from evenflow.testing import LocalCluster, wait_for
from extent import in_make_faults
from spark.tricky_rows import tricky_rows

pytestmark = [pytest.mark.spark, pytest.mark.faults]

JOB = Path(__file__).parent / "jobs" / "retries.py"
UNORDERED = JOB.with_name("unordered.py")
ROWS = 20_000


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the job once: everything on one cluster, with one executor killed when the job says it runs."""
    folder = tmp_path_factory.mktemp("retries")
    write_rows(folder / "rows")
    with LocalCluster() as cluster:
        command = [sys.executable, str(JOB), cluster.master, str(folder), str(cluster.folder / "local")]
        with (folder / "log").open("wb") as log:
            job = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            runs = folder / "running"
            wait_for(lambda: runs.exists() or job.poll() is not None, "the last part of the job")
            if job.poll() is None:
                cluster.kill_executor()
                (folder / "killed").touch()
            status = job.wait(300)
        finally:
            job.kill()
    assert status == 0, (folder / "log").read_text()[-3000:]
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


def write_rows(folder: Path) -> None:
    """Write rows with one key that brings a third of them, in two files."""
    ids = Zipf(z=1.4, keys=1000, messages=ROWS, seed=1).generate(0, ROWS).ids
    folder.mkdir()
    for part in range(2):
        number = np.arange(part, ROWS, 2)
        pq.write_table(pa.table({"key": ids[number], "number": number}), folder / f"{part}.parquet")


def all_rows(partitions: dict[str, list[int]]) -> tuple[int, int]:
    """Return how many rows all partitions have, and the exclusive or of what they are."""
    return sum(rows for rows, _ in partitions.values()), reduce(
        xor, (which for _, which in partitions.values())
    )


@in_make_faults
@pytest.mark.parametrize("placement", ["online, as it comes", "online, sorted", "planned"])
def test_same_rows_on_the_same_workers(results: dict[str, Any], placement: str) -> None:
    found = results[placement]
    assert found["files were lost"]
    assert found["task failed"] == found["without"]
    assert found["files lost"] == found["without"]
    assert all_rows(found["without"]) == all_rows(results["input"])
    rows = [count for count, _ in found["without"].values()]
    assert sum(rows) == ROWS
    assert max(rows) <= 1.05 * ROWS / 6


@in_make_faults
def test_an_executor_is_killed(results: dict[str, Any]) -> None:
    assert results["killed"]["killed"] == results["killed"]["without"]
    assert all_rows(results["killed"]["killed"]) == all_rows(results["input"])


@in_make_faults
def test_an_aggregate_is_that_of_plain_spark(results: dict[str, Any]) -> None:
    ours, plain = results["aggregate"]
    assert ours == plain
    assert sum(rows for _, rows in ours) == ROWS


@pytest.fixture(scope="module")
def unordered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the job whose rows have no fixed order, with Spark's checksum off."""
    folder = tmp_path_factory.mktemp("unordered")
    pq.write_table(tricky_rows(6000, seed=1), folder / "rows.parquet")
    command = [sys.executable, str(UNORDERED), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


@in_make_faults
@pytest.mark.parametrize("order", ["sort", "content"])
def test_no_row_is_lost_without_the_checksum(unordered: dict[str, Any], order: str) -> None:
    assert unordered[f"{order}: files were lost"]
    assert len(unordered["input"]) == 6000
    assert unordered[order] == unordered["input"]


@in_make_faults
def test_a_broken_promise_is_as_unsafe_as_the_docs_say(unordered: dict[str, Any]) -> None:
    assert unordered["as-is: files were lost"]
    assert unordered["as-is"] != unordered["input"]  # also: the job above does what it should
