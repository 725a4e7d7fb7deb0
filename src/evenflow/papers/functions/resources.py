"""Fig. 3 and 4: migration and imbalance by resource functions and by skew."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenflow.papers.experiment import (
    Claim,
    Experiment,
    Judgement,
    Row,
    Rows,
    Setting,
    at_least,
    at_most,
    near,
    select,
    share_of,
)
from evenflow.papers.functions.common import (
    COMBINATIONS,
    CONSISTENT,
    DEFAULTS,
    FILL,
    NARROW_SKEWS,
    OURS,
    WIDE_SKEWS,
    averaged,
    graded,
    mean,
    means,
    plot_both,
    points,
    spelled,
    values,
    with_fill,
    worst,
)
from evenflow.papers.functions.growth import UNIFORM, growth

# Fig. 3: resource functions

SPOKES = ("migration", "imbalance", "state", "computation", "communication")


def _resource_points(setting: Setting) -> list[Row]:
    return [point for one in COMBINATIONS for point in points(setting, with_fill(one), resources=one)]


def _plot_radar(figure: Any, rows: Rows) -> None:
    figure.set_size_inches(9.5, 9.0)
    axes = list(figure.subplots(2, 2, subplot_kw={"projection": "polar"}).flat)
    angles = np.linspace(0, 2 * np.pi, len(SPOKES) + 1)
    colors = {name: f"C{i}" for i, name in enumerate(dict.fromkeys(row["approach"] for row in rows))}
    lines = {}
    for panel, resources in zip(axes, COMBINATIONS, strict=True):
        for row in averaged(select(rows, resources=resources), "approach", columns=SPOKES):
            around = [row[name] for name in (*SPOKES, SPOKES[0])]
            name = row["approach"]
            (lines[name],) = panel.plot(
                angles, around, marker="o", markersize=3, color=colors[name], linewidth=1.2
            )
        panel.plot(np.linspace(0, 2 * np.pi, 100), np.ones(100), color="black", linewidth=0.9)
        panel.set_rscale("log")
        panel.set_rlim(0.5)
        panel.set_xticks(angles[:-1], SPOKES, fontsize=7)
        panel.tick_params(axis="y", labelsize=6)
        panel.set_title(resources, fontsize=9)
    figure.legend(
        lines.values(), lines.keys(), loc="outside upper center", ncols=6, fontsize=7, frameon=False
    )


def _uniform_moves_most(rows: Rows) -> Judgement:
    return at_least(mean(rows, "migration", approach=UNIFORM), 8.0, loosely=4.0)


def _consistent_moves_least(rows: Rows) -> Judgement:
    checks = []
    for one in COMBINATIONS:
        found = means(rows, "migration", resources=one)
        checks += [found[CONSISTENT] <= found[name] for name in (UNIFORM, *OURS)]
    return share_of(checks, "comparisons in which consistent hashing moves least")


def _below_ideal(rows: Rows) -> Judgement:
    return at_most(
        min(mean(rows, "migration", approach=CONSISTENT, resources=one) for one in COMBINATIONS), 1
    )


def _ours_more_even(rows: Rows) -> Judgement:
    checks = []
    for one in COMBINATIONS:
        found = means(rows, "imbalance", resources=one)
        checks += [found[name] < found[CONSISTENT] for name in OURS]
    return share_of(checks, "comparisons below consistent hashing")


def _for_linear(column: str, expected: dict[str, float], within: float) -> Any:
    def judge(rows: Rows) -> Judgement:
        found = means(rows, column, resources="LLL")
        return worst(
            {name: near(found[name], value, within, same_side_of=1) for name, value in expected.items()}
        )

    return judge


def _readj_most_even(rows: Rows) -> Judgement:
    checks = []
    for one in COMBINATIONS:
        found = means(rows, "imbalance", resources=one)
        checks += [found["readj"] <= found[name] for name in ("scan", "redist")]
    return share_of(checks, "comparisons in which readj is most even")


def _scan_like_redist(rows: Rows) -> Judgement:
    apart = []
    for one in COMBINATIONS:
        for column in ("imbalance", "migration"):
            found = means(rows, column, resources=one)
            apart.append(abs(found["scan"] / found["redist"] - 1))
    return at_most(max(apart), 0.03, loosely=0.10, spelled="{:.1%} apart")


def _in_the_thirties(rows: Rows) -> Judgement:
    found = means(rows, "computation", resources="LQL")
    inside = all(28 <= found[name] <= 42 for name in OURS)
    below = all(found[name] < found[CONSISTENT] for name in OURS)
    return graded(inside and below, below, spelled({name: found[name] for name in (*OURS, CONSISTENT)}))


# Fig. 4: skew


def _skew_points(setting: Setting) -> list[Row]:
    wide = setting.pick([0.1, 0.5, 0.8, 1.0], WIDE_SKEWS)
    narrow = setting.pick([0.25, 0.4, 0.5], NARROW_SKEWS)
    return [
        point
        for one in ("LCL", "LLL", "LQL")
        for z in (narrow if one == "LQL" else wide)
        for point in points(setting, with_fill(one), resources=one, z=z)
    ]


def _uniform_always_moves(rows: Rows) -> Judgement:
    return at_least(
        min(mean(rows, "migration", approach=UNIFORM, z=z) for z in values(rows, "z")), 8.0, loosely=4.0
    )


def _others_near_ideal(rows: Rows) -> Judgement:
    found = [
        mean(rows, "migration", approach=name, z=z, resources=one)
        for one in values(rows, "resources")
        for z in values(rows, "z", resources=one)
        if z <= 0.8
        for name in (CONSISTENT, *OURS)
    ]
    return at_most(max(found), 1.25, loosely=2.0)


def _moves_more_after(rows: Rows) -> Judgement:
    checks = []
    for one in ("LCL", "LLL"):
        by_skew = {z: means(rows, "migration", resources=one, z=z) for z in values(rows, "z", resources=one)}
        for name in OURS:
            checks.append(by_skew[1.0][name] > max(own[name] for z, own in by_skew.items() if z <= 0.8))
    return share_of(checks, "curves that rise after z = 0.8")


def _order_of_migration(rows: Rows) -> Judgement:
    checks = []
    for one in ("LCL", "LLL"):
        found = means(rows, "migration", resources=one, z=1.0)
        checks += [found["scan"] >= found["readj"], found["readj"] >= found["redist"]]
    return share_of(checks, "comparisons in the order scan, readj, redist")


def _crossing(rows: Rows, approach: str, resources: str) -> float:
    """Return the lowest skew at which an approach is out of tolerance."""
    own = select(rows, approach=approach, resources=resources)
    return min((z for z in values(own, "z") if mean(own, "imbalance", z=z) > 1), default=float("inf"))


def _consistent_first(rows: Rows) -> Judgement:
    checks = [
        _crossing(rows, CONSISTENT, one) <= _crossing(rows, other, one)
        for one in values(rows, "resources")
        for other in (UNIFORM, *OURS)
    ]
    return share_of(checks, "comparisons in which consistent hashing violates first")


def _half_above_best(rows: Rows) -> Judgement:
    found = means(rows, "imbalance", resources="LLL", z=1.0)
    return near(found[CONSISTENT] / found["readj"], 1.5, within=0.15, same_side_of=1)


def _quadratic_earliest(rows: Rows) -> Judgement:
    found = {one: _crossing(rows, CONSISTENT, one) for one in ("LQL", "LLL", "LCL")}
    ok = found["LQL"] <= found["LLL"] <= found["LCL"] and found["LQL"] < found["LCL"]
    return graded(ok, False, f"at z = {spelled(found)}")


def _acceptable_at_low_skew(rows: Rows) -> Judgement:
    checks = []
    for one in values(rows, "resources"):
        found = means(rows, "imbalance", resources=one, z=min(values(rows, "z", resources=one)))
        checks += [found[name] <= 1 for name in (UNIFORM, CONSISTENT, *OURS)]
    return share_of(checks, "approaches within tolerance at the lowest skew")


def _uniform_best_at_low_skew(rows: Rows) -> Judgement:
    checks = []
    for one in values(rows, "resources"):
        found = means(rows, "imbalance", resources=one, z=min(values(rows, "z", resources=one)))
        checks += [found[UNIFORM] <= found[name] for name in (CONSISTENT, *OURS)]
    return share_of(checks, "comparisons at the lowest skew")


def _readj_best_at_full_skew(rows: Rows) -> Judgement:
    lower = []
    for one in ("LCL", "LLL"):
        found = means(rows, "imbalance", resources=one, z=1.0)
        lower += [1 - found["readj"] / found[name] for name in ("scan", "redist")]
    best = min(lower) > 0
    text = f"{100 * min(lower):.1f} to {100 * max(lower):.1f} percent lower"
    return graded(best and 0.04 <= max(lower) <= 0.12, best, text)


def _close_for_quadratic(rows: Rows) -> Judgement:
    apart = []
    for z in values(rows, "z", resources="LQL"):
        found = means(rows, "imbalance", resources="LQL", z=z)
        own = [found[name] for name in OURS]
        apart.append(max(own) / min(own) - 1)
    return at_most(max(apart), 0.03, loosely=0.10, spelled="{:.1%} apart")


EXPERIMENTS = [
    Experiment(
        "functions",
        "fig3",
        "Migration and imbalance by resource functions",
        f"Radar charts, logarithmic; black: ideal. {DEFAULTS} {FILL}",
        _resource_points,
        growth,
        _plot_radar,
        (
            Claim("5.3", "uniform hashing migrates more than 8 times the ideal", "> 8", _uniform_moves_most),
            Claim("5.3", "consistent hashing migrates least", "lowest", _consistent_moves_least),
            Claim(
                "5.3", "consistent hashing's migration is below the ideal in some cases", "< 1", _below_ideal
            ),
            Claim(
                "5.3",
                "scan, redist and readj are more even than consistent hashing",
                "lower in all four",
                _ours_more_even,
            ),
            Claim(
                "5.3",
                "imbalance of consistent and of uniform hashing for LLL",
                "1.75, 1.55",
                _for_linear("imbalance", {CONSISTENT: 1.75, UNIFORM: 1.55}, 0.15),
            ),
            Claim(
                "5.3", "readj is most even for all resource functions", "lowest in all four", _readj_most_even
            ),
            Claim(
                "5.3",
                "imbalance for LLL",
                "readj 1.2, redist and scan 1.32",
                _for_linear("imbalance", {"readj": 1.2, "redist": 1.32, "scan": 1.32}, 0.10),
            ),
            Claim(
                "5.3",
                "migration for LLL",
                "readj 1.34, redist and scan 1.23",
                _for_linear("migration", {"readj": 1.34, "redist": 1.23, "scan": 1.23}, 0.10),
            ),
            Claim("5.3", "redist and scan cannot be told apart", "equal", _scan_like_redist),
            Claim(
                "5.3",
                "computation imbalance for LQL is in the 30s, out of control for consistent hashing",
                "30-40",
                _in_the_thirties,
            ),
        ),
    ),
    Experiment(
        "functions",
        "fig4",
        "Migration and imbalance by skew",
        f"LCL, LLL, LQL (LQL up to z = 0.5). {DEFAULTS} {FILL}",
        _skew_points,
        growth,
        plot_both("z", "skew z", panels="resources"),
        (
            Claim(
                "5.3",
                "uniform hashing migrates more than 8 times the ideal at every skew",
                "> 8",
                _uniform_always_moves,
            ),
            Claim("5.3", "the others are close to the ideal up to z = 0.8", "about 1", _others_near_ideal),
            Claim(
                "5.3",
                "scan's, redist's and readj's migration rises after z = 0.8",
                "rises",
                _moves_more_after,
            ),
            Claim(
                "5.3",
                "scan migrates most, then readj, then redist",
                "that order",
                _order_of_migration,
                "the three lie within 6 percent of each other, while single runs of readj go from 1.0 to 1.5",
            ),
            Claim(
                "5.3", "consistent hashing is the first to violate the balance", "first", _consistent_first
            ),
            Claim(
                "5.3",
                "consistent hashing's imbalance is up to 50 percent above readj's (LLL, z = 1)",
                "1.5x",
                _half_above_best,
            ),
            Claim(
                "5.3",
                "violations begin earliest for LQL, latest for LCL",
                "LQL, LLL, LCL",
                _quadratic_earliest,
            ),
            Claim("5.3", "at very low skew all are within tolerance", "below 1", _acceptable_at_low_skew),
            Claim("5.3", "uniform hashing is most even at low skew", "lowest", _uniform_best_at_low_skew),
            Claim(
                "5.3",
                "readj is most even for LCL and LLL at z = 1",
                "up to 8 percent lower",
                _readj_best_at_full_skew,
            ),
            Claim("5.3", "for LQL the three are within 1-2 percent", "1-2 percent", _close_for_quadratic),
        ),
    ),
]
