"""The page and the picture of `evenflow demo`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from evenflow import __version__
from evenflow.report.page import render, write_page
from evenflow.report.style import GREY, as_svg, colour_of

LINE = 'df.transform(balance("user_id", workers=64))     # instead of df.repartition(64, "user_id")'


def draw_before_and_after(stream: Any) -> Figure:
    """Draw the load of every worker, hashing on the left, evenflow on the right."""
    figure = Figure(figsize=(7.2, 2.7), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, title, ran in ((left, "hashing", stream.ran["key"]), (right, "evenflow", stream.ran["fill"])):
        rows = np.array(ran.rows)
        axes.bar(np.arange(rows.size), rows / rows.mean(), color=colour_of(ran.scheme), width=0.85)
        axes.axhline(1, color=GREY, linewidth=1, linestyle="--")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(title=f"{title}: fullest {ran.max_over_mean:.2f} of the mean", xlabel="worker")
    left.set_ylabel("rows / mean")
    return figure


def write_demo(streams: Sequence[Any], work: float, path: Path) -> None:
    """Write the page."""
    lead = (
        "The same rows, on Spark on one machine, placed by the key's hash and by evenflow; each row costs "
        f"its worker {work:g} microseconds."
    )
    html = render(
        "demo.html",
        title="evenflow keeps keyed streams even",
        lead=lead,
        footer=f"evenflow {__version__}",
        streams=[_section(number, stream) for number, stream in enumerate(streams)],
        line=LINE,
    )
    write_page(html, path)


def _section(number: int, stream: Any) -> tuple[str, list[tuple[str, str]], str]:
    """Return a stream's name, its numbers and its picture."""
    key, fill = stream.ran["key"], stream.ran["fill"]
    numbers = [
        ("rows", f"{sum(fill.rows):,}"),
        ("hashing, whole run", f"{key.seconds:.1f} s"),
        ("evenflow, whole run", f"{fill.seconds:.1f} s"),
        ("busiest worker, hashing", f"{max(key.busy, default=0):.1f} s"),
        ("busiest worker, evenflow", f"{max(fill.busy, default=0):.1f} s"),
    ]
    draw = partial(draw_before_and_after, stream)
    picture = as_svg(draw, f"demo{number}", f"Rows per worker, {stream.name}")
    return stream.name[0].upper() + stream.name[1:], numbers, picture
