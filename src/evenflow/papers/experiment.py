"""What a figure or table of a paper is here: points to measure, a declared figure, claims with their rules.

An experiment is data. ``points`` lists the parameters of every measurement, plain JSON values, so that a
point can be kept on disk and reused when its parameters are the same; ``measure`` turns one point into rows;
``plot`` draws all rows; each claim has a rule (:mod:`evenflow.papers.rules`) that is fixed before any run.
A point's ``labels`` are not measured but added to its rows, so that figures that name the same measurement
differently share it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenflow.errors import EvenflowError
from evenflow.papers.data import FULL

Row = dict[str, Any]
Rows = Sequence[Row]

HOLDS = "holds"
DIRECTION = "holds in direction"
DIFFERS = "differs"
UNTESTED = "cannot be tested here"
VERDICTS = (HOLDS, DIRECTION, DIFFERS, UNTESTED)
SCALES = ("small", "paper")
_MISSING = "the points this claim needs were not measured"


@dataclass(frozen=True)
class RunConfig:
    """What the user chose: the scale, the streams that stand in for the papers' data, schemes to add."""

    scale: str = "small"
    data: Mapping[str, str] = field(default_factory=dict)
    joining: tuple[str, ...] = ()
    master: str | None = None  # the cluster of deployments; None: this machine, with a slot per worker
    asked: list[str] = field(default_factory=list, compare=False)  # data sets used, for the caption

    @property
    def small(self) -> bool:
        """Whether this is the short run."""
        return self.scale == "small"

    def pick(self, small: Any, paper: Any) -> Any:
        """Return the value for the scale: ``config.pick(10**5, 10**7)``."""
        return small if self.small else paper

    def stream(self, name: str) -> str:
        """Return the stream that stands in for a data set of the papers, such as WP.

        A generated one has the paper's size at scale paper.
        """
        if name not in self.data:
            raise EvenflowError(f"there is no data set {name!r}; known are {', '.join(sorted(self.data))}.")
        if name not in self.asked:
            self.asked.append(name)
        return self.data[name] if self.small else FULL.get(self.data[name], self.data[name])

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
    rule: Callable[[Any], Judgement]  # of the figure's Table
    why: str = ""  # the explanation shown when it does not hold, or only in direction
    peer: str = ""  # what the published code actually does, where it deviates from the paper
    caveat: str = ""  # what a reader must know even where it holds


@dataclass(frozen=True)
class Experiment:
    """One figure or table."""

    paper: str
    figure: str
    title: str
    caption: str
    points: Callable[[RunConfig], list[Row]]
    measure: Callable[..., list[Row]]
    plot: Callable[[Any, Rows], None] | None = None
    claims: tuple[Claim, ...] = ()
    version: int = 1  # raised when ``measure`` changes, so that kept points are measured again
    timed: bool = False  # measured in seconds, which no other run repeats exactly
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
    from evenflow.papers.table import Table

    if not rows:
        return Judgement(UNTESTED, "no points", claim.why or "nothing was measured for this figure")
    try:
        found = claim.rule(Table.of_rows(rows))
    except (LookupError, NameError, StopIteration, ZeroDivisionError) as error:
        return Judgement(UNTESTED, "-", f"{_MISSING} ({error!r})")
    if found.verdict not in VERDICTS:
        raise EvenflowError(f"{found.verdict!r} is not a verdict; choose one of {', '.join(VERDICTS)}.")
    notes = {DIFFERS: claim.why or "not explained yet", DIRECTION: claim.why, UNTESTED: _MISSING}
    return Judgement(
        found.verdict, found.measured, found.note or claim.caveat or notes.get(found.verdict, "")
    )
