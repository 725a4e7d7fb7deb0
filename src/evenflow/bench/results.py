"""What benchmarks report: limits, targets, and rows as tables."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from evenflow.bench.measure import Row
from evenflow.report.tables import Table

Columns = tuple[str, tuple[str | tuple[str, str], ...]]  # title and columns of a table
RULES = {"at most": operator.le, "less than": operator.lt, "at least": operator.ge}


class Limit(NamedTuple):
    """A limit for a value, such as ("at most", 20)."""

    rule: str
    bound: float

    def __str__(self) -> str:
        return f"{self.rule} {self.bound:g}"

    def holds(self, value: float) -> bool:
        """Return whether a value is within the limit."""
        return bool(RULES[self.rule](value, self.bound))


class Target(NamedTuple):
    """A limit for one value of the rows of a part that have the values ``where``."""

    part: str
    where: Mapping[str, object]
    value: str
    limit: Limit
    name: str = ""  # by default made of the other fields

    def lines(self, rows: Sequence[Row]) -> Iterable[tuple[str, float, str, str]]:
        """Yield name, value, target and verdict of every row it applies to."""
        what, *rest = [
            str(value) if name == "what" else f"{name} = {value}" for name, value in self.where.items()
        ]
        name = self.name or f"{self.part}: {', '.join([what, self.value.replace('_', ' '), *rest])}"
        for row in rows:
            if row["part"] == self.part and all(
                row.get(field) == value for field, value in self.where.items()
            ):
                yield judged(name, row[self.value], self.limit)


def judged(name: str, value: float, limit: Limit) -> tuple[str, float, str, str]:
    """Return a line of the table of targets."""
    return name, value, str(limit), "ok" if limit.holds(value) else "missed"


def target_table(lines: Iterable[tuple[str, float, str, str]]) -> Table:
    """Return every target with its measured value."""
    return Table("Targets", ("what", "measured", "target", ""), list(lines))


def part_tables(rows: Sequence[Row], columns: Mapping[str, Columns]) -> list[Table]:
    """Return a table for each part that was measured; a column is a field, or a heading and a field."""
    found = []
    for part, (title, names) in columns.items():
        pairs = [(name.replace("_", " "), name) if isinstance(name, str) else name for name in names]
        cells = [[row[field] for _, field in pairs] for row in rows if row["part"] == part]
        if cells:
            found.append(Table(title, [heading for heading, _ in pairs], cells))
    return found
