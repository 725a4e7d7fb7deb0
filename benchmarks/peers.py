"""Replicas, imbalance, head sizes and speed against two published implementations."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import peers_choices, peers_porc
from evenflow.bench.measure import Progress, Row, silent
from evenflow.report.tables import Table


def run(quick: bool = False, progress: Progress = silent) -> list[Row]:
    """Measure against both."""
    return [
        *({"peer": "choices", **row} for row in peers_choices.run(quick, progress)),
        *({"peer": "porc", **row} for row in peers_porc.run(quick, progress)),
    ]


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return one table per peer."""
    return [
        *peers_choices.tables([row for row in rows if row["peer"] == "choices"]),
        *peers_porc.tables([row for row in rows if row["peer"] == "porc"]),
    ]
