"""`join` returns the rows of plain Spark when tasks run again, files are lost or an executor is killed.

``make test`` runs two kinds of joins in one process, with Spark's checksum off; ``make faults``
(EVENFLOW_FAULTS=all) all kinds, also on a cluster with the checksum on, where an executor is killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenflow.plan.join_build import KINDS
from evenflow.testing import LocalCluster, wait_for
from extent import in_make_faults

pytestmark = [pytest.mark.spark, pytest.mark.faults]

JOB = Path(__file__).parent / "jobs" / "joins.py"
TESTS = str(Path(__file__).parents[1])  # where the job finds what it shares with others
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([TESTS, os.environ.get("PYTHONPATH", "")])}
ROWS = 6000


def write_sides(folder: Path) -> None:
    """Write rows of which the left has one hot key, and both have keys that the other has not, and nulls."""
    rng = np.random.default_rng(1)
    for name, rows, hot in (("left", ROWS, 0.4), ("right", ROWS // 10, 0.0)):
        keys = np.where(rng.random(rows) < hot, 7, rng.integers(0, 900, rows))
        table = pa.table(
            {
                "k": pa.array(keys, mask=rng.random(rows) < 0.02),
                name: rng.integers(0, 50, rows),  # identical rows as well
                "part" if name == "left" else "right_part": np.arange(rows) % 3,
            }
        )
        (folder / name).mkdir()
        for part in range(2):
            pq.write_table(table.take(np.arange(part, rows, 2)), folder / name / f"{part}.parquet")


def read(folder: Path, status: int, log: str) -> dict[str, Any]:
    """Return what the job wrote."""
    assert status == 0, log[-3000:]
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


@pytest.fixture(scope="module")
def without_checksum(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the job in one process: its rows have no fixed order, and Spark does not notice."""
    folder = tmp_path_factory.mktemp("joins")
    write_sides(folder)
    command = [sys.executable, str(JOB), "local[2, 4]", str(folder), str(folder / "local")]
    command += [",".join(KINDS), "false", "no"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    return read(folder, done.returncode, done.stderr)


@pytest.fixture(scope="module")
def on_cluster(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the job on a cluster, and kill an executor when it says that it runs."""
    folder = tmp_path_factory.mktemp("joins")
    write_sides(folder)
    with LocalCluster() as cluster:
        command = [sys.executable, str(JOB), cluster.master, str(folder), str(cluster.folder / "local")]
        command += [",".join(KINDS), "true", "kill"]
        with (folder / "log").open("wb") as log:
            job = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=ENVIRONMENT)
        try:
            runs = folder / "running"
            wait_for(lambda: runs.exists() or job.poll() is not None, "the last part of the job", 600)
            if job.poll() is None:
                cluster.kill_executor()
                (folder / "killed").touch()
            status = job.wait(300)
        finally:
            job.kill()
    return read(folder, status, (folder / "log").read_text())


def check(found: dict[str, Any]) -> None:
    assert found["were lost"]
    assert found["ours"] == found["plain"]
    assert found["task failed"] == found["plain"]
    assert found["files lost"] == found["plain"]
    assert found["plain"][0] > 100


@in_make_faults
@pytest.mark.parametrize("how", KINDS)
def test_rows_without_the_checksum(without_checksum: dict[str, Any], how: str) -> None:
    check(without_checksum[how])


@in_make_faults
@pytest.mark.parametrize("how", KINDS)
def test_rows_on_a_cluster(on_cluster: dict[str, Any], how: str) -> None:
    check(on_cluster[how])


@in_make_faults
def test_an_executor_is_killed(on_cluster: dict[str, Any]) -> None:
    assert on_cluster["killed"]["ours"] == on_cluster["killed"]["plain"]
