"""`evenflow bench join`: every way returns the same rows, and missed targets are reported."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evenflow import EvenflowError
from evenflow.bench import join, join_streams, join_work
from evenflow.commands import bench as commands
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


def test_a_part_is_printed_before_the_next_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"part": "kinds", "case": "full", "what": "evenflow", "max_over_mean": 1.3}
    printed = []

    def two_streams(quick: bool, progress: Any, part: str) -> list[dict[str, Any]]:
        printed.append(capsys.readouterr().out)
        numbers = dict.fromkeys(("rows", "seconds", "times_as_fast", "batch_seconds", "max_over_mean"), 1.0)
        return [{"part": part, "what": "plain", **numbers}]

    monkeypatch.setattr(join_work, "kinds", lambda quick, progress: [row])
    monkeypatch.setattr(join_streams, "run", two_streams)
    for as_json in (False, True):
        commands.join(as_json=as_json, only=["kinds", join_streams.STREAMS])
        printed.append(capsys.readouterr().out)
    assert "| full | evenflow |     1.30 |" in printed[0]
    assert "missed" in printed[0]
    assert "Two streams" in printed[1]
    assert printed[2] == ""
    assert [found["part"] for found in json.loads(printed[3])] == ["kinds", join_streams.STREAMS]


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
