"""How claims are judged: a rule measures a table, grades the result, and writes it down.

A rule is a row of data: ``at_most(ratio("memory", "CG", "CH", "workers"), 1.0, loosely=1.1)``. What it
measures is a function from the figure's :class:`Table` to a number, to a tuple whose first element is graded
and whose others are only reported, or to a dict of named numbers; ``text`` is a format for it, or a function.
Selections (``query`` and values of columns) are those of :meth:`Table.only`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np

from evenflow.papers.experiment import DIFFERS, DIRECTION, HOLDS, UNTESTED, VERDICTS, Judgement
from evenflow.papers.table import Table

Measure = Callable[[Any], Any]  # from a Table
Text = str | Callable[[Any], str]
Names = str | tuple[str, ...]
NUMBER = "{:.4g}"  # how a number is written unless a rule says otherwise


@dataclass(frozen=True)
class Rule:
    """What is measured, how that is graded, and how it is written."""

    measure: Measure
    grade: Callable[[Any], str]
    text: Text = NUMBER

    def __call__(self, table: Table) -> Judgement:
        """Judge a figure's table."""
        found = self.measure(table)
        verdict = self.grade(found)
        if not isinstance(self.text, str):
            return Judgement(verdict, self.text(found))
        if isinstance(found, dict):
            return Judgement(
                verdict, named(".4g")(found) if self.text == NUMBER else self.text.format(**found)
            )
        return Judgement(verdict, self.text.format(*(found if isinstance(found, tuple) else (found,))))


def verdict_of(good: Any, fair: Any = False) -> str:
    """Return holds if ``good``, holds in direction if ``fair``, else differs."""
    return HOLDS if good else DIRECTION if fair else DIFFERS


def share(checks: list[bool]) -> str:
    """Return holds if all checks do, holds in direction if three quarters do."""
    return verdict_of(all(checks), sum(checks) >= 0.75 * len(checks)) if checks else UNTESTED


# Comparators


def at_most(measure: Measure, limit: float, loosely: float | None = None, text: Text = NUMBER) -> Rule:
    """Hold up to ``limit``, in direction up to ``loosely``."""
    return _bound(measure, lambda x: x <= limit, lambda x: loosely is not None and x <= loosely, text)


def at_least(measure: Measure, limit: float, loosely: float | None = None, text: Text = NUMBER) -> Rule:
    """Hold from ``limit`` on, in direction from ``loosely`` on."""
    return _bound(measure, lambda x: x >= limit, lambda x: loosely is not None and x >= loosely, text)


def between(
    measure: Measure, low: float, high: float, above: float = float("inf"), text: Text = "{:.2f}x"
) -> Rule:
    """Hold from ``low`` to ``high``, in direction if more than ``above``."""
    return _bound(measure, lambda x: low <= x <= high, lambda x: x > above, text)


def near(
    measure: Measure, paper: float, within: float, beyond: float | None = None, text: Text = NUMBER
) -> Rule:
    """Hold within a share of the paper's number; in direction from a third of its effect on.

    The effect is the distance from ``beyond`` (no effect) on a log scale; see :func:`reaches`.
    """
    return Rule(measure, lambda v: _near(_first(v), paper, within, beyond), text)


def as_printed(
    measure: Measure, paper: Mapping[str, float], within: float, beyond: float | None = None,
    by_order: bool = False, least: float = 0.0, unit: str = "",
) -> Rule:  # fmt: skip
    """Compare named numbers with the paper's, each within a share of it (of ``least``, if that is more).

    In direction if all have a third to three times the paper's effect from ``beyond`` on, or, ``by_order``,
    are in the paper's order;
    ``unit`` is the one that is set to the paper's number, where only ratios can be compared.
    """

    def measured(t: Any) -> dict[str, float]:
        found = measure(t)
        scale = found[unit] / paper[unit] if unit else 1.0
        return {name: float(found[name] / scale) for name in paper}

    def grade(found: dict[str, float]) -> str:
        if by_order:
            close = all(abs(found[name] - x) <= within * max(x, least) for name, x in paper.items())
            return verdict_of(
                close, sorted(paper, key=paper.__getitem__) == sorted(found, key=found.__getitem__)
            )
        verdicts = [_near(found[name], x, within, beyond, most=3.0) for name, x in paper.items()]
        return max(verdicts, key=VERDICTS.index)

    return Rule(measured, grade, named(".4g"))


def each(measure: Measure, what: Text, also: Callable[[Any], str] | None = None) -> Rule:
    """Hold if all checks do, in direction if three quarters do; ``also`` reports more of the table."""

    def checked(table: Any) -> tuple[list[bool], str]:
        checks = _flat(measure(table))
        text = f"{sum(checks)} of {len(checks)} {what if isinstance(what, str) else what(table)}"
        return checks, text + (f"; {also(table)}" if also else "") if checks else "no points"

    return Rule(checked, lambda found: share(found[0]), "{1}")


def graded(measure: Measure, good: Any, fair: Any = lambda *_: False, text: Text = NUMBER) -> Rule:
    """Hold if ``good``, in direction if ``fair``; both are functions of what was measured."""

    def grade(found: Any) -> str:
        arguments = found if isinstance(found, tuple) else (found,)
        return verdict_of(good(*arguments), fair(*arguments))

    return Rule(measure, grade, text)


def times(measure: Measure, paper: float, text: Text = "{:.2f}x") -> Rule:
    """Judge a best ratio: from four fifths to five fourths of the paper's; in direction from a third on.

    Less than a third of the effect holds in neither way: four fifths of 1.32 are hardly more than 1.
    """
    return Rule(measure, lambda v: _quarter(_first(v), paper), text)


def best_times(column: str, mine: Names, other: str, *by: str, paper: float, **where: Any) -> Rule:
    """Judge the best ratio of a subject's value (the least of several) to another's by :func:`times`."""
    return times(ratio(column, mine, other, *by, **where), paper)


def cut(measure: Measure, paper: float, text: Text | None = None) -> Rule:
    """Judge by how much a value lies below another's at best: a ratio of 1 - ``paper``, within a quarter.

    In direction from a third of the effect on, that is also where the reduction is much larger.
    """

    def grade(found: Any) -> str:
        return _quarter(max(1 - _first(found), 1e-12), 1 - paper)

    return Rule(measure, grade, text or (lambda found: f"-{100 * found:.4g} percent"))


def reaches(value: float, paper: float, beyond: float = 1.0) -> bool:
    """Return whether a value has a third of the paper's effect or more, on a log scale from ``beyond`` on.

    >>> reaches(2.4, 13.6), reaches(2.3, 13.6), reaches(30, 13.6), reaches(0.9, 13.6)
    (True, False, True, False)
    """
    return effect(value, paper, beyond) >= 1 / 3


def effect(value: float, paper: float, beyond: float = 1.0) -> float:
    """Return the effect that a value shows as a share of the paper's, on a log scale from ``beyond`` on.

    A difference from 0, such as a gain of 8 percent, is taken as a ratio from 1.

    >>> round(effect(2.0, 8.0), 2), round(effect(-0.03, -0.07, 0.0), 2), round(effect(0.07, -0.07, 0.0), 2)
    (0.33, 0.42, -0.93)
    """
    shift = 1.0 if beyond == 0 else 0.0
    found, printed, none = value + shift, paper + shift, beyond + shift
    return math.log(found / none) / math.log(printed / none) if found > 0 else -math.inf


# What is measured


def largest(column: str, query: str = "", **where: Any) -> Measure:
    """Measure the largest value of a column."""
    return lambda t: t.only(query, **where)[column].max()


def average(column: str, query: str = "", **where: Any) -> Measure:
    """Measure the mean of a column."""
    return lambda t: t.average(column, query, **where)


def lowest(column: str, x: str, query: str = "", **where: Any) -> Measure:
    """Measure the smallest mean of a column over the values of ``x``."""
    return lambda t: min(t.curve(column, x, query, **where).values())


def of_wide(column: str, *by: str, measure: Measure, **where: Any) -> Measure:
    """Measure the wide table of a column: one row per combination of ``by``, one column per subject."""
    return lambda t: measure(t.wide(column, *by, **where))


def values(column: str, *names: str, **where: Any) -> Measure:
    """Measure the mean of a column for each subject, by name; for ``names``, if any are given."""
    return of_wide(column, **where, measure=lambda wide: {
        name: float(wide.iloc[0][name]) for name in (names or wide.columns)})  # fmt: skip


def ratio(
    column: str, top: Names, bottom: str, *by: str, take: Callable[[Any], Any] = max, **where: Any
) -> Measure:
    """Measure a subject's value (the least of several) relative to another's; of all ``by`` the largest."""
    return of_wide(column, *by, **where, measure=lambda wide: take(
        _known(wide[list(_tuple(top))].min(axis=1, skipna=False) / wide[bottom])))  # fmt: skip


def reduction(column: str, mine: Names, other: str, *by: str, **where: Any) -> Measure:
    """Measure by how much a subject's value (the largest of several) lies below another's, at best."""
    return of_wide(column, *by, **where, measure=lambda wide: max(
        _known(1 - wide[list(_tuple(mine))].max(axis=1, skipna=False) / wide[other].clip(lower=1e-12))
    ))  # fmt: skip


def gain(column: str, top: str, bottom: str, *by: str, **more: Any) -> Measure:
    """Measure by how much one subject's value exceeds another's, as a share."""
    found = ratio(column, top, bottom, *by, **more)
    return lambda t: found(t) - 1


def apart(column: str, names: tuple[str, ...], *by: str, **where: Any) -> Measure:
    """Measure how far subjects lie apart: max / min - 1, in the worst combination of ``by``."""
    return of_wide(column, *by, **where, measure=lambda wide: (
        wide[list(names)].max(axis=1) / wide[list(names)].min(axis=1) - 1).max())  # fmt: skip


def changes(column: str, names: Names, query: str = "") -> Measure:
    """Measure how much a subject's values change over the figure: max / min - 1, of the worst subject."""

    def measured(t: Any) -> Any:
        own = [t.only(query, **{t.subject: name})[column] for name in _tuple(names)]
        return max(column.max() / column.min() - 1 for column in own)

    return measured


def below(
    column: str, low: Names, high: Names, *by: str, factor: float = 1.0, plus: float = 0.0,
    strictly: bool = False, **where: Any,
) -> Measure:  # fmt: skip
    """Check that each of ``low`` is at most ``factor`` times each of ``high``, for every ``by``."""

    def checks(wide: Any) -> list[Any]:
        pairs = [(wide[a], wide[b] * factor + plus) for a, b in product(_tuple(low), _tuple(high))]
        return [a < b if strictly else a <= b for a, b in pairs]

    return of_wide(column, *by, measure=checks, **where)


def compared(column: str, *by: str, check: str, **where: Any) -> Measure:
    """Check a pandas expression of subjects, such as "`w-choices` <= `d-choices`", in every combination."""
    return of_wide(column, *by, measure=lambda wide: wide.eval(check), **where)


def holds(check: str, query: str = "", **where: Any) -> Measure:
    """Check a pandas expression of columns in every row."""
    return lambda t: t.only(query, **where).eval(check)


def is_highest(column: str, name: str, names: tuple[str, ...], *by: str, **where: Any) -> Measure:
    """Check that no subject of ``names`` has more than ``name``, in every combination of ``by``."""
    return of_wide(column, *by, **where, measure=lambda wide: wide[name] == wide[list(names)].max(axis=1))


def steps(column: str, x: str, falling: bool = False, query: str = "", **where: Any) -> Measure:
    """Check that a column rises (or falls) from each value of ``x`` to the next."""

    def measured(t: Any) -> list[bool]:
        pairs = pairwise(t.curve(column, x, query, **where).values())
        return [later < earlier if falling else later > earlier for earlier, later in pairs]

    return measured


def at_scale(measure: Measure) -> Measure:
    """Measure at the largest number of workers alone."""
    return lambda t: measure(t.only(workers=t["workers"].max()))


def all_of(*measures: Measure) -> Measure:
    """Join the checks of several measures."""
    return lambda t: [check for measure in measures for check in _flat(measure(t))]


def both(*measures: Measure) -> Measure:
    """Check that several measures hold together, combination by combination."""
    return lambda t: np.logical_and.reduce([_flat(measure(t)) for measure in measures])


# How it is written


def named(spec: str = ".3g", prefix: str = "", names: tuple[str, ...] = ()) -> Callable[[Any], str]:
    """Write named numbers: those of a dict, or of ``names``."""
    return lambda found: prefix + ", ".join(f"{name} {found[name]:{spec}}" for name in (names or found))


def curve_text(found: Mapping[float, float]) -> str:
    """Write the values of a curve."""
    return ", ".join(f"{value:.4g} at {x:g}" for x, value in found.items())


def _tuple(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _known(ratios: Any) -> Any:
    """Return the ratios of combinations in which both subjects were measured."""
    found = ratios.dropna()
    if found.empty:
        raise KeyError("a combination with both subjects")
    return found


def _first(found: Any) -> Any:
    return found[0] if isinstance(found, tuple) else found


def _bound(measure: Measure, good: Callable[[Any], bool], fair: Callable[[Any], bool], text: Text) -> Rule:
    """Grade a number, or each of several by name."""

    def grade(found: Any) -> str:
        numbers = list(found.values()) if isinstance(found, dict) else [_first(found)]
        return verdict_of(all(map(good, numbers)), all(map(fair, numbers)))

    return Rule(measure, grade, text)


def _quarter(value: float, paper: float) -> str:
    """Grade a ratio that is 1 where there is no effect: within a quarter of the paper's, or in direction."""
    fair = reaches(value, paper)
    return verdict_of(fair and 0.8 * paper <= value <= 1.25 * paper, fair)


def _near(value: float, paper: float, within: float, beyond: float | None, most: float = math.inf) -> str:
    fair = beyond is not None and 1 / 3 <= effect(value, paper, beyond) <= most
    return verdict_of(abs(value - paper) <= within * abs(paper), fair)


def _flat(checks: Any) -> list[bool]:
    if isinstance(checks, Table):
        return _flat(checks.to_numpy())
    if isinstance(checks, Iterable):
        return [bool(check) for part in checks for check in np.ravel(part)]
    return [bool(checks)]
