"""The figures: load per worker, imbalance over time, hot keys over time, balance against memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from evenflow.advisor.profile import Trace
from evenflow.advisor.recommend import plain_label
from evenflow.kernels import Float64Array, Int64Array
from evenflow.report.style import GREY, INK, colour_of, log_axis, percent, plain_number
from evenflow.simulator import Result

LOWEST_IMBALANCE = 1e-7  # drawn for zero on a logarithmic axis
LOG_SCALE = "log scale"  # said beside every axis that does not start at 0
_LINES = ("-", "--", ":", "-.")
_LINE_COLOURS = ("#1f5fbf", "#c8442f", "#2f9e6e", "#e0912f", "#7a4fb5", "#0f9db0", "#b0407f", "#8a6d1d")


@dataclass(frozen=True)
class Point:
    """Balance and memory of a scheme."""

    label: str
    scheme: str
    memory: float
    max_over_mean: float
    suits: bool = True
    chosen: bool = False


def draw_loads(loads: Mapping[str, Int64Array], schemes: Mapping[str, str] | None = None) -> Figure:
    """Draw the load per worker relative to the mean, fullest first; one curve per label."""
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    axes = figure.subplots()
    _loads_panel(axes, loads, schemes or {})
    axes.legend(loc="upper right", title="max/mean load")
    return figure


def _loads_panel(axes: Any, loads: Mapping[str, Int64Array], schemes: Mapping[str, str]) -> None:
    ratios = {label: np.sort(load)[::-1] / load.mean() for label, load in loads.items()}
    _by_worker(axes, ratios, schemes)
    axes.axhline(1, color=GREY, linewidth=1, linestyle="--", zorder=1)
    axes.set_ylabel("load / mean load")


def _by_worker(axes: Any, values: Mapping[str, Float64Array], schemes: Mapping[str, str]) -> None:
    """Draw descending values per worker as steps; up to two areas are filled."""
    highest = max(float(value[0]) for value in values.values())
    drawn: list[str] = []
    for label, value in values.items():
        scheme = schemes.get(label, label)
        edges = np.arange(value.size + 1) + 0.5
        if len(values) <= 2:
            axes.stairs(value, edges, fill=True, color=colour_of(scheme), alpha=0.15)
        axes.stairs(
            value,
            edges,
            color=colour_of(scheme),
            linewidth=2,
            linestyle=_LINES[drawn.count(scheme) % len(_LINES)],
            baseline=None,
            label=f"{label}: {value[0]:.2f}",
        )
        drawn.append(scheme)
    axes.set_ylim(0, 1.12 * highest)
    axes.set_xlim(0.5, max(value.size for value in values.values()) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlabel("worker, fullest first")


def draw_hot_keys(trace: Trace, workers: int) -> Figure:
    """Draw the shares of the hottest keys over the stream, with a worker's fair share for comparison."""
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    axes = figure.subplots()
    windows = trace.shares.shape[1]
    middles = (np.arange(windows) + 0.5) / windows
    for row, (label, shares) in enumerate(zip(trace.labels, trace.shares, strict=True)):
        colour = _LINE_COLOURS[row % len(_LINE_COLOURS)]
        marker = "o" if windows == 1 else ""
        axes.plot(middles, shares, color=colour, linewidth=1.8, marker=marker, label=plain_label(label, 22))
    fair = 1 / workers
    axes.axhline(fair, color=INK, linewidth=1, linestyle="--", label="a worker's fair share")
    highest = max(float(trace.shares.max()), fair)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.08 * highest)
    axes.yaxis.set_major_formatter(lambda value, _: percent(value))
    axes.set_ylabel("share of the rows")
    _time_ticks(axes, trace.times)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=9)
    return figure


def _time_ticks(axes: Any, times: Float64Array | None) -> None:
    ticks = np.linspace(0, 1, 5)
    axes.set_xticks(ticks)
    if times is None:
        axes.set_xticklabels([percent(tick) for tick in ticks])
        axes.set_xlabel("position in the stream")
        return
    rows = np.rint(ticks * (times.size - 1)).astype(int)
    axes.set_xticklabels(moments([float(times[row]) for row in rows]))
    axes.set_xlabel("time (windows of equal row count)")


def moments(seconds: Sequence[float]) -> list[str]:
    """Return times as dates, or as seconds if they are out of range for dates.

    >>> moments([1.6e9, 1.6e9 + 60]), moments([0.0, 12.5])
    (['2020-09-13\\n12:26', '2020-09-13\\n12:27'], ['0 s', '12.5 s'])
    """
    if max(map(abs, seconds)) < 1e8 or max(map(abs, seconds)) > 2e11:
        return [f"{plain_number(second)} s" for second in seconds]
    days = seconds[-1] - seconds[0] >= 4 * 86400
    shape = "%Y-%m-%d" if days else "%Y-%m-%d\n%H:%M"
    return [datetime.fromtimestamp(second, UTC).strftime(shape) for second in seconds]


def draw_balance_and_memory(points: Sequence[Point]) -> Figure:
    """Draw memory and maximum load of every scheme; lower left is best."""
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.subplots()
    memories = [point.memory for point in points]
    heights = [point.max_over_mean for point in points]
    right, top = max(2.0, 1.3 * max(memories)), max(1.5, 1.2 * max(heights))
    axes.set_xlim(right**-0.05, right)
    axes.set_ylim(top**-0.12, top)
    log_axis(axes, "x", plain_number)
    log_axis(axes, "y", plain_number)
    for point in points:
        colour = colour_of(point.scheme)
        axes.plot(
            point.memory,
            point.max_over_mean,
            label=point.label,
            marker="*" if point.chosen else "o",
            markersize=17 if point.chosen else 8,
            markerfacecolor=colour if point.suits else "white",
            markeredgecolor=colour,
            linestyle="",
            zorder=4 if point.chosen else 3,
        )
    _label_points(figure, axes, points)
    axes.set_xlabel(f"memory: copies of state per key (key grouping: 1), {LOG_SCALE}")
    axes.set_ylabel(f"max/mean load, {LOG_SCALE}")
    return figure


def _label_points(figure: Figure, axes: Any, points: Sequence[Point]) -> None:
    """Place labels so that they cover neither each other nor a point; coinciding points share a label."""
    figure.draw_without_rendering()
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    inside = axes.get_window_extent(renderer)
    scale = figure.dpi / 72
    positions = [axes.transData.transform((point.memory, point.max_over_mean)) for point in points]
    taken = [(x - 5 * scale, y - 5 * scale, x + 5 * scale, y + 5 * scale) for x, y in positions]
    for group in _neighbours(points, positions, 9 * scale):
        first = points[group[0]]
        text = axes.annotate(
            fill(", ".join(points[member].label for member in group), 27, break_on_hyphens=False),
            (first.memory, first.max_over_mean),
            textcoords="offset points",
            fontsize=9,
            linespacing=1.15,
            fontweight="bold" if first.chosen else "normal",
            color=INK if first.suits else "#70757f",
            xytext=(0, 0),
        )
        box = text.get_window_extent(renderer)
        x, y = positions[group[0]]
        right, up = _free_offset(x, y, box.width, box.height, scale, taken, inside)
        text.set_position((right / scale, up / scale))
        if up > 0 or up + box.height < 0:  # not at the same height: a line shows whose label it is
            _connect(axes, (first.memory, first.max_over_mean), right, up, box, scale)
        taken.append((x + right, y + up, x + right + box.width, y + up + box.height))


def _connect(axes: Any, point: tuple[float, float], right: float, up: float, box: Any, scale: float) -> None:
    """Draw a line from a point to the nearest position on the edge of its label."""
    nearest = min(max(0.0, right), right + box.width), up if up > 0 else up + box.height
    axes.annotate(
        "",
        point,
        (nearest[0] / scale, nearest[1] / scale),
        textcoords="offset points",
        arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 4},
    )


def _neighbours(points: Sequence[Point], positions: Sequence[Any], reach: float) -> list[list[int]]:
    """Group coinciding points; the chosen one stays on its own."""
    order = sorted(
        range(len(points)), key=lambda i: (not points[i].chosen, not points[i].suits, points[i].memory)
    )
    groups: list[list[int]] = []
    for member in order:
        for group in groups:
            alike = points[group[0]].suits == points[member].suits and not points[group[0]].chosen
            if alike and math.dist(positions[group[0]], positions[member]) < reach:
                group.append(member)
                break
        else:
            groups.append([member])
    return groups


def _free_offset(
    x: float,
    y: float,
    width: float,
    height: float,
    scale: float,
    taken: Sequence[Sequence[float]],
    inside: Any,
) -> tuple[float, float]:
    """Return the offset of a label's lower left corner from its point: the nearest free position."""
    gap = 8 * scale
    best, least = (gap, -height / 2), math.inf
    for ring in range(14):
        rise = ring * height * 0.75
        sides = [(gap, -height / 2), (-gap - width, -height / 2)] if ring == 0 else []
        for up in (gap * 0.6 + rise, -gap * 0.6 - height - rise):
            sides += [(-width / 2, up), (gap * 0.5, up), (-gap * 0.5 - width, up)]
        for offset in sides:
            left, low = x + offset[0], y + offset[1]
            box = (left, low, left + width, low + height)
            covered = sum(_overlap(box, other) for other in taken)
            outside = width * height - _overlap(box, (inside.x0, inside.y0, inside.x1, inside.y1))
            if covered + 2 * outside < least - 1e-9:
                best, least = offset, covered + 2 * outside
        if least <= 1e-9:
            break
    return best


def _overlap(box: Sequence[float], other: Sequence[float]) -> float:
    width = min(box[2], other[2]) - max(box[0], other[0])
    height = min(box[3], other[3]) - max(box[1], other[1])
    return max(0.0, width) * max(0.0, height)


def draw_simulation(results: Sequence[Result], labels: Sequence[str]) -> Figure:
    """Draw simulations over time and by worker, or against the number of workers if it varies.

    With queues, the panels show utilisation instead of load, and a third panel shows latencies.
    """
    several = len({result.workers for result in results}) > 1
    queues = all("latency_p50" in result.numbers for result in results)
    panels = 3 if queues else 2
    figure = Figure(figsize=(5.2 * panels + 1.8, 4.4), layout="constrained")
    axes = figure.subplots(1, panels)
    uneven = "imbalance_utilisation" if queues else "imbalance"
    if several:
        _against_workers(axes[0], results, labels, uneven, _UNEVEN[uneven][0])
        _against_workers(axes[1], results, labels, "memory", "Memory: copies of state per key")
    else:
        _over_time(axes[0], results, labels, uneven)
        _last_panel(axes[1], results, labels, queues)
    if queues:
        _latencies(axes[2], results, labels, several)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper")
    figure.suptitle(plain_label(results[0].stream, 110), fontsize=10, color="#565b64", x=0.01, ha="left")
    return figure


_UNEVEN = {
    "imbalance": ("Imbalance", "(max - mean load) / messages"),
    "imbalance_utilisation": ("Utilisation imbalance", "max - mean of work sent / capacity"),
}


def _last_panel(axes: Any, results: Sequence[Result], labels: Sequence[str], queues: bool) -> None:
    schemes = {label: result.scheme for result, label in zip(results, labels, strict=True)}
    counts = [int(result.over_time["workers"][-1]) for result in results]
    if queues:
        use = {
            label: np.sort(np.nan_to_num(result.by_worker["utilisation"][:workers]))[::-1]
            for result, label, workers in zip(results, labels, counts, strict=True)
        }
        _by_worker(axes, use, schemes)
        axes.set_title(f"Utilisation of {counts[0]:,} workers")
        axes.set_ylabel("share of time busy")
        return
    loads = {
        label: result.loads[:workers] for result, label, workers in zip(results, labels, counts, strict=True)
    }
    _loads_panel(axes, loads, schemes)
    whole = " over the whole run" if counts[0] != results[0].workers else ""
    axes.set_title(f"Load of {counts[0]:,} workers{whole}")


def _over_time(axes: Any, results: Sequence[Result], labels: Sequence[str], field: str) -> None:
    for number, (result, label) in enumerate(zip(results, labels, strict=True)):
        axes.plot(
            result.over_time["messages"],
            np.maximum(result.over_time[field], LOWEST_IMBALANCE),
            color=colour_of(result.scheme),
            linestyle=_LINES[_occurrence(results, number) % len(_LINES)],
            linewidth=1.8,
            label=label,
        )
    log_axis(axes, "y", _or_nothing)
    axes.xaxis.set_major_formatter(lambda value, _: plain_number(value))
    axes.set_xlim(0, results[0].messages)
    axes.set_title(f"{_UNEVEN[field][0]} over time")
    axes.set_xlabel("messages")
    axes.set_ylabel(f"{_UNEVEN[field][1]}, {LOG_SCALE}")


def _or_nothing(value: float) -> str:
    """Return an axis label; the value that stands for zero is labelled 0."""
    return "0" if value <= 1.001 * LOWEST_IMBALANCE else plain_number(value)


def _occurrence(results: Sequence[Result], index: int) -> int:
    """Return how many earlier runs used the same scheme."""
    return sum(result.scheme == results[index].scheme for result in results[:index])


def _against_workers(
    axes: Any, results: Sequence[Result], labels: Sequence[str], field: str, title: str
) -> None:
    for label in dict.fromkeys(labels):
        runs = [result for result, other in zip(results, labels, strict=True) if other == label]
        values = np.array([result.numbers[field] for result in runs])
        floor = 0.0 if field == "memory" else LOWEST_IMBALANCE
        axes.plot(
            [result.workers for result in runs],
            np.maximum(values, floor),
            color=colour_of(runs[0].scheme),
            linewidth=1.8,
            marker="o",
            label=label,
        )
    log_axis(axes, "y", _or_nothing)
    log_axis(axes, "x", plain_number)
    numbers = sorted({result.workers for result in results})
    axes.set_xticks(numbers, [plain_number(number) for number in numbers])
    axes.set_xlabel(f"workers, {LOG_SCALE}")
    axes.set_title(title)
    axes.set_ylabel(f"{_UNEVEN[field][1] if field in _UNEVEN else field}, {LOG_SCALE}")


def _latencies(axes: Any, results: Sequence[Result], labels: Sequence[str], several: bool) -> None:
    names = ("latency_p50", "latency_p95", "latency_p99")
    shades = (1.0, 0.6, 0.3)
    shown = [
        f"{label}, {result.workers} workers" if several else label
        for result, label in zip(results, labels, strict=True)
    ]
    rows, colours = range(len(results)), [colour_of(result.scheme) for result in results]
    for name, shade in zip(reversed(names), reversed(shades), strict=True):
        seconds = [result.numbers[name] for result in results]
        axes.barh(rows, seconds, color=colours, alpha=shade, height=0.7, label=name.removeprefix("latency_"))
    means = [result.numbers["latency_mean"] for result in results]
    axes.plot(means, rows, marker="|", markersize=14, color=INK, linestyle="", label="mean")
    axes.set_yticks(range(len(shown)), shown)
    axes.invert_yaxis()
    values = [result.numbers[name] for result in results for name in names]
    wide = max(values) > 20 * min(values) > 0
    if wide:
        axes.set_xlim(0.5 * min(values), 1.5 * max(values))
        log_axis(axes, "x", plain_number)
    axes.set_title("Latency: p50, p95, p99 (dark to light), mean (bar)")
    axes.set_xlabel(f"seconds, {LOG_SCALE}" if wide else "seconds")
