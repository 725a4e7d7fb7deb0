"""loads: what it reports is what is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import evenflow as ef
from evenflow.spark import balance, loads
from evenflow.spark.control import Control
from evenflow.spark.loads import HotKey, Loads


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
