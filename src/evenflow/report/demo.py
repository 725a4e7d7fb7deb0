"""The HTML report and the figure of `evenflow demo`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from evenflow import __version__
from evenflow.report.page import render, write_page
from evenflow.report.style import GREY, colour_of

LINE = """\
df.transform(balance("user_id", workers=64))  # a hot key is then in several partitions
df.transform(balance("user_id", workers=64, split=False))  # every key in one, as after repartition
"""


def draw_before_and_after(streams: Sequence[Any]) -> Figure:
    """Draw the load of every worker, a row for each stream, hashing on the left, evenflow on the right."""
    figure = Figure(figsize=(8.4, 0.4 + 2.3 * len(streams)), layout="constrained")
    rows_of_axes = figure.subplots(len(streams), 2, sharey="row", squeeze=False)
    for stream, (left, right) in zip(streams, rows_of_axes, strict=True):
        for axes, title, run in (
            (left, "hashing", stream.runs["key"]),
            (right, "evenflow", stream.runs["fill"]),
        ):
            rows = np.array(run.seen.rows)
            axes.bar(np.arange(rows.size), rows / rows.mean(), color=colour_of(run.scheme), width=0.85)
            axes.axhline(1, color=GREY, linewidth=1, linestyle="--")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
            busiest = max(run.seen.busy, default=0.0)
            axes.set_title(f"{title}: {run.seconds:.1f} s, busiest worker {busiest:.1f} s", fontsize="medium")
            axes.set(xlim=(-0.6, rows.size - 0.4))  # no tick for a worker that does not exist
        left.set_ylabel(f"{stream.name}\nrows / mean", fontsize="small")
    for axes in rows_of_axes[-1]:
        axes.set_xlabel("worker")
    return figure


def write_demo(streams: Sequence[Any], work: float, path: Path, note: str = "") -> None:
    """Write the report."""
    lead = (
        "The same rows on a single-machine Spark, partitioned by key hash and by evenflow, with "
        f"{work:g} microseconds of work per row. {note}"
    )
    html = render(
        "demo.html",
        title="Hashing and evenflow compared",
        lead=lead,
        footer=f"evenflow {__version__}",
        charts={f"chart-{number}": _chart(stream) for number, stream in enumerate(streams)},
        streams=[_section(number, stream) for number, stream in enumerate(streams)],
        line=LINE,
    )
    write_page(html, path)


def _section(number: int, stream: Any) -> tuple[str, list[tuple[str, str]], str]:
    """Return the name, the numbers and the chart of a stream."""
    key, fill = stream.runs["key"], stream.runs["fill"]
    numbers = [
        ("rows", f"{fill.seen.total:,}"),
        ("total, hashing", f"{key.seconds:.1f} s"),
        ("total, evenflow", f"{fill.seconds:.1f} s"),
        ("busiest worker, hashing", f"{max(key.seen.busy, default=0):.1f} s"),
        ("busiest worker, evenflow", f"{max(fill.seen.busy, default=0):.1f} s"),
    ]
    return stream.name[0].upper() + stream.name[1:], numbers, f"chart-{number}"


def _chart(stream: Any) -> dict[str, Any]:
    """Return the load of every worker under both schemes as a chart."""
    key, fill = (np.array(stream.runs[scheme].seen.rows) for scheme in ("key", "fill"))
    workers = list(range(fill.size))
    return {
        "title": f"Rows per worker, {stream.name}",
        "caption": "Rows per worker, relative to the mean.",
        "x": {"label": "worker", "values": workers, "bars": 1, "whole": True},
        "y": {"label": "rows / mean"},
        "series": [
            {"label": "hashing", "values": _of_mean(key), "bars": True, "hollow": True, "colour": 1},
            {"label": "evenflow", "values": _of_mean(fill), "bars": True, "colour": 0},
        ],
        "reference": {"value": 1, "label": "mean"},
    }


def _of_mean(rows: Any) -> list[float]:
    return [round(float(value), 6) for value in rows / max(rows.mean(), 1e-300)]
