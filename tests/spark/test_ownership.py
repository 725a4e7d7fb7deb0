"""The adaptivity loop in a running query: slow workers get less, measured where the work is done."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenflow.bench.on_spark import drain
from evenflow.bench.stateful_work import Count, stream, write_part
from evenflow.owners import AutoWorkers
from evenflow.spark import stateful
from extent import in_make_faults

pytestmark = pytest.mark.spark

ROW = 1e-3
SLOW, TIMES = 1, 4.0


class OneIsSlow(Count):
    """A row takes four times as long on worker 1."""

    def work(self, rows: int) -> None:
        from evenflow.spark.task import current_worker

        time.sleep(rows * ROW * (TIMES if current_worker() == SLOW else 1.0))


@pytest.mark.faults
@in_make_faults
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


class Sleepy(Count):
    """A row takes a while, wherever it is."""

    def work(self, rows: int) -> None:
        time.sleep(rows * 2 * ROW)


def test_auto_takes_more_workers_when_they_are_busy(spark: Any, tmp_path: Path) -> None:
    for number in range(4):
        write_part(tmp_path / "parts", number, np.arange(500, dtype=np.int64))
    auto = AutoWorkers(least=1, most=3, low=0.005, high=0.05, patience=1)
    query = stateful(
        stream(spark, tmp_path / "parts"), "k", Sleepy(), "k long, n long", tmp_path / "state", workers=auto
    ).start(drain, availableNow=True)
    query.awaitTermination()
    loads, moved = query.loads(), query.migrations()
    query.stop()
    assert loads.workers == 3
    assert min(loads.rows) > 100
    assert loads.state_keys == 500
    assert [(some["from"], some["to"]) for some in moved] == [(1, 3)]
    assert moved[0]["part"] == pytest.approx(2 / 3, abs=0.1)
