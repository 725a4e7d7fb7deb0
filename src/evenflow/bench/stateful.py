"""Keyed state: migration, cost per batch, and throughput compared with Spark's own state.

Parts: :mod:`evenflow.bench.stateful_migration` (no Spark, exact) and :mod:`evenflow.bench.stateful_work`
(local Spark, wall time, ratios within the run). ``quick`` uses a tenth of the keys and rows and fewer
batches; the fixed cost of a micro-batch then dominates, so throughput ratios are not meaningful.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from evenflow.bench import stateful_migration
from evenflow.bench.measure import Progress, Row, silent
from evenflow.bench.subjects import Limit
from evenflow.report.tables import Table


class Target(NamedTuple):
    """A target."""

    what: str
    part: str
    where: dict[str, object]
    value: str
    limit: Limit


TARGETS = (
    Target("batch time with 10 x the state", "cost", {"largest": True}, "ratio", Limit("at most", 2)),
    Target(
        "uniform stream, relative to Spark's faster operator",
        "uniform",
        {"what": "stateful"},
        "of_faster_peer",
        Limit("at least", 0.7),
    ),
    Target(
        "skewed stream, explicit, relative to Spark's faster operator",
        "skew",
        {"what": "stateful, explicit"},
        "of_faster_peer",
        Limit("at least", 1.0),
    ),
    Target(
        "skewed stream, fill, relative to Spark's faster operator",
        "skew",
        {"what": "stateful, fill"},
        "of_faster_peer",
        Limit("at least", 1.0),
    ),
    Target(
        "slow workers, measured, fill, relative to key grouping",
        "slow",
        {"what": "fill"},
        "of_key_grouping",
        Limit("at least", 2),
    ),
    Target(
        "slow workers, measured, explicit, relative to key grouping",
        "slow",
        {"what": "explicit"},
        "of_key_grouping",
        Limit("at least", 2),
    ),
    Target(
        "slow workers, signals, relative to key grouping",
        "slow",
        {"what": "consistent"},
        "of_key_grouping",
        Limit("at least", 2),
    ),
)
MIGRATION = Limit("at most", 1.3)


def run(quick: bool = False, progress: Progress = silent) -> list[Row]:
    """Measure everything, on local Spark with two cores and then with 8 workers."""
    from evenflow.bench import stateful_work
    from evenflow.bench.spark import Sessions

    rows = stateful_migration.run(quick=quick, progress=progress)
    sessions = Sessions()
    try:
        rows += stateful_work.run(sessions, quick=quick, progress=progress)
    finally:
        sessions.stop()
    return rows


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return the parts as tables, and the targets."""
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
