"""What the figures of `heterogeneous` share: names of the schemes, streams, the bound of PoRC."""

from __future__ import annotations

from typing import Any

from evenflow.papers.experiment import RunConfig
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


def pages(config: RunConfig) -> list[tuple[str, str]]:
    """Return name and spelling of the streams that stand for WP."""
    found = [("WP", config.stream("WP"))]
    return found if config.small else [*found, ("WP law", WP_LAW)]


def bound(rows: Any) -> Any:
    """Return what PoRC's normalised imbalance may be: epsilon, and one message per bin and source."""
    return rows["epsilon"] + rows["bins"] * rows["sources"] / rows["messages"]
