"""Simulated runs as tables: what was measured, and only that."""

from __future__ import annotations

from evenflow.report.simulation import tables
from evenflow.simulator import Aggregation, Queueing, Rescale, simulate

STREAM = "zipf:z=1.4,keys=100,messages=2000"


def test_balance_and_memory_are_always_there() -> None:
    results = [simulate(name, STREAM, 4, 1) for name in ("key", "shuffle")]
    (table,) = tables(results, ["key", "shuffle"])
    assert table.title == "2,000 messages, 94 keys, 1 source: zipf:z=1.4,keys=100,messages=2000,seed=0"
    assert list(table.columns[:5]) == ["scheme", "workers", "imbalance", "mean over time", "max/mean"]
    assert [row[0] for row in table.rows] == ["key", "shuffle"]
    assert table.rows[1][2] == 0
    assert table.rows[0][4] == results[0].numbers["max_over_mean"]


def test_queues_moves_and_merging_have_tables_where_there_are_any() -> None:
    options = {"queueing": Queueing(), "events": [Rescale(1000, 5)], "aggregation": Aggregation(500, 1e-4)}
    results = [
        simulate("consistent-hash", STREAM, 4, 1, **options),  # type: ignore[arg-type]
        simulate("fill", STREAM, 4, 1, **options),  # type: ignore[arg-type]
    ]
    balance, queues, moves, merging = tables(results, ["consistent-hash", "fill"])
    assert balance.rows[0][0] == "consistent-hash"
    assert queues.rows[0][2] == results[0].numbers["latency_mean"]
    assert moves.rows[0][2] == results[0].numbers["keys_moved"]
    assert merging.rows[0][2] == results[0].numbers["partials"]


def test_a_scheme_that_moves_nothing_is_not_among_the_moves() -> None:
    results = [simulate("explicit", STREAM, 4, 1), simulate("key", STREAM, 4, 1)]
    assert len(tables(results, ["explicit", "key"])) == 1
