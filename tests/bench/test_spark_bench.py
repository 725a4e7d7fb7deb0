"""`evenflow bench spark`: it measures in turn, and says which targets were missed."""

from __future__ import annotations

from typing import Any

import pytest

from evenflow import EvenflowError
from evenflow.bench import spark_balance, spark_planning
from evenflow.bench.spark import TARGETS, run, tables, targets


def test_targets_are_judged() -> None:
    rows = [
        {"part": "cost", "what": "online", "ratio": 2.6},
        {"part": "evenness", "what": "online", "max_over_mean": 1.01},
        {"part": "sleep", "what": "aggregate", "z": 2.0, "of_shuffle": 0.95, "of_key_grouping": 12.0},
    ]
    lines = {line[0]: line[1:] for line in targets(rows).rows}
    assert lines["cost: online, ratio"] == (2.6, "at most 2.5", "missed")
    assert lines["evenness: online, max over mean"] == (1.01, "at most 1.03", "ok")
    assert lines["sleep: aggregate, of key grouping, z = 2.0"][2] == "ok"
    assert len(lines) == 4


@pytest.mark.spark
def test_balance_is_measured(spark: Any) -> None:
    rows = spark_balance.run(spark, rows=4000, workers=4, rounds=1)
    assert [row["what"] for row in rows if row["part"] == "cost"] == [
        "repartition",
        "planned",
        "planning pass",
        "online",
    ]
    assert all(row["rows"] == 4000 for row in rows if row["part"] == "evenness")
    known = [target for target in TARGETS if target.part in ("cost", "evenness")]
    assert len(tables(rows)[-1].rows) == len(known)


def test_an_unknown_part_gets_a_sentence() -> None:
    with pytest.raises(EvenflowError, match="--only is 'slice'; choose among balance, planning, sleep, cpu"):
        run(only=["slice"])


@pytest.mark.spark
def test_planning_is_measured(spark: Any) -> None:
    row = spark_planning.measured(spark, keys=600, workers=10, rounds=1)
    assert (row["named"], row["keys"]) == (600, 600)  # every key is named in the plan
    assert 0 < row["before"] < row["balance"]
    assert row["limit"] == pytest.approx(1.5 * row["repartition"] + 1)
    (table, _) = tables([row])
    assert len(table.rows) == 1
