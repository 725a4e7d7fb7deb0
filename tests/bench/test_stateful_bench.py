"""`evenflow bench stateful`: what moves is counted key by key, targets are judged, Spark's state agrees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import evenflow as ef
from evenflow.bench import stateful, stateful_migration


def test_migration_is_near_the_ideal_where_it_should_be() -> None:
    rows = [
        row
        for name in (stateful_migration.UNIFORM, "consistent-hash", "redist", "fill")
        for row in stateful_migration.steps(name, distinct=20_000, seed=1, most=6)
    ]
    assert {row["to"] for row in rows} == {2, 3, 4, 5, 6}
    assert all(row["from"] == row["to"] - 1 and row["bytes"] > 0 for row in rows)
    uniform = stateful_migration.mean_migration(rows, stateful_migration.UNIFORM, "fixed")
    assert uniform == pytest.approx(3.0, abs=0.1)  # n -> n + 1 moves n / (n + 1) of all keys
    assert stateful_migration.mean_migration(rows, "redist", "window") < 1.3
    assert stateful_migration.mean_migration(rows, "redist", "fixed") == pytest.approx(1.0, abs=0.05)
    assert stateful_migration.mean_migration(rows, "fill", "window") < 1.1


def test_bytes_are_those_of_the_keys_that_change_their_owner() -> None:
    distinct = 2000
    keys = ef.hash_keys(np.arange(distinct, dtype=np.int64))
    before, after = np.arange(distinct) % 3, np.arange(distinct) % 4
    size = np.full(distinct, 24.0)
    heat = np.full(distinct, 1 / distinct)
    row = stateful_migration.moved(
        "x", "fixed", size, before.astype(np.int32), after.astype(np.int32), 4, heat
    )
    assert row["bytes"] == 24 * (before != after).sum()
    assert row["relative_migration"] == pytest.approx(4 * (before != after).mean())
    assert keys.size == distinct


def test_targets_are_judged() -> None:
    rows: list[dict[str, Any]] = [
        {"part": "migration", "scheme": "redist", "state": "window", "relative_migration": 1.4},
        {"part": "cost", "keys": 10, "ratio": 1.0},
        {"part": "cost", "keys": 100, "ratio": 1.7},
        {"part": "slow", "what": "explicit", "of_key_grouping": 1.9},
    ]
    lines = {line[0]: line[1:] for line in stateful.targets(rows).rows}
    assert lines["mean relative migration of redist, window state"] == (1.4, "at most 1.3", "missed")
    assert lines["batch time with 10 x the state"] == (1.7, "at most 2", "ok")
    assert lines["slow workers, measured, explicit, relative to key grouping"][2] == "missed"
    assert len(lines) == 3


@pytest.mark.spark
def test_a_running_query_moves_what_its_functions_say(spark: Any) -> None:
    from evenflow.bench import stateful_work
    from evenflow.bench.results import part_tables

    [row] = stateful_work.moved(spark, quick=True, sizes=(2,))
    assert row["keys"] == row["expected_keys"]
    assert row["relative_migration"] == pytest.approx(row["expected"], rel=0.35)
    assert len(part_tables([row], stateful_work.COLUMNS)[0].rows) == 1
