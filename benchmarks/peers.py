"""Replicas, imbalance, head sizes and speed beside two published implementations."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import peers_choices, peers_porc
from evenflow.bench.measure import Row, Say, silent
from evenflow.report.tables import Table


def run(quick: bool = False, say: Say = silent) -> list[Row]:
    """Measure beside both."""
    return [
        *({"peer": "choices", **row} for row in peers_choices.run(quick, say)),
        *({"peer": "porc", **row} for row in peers_porc.run(quick, say)),
    ]


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return a table for each peer."""
    return [
        *peers_choices.tables([row for row in rows if row["peer"] == "choices"]),
        *peers_porc.tables([row for row in rows if row["peer"] == "porc"]),
    ]
