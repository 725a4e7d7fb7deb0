"""A streaming query that is killed between the offsets and the commit of a batch loses and repeats nothing.

``make faults`` (EVENFLOW_FAULTS=all) kills more than twenty times. ``make test`` kills queries with keyed
state (test_state_kills.py).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evenflow.storage import open_storage
from evenflow.streams import Zipf
from extent import in_make_faults
from spark.stream_files import write_batches
from storage.s3_server import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.faults, in_make_faults]

JOB = Path(__file__).parent / "jobs" / "stream.py"
ROWS = 400
KILLS = {
    kind: dict(enumerate(["before", "during", "after", "during", "before", "after", "during"], first))
    for first, kind in enumerate(["aggregate", "balance", "planned"])
}


@pytest.mark.parametrize("place", ["folder", "store"])
@pytest.mark.parametrize(("kind", "kills"), KILLS.items())
@pytest.mark.timeout(1800)
def test_a_killed_query_ends_as_if_nothing_had_happened(
    tmp_path: Path, kind: str, kills: dict[int, str], place: str, s3: S3Server
) -> None:
    files = max(kills) + 2
    ids = Zipf(z=1.4, keys=100, messages=ROWS * files, seed=1).generate(0, ROWS * files).ids
    numbers = np.arange(ids.size)
    table = pa.table({"key": ids, "number": numbers})
    write_batches(tmp_path / "in", [table.slice(at, ROWS) for at in range(0, ids.size, ROWS)])
    (tmp_path / "out").mkdir()
    control: str | Path = tmp_path / "control"
    environment: dict[str, str] = {}
    if place == "store":
        control = s3.bucket() / "control"
        environment = {**s3.environment, "EVENFLOW_CONTROL": str(control)}
    killed = 0
    while (status := run(tmp_path, kind, kills, environment=environment)) == -signal.SIGKILL:
        killed += 1
        before_any = min(kills) + killed == 1  # the first batch had not begun
        assert before_any or not open_storage(control).is_empty()
        damage(control, killed)
        assert killed <= len(kills)
    assert status == 0, (tmp_path / "log").read_text()[-3000:]
    assert killed == len(kills)
    counts = np.bincount(ids, minlength=100)
    totals = np.bincount(ids, numbers, 100).astype(int)
    expected = {key: [int(counts[key]), int(totals[key])] for key in range(100) if counts[key]}
    assert last_written(tmp_path / "out") == expected


def run(
    folder: Path,
    kind: str,
    kills: dict[int, str],
    program: Path = JOB,
    environment: dict[str, str] | None = None,
) -> int:
    """Start the program, with a group of its own to kill, and return how it ended."""
    command = [sys.executable, str(program), kind, str(folder), json.dumps(kills)]
    settings = {**os.environ, **(environment or {})}
    with (folder / "log").open("ab") as log:
        job = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, env=settings
        )
    try:
        return job.wait(600)
    finally:
        job.kill()


def damage(control: str | Path, turn: int) -> None:
    """Delete, cut short or replace by another version's every file of the control directory, in turn."""
    storage = open_storage(control)
    for name in [entry.name for entry in storage.entries()]:
        if turn % 3 == 0:
            storage.delete([name])
        else:
            content = storage.read(name)
            storage.put(
                name, content[: len(content) // 2] if turn % 3 == 1 else b"evenflow\xff\x00" + content
            )


def last_written(out: Path) -> dict[int, list[int]]:
    """Return the last result of every key."""
    result: dict[int, list[int]] = {}
    for path in sorted(out.glob("*.json"), key=lambda path: int(path.stem)):
        result |= {key: values for key, *values in json.loads(path.read_text())}
    return result
