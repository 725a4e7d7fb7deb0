"""Three ways to draw rows: lines, bars side by side, stacked bars; one panel per value of a column."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from evenflow.papers.experiment import Rows

_MARKERS = "osD^vP*X<>ph"


def lines(
    figure: Any,
    rows: Rows,
    x: str,
    y: str,
    series: str,
    panels: str | None = None,
    *,
    xlabel: str = "",
    ylabel: str = "",
    logx: bool = False,
    logy: bool | Collection[Any] = False,
    markers: bool = True,
    own_scale: bool = False,
    columns: int = 3,
) -> None:
    """Draw ``y`` over ``x``, a line per value of ``series``, a panel per value of ``panels``.

    ``own_scale``: every panel has its own y axis; ``logy`` may name the panels it is meant for.
    """
    values = _values(rows, panels) if panels else [None]
    axes = _panels(figure, len(values), shared=not own_scale, most=columns)
    names = _values(rows, series)
    for panel, value in zip(axes, values, strict=True):
        own = [row for row in rows if panels is None or row.get(panels) == value]
        log = logy if isinstance(logy, bool) else value in logy
        for place, name in enumerate(names):
            mine = [row for row in own if row.get(series) == name and row.get(y) is not None]
            points = sorted((row[x], row[y]) for row in mine)
            if points:
                style = {"marker": _MARKERS[place % len(_MARKERS)], "markersize": 4} if markers else {}
                shown = [(a, max(b, 1e-8) if log else b) for a, b in points]
                panel.plot(
                    *zip(*shown, strict=True), label=str(name), color=f"C{place % 10}", linewidth=1.3, **style
                )
        panel.set(xlabel=xlabel or x, ylabel=ylabel or y)
        if panels:
            panel.set_title(f"{value}" if isinstance(value, str) else f"{panels} = {value}", fontsize=9)
        if logx:
            panel.set_xscale("log")
        if log:
            panel.set_yscale("log")
        panel.grid(alpha=0.25)
    handles, labels = _legend(axes)
    figure.legend(
        handles,
        labels,
        loc="outside upper center",
        ncols=min(5, max(1, len(labels))),
        fontsize=7,
        frameon=False,
    )


def groups(
    figure: Any,
    rows: Rows,
    x: str,
    y: str,
    series: str,
    panels: str | None = None,
    *,
    ylabel: str = "",
    logy: bool = False,
) -> None:
    """Draw ``y`` as bars side by side: a group per value of ``x``, a colour per value of ``series``."""
    values = _values(rows, panels) if panels else [None]
    axes = _panels(figure, len(values), shared=True)
    places, names = _values(rows, x), _values(rows, series)
    width = 0.8 / len(names)
    for panel, value in zip(axes, values, strict=True):
        for place, name in enumerate(names):
            own = [
                row for row in rows if row.get(series) == name and (panels is None or row[panels] == value)
            ]
            left = [places.index(row[x]) + (place - (len(names) - 1) / 2) * width for row in own]
            panel.bar(left, [row[y] for row in own], width, label=str(name), color=f"C{place % 10}")
        panel.set_xticks(range(len(places)), [str(one) for one in places], fontsize=7, rotation=20)
        panel.set(ylabel=ylabel or y)
        if panels:
            panel.set_title(str(value), fontsize=9)
        if logy:
            panel.set_yscale("log")
    handles, labels = _legend(axes)
    figure.legend(
        handles, labels, loc="outside upper center", ncols=min(5, len(labels)), fontsize=7, frameon=False
    )


def bars(
    figure: Any,
    rows: Rows,
    x: str,
    parts: Sequence[str],
    panels: str,
    *,
    ylabel: str = "",
    line: float | None = None,
) -> None:
    """Draw stacked bars of ``parts`` over ``x``, a panel per value of ``panels``."""
    values = _values(rows, panels)
    axes = _panels(figure, len(values), shared=True)
    for panel, value in zip(axes, values, strict=True):
        own = [row for row in rows if row[panels] == value]
        bottom = [0.0] * len(own)
        for place, part in enumerate(parts):
            heights = [row[part] for row in own]
            panel.bar([row[x] for row in own], heights, bottom=bottom, label=part, color=f"C{place}")
            bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
        if line is not None:
            panel.axhline(line, color="black", linewidth=0.8, linestyle=":")
        panel.set(xlabel=x, ylabel=ylabel)
        panel.set_title(str(value), fontsize=9)
    handles, labels = _legend(axes)
    figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=7, frameon=False)


def _values(rows: Rows, name: str) -> list[Any]:
    return list(dict.fromkeys(row.get(name) for row in rows))


def _panels(figure: Any, count: int, shared: bool, most: int = 3) -> list[Any]:
    columns = min(most, count)
    lines_ = -(-count // columns)
    figure.set_size_inches(
        3.6 * columns + 0.6 if count > 1 else 6.0, 2.9 * lines_ + 0.8 if count > 1 else 4.2
    )
    axes = list(figure.subplots(lines_, columns, squeeze=False, sharey=shared).flat)
    for spare in axes[count:]:
        spare.axis("off")
    return axes[:count]


def _legend(axes: Sequence[Any]) -> tuple[list[Any], list[str]]:
    found: dict[str, Any] = {}
    for panel in axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values()), list(found)
