"""`python -m benchmarks migration`: what moves is counted key by key, and targets are judged."""

from __future__ import annotations

import numpy as np
import pytest

import evenflow as ef
from benchmarks import migration


def test_migration_is_near_the_ideal_where_it_should_be() -> None:
    rows = [
        row
        for name in (migration.UNIFORM, "consistent-hash", "redist", "fill")
        for row in migration.steps(name, distinct=20_000, seed=1, most=6)
    ]
    assert {row["to"] for row in rows} == {2, 3, 4, 5, 6}
    assert all(row["from"] == row["to"] - 1 and row["bytes"] > 0 for row in rows)
    uniform = migration.mean_migration(rows, migration.UNIFORM, "fixed")
    assert uniform == pytest.approx(3.0, abs=0.1)  # n -> n + 1 moves n / (n + 1) of all keys
    assert migration.mean_migration(rows, "redist", "window") < 1.3
    assert migration.mean_migration(rows, "redist", "fixed") == pytest.approx(1.0, abs=0.05)
    assert migration.mean_migration(rows, "fill", "window") < 1.1


def test_bytes_are_those_of_the_keys_that_change_their_owner() -> None:
    distinct = 2000
    keys = ef.hash_keys(np.arange(distinct, dtype=np.int64))
    before, after = np.arange(distinct) % 3, np.arange(distinct) % 4
    size = np.full(distinct, 24.0)
    heat = np.full(distinct, 1 / distinct)
    row = migration.moved("x", "fixed", size, before.astype(np.int32), after.astype(np.int32), 4, heat)
    assert row["bytes"] == 24 * (before != after).sum()
    assert row["relative_migration"] == pytest.approx(4 * (before != after).mean())
    assert keys.size == distinct


def test_the_target_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "KEYS", 20_000)
    rows = migration.run(quick=True)
    *by_workers, targets = migration.tables(rows)
    assert [len(table.rows) for table in by_workers] == [migration.MOST_WORKERS + 1] * 2
    lines = {line[0]: line[1:] for line in targets.rows}
    mean = migration.mean_migration(rows, "redist", "window")
    verdict = "ok" if mean <= 1.3 else "missed"
    assert lines["mean relative migration of redist, window state"] == (mean, "at most 1.3", verdict)
    assert len(lines) == 2
