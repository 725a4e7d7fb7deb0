"""Fig. 1, the worked example, and the thresholds of 3.1 and 4.1.3: numbers, not measurements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from evenflow.papers.experiment import (
    DIFFERS,
    HOLDS,
    Claim,
    Experiment,
    Judgement,
    Row,
    Rows,
    Setting,
    near,
    pick,
    select,
    share_of,
)
from evenflow.papers.functions.common import COMBINATIONS
from evenflow.papers.functions.growth import ALPHA, Workload
from evenflow.papers.plots import bars, lines
from evenflow.schemes.cost_model import Costs, alpha_from_capacity, tolerance

# Fig. 1: two channels, then three; the layouts that have the printed numbers

TOY = dict(zip("XZVRUYWL", (5.0, 3.0, 2.0, 1.0, 4.0, 3.0, 3.0, 1.0), strict=True))
LAYOUTS = {
    "communication": ("00001111", "00221122"),
    "computation": ("00011111", "02221122"),
    "both": ("00011111", "02201120"),
}
PRINTED = {  # balance_n and balance_c
    ("communication", 2): ("1.00", "1.1"),
    ("communication", 3): ("1.14", "2.26"),
    ("computation", 2): ("1.20", "1.05"),
    ("computation", 3): ("2.00", "1.04"),
    ("both", 2): ("1.20", "1.05"),
    ("both", 3): ("1.14", "1.23"),
}


def balances(layout: Sequence[int]) -> tuple[float, float]:
    """Return max / min of communication and of (quadratic) computation."""
    where = np.array(layout, np.int32)
    found = Costs("LQL").imbalance(np.array(list(TOY.values())), where, int(where.max()) + 1)
    return found.ratios[2], found.ratios[1]


def as_printed(found: tuple[float, float], printed: tuple[str, str]) -> bool:
    """Equal up to the last digit; some of the paper's numbers are cut off, not rounded."""
    return all(
        abs(value - float(text)) < 10.0 ** -len(text.partition(".")[2])
        for value, text in zip(found, printed, strict=True)
    )


def reached_by_u_and_y() -> bool:
    """Can a layout with the loads printed at the top left come to 1.14 and 2.26 by moving U and Y?"""
    for start in product(range(2), repeat=len(TOY)):
        if len(set(start)) < 2 or tuple(round(ratio, 2) for ratio in balances(start)) != (1.0, 1.11):
            continue
        for u, y in product(range(3), repeat=2):
            layout = [*start[:4], u, y, *start[6:]]
            if max(layout) == 2 and as_printed(balances(layout), PRINTED["communication", 3]):
                return True
    return False


def _toy_points(setting: Setting) -> list[Row]:
    return [{"optimised": name} for name in LAYOUTS]


def measure_toy(optimised: str) -> list[Row]:
    """Return a row per channel: its items, and the metrics of the layout it is part of."""
    rows = []
    before, after = ([int(channel) for channel in text] for text in LAYOUTS[optimised])
    moves = [(name, new) for name, old, new in zip(TOY, before, after, strict=True) if old != new]
    for layout in (before, after):
        balance_n, balance_c = balances(layout)
        channels = max(layout) + 1
        moved = moves if layout == after else []
        for channel in range(channels):
            here = zip(TOY.items(), layout, strict=True)
            rows.append(
                {
                    "optimised": optimised,
                    "channels": channels,
                    "panel": f"{optimised}, N = {channels}",
                    "channel": str(channel + 1),
                    **{name: f if own == channel else 0.0 for (name, f), own in here},
                    "balance_n": balance_n,
                    "balance_c": balance_c,
                    "migration": sum(TOY[name] for name, _ in moved),
                    "moved": ", ".join(name for name, _ in moved),
                    "between_old": any(new < 2 for _, new in moved),
                    "by_u_and_y": optimised == "communication" and reached_by_u_and_y(),
                }
            )
    return rows


def _toy_metrics(rows: Rows) -> Judgement:
    checks = [
        as_printed((row["balance_n"], row["balance_c"]), PRINTED[row["optimised"], row["channels"]])
        for row in select(rows, channel="1")
    ]
    return share_of(checks, "layouts with both balances as printed")


def _toy_migration(rows: Rows) -> Judgement:
    found = [pick(rows, optimised=name, channels=3)["migration"] for name in ("communication", "computation")]
    return Judgement(HOLDS if found == [7.0, 10.0] else DIFFERS, f"{found[0]:g} and {found[1]:g}")


def _toy_moves(rows: Rows) -> Judgement:
    row = pick(rows, optimised="communication", channels=3)
    return Judgement(HOLDS if row["by_u_and_y"] else DIFFERS, f"cost {row['migration']:g}: {row['moved']}")


def _toy_between(rows: Rows) -> Judgement:
    row = pick(rows, optimised="both", channels=3)
    return Judgement(HOLDS if row["between_old"] else DIFFERS, f"moved {row['moved']}")


def _plot_toy(figure: Any, rows: Rows) -> None:
    shown = [row for channels in (2, 3) for row in select(rows, channels=channels)]
    bars(figure, shown, x="channel", parts=list(TOY), panels="panel", ylabel="frequency")


# thresholds


def _threshold_points(setting: Setting) -> list[Row]:
    return [{"workers": n} for n in (2, 4, 8, 10, 16, 32, 64, 100)]


def measure_thresholds(workers: int) -> list[Row]:
    """Return theta and delta of every resource combination, and what they are for."""
    loads = np.ones(workers)
    loads[0] = ALPHA  # the most uneven that is allowed
    rows = []
    for resources in COMBINATIONS:
        costs = Costs(resources)
        first = costs.delta(workers)
        _, top = Workload().top(first)
        total = float((top * top).sum()) + costs.tail(top).resource("Q")
        rows.append(
            {
                "workers": workers,
                "resources": resources,
                "theta": tolerance(ALPHA, workers),
                "worst_deviation": float(np.abs(loads / loads.mean() - 1).max()),
                "delta": first,
                "delta_raised": costs.delta(workers, total),
                "tracked": int(costs.tracked(top, workers).size),
                "alpha_for_capacity": alpha_from_capacity(10, 3, workers) if workers == 4 else "",
            }
        )
    return rows


def _plot_thresholds(figure: Any, rows: Rows) -> None:
    shown = (("LCL", "delta", "LCL"), ("LQL", "delta", "LQL"), ("LQL", "delta_raised", "LQL, raised"))
    long = [
        {"workers": row["workers"], "delta": row[column], "series": name}
        for resources, column, name in shown
        for row in select(rows, resources=resources)
    ]
    lines(figure, long, "workers", "delta", "series", xlabel="channels N", ylabel="threshold δ", logy=True)


def _capacity(rows: Rows) -> Judgement:
    return near(pick(rows, workers=4)["alpha_for_capacity"], 1.28, within=0.01)


def _deviation(rows: Rows) -> Judgement:
    checks = [abs(row["worst_deviation"] - row["theta"]) < 1e-12 for row in rows]
    return share_of(checks, "settings where the worst allowed load deviates by theta")


def _raised(rows: Rows) -> Judgement:
    checks = [row["delta_raised"] > row["delta"] for row in select(rows, resources="LQL")]
    return share_of(checks, "numbers of channels")


EXPERIMENTS = [
    Experiment(
        "functions",
        "fig1",
        "The worked example: three ways from two channels to three",
        "Items X Z V R U Y W L of frequency 5 3 2 1 4 3 3 1; computation is quadratic.",
        _toy_points,
        measure_toy,
        _plot_toy,
        (
            Claim(
                "2",
                "communication and computation balances of all six layouts",
                "1, 1.1; 1.14, 2.26; 1.2, 1.05; 2, 1.04; 1.2, 1.05; 1.14, 1.23",
                _toy_metrics,
            ),
            Claim("2", "migration costs 7 for communication, 10 for computation", "7, 10", _toy_migration),
            Claim(
                "2",
                "the 7 are items U and Y",
                "U, Y",
                _toy_moves,
                "no layout with the printed loads at N = 2 comes to 1.14 and 2.26 by moving U and Y",
            ),
            Claim("2", "evening out both needs migration between old channels", "yes", _toy_between),
        ),
    ),
    Experiment(
        "functions",
        "thresholds",
        "Frequency thresholds by the number of channels",
        "Eq. 15-17 for alpha = 1.2, sigma = 0.1, 10^6 keys, z = 1; quadratic ones before and after raising.",
        _threshold_points,
        measure_thresholds,
        _plot_thresholds,
        (
            Claim("3.1", "10 GB on 4 channels of 3 GB allow alpha = 1.28", "1.28", _capacity),
            Claim("4.1.3", "theta is how far a channel may deviate under alpha", "Eq. 15", _deviation),
            Claim("4.1.3", "the collected items raise a quadratic resource's threshold", "higher", _raised),
        ),
    ),
]
