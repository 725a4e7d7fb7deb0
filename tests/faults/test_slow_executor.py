"""On a real cluster: rows leave an executor that gets less of its core, and return when it has recovered.

Spark gives a partition to any executor that is free, so a worker's speed says nothing of an executor's. A
partition stays on its executor if it is joined with a cached table that has one row per worker.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenflow.testing import LocalCluster
from extent import in_make_faults

pytestmark = [pytest.mark.spark, pytest.mark.faults]

JOB = Path(__file__).parent / "jobs" / "slow_executor.py"
SLOW, RECOVERS = 2, 9


@in_make_faults
def test_rows_leave_a_slow_executor_within_five_batches_and_return(tmp_path: Path) -> None:
    path = os.pathsep.join([str(JOB.parents[2]), os.environ.get("PYTHONPATH", "")])
    with LocalCluster(workers=2, cores=1) as cluster:
        done = subprocess.run(
            [sys.executable, str(JOB), cluster.master, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=550, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads((tmp_path / "results.json").read_text())
    assert len({_executors(batch) for batch in results["loose"]}) > 1, "Spark moves partitions about"
    for name in ("key", "fill"):
        assert len({_executors(batch) for batch in results[name]}) == 1, name
        assert len(set(_executors(results[name][0]))) == 2, "each worker has an executor of its own"
    rows = np.array([_column(batch, "rows") for batch in results["fill"]])
    even = rows.sum(axis=1)[0] / 2
    assert (np.abs(rows[:SLOW, 0] - even) < 0.15 * even).all()
    assert rows[SLOW + 5, 0] < 0.6 * even
    assert rows[-1, 0] > 0.8 * even
    by_key = np.median([max(_column(batch, "seconds")) for batch in results["key"][SLOW:]])
    filled = np.median([max(_column(batch, "seconds")) for batch in results["fill"][SLOW + 5 : RECOVERS]])
    assert by_key > 1.6 * filled, "2.2 times by the speeds alone"


def _column(batch: dict[str, Any], name: str) -> list[float]:
    tasks = sorted(batch["tasks"], key=lambda task: int(task["worker"]))
    return [task[name] for task in tasks]


def _executors(batch: dict[str, Any]) -> tuple[float, ...]:
    return tuple(_column(batch, "executor"))
