"""Fig. 3 and 4: migration and imbalance by resource functions and by skew."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from evenflow.papers import rules as r
from evenflow.papers.experiment import Claim, Experiment, Rows
from evenflow.papers.functions.common import (
    APPROACHES,
    BY_ROUND,
    COMBINATIONS,
    CONSISTENT,
    DEFAULTS,
    FILL,
    NARROW_SKEWS,
    OURS,
    WIDE_SKEWS,
    Both,
    growths,
)
from evenflow.papers.functions.growth import UNIFORM, growth
from evenflow.papers.grid import at, joined
from evenflow.papers.table import Table

SPOKES = ("migration", "imbalance", "state", "computation", "communication")
LINEAR = ("LCL", "LLL")
_WITH_FILL = (*APPROACHES, BY_ROUND, "fill")


_SKEW_POINTS = joined(
    growths(_WITH_FILL, resources=LINEAR, z=at([0.1, 0.5, 0.8, 1.0], WIDE_SKEWS)),
    growths(_WITH_FILL, resources="LQL", z=at([0.25, 0.4, 0.5], NARROW_SKEWS)),
)


def _radar(figure: Any, rows: Rows) -> None:
    """Draw a radar chart per combination of resources, on logarithmic axes."""
    table = Table.of_rows(rows)
    figure.set_size_inches(9.5, 9.0)
    axes = list(figure.subplots(2, 2, subplot_kw={"projection": "polar"}).flat)
    angles = np.linspace(0, 2 * np.pi, len(SPOKES) + 1)
    colors = {name: f"C{number}" for number, name in enumerate(table["approach"].unique())}
    lines = {}
    for panel, resources in zip(axes, COMBINATIONS, strict=True):
        means = table[table["resources"] == resources].groupby("approach", sort=False)[list(SPOKES)].mean()
        for name, row in means.iterrows():
            around = [*row, row.iloc[0]]
            style = {"marker": "o", "markersize": 3, "color": colors[name], "linewidth": 1.2}
            (lines[name],) = panel.plot(angles, around, **style)
        panel.plot(np.linspace(0, 2 * np.pi, 100), np.ones(100), color="black", linewidth=0.9)
        panel.set_rscale("log")
        panel.set_rlim(0.5)
        panel.set_xticks(angles[:-1], SPOKES, fontsize=7)
        panel.tick_params(axis="y", labelsize=6)
        panel.set_title(resources, fontsize=9)
    style = {"loc": "outside upper center", "ncols": 6, "fontsize": 7, "frameon": False}
    figure.legend(lines.values(), lines.keys(), **style)


def _scan_from_redist(t: Table) -> float:
    wide = [t.wide(column, "resources") for column in ("imbalance", "migration")]
    return max((own["scan"] / own["redist"] - 1).abs().max() for own in wide)


def _rises_after(t: Table) -> list[Any]:
    wide = t.wide("migration", "resources", "z", resources=LINEAR)[list(OURS)]
    runs = [wide.xs(name, level="resources").sort_index() for name in LINEAR]
    return [run.loc[1.0] > run.loc[:0.8].max() for run in runs]


def _crossing(t: Table, approach: str, resources: str) -> float:
    """Return the lowest skew at which an approach is out of tolerance."""
    curve = t.curve("imbalance", "z", approach=approach, resources=resources)
    return min((z for z, imbalance in curve.items() if imbalance > 1), default=float("inf"))


def _consistent_first(t: Table) -> list[bool]:
    return [_crossing(t, CONSISTENT, name) <= _crossing(t, other, name)
            for name in t["resources"].unique() for other in (UNIFORM, *OURS)]  # fmt: skip


def _lowest_skew(t: Table) -> Table:
    """Return the rows at the lowest skew of each resource combination."""
    return Table(t[t["z"] == t.groupby("resources")["z"].transform("min")])


def _readj_lower(t: Table) -> tuple[float, float]:
    wide = t.wide("imbalance", "resources", resources=LINEAR, z=1.0)
    lower = pd.concat([1 - wide["readj"] / wide[name] for name in ("scan", "redist")])
    return 100 * lower.min(), 100 * lower.max()


_PRINTED = "The text of 4.2.4 reads like this; Algorithm 4 as printed updates u within the round."
_figure = partial(Experiment, "functions")

# fmt: off
EXPERIMENTS = [
    _figure("fig3", "Migration and imbalance by resource functions",
            f"Radar charts, logarithmic; black: ideal. {DEFAULTS} {FILL}",
            growths(_WITH_FILL, resources=COMBINATIONS), growth, _radar, (
        Claim("5.3", "uniform hashing migrates more than 8 times the ideal", "> 8",
              r.at_least(r.average("migration", approach=UNIFORM), 8.0, 4.0)),
        Claim("5.3", "consistent hashing migrates least", "lowest",
              r.each(r.below("migration", CONSISTENT, (UNIFORM, *OURS), "resources"),
                     "comparisons in which consistent hashing moves least")),
        Claim("5.3", "consistent hashing's migration is below the ideal in some cases", "< 1",
              r.at_most(r.lowest("migration", "resources", approach=CONSISTENT), 1)),
        Claim("5.3", "scan, redist and readj are better balanced than consistent hashing",
              "lower in all four",
              r.each(r.below("imbalance", OURS, CONSISTENT, "resources", strictly=True),
                     "comparisons below consistent hashing")),
        Claim("5.3", "imbalance of consistent and of uniform hashing for LLL", "1.75, 1.55",
              r.as_printed(r.values("imbalance", resources="LLL"), {CONSISTENT: 1.75, UNIFORM: 1.55},
                           0.15, 1)),
        Claim("5.3", "readj has the best balance for all resource functions", "lowest in all four",
              r.each(r.below("imbalance", "readj", ("scan", "redist"), "resources"),
                     "comparisons in which readj is best balanced")),
        Claim("5.3", "imbalance for LLL", "readj 1.2, redist and scan 1.32",
              r.as_printed(r.values("imbalance", resources="LLL"),
                           {"readj": 1.2, "redist": 1.32, "scan": 1.32}, 0.1, 1)),
        Claim("5.3", "migration for LLL", "readj 1.34, redist and scan 1.23",
              r.as_printed(r.values("migration", resources="LLL"),
                           {"readj": 1.34, "redist": 1.23, "scan": 1.23}, 0.1, 1)),
        Claim("5.3", "imbalance for LLL, readj's gains relative to the start of a round", "readj 1.2",
              r.as_printed(r.values("imbalance", resources="LLL"), {BY_ROUND: 1.2}, 0.1, 1), _PRINTED),
        Claim("5.3", "migration for LLL, readj's gains relative to the start of a round", "readj 1.34",
              r.as_printed(r.values("migration", resources="LLL"), {BY_ROUND: 1.34}, 0.1, 1), _PRINTED),
        Claim("5.3", "redist and scan are indistinguishable", "equal",
              r.at_most(_scan_from_redist, 0.03, 0.10, "{:.1%} apart")),
        Claim("5.3", "computation imbalance for LQL is in the 30s, and out of control for consistent hashing",
              "30-40", r.graded(r.values("computation", *OURS, CONSISTENT, resources="LQL"),
                     lambda found: all(28 <= found[n] <= 42 and found[n] < found[CONSISTENT] for n in OURS),
                     lambda found: all(found[name] < found[CONSISTENT] for name in OURS), r.named())),
    )),
    _figure("fig4", "Migration and imbalance by skew",
            f"LCL, LLL, LQL (LQL up to z = 0.5). {DEFAULTS} {FILL}",
            _SKEW_POINTS, growth, Both(x="z", xlabel="skew z", panels="resources"), (
        Claim("5.3", "uniform hashing migrates more than 8 times the ideal at every skew", "> 8",
              r.at_least(r.lowest("migration", "z", approach=UNIFORM), 8.0, 4.0)),
        Claim("5.3", "the others are close to the ideal up to z = 0.8", "about 1",
              r.at_most(lambda t: t.wide("migration", "resources", "z",
                                         query="z <= 0.8")[[CONSISTENT, *OURS]].max().max(), 1.25, 2.0)),
        Claim("5.3", "scan's, redist's and readj's migration rises after z = 0.8", "rises",
              r.each(_rises_after, "curves that rise after z = 0.8")),
        Claim("5.3", "scan migrates most, then readj, then redist", "that order",
              r.each(r.all_of(*(r.below("migration", low, high, "resources", resources=LINEAR, z=1.0)
                                for low, high in (("readj", "scan"), ("redist", "readj")))),
                     "comparisons in the order scan, readj, redist"),
              "readj as printed migrates 11 percent more than scan (z = 1); with its gains relative to the "
              "start of a round (readj-round in the figure) the three are within 4 percent"),
        Claim("5.3", "consistent hashing is the first to violate the balance constraint", "first",
              r.each(_consistent_first, "comparisons in which consistent hashing violates first")),
        Claim("5.3", "consistent hashing's imbalance is up to 50 percent above readj's (LLL, z = 1)", "1.5x",
              r.near(r.ratio("imbalance", CONSISTENT, "readj", resources="LLL", z=1.0), 1.5, 0.15, 1)),
        Claim("5.3", "violations begin earliest for LQL, latest for LCL", "LQL, LLL, LCL",
              r.graded(lambda t: {name: _crossing(t, CONSISTENT, name) for name in ("LQL", "LLL", "LCL")},
                       lambda at: at["LQL"] <= at["LLL"] <= at["LCL"] and at["LQL"] < at["LCL"],
                       text=r.named(prefix="at z = "))),
        Claim("5.3", "at very low skew all are within tolerance", "below 1",
              r.each(lambda t: _lowest_skew(t).wide("imbalance", "resources")[list(APPROACHES)] <= 1,
                     "approaches within tolerance at the lowest skew")),
        Claim("5.3", "uniform hashing has the best balance at low skew", "lowest",
              r.each(lambda t: r.below("imbalance", UNIFORM, (CONSISTENT, *OURS),
                                       "resources")(_lowest_skew(t)),
                     "comparisons at the lowest skew")),
        Claim("5.3", "readj has the best balance for LCL and LLL at z = 1", "up to 8 percent lower",
              r.graded(_readj_lower, lambda least, most: least > 0 and 4 <= most <= 12,
                       lambda least, most: least > 0, "{:.1f} to {:.1f} percent lower")),
        Claim("5.3", "for LQL the three are within 1-2 percent", "1-2 percent",
              r.at_most(r.apart("imbalance", OURS, "z", resources="LQL"), 0.03, 0.10, "{:.1%} apart")),
    )),
]
