"""What a figure or table of a paper is here: points to measure, a picture, and claims with a rule for each.

An experiment is declarative. ``points`` lists the parameters of every measurement, plain JSON values, so that
a point can be kept on disk and reused when its parameters are the same; ``measure`` turns one point into
rows; ``plot`` draws all rows; each claim judges the rows by a rule that stands there before any run. What a
point has under ``labels`` is not measured but added to its rows, so that figures with other names for the
same thing share it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenflow.errors import EvenflowError

Row = dict[str, Any]
Rows = Sequence[Row]

HOLDS = "holds"
DIRECTION = "holds in direction"
DIFFERS = "differs"
UNTESTED = "cannot be tested here"
VERDICTS = (HOLDS, DIRECTION, DIFFERS, UNTESTED)
SCALES = ("small", "paper")


@dataclass(frozen=True)
class Setting:
    """What the user chose: the scale, where the papers' data stand, schemes that join every figure."""

    scale: str = "small"
    data: Mapping[str, str] = field(default_factory=dict)
    joining: tuple[str, ...] = ()
    asked: list[str] = field(default_factory=list, compare=False)  # data sets asked for, for the caption

    @property
    def small(self) -> bool:
        """Whether this is the short run."""
        return self.scale == "small"

    def pick(self, small: Any, paper: Any) -> Any:
        """Return the value for the scale: ``setting.pick(10**5, 10**7)``."""
        return small if self.small else paper

    def stream(self, name: str) -> str:
        """Return the spelling of the stream that stands for a data set of the papers, such as WP."""
        if name not in self.data:
            raise EvenflowError(f"there is no data set {name!r}; known are {', '.join(sorted(self.data))}.")
        if name not in self.asked:
            self.asked.append(name)
        return self.data[name]

    def schemes(self, *names: str) -> list[str]:
        """Return the schemes of a figure and those that join it."""
        return [*names, *(name for name in self.joining if name not in names)]


@dataclass(frozen=True)
class Judgement:
    """A verdict, what was measured in words or numbers, and (where it differs) why."""

    verdict: str
    measured: str
    note: str = ""


@dataclass(frozen=True)
class Claim:
    """What the paper says of a figure (in our words), where, its number, and the rule that judges it."""

    section: str
    text: str
    expected: str
    judge: Callable[[Rows], Judgement]
    why: str = ""  # the explanation that stands beside it when it does not hold, or only in direction
    peer: str = ""  # what the published code really does, where that is not what the paper says


@dataclass(frozen=True)
class Experiment:
    """One figure or table."""

    paper: str
    figure: str
    title: str
    caption: str
    points: Callable[[Setting], list[Row]]
    measure: Callable[..., list[Row]]
    plot: Callable[[Any, Rows], None] | None = None
    claims: tuple[Claim, ...] = ()
    version: int = 1  # raised when ``measure`` changes, so that kept points are measured again
    on: str = "simulator"  # or "spark": a deployment, whose points are measured one after the other

    @property
    def name(self) -> str:
        """Paper and figure, as on the command line."""
        return f"{self.paper}/{self.figure}"

    def rows(self, point: Row) -> list[Row]:
        """Measure a point and label its rows."""
        return labelled(point, self.measure(**measured(point)))


def measured(point: Row) -> Row:
    """Return what is measured of a point: all but its labels."""
    return {name: value for name, value in point.items() if name != "labels"}


def labelled(point: Row, rows: Rows) -> list[Row]:
    """Return a point's rows with its labels."""
    return [{**row, **point.get("labels", {})} for row in rows]


def judge(claim: Claim, rows: Rows) -> Judgement:
    """Apply a claim's rule; rows that lack what it needs make it untested, not failed."""
    if not rows:
        return Judgement(UNTESTED, "no points", claim.why or "nothing was measured for this figure")
    try:
        found = claim.judge(rows)
    except (KeyError, IndexError, StopIteration, ZeroDivisionError) as error:
        return Judgement(UNTESTED, "-", f"the points this claim needs were not measured ({error!r})")
    if found.verdict not in VERDICTS:
        raise EvenflowError(f"{found.verdict!r} is not a verdict; choose one of {', '.join(VERDICTS)}.")
    if found.verdict == DIFFERS and not found.note:
        return Judgement(DIFFERS, found.measured, claim.why or "not explained yet")
    if found.verdict == DIRECTION and not found.note:
        return Judgement(DIRECTION, found.measured, claim.why)
    return found


def pick(rows: Rows, **where: Any) -> Row:
    """Return the one row in which all of ``where`` holds.

    >>> pick([{"z": 1.0, "n": 5}, {"z": 2.0, "n": 5}], z=2.0)["n"]
    5
    """
    return next(row for row in rows if all(_same(row.get(name), value) for name, value in where.items()))


def select(rows: Rows, **where: Any) -> list[Row]:
    """Return all rows in which ``where`` holds."""
    return [row for row in rows if all(_same(row.get(name), value) for name, value in where.items())]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) or isinstance(b, float):
        return isinstance(a, int | float) and isinstance(b, int | float) and math.isclose(a, b, rel_tol=1e-9)
    return bool(a == b)


def at_most(value: float, limit: float, loosely: float | None = None, spelled: str = "{:.4g}") -> Judgement:
    """Holds up to ``limit``; in direction up to ``loosely``. ``spelled``: how the value is told.

    >>> at_most(0.5, 0.4, loosely=1.0).verdict
    'holds in direction'
    """
    verdict = HOLDS if value <= limit else DIRECTION if loosely is not None and value <= loosely else DIFFERS
    return Judgement(verdict, spelled.format(value))


def at_least(value: float, limit: float, loosely: float | None = None, spelled: str = "{:.4g}") -> Judgement:
    """Holds from ``limit`` on; in direction from ``loosely`` on."""
    verdict = HOLDS if value >= limit else DIRECTION if loosely is not None and value >= loosely else DIFFERS
    return Judgement(verdict, spelled.format(value))


def near(
    value: float,
    expected: float,
    within: float,
    same_side_of: float | None = None,
    spelled: str = "{:.4g}",
) -> Judgement:
    """Holds within a share of the paper's number; in direction on the same side of ``same_side_of``.

    >>> near(1.4, 2.0, within=0.2, same_side_of=1.0).verdict
    'holds in direction'
    """
    if abs(value - expected) <= within * abs(expected):
        return Judgement(HOLDS, spelled.format(value))
    if same_side_of is not None and (value - same_side_of) * (expected - same_side_of) > 0:
        return Judgement(DIRECTION, spelled.format(value))
    return Judgement(DIFFERS, spelled.format(value))


def share_of(checks: Sequence[bool], what: str) -> Judgement:
    """Holds if all checks do; in direction if three quarters do."""
    if not checks:
        return Judgement(UNTESTED, "no points", "the points this claim needs were not measured")
    part = sum(checks) / len(checks)
    verdict = HOLDS if part == 1 else DIRECTION if part >= 0.75 else DIFFERS
    return Judgement(verdict, f"{sum(checks)} of {len(checks)} {what}")
