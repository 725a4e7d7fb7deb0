"""A join with streams loses and repeats nothing: killed between the offsets and the commit of a batch, or
on a cluster where tasks fail, shuffle files are lost and an executor is killed.

The hot key is another one after some batches, so plans of two streams change on the way. Part of ``make
faults`` only: every start of the program is a JVM.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evenflow.blob import read_blob
from evenflow.spark.joining.plan_versions import KIND
from evenflow.storage import Location, locate, open_storage
from evenflow.testing import LocalCluster, wait_for
from extent import in_make_faults
from faults.test_join_faults import ENVIRONMENT
from faults.test_kills import damage
from spark.stream_files import write_batches
from storage.s3_server import S3Server

pytestmark = [
    pytest.mark.spark, pytest.mark.faults, in_make_faults,
]  # fmt: skip

JOB = Path(__file__).parent / "jobs" / "joined.py"
KILLS = {0: "during", 1: "before", 2: "after", 4: "during", 5: "after"}
FAULTS = {1: "task failed", 2: "files lost", 4: "executor killed", 5: "files lost"}
FILES = 8
NEAR = timedelta(seconds=30)
ROWS, START = 60, datetime(2024, 1, 1, tzinfo=UTC)


def batch(seed: int, number: int) -> pa.Table:
    """Return rows within 20 seconds, half of which have one key and a few none; the batches are 20 apart."""
    rng = np.random.default_rng(seed)
    keys = np.where(rng.random(ROWS) < 0.5, 7 if number < 3 else 8, rng.integers(0, 20, ROWS))
    times = [START + timedelta(seconds=20 * number + int(second)) for second in rng.integers(0, 20, ROWS)]
    return pa.table(
        {
            "k": pa.array(keys, mask=rng.random(ROWS) < 0.05),
            "number": np.arange(ROWS) + number * ROWS,
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


@pytest.mark.parametrize("place", ["folder", "store"])
@pytest.mark.parametrize("kind", ["table", "streams"])
@pytest.mark.timeout(1800)
def test_a_killed_join_ends_as_if_nothing_had_happened(
    tmp_path: Path, kind: str, place: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides, control = write_sides(tmp_path, kind), locate(tmp_path / "control")
    if place == "store":
        control = s3.bucket() / "control"
        for name, value in {**s3.environment, "EVENFLOW_CONTROL": str(control)}.items():
            monkeypatch.setitem(ENVIRONMENT, name, value)
    killed = 0
    while (status := started(tmp_path, kind, KILLS).wait(600)) == -signal.SIGKILL:
        killed += 1
        if kind == "table":  # of two streams, the plans are part of the state
            damage(control, killed)
        assert killed <= len(KILLS)
    assert status == 0, (tmp_path / "log").read_text()[-3000:]
    assert killed == len(KILLS)
    check(tmp_path, control, kind, *sides)


@pytest.mark.parametrize("kind", ["table", "streams"])
@pytest.mark.timeout(1800)
def test_faults_on_a_cluster(tmp_path: Path, kind: str) -> None:
    sides = write_sides(tmp_path, kind)
    with LocalCluster() as cluster:
        job = started(tmp_path, kind, FAULTS, cluster.master, str(cluster.folder / "local"))
        try:
            runs = tmp_path / "running"
            wait_for(lambda: runs.exists() or job.poll() is not None, "the batch with a kill", 600)
            if job.poll() is None:
                cluster.kill_executor()
                (tmp_path / "killed").touch()
            status = job.wait(600)
        finally:
            job.kill()
    assert status == 0, (tmp_path / "log").read_text()[-3000:]
    assert runs.exists()
    assert [batch for batch in FAULTS if (tmp_path / f"lost-{batch}").exists()] == [2, 5]
    check(tmp_path, locate(tmp_path / "control"), kind, *sides)


def write_sides(folder: Path, kind: str) -> tuple[pa.Table, pa.Table]:
    """Write the files of both sides; return the rows of each."""
    left = [batch(number, number) for number in range(FILES)]
    right = [batch(100 + number, number) for number in range(FILES)]
    write_batches(folder / "left", left)
    write_batches(folder / "right", right if kind == "streams" else [pa.concat_tables(right)])
    (folder / "out").mkdir()
    return pa.concat_tables(left), pa.concat_tables(right)


def started(folder: Path, kind: str, faults: dict[int, str], *where: str) -> subprocess.Popen[bytes]:
    """Start the program, with a group of its own to kill."""
    command = [sys.executable, str(JOB), kind, str(folder), json.dumps(faults), *where]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, env=ENVIRONMENT
        )


def check(folder: Path, control: Location, kind: str, left: pa.Table, right: pa.Table) -> None:
    """Compare what the program wrote with what it should have."""
    found = [tuple(row) for path in (folder / "out").glob("*.json") for row in json.loads(path.read_text())]
    matched, alone = expected(left, right, kind)
    assert sorted(row for row in found if row[1] is not None) == matched
    unmatched = sorted(row[0] for row in found if row[1] is None)
    assert len(set(unmatched)) == len(unmatched)
    if kind == "table":
        assert unmatched == alone
    else:  # the last ones still wait
        assert set(unmatched) <= set(alone)
        assert {number for number in alone if number < 2 * ROWS} <= set(unmatched)
        storage = open_storage(control)
        names = [entry.name for entry in storage.entries() if entry.name.endswith(".claim")]
        last = max(names, key=lambda name: int(Path(name).stem))
        assert len(read_blob(KIND, storage.read(last))[0]["versions"]) > 1


def expected(left: pa.Table, right: pa.Table, kind: str) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the pairs of rows that match, and the rows of the left that have no match."""
    by_key = defaultdict(list)
    for row in right.to_pylist():
        by_key[row["k"]].append(row)
    pairs, alone = [], []
    for row in left.to_pylist():
        others = [] if row["k"] is None else by_key[row["k"]]
        matches = [other for other in others if kind == "table" or abs(other["ts"] - row["ts"]) <= NEAR]
        pairs += [(row["number"], other["number"]) for other in matches]
        if not matches:
            alone.append(row["number"])
    return sorted(pairs), alone
