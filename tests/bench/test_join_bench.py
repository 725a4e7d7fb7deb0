"""`evenflow bench join`: every way returns the same rows, and missed targets are reported."""

from __future__ import annotations

from typing import Any

import pytest

from evenflow import EvenflowError
from evenflow.bench import join
from extent import ALL


def test_targets_are_judged() -> None:
    rows: list[dict[str, Any]] = [
        {"part": "bare", "case": "inner", "what": "evenflow, plan given", "cpu_of_plain": 1.2},
        {"part": "kinds", "case": "full", "what": "evenflow", "max_over_mean": 1.1},
        {"part": "kinds", "case": "full", "what": "plain", "max_over_mean": 9.0},
    ]
    lines = join.targets(rows).rows
    assert [line[1:] for line in lines] == [(1.2, "at most 1.15", "missed"), (1.1, "at most 1.2", "ok")]


def test_an_unknown_part_is_a_sentence() -> None:
    with pytest.raises(EvenflowError, match="--only is 'outer'; choose among bare, kinds, inner"):
        join.run(only=["outer"])


@pytest.mark.spark
@pytest.mark.faults
def test_every_way_returns_the_same_rows(spark: Any) -> None:
    from evenflow.bench.join_tables import NO_BROADCAST, OFF, tables, ways

    before = {name: spark.conf.get(name, None) for name in NO_BROADCAST | OFF}
    try:
        for name, value in (OFF | NO_BROADCAST).items():
            spark.conf.set(name, value)
        cases = (("three tables", 0), ("right aggregated", 0), ("both sides hot", 60))
        for case, pairs in cases if ALL else cases[:1]:
            with tables(spark, 1200, 300, pairs=pairs) as frames:
                found = {way.name: way.join() for way in ways(*frames, case, 3)}
                assert {"plain", "adaptive, tuned", "evenflow, counting"} <= set(found)
                texts = {
                    name: sorted(map(tuple, frame.toDF(*found["plain"].columns).collect()))
                    for name, frame in found.items()
                    if not name.startswith("adaptive")  # Spark's own join under other settings
                }
            assert all(rows == texts["plain"] for rows in texts.values())
            assert len(texts["plain"]) > 1000
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)
