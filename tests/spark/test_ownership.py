"""The adaptivity loop in a running query: slow workers get less, measured where the work is done."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenflow.bench.stateful_work import Count, drain, stream, write_part
from evenflow.spark import stateful

pytestmark = pytest.mark.spark

ROW = 1e-3
SLOW, TIMES = 1, 4.0


class OneIsSlow(Count):
    """A row takes four times as long on worker 1."""

    def work(self, rows: int) -> None:
        from pyspark import TaskContext

        time.sleep(rows * ROW * (TIMES if TaskContext.get().partitionId() == SLOW else 1.0))


def test_a_slow_worker_gets_its_part(spark: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    for number in range(5):
        write_part(tmp_path / "parts", number, random.integers(0, 300, 1600).astype(np.int64))
    source = stream(spark, tmp_path / "parts")
    query = stateful(source, "k", OneIsSlow(), "k long, n long", tmp_path / "state", workers=4).start(
        drain, availableNow=True
    )
    query.awaitTermination()
    decisions, loads = query.decisions(), query.loads()
    query.stop()
    assert query.exception() is None
    others = np.delete(loads.rows, SLOW).mean()
    assert loads.rows[SLOW] / others == pytest.approx(1 / TIMES, rel=0.5)
    adopted = [decision for decision in decisions if decision["adopted"]]
    assert adopted
    assert adopted[0]["batch"] <= 2
    assert {"b_before", "b_after", "moved", "ideal", "relative_migration", "shares"} <= set(adopted[0])
    assert all(json.loads(json.dumps(decision)) == decision for decision in decisions)
    moved = query.migrations()
    assert moved
    assert sum(some["keys"] for some in moved) > 0
