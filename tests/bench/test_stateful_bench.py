"""`evenflow bench stateful`: targets are judged, Spark's state agrees."""

from __future__ import annotations

from typing import Any

import pytest

from evenflow.bench import stateful


def test_targets_are_judged() -> None:
    rows: list[dict[str, Any]] = [
        {"part": "cost", "keys": 10, "ratio": 1.0},
        {"part": "cost", "keys": 100, "ratio": 1.7},
        {"part": "slow", "what": "explicit", "of_key_grouping": 1.9},
    ]
    lines = {line[0]: line[1:] for line in stateful.targets(rows).rows}
    assert lines["batch time with 10 x the state"] == (1.7, "at most 2", "ok")
    assert lines["slow workers, measured, explicit, relative to key grouping"][2] == "missed"
    assert len(lines) == 2


@pytest.mark.spark
def test_a_running_query_moves_what_its_functions_say(spark: Any) -> None:
    from evenflow.bench import stateful_work
    from evenflow.bench.results import part_tables

    [row] = stateful_work.moved(spark, quick=True, sizes=(2,))
    assert row["keys"] == row["expected_keys"]
    assert row["relative_migration"] == pytest.approx(row["expected"], rel=0.35)
    assert len(part_tables([row], stateful_work.COLUMNS)[0].rows) == 1
