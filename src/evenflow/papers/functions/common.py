"""What the figures of `functions` share: approaches, points, means over runs, pairs of panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evenflow.papers.experiment import (
    DIFFERS,
    DIRECTION,
    HOLDS,
    VERDICTS,
    Judgement,
    Row,
    Rows,
    Setting,
    select,
)
from evenflow.papers.functions.growth import UNIFORM, keeps_keys_whole
from evenflow.papers.plots import lines

OURS = ("scan", "redist", "readj")  # the paper's own algorithms
CONSISTENT = "consistent-hash"
APPROACHES = (UNIFORM, CONSISTENT, *OURS)
COMBINATIONS = ("CCL", "LCL", "LLL", "LQL")
WIDE_SKEWS = [round(0.1 * step, 1) for step in range(1, 11)]
NARROW_SKEWS = [0.25, 0.3, 0.35, 0.4, 0.45, 0.5]  # quadratic resources are out of reach beyond
SIGMAS = [0.008, 0.016, 0.031, 0.0625, 0.1, 0.25, 0.5, 1.0]
CHANNELS = [2, 4, 8, 12, 16, 20, 24, 28, 32]
DEFAULTS = "10^6 keys, z = 1, N = 10, LCL, sigma = 0.1 where not varied; grown from N = 1."
FILL = "fill (ours, no key split) evens messages alone, so it joins where all resources are linear."

Plot = Callable[[Any, Rows], None]


def points(setting: Setting, names: Sequence[str], **varied: Any) -> list[Row]:
    """Return a point per run, with all its parameters, so that figures share what they both measure."""
    joining = [name for name in setting.schemes(*names)[len(names) :] if keeps_keys_whole(name)]
    point = {
        "approaches": [*names, *joining],
        "workers": [10],
        "domain": 10**6,
        "z": 1.0,
        "resources": "LCL",
        "sigma": 0.1,
        "utility": "APM",
        **varied,
    }
    return [{**point, "seed": seed} for seed in range(setting.pick(3, 5))]


def with_fill(resources: str) -> tuple[str, ...]:
    """Return the approaches of a resource combination."""
    return (*APPROACHES, "fill") if resources == "LLL" else APPROACHES


def mean(rows: Rows, column: str, **where: Any) -> float:
    """Return the mean over all runs."""
    found = [row[column] for row in select(rows, **where)]
    if not found:
        raise KeyError(f"{column} of {where}")
    return float(np.mean(found))


def means(rows: Rows, column: str, **where: Any) -> dict[str, float]:
    """Return the mean of every approach."""
    own = select(rows, **where)
    return {name: mean(own, column, approach=name) for name in dict.fromkeys(row["approach"] for row in own)}


def values(rows: Rows, column: str, **where: Any) -> list[Any]:
    """Return the values of a column, each once, rising."""
    return sorted({row[column] for row in select(rows, **where)})


def averaged(rows: Rows, *by: str, columns: Sequence[str]) -> list[Row]:
    """Return one row for each group of runs."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    return [
        {**dict(zip(by, key, strict=True)), **{name: mean(own, name) for name in columns}}
        for key, own in groups.items()
    ]


def graded(good: bool, fair: bool, measured: str) -> Judgement:
    """Return holds if ``good``, holds in direction if ``fair``, else differs."""
    return Judgement(HOLDS if good else DIRECTION if fair else DIFFERS, measured)


def worst(judgements: dict[str, Judgement]) -> Judgement:
    """Return the least favourable of several verdicts, with all that was measured."""
    verdict = max((one.verdict for one in judgements.values()), key=VERDICTS.index)
    return Judgement(verdict, ", ".join(f"{name} {one.measured}" for name, one in judgements.items()))


def spelled(found: dict[str, float]) -> str:
    """Write numbers with their names."""
    return ", ".join(f"{name} {value:.3g}" for name, value in found.items())


def plot_both(
    x: str, xlabel: str, panels: str | None = None, series: str = "approach", logx: bool = False
) -> Plot:
    """Draw relative migration and relative imbalance over ``x``, a pair of panels per value of ``panels``."""

    def plot(figure: Any, rows: Rows) -> None:
        by = [x, series, *([panels] if panels else [])]
        long = []
        for row in averaged(rows, *by, columns=("migration", "imbalance")):
            prefix = f"{row[panels]}: " if panels else ""
            for column in ("migration", "imbalance"):
                long.append({**row, "panel": f"{prefix}relative {column}", "value": row[column]})
        names = list(dict.fromkeys(row["panel"] for row in long))
        lines(
            figure,
            long,
            x=x,
            y="value",
            series=series,
            panels="panel",
            xlabel=xlabel,
            ylabel="relative value",
            logx=logx,
            logy=[name for name in names if _wide(select(long, panel=name))],
            own_scale=True,
            columns=2,
        )
        for axes in figure.axes[: len(names)]:
            axes.axhline(1.0, color="black", linewidth=0.8, linestyle=":")
            if logx:
                axes.xaxis.set_minor_formatter("")  # labels between powers of ten would overlap

    return plot


def _wide(rows: Rows) -> bool:
    """Do these values need a logarithmic axis?"""
    found = [row["value"] for row in rows]
    return max(found) > 5 * min(found) > 0
