"""How far a claim depends on the seed: it is judged again on the rows of each seed alone."""

from __future__ import annotations

from collections import Counter
from numbers import Real

from evenflow.papers.experiment import UNTESTED, VERDICTS, Claim, Judgement, Rows, judge
from evenflow.papers.rules import Rule
from evenflow.papers.table import Table


def spread(claim: Claim, rows: Rows) -> str:
    """Say in what range a claim's number lies over the seeds, and their verdicts if these are not all alike.

    Rows without a seed belong to all; nothing is said of fewer than two seeds that can be judged alone.
    """
    seeds = sorted({row["seed"] for row in rows if row.get("seed") is not None})
    if len(seeds) < 2:
        return ""
    parts = [[row for row in rows if row.get("seed") in (None, seed)] for seed in seeds]
    judged = [(part, judge(claim, part)) for part in parts]
    found = [(_number(claim, part), own) for part, own in judged if own.verdict != UNTESTED]
    if len(found) < 2:
        return ""
    counts = Counter(own.verdict for _, own in found)
    verdicts = ", ".join(f"{counts[name]} {name}" for name in VERDICTS if counts[name])
    values = _range(found)
    return f"{len(found)} seeds: " + "; ".join(
        filter(None, [values, verdicts if len(counts) > 1 or not values else ""])
    )


def _range(found: list[tuple[float | None, Judgement]]) -> str:
    """Return the lowest and the highest number as the rule writes them; nothing if there are no numbers."""
    numbers = [(number, own.measured) for number, own in found if number is not None]
    if len(numbers) < len(found):
        return ""
    low, high = min(numbers)[1], max(numbers)[1]
    return low if low == high else f"{low} to {high}"


def _number(claim: Claim, rows: Rows) -> float | None:
    """Return what a rule measures, if that is one number."""
    if not isinstance(claim.rule, Rule):
        return None
    found = claim.rule.measure(Table.of_rows(rows))
    return float(found) if isinstance(found, Real) and not isinstance(found, bool) else None
