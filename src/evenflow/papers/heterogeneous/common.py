"""What the figures of `heterogeneous` share: names of the schemes, streams, how rows are grouped."""

from __future__ import annotations

from typing import Any

from evenflow.papers.experiment import Row, Rows, Setting
from evenflow.papers.measures import zipf

SCHEMES = {
    "KG": "key",
    "PKG": "partial-key",
    "PoTC": "two-choices",
    "PoRC": "random-choices",
    "CH": "bounded-load",
    "SG": "shuffle",
    "CG": "consistent",
}
EPSILON = 0.01
VIRTUAL_WORKERS = 10
WP_MESSAGES = 22_000_000
WP_LAW = zipf(1.0552, 2.9e6, WP_MESSAGES)  # p1 = 9.32 percent
LAW = "WP law (paper scale): a Zipf law with WP's sizes."


def pages(setting: Setting) -> list[tuple[str, str]]:
    """Return name and spelling of the streams that stand for WP."""
    found = [("WP", setting.stream("WP"))]
    return found if setting.small else [*found, ("WP law", WP_LAW)]


def bound(row: Row) -> float:
    """Return what PoRC's normalised imbalance may be: epsilon, and one message per bin and source."""
    return float(row["epsilon"] + row["bins"] * row["sources"] / row["messages"])


def by_symbol(rows: Rows, *names: str) -> list[dict[str, Row]]:
    """Return the rows by symbol of every combination of values of ``names``."""
    groups: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), {})[row["symbol"]] = row
    return list(groups.values())
