"""Fig. 1, the worked example, and the thresholds of 3.1 and 4.1.3: numbers, not measurements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from itertools import product
from math import inf

import numpy as np
import pandas as pd

from evenflow.papers import rules as r
from evenflow.papers.experiment import Claim, Experiment, Row
from evenflow.papers.figures import Lines, Stacks
from evenflow.papers.functions.common import COMBINATIONS
from evenflow.papers.functions.growth import ALPHA, Workload
from evenflow.papers.grid import grid
from evenflow.papers.table import Table
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


@cache
def printed_layouts(optimised: str, channels: int) -> list[tuple[int, ...]]:
    """Return all layouts with the printed balances."""
    every = (layout for layout in product(range(channels), repeat=len(TOY)) if len(set(layout)) == channels)
    return [layout for layout in every if as_printed(balances(layout), PRINTED[optimised, channels])]


def to_the_new_channel(optimised: str) -> list[float]:
    """Return, for each layout printed for N = 2, the least cost of one for N = 3 by moves to the new channel.

    Infinity if none can be reached like this.
    """
    frequencies = list(TOY.values())
    found = []
    for start in printed_layouts(optimised, 2):
        moves = [
            [f for f, old, new in zip(frequencies, start, end, strict=True) if old != new]
            for end in printed_layouts(optimised, 3)
            if all(new in (old, 2) for old, new in zip(start, end, strict=True))
        ]
        found.append(min(map(sum, moves), default=inf))
    return found


def measure_toy(optimised: str) -> list[Row]:
    """Return a row per channel: its items, and the metrics of the layout it is part of."""
    rows: list[Row] = []
    alone = to_the_new_channel(optimised)
    before, after = ([int(channel) for channel in text] for text in LAYOUTS[optimised])
    moves = {name: new for name, old, new in zip(TOY, before, after, strict=True) if old != new}
    for layout, moved in ((before, {}), (after, moves)):
        channels = max(layout) + 1
        balance_n, balance_c = balances(layout)
        metrics = {"balance_n": balance_n, "balance_c": balance_c, "moved": ", ".join(moved),
                   "migration": sum(TOY[name] for name in moved),
                   "least": min(alone, default=inf), "starts": len(alone), "stuck": alone.count(inf),
                   "by_u_and_y": optimised == "communication" and reached_by_u_and_y()}  # fmt: skip
        for channel in range(channels):
            where = zip(TOY.items(), layout, strict=True)
            items = {name: f if own == channel else 0.0 for (name, f), own in where}
            row = {"optimised": optimised, "channels": channels, "panel": f"{optimised}, N = {channels}"}
            rows.append({**row, "channel": str(channel + 1), **items, **metrics})
    return rows


# Thresholds


def measure_thresholds(workers: int) -> list[Row]:
    """Return theta and delta of every resource combination, and what they are for."""
    rows: list[Row] = []
    for resources in COMBINATIONS:
        costs = Costs(resources)
        first = costs.delta(workers)
        _, top = Workload().top(first)
        total = float((top * top).sum()) + costs.tail(top).resource("Q")
        rows.append({
            "workers": workers, "resources": resources, "theta": tolerance(ALPHA, workers),
            "delta": first, "delta_raised": costs.delta(workers, total),
            "tracked": int(costs.tracked(top, workers).size),
            "alpha_for_capacity": alpha_from_capacity(10, 3, workers) if workers == 4 else "",
        })  # fmt: skip
    return rows


def _threshold_rows(t: Table) -> Table:
    shown = {"LCL": ("LCL", "delta"), "LQL": ("LQL", "delta"), "LQL, raised": ("LQL", "delta_raised")}
    parts = [(name, t.only(resources=resources), column) for name, (resources, column) in shown.items()]
    columns = [own[["workers"]].assign(delta=own[column], series=name) for name, own, column in parts]
    return Table(pd.concat(columns, ignore_index=True))


_figure = partial(Experiment, "functions")

# fmt: off
EXPERIMENTS = [
    _figure("fig1", "The worked example: three ways from two channels to three",
            "Items X Z V R U Y W L of frequency 5 3 2 1 4 3 3 1; computation is quadratic.",
            grid(optimised=tuple(LAYOUTS)), measure_toy,
            Stacks("channel", tuple(TOY), "panel", "frequency"), (
        Claim("2", "communication and computation balances of all six layouts",
              "1, 1.1; 1.14, 2.26; 1.2, 1.05; 2, 1.04; 1.2, 1.05; 1.14, 1.23",
              r.each(lambda t: [as_printed((row.balance_n, row.balance_c),
                                           PRINTED[row.optimised, row.channels])
                                for row in t.only(channel="1").itertuples()],
                     "layouts with both balances as printed")),
        Claim("2", "migration costs 7 for communication, 10 for computation", "7, 10",
              r.graded(lambda t: tuple(t.value("least", optimised=name, channels=3)
                                       for name in ("communication", "computation")),
                       lambda *costs: costs == (7.0, 10.0),
                       text="{:g} and {:g}, the least by moving items to the new channel")),
        Claim("2", "the 7 are items U and Y", "U, Y",
              r.graded(lambda t: t.only(optimised="communication", channels=3).iloc[0],
                       lambda row: row["by_u_and_y"], text="cost {0[migration]:g}: {0[moved]}"),
              "no layout with the printed loads at N = 2 reaches 1.14 and 2.26 by moving U and Y (figure "
              "`functions/fig1` tries them all)"),
        Claim("2", "balancing both requires migration between old channels", "yes",
              r.graded(lambda t: tuple(t.only(optimised="both", channels=3).iloc[0][["stuck", "starts"]]),
                       lambda stuck, starts: stuck == starts, lambda stuck, starts: stuck > 0,
                       "for {:g} of the {:g} layouts with the loads printed for N = 2"),
              "from the other layouts with the same loads, moving 7 to the new channel is enough"),
    ), version=2),
    _figure("thresholds", "Frequency thresholds by the number of channels",
            "Eq. 15-17 for alpha = 1.2, sigma = 0.1, 10^6 keys, z = 1; quadratic thresholds before and "
            "after raising.",
            grid(workers=(2, 4, 8, 10, 16, 32, 64, 100)), measure_thresholds,
            Lines(x="workers", y="delta", by="series", xlabel="channels N", ylabel="threshold δ", logy=True,
                  rows=_threshold_rows), (
        Claim("3.1", "10 GB on 4 channels of 3 GB allow alpha = 1.28", "1.28",
              r.near(lambda t: t.value("alpha_for_capacity", workers=4), 1.28, 0.01)),
        Claim("4.1.3", "the tracked items raise the threshold of a quadratic resource", "higher",
              r.each(r.holds("delta_raised > delta", resources="LQL"),
                     "numbers of channels with a higher threshold")),
    ), version=2),
]
