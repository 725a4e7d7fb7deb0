"""Keyed state that moves: how much of it, what a batch costs, throughput beside Spark's own state.

Parts: :mod:`evenflow.bench.stateful_migration` (no Spark, exact) and :mod:`evenflow.bench.stateful_work`
(Spark on this machine, wall time, ratios within the run). ``quick`` takes a tenth of keys and rows and fewer
batches; what a micro-batch costs by being one is then most of its time, so ratios of throughput say little.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from evenflow.bench import stateful_migration
from evenflow.bench.measure import Row, Say, silent
from evenflow.bench.subjects import Limit
from evenflow.report.tables import Table


class Target(NamedTuple):
    """A number that should be reached."""

    what: str
    part: str
    where: dict[str, object]
    value: str
    limit: Limit


TARGETS = (
    Target("batch time, 10 x the state", "cost", {"largest": True}, "ratio", Limit("at most", 2)),
    Target(
        "uniform stream, of the faster of Spark's two",
        "uniform",
        {"what": "stateful"},
        "of_faster_peer",
        Limit("at least", 0.7),
    ),
    Target(
        "skewed stream, explicit, of the faster of Spark's two",
        "skew",
        {"what": "stateful, explicit"},
        "of_faster_peer",
        Limit("at least", 1.0),
    ),
    Target(
        "skewed stream, fill, of the faster of Spark's two",
        "skew",
        {"what": "stateful, fill"},
        "of_faster_peer",
        Limit("at least", 1.0),
    ),
    Target(
        "slow workers, measured, fill, of key grouping",
        "slow",
        {"what": "fill"},
        "of_key_grouping",
        Limit("at least", 2),
    ),
    Target(
        "slow workers, measured, explicit, of key grouping",
        "slow",
        {"what": "explicit"},
        "of_key_grouping",
        Limit("at least", 2),
    ),
    Target(
        "slow workers, signals, of key grouping",
        "slow",
        {"what": "consistent"},
        "of_key_grouping",
        Limit("at least", 2),
    ),
)
MIGRATION = Limit("at most", 1.3)


def run(quick: bool = False, say: Say = silent) -> list[Row]:
    """Measure everything; it starts Spark on this machine, with two cores and then as 8 workers."""
    from evenflow.bench import stateful_work
    from evenflow.bench.spark import Sessions

    rows = stateful_migration.run(quick=quick, say=say)
    sessions = Sessions()
    try:
        rows += stateful_work.run(sessions, quick=quick, say=say)
    finally:
        sessions.stop()
    return rows


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return the parts, and every target beside what was measured."""
    from evenflow.bench import stateful_work

    return [*stateful_migration.tables(rows), *stateful_work.tables(rows), targets(rows)]


def targets(rows: Sequence[Row]) -> Table:
    """Return every target with its measured value."""
    lines: list[tuple[str, float, str, str]] = []
    for state in ("window", "fixed"):
        if any(row["part"] == "migration" and row["state"] == state for row in rows):
            mean = stateful_migration.mean_migration(rows, "redist", state)
            lines.append(_line(f"mean relative migration of redist, {state} state", mean, MIGRATION))
    largest = max((row["keys"] for row in rows if row["part"] == "cost"), default=0)
    for target in TARGETS:
        for row in rows:
            known = row | {"largest": row.get("keys") == largest}
            if row["part"] == target.part and all(known.get(k) == v for k, v in target.where.items()):
                lines.append(_line(target.what, row[target.value], target.limit))
    return Table("Targets", ("what", "measured", "target", ""), lines)


def _line(what: str, value: float, limit: Limit) -> tuple[str, float, str, str]:
    return what, value, f"{limit.rule} {limit.bound:g}", "ok" if limit.holds(value) else "missed"
