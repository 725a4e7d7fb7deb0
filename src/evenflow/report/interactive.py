"""A figure as charts to be explored: the lines, steps and bars of a matplotlib figure as data for uPlot.

Hovering or the arrow keys give values, and series can be switched on and off (:mod:`evenflow.charts`).
Horizontal bars stand upright there. What has no counterpart, such as an area, is left to the picture.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle, StepPatch

from evenflow.report.figures import LOG_SCALE
from evenflow.report.style import styled

_FIXED = {"fill": 0, "evenflow": 0, "key": 1, "hashing": 1}  # as on the dashboard
_LONG = 32  # characters; a longer label would be cut off, and goes below the chart
_Points = dict[float, float | None]


class Colours:
    """One colour and dash per series, the same in all charts of a page."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, label: str) -> dict[str, int]:
        """Return the colour and the dash of a series."""
        name = re.sub(r": [0-9.]+$", "", label)  # legends have values behind names
        if name in _FIXED:
            return {"colour": _FIXED[name], "dash": _FIXED[name]}
        number = self._numbers.setdefault(name, 2 + len(self._numbers))
        return {"colour": number % 8, "dash": (number + number // 8) % 8}


def charts_of(draw: Callable[[], Figure], title: str, colours: Colours) -> list[dict[str, Any]]:
    """Return a chart for each panel of a figure; none if a panel cannot be shown as one."""
    with styled():
        figure = draw()
    found = [_chart(axes, title, colours) for axes in figure.axes if axes.has_data()]
    known = [chart for chart in found if chart is not None]
    return known if len(known) == len(found) else []


def _chart(axes: Axes, title: str, colours: Colours) -> dict[str, Any] | None:
    series: dict[str, tuple[str, _Points]] = {}
    reference: dict[str, Any] | None = None
    bars = [container for container in axes.containers if isinstance(container, BarContainer)]
    sideways = any(getattr(container, "orientation", "vertical") == "horizontal" for container in bars)
    for line in axes.get_lines():
        xs, ys = (np.asarray(data, object).tolist() for data in (line.get_xdata(), line.get_ydata()))
        xs, ys = (ys, xs) if sideways else (xs, ys)
        label = str(line.get_label())
        if len(set(ys)) == 1 and line.get_transform() != axes.transData:  # axhline, or axvline beside bars
            reference = {"value": float(ys[0]), "label": "" if label.startswith("_") else label}
        elif not label.startswith("_"):
            marker = line.get_linestyle() in ("None", "", " ")
            series[label] = ("points" if marker else "line", _points(axes, xs, ys, sideways))
    for container in bars:
        boxes = [patch for patch in container.patches if isinstance(patch, Rectangle)]
        corners = [(box.get_x(), box.get_width(), box.get_y(), box.get_height()) for box in boxes]
        ends = [x + width if sideways else y + height for x, width, y, height in corners]
        middles = [y + height / 2 if sideways else x + width / 2 for x, width, y, height in corners]
        series[str(container.get_label())] = ("bars", _points(axes, middles, ends, sideways))
    for patch in axes.patches:
        if isinstance(patch, StepPatch) and str(patch.get_label()).strip("_"):
            values, edges, _ = patch.get_data()
            middles = ((np.asarray(edges)[:-1] + np.asarray(edges)[1:]) / 2).tolist()
            series[str(patch.get_label())] = ("line", _points(axes, middles, np.asarray(values).tolist()))
    if not series:
        return None
    places = sorted({x for _, points in series.values() for x in points})
    ticks = _categories(axes.yaxis if sideways else axes.xaxis)
    has_bars = any(kind == "bars" for kind, _ in series.values())
    along, up = (axes.yaxis, axes.xaxis) if sideways else (axes.xaxis, axes.yaxis)
    log_x, log_y = along.get_scale() == "log", up.get_scale() == "log"
    panel = axes.get_title() or axes.get_title("left")
    x_label = _labelled(along.get_label_text().strip() or ("" if sideways else "x"), log_x)
    y_label = _labelled(up.get_label_text().strip() or "value", log_y)
    caption = ". ".join(text for text in (panel, y_label if len(y_label) > _LONG else "") if text)
    chart: dict[str, Any] = {
        "title": f"{title}: {panel}" if panel else title,
        "caption": f"{caption}." if caption else "",
        "x": {"label": x_label, "values": places, "log": log_x, "ticks": ticks},
        "y": {"label": y_label if len(y_label) <= _LONG else LOG_SCALE if log_y else "", "log": log_y},
        "series": [
            {
                "label": label,
                "values": [points.get(x) for x in places],
                **colours.of(label),
                **({"bars": True} if kind == "bars" else {"points": 9} if kind == "points" else {}),
            }
            for label, (kind, points) in series.items()
        ],
    }
    if ticks:
        chart["x"]["names"] = [min(ticks, key=lambda tick: abs(tick[0] - x))[1] for x in places]
    if has_bars:
        chart["x"]["bars"] = min((b - a for a, b in pairwise(places)), default=1.0)
    if reference is not None and not log_y:
        chart["reference"] = reference
    return chart


def _labelled(label: str, is_log: bool) -> str:
    """Return the label of an axis, which says so if the axis does not start at zero."""
    return f"{label}, {LOG_SCALE}" if is_log and "log" not in label else label


def _points(axes: Axes, xs: list[Any], ys: list[Any], sideways: bool = False) -> _Points:
    """Return finite points by x, or by y of horizontal bars; names become positions."""
    found: _Points = {}
    positions = axes.convert_yunits(xs) if sideways else axes.convert_xunits(xs)  # type: ignore[no-untyped-call]
    for x, y in zip(positions, ys, strict=True):
        if math.isfinite(float(x)) and y is not None and math.isfinite(float(y)):
            found[float(x)] = float(f"{float(y):.6g}")
    return found


def _categories(axis: Axis) -> list[tuple[float, str]]:
    """Return the positions and texts of ticks that are names; empty if the axis has numbers."""
    ticks = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
    texts = [(float(tick), label.get_text()) for tick, label in ticks]
    return texts if any(text and not _is_number(text) for _, text in texts) else []


def _is_number(text: str) -> bool:
    try:
        float(text.replace("−", "-").replace(",", "").rstrip("kMG%"))
    except ValueError:
        return "mathdefault" in text or "$" in text
    return True
