"""Keyed state on local Spark: moving it, cost per batch, and throughput compared with Spark's own state.

The parts are in :mod:`evenflow.bench.stateful_work`: wall time, ratios within the run. ``quick`` uses a tenth
of the keys and rows and fewer batches; the fixed cost of a micro-batch then dominates, so throughput ratios
are not meaningful.
"""

from __future__ import annotations

from collections.abc import Sequence

from evenflow.bench import stateful_work
from evenflow.bench.measure import Progress, Row, silent
from evenflow.bench.results import Limit, Target, part_tables, target_table
from evenflow.report.tables import Table

_PEER, _KEY = "relative to Spark's faster operator", "relative to key grouping"
_FAST, _EVEN = Limit("at least", 1.0), Limit("at least", 2)
TARGETS = (
    Target("cost", {"largest": True}, "ratio", Limit("at most", 2), "batch time with 10 x the state"),
    Target("uniform", {"what": "stateful"}, "of_faster_peer", Limit("at least", 0.7),
           f"uniform stream, {_PEER}"),
    *(Target("skew", {"what": f"stateful, {name}"}, "of_faster_peer", _FAST,
             f"skewed stream, {name}, {_PEER}") for name in ("explicit", "fill")),
    *(Target("slow", {"what": name}, "of_key_grouping", _EVEN, f"slow workers, measured, {name}, {_KEY}")
      for name in ("fill", "explicit")),
    Target("slow", {"what": "consistent"}, "of_key_grouping", _EVEN, f"slow workers, signals, {_KEY}"),
)  # fmt: skip


def run(quick: bool = False, progress: Progress = silent) -> list[Row]:
    """Measure everything, on local Spark with two cores and then with 8 workers."""
    return stateful_work.run(quick=quick, progress=progress)


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return the parts as tables, and the targets."""
    return [*part_tables(rows, stateful_work.COLUMNS), targets(rows)]


def targets(rows: Sequence[Row]) -> Table:
    """Return every target with its measured value."""
    largest = max((row["keys"] for row in rows if row["part"] == "cost"), default=0)
    known = [row | {"largest": row.get("keys") == largest} for row in rows]
    return target_table(line for target in TARGETS for line in target.lines(known))
