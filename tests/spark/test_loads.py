"""loads: what it reports is what is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.control.directory import Control
from evenflow.spark import apply, balance, loads
from evenflow.spark.monitoring.task_timing import TimedFunction, with_timing
from evenflow.spark.operators.loads import HotKey, Loads


@pytest.mark.spark
def test_loads_of_a_frame_are_exact(spark: Any, tmp_path: Path) -> None:
    df = spark.range(2000).selectExpr(
        "case when id % 2 = 0 then 'hot' else cast(id % 100 as string) end as k"
    )
    found = loads(df.transform(balance("k", 4)), "k", workers=4, control=tmp_path)
    assert sum(found.rows) == 2000
    assert found.keys == 51
    assert found.max_over_mean < 1.12
    assert found.hot[0].key == "hot"
    assert found.hot[0].rows == 1000
    assert found.pairs == 50 + sum(len(hot.homes) for hot in found.hot if len(hot.homes) > 1)
    plain = loads(df.repartition(4, "k"), "k", workers=4)
    assert plain.memory == 1
    assert plain.max_over_mean > 2
    assert plain.hot[0] == HotKey("hot", 1000, plain.hot[0].homes)
    assert len(plain.hot[0].homes) == 1
    table = found.frame(spark).collect()
    assert [row["rows"] for row in table] == found.rows
    assert loads(tmp_path).rows == found.rows  # from the log
    assert loads(tmp_path).hot == found.hot


@pytest.mark.spark
def test_operators_tell_how_long_their_workers_worked(spark: Any, tmp_path: Path) -> None:
    df = spark.range(400).selectExpr("id % 40 as k", "id")
    done = apply(df, "k", lambda group: group.slice(0, 1), "k long, id long", 4, control=str(tmp_path))
    assert done.count() == 40
    found = loads(tmp_path)
    assert sum(found.rows) == 400
    assert found.busy is not None
    assert len(found.busy) == found.workers == 4
    assert all(seconds > 0 for seconds in found.busy)
    assert "busy s" in str(found)
    assert "memory" not in found.summary()


def test_waiting_is_not_working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def spend(seconds: float) -> None:
        nonlocal now
        now += seconds

    def slow_rows() -> Any:
        for _ in range(3):
            spend(5)
            yield pa.record_batch({"x": [1, 2]})

    def work(batches: Any) -> Any:
        for batch in batches:
            spend(1)
            yield batch

    monkeypatch.setattr("evenflow.spark.monitoring.task_timing.time.perf_counter", lambda: now)
    for _ in TimedFunction(work, str(tmp_path))(slow_rows()):
        spend(7)  # whoever takes the results
    (note,) = Control(tmp_path).notes("busy")
    assert (note["rows"], note["seconds"]) == (6, 3)
    assert with_timing(work, None) is work


def test_the_last_word_of_the_last_run_counts(tmp_path: Path) -> None:
    for run, seconds in (("a", 9.0), ("b", 1.0), ("b", 2.0)):
        Control(tmp_path).note("busy", run=run, batch=None, worker=1, rows=5, seconds=seconds)
    Control(tmp_path).note("busy", run="b", batch=None, worker=0, rows=3, seconds=4.0)
    assert loads(tmp_path).busy == [4.0, 2.0]
    assert loads(tmp_path).rows == [3, 5]


def test_a_report_prints_itself() -> None:
    report = Loads([10, 30, 20, 0], keys=5, pairs=7, hot=[HotKey("x", 30, [1, 2])], fallbacks=2, batch=3)
    assert report.max_over_mean == 2.0
    assert report.imbalance == 0.25
    assert report.memory == 1.4
    text = str(report)
    for part in ("batch 3", "60 rows on 4 workers", "2.000", "2 fallbacks", "x: 30 rows on 1, 2"):
        assert part in text
    assert json.loads(report.to_json())["max_over_mean"] == 2.0
    many = str(Loads(list(range(100)), keys=1, pairs=1))
    assert "..." in many
    assert len(many.splitlines()) < 30


def test_what_has_no_loads_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ef.EvenflowError, match="no batch in the log"):
        loads(tmp_path)
    with pytest.raises(ef.EvenflowError, match="pass a DataFrame, a query or a control directory"):
        loads(3)
    Control(tmp_path).note("batch", rows=[1, 2], keys=2, pairs=2, hot=[["00ff", 2, [1]]], batch=4)
    Control(tmp_path).note("fallback", why="gone")
    found = loads(tmp_path)
    assert (found.batch, found.rows, found.fallbacks) == (4, [1, 2], 1)
    assert found.hot == [HotKey("00ff", 2, [1])]
