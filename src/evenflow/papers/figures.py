"""Figures as declarations: what is drawn over what, a line or bar per subject, a panel per value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenflow.papers.experiment import Rows
from evenflow.papers.table import Table

_MARKERS = "osD^vP*X<>ph"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What all figures declare; ``by`` and ``panels`` are a column or a format such as "n = {workers}"."""

    x: str
    y: str | Mapping[str, str]  # a column, or several with the title of the panel that each one has
    by: str = ""  # a line or a colour for each of its values; the subject by default
    panels: str = ""
    xlabel: str = ""
    ylabel: str = ""
    logx: bool = False
    logy: bool | str | Sequence[str] = False  # of these columns, or "auto": where values span a factor of 5
    floor: Mapping[str, float] = field(default_factory=dict)  # what zero is drawn as, on a log axis
    level: float | None = None  # a dotted line
    columns: int = 3
    rows: Callable[[Table], Table] | None = None  # from the figure's rows to those that are drawn

    def __call__(self, figure: Any, rows: Rows) -> None:
        """Draw the rows."""
        table = Table.of_rows(rows)
        table = self.rows(table) if self.rows else table
        columns = dict(self.y) if isinstance(self.y, Mapping) else {self.y: ""}
        by, panels = self.by or table.subject, _values(table, self.panels) if self.panels else [None]
        by_value, panel_value = _labels(table, by), _labels(table, self.panels)
        names = list(dict.fromkeys(by_value))
        cells = [(column, panel) for panel in panels for column in columns]
        axes = _panels(figure, len(cells), len(columns) == 1, self.columns)
        for axis, (column, panel) in zip(axes, cells, strict=True):
            own = table if panel is None else table[panel_value == panel]
            log = self._log(column, own)
            for number, name in enumerate(names):
                mine = own[by_value[own.index] == name].dropna(subset=[column])
                points = mine.groupby(self.x, sort=False)[column].mean()
                if len(points):
                    least = self.floor.get(column, 1e-8) if log else float("-inf")
                    self._draw(axis, table, points.clip(lower=least), str(name), number, len(names))
            axis.set(xlabel=self.xlabel or self.x, ylabel=self.ylabel or (" " if columns[column] else column))
            axis.set_title(_title(columns[column], self.panels, panel, len(panels)), fontsize=9)
            axis.set(**({"xscale": "log"} if self.logx else {}), **({"yscale": "log"} if log else {}))
            if self.level is not None:
                axis.axhline(self.level, color="black", linewidth=0.8, linestyle=":")
        _legend(figure, axes)

    def _log(self, column: str, own: Table) -> bool:
        if self.logy == "auto":
            return bool(own[column].max() > 5 * own[column].min() > 0)
        return self.logy if isinstance(self.logy, bool) else column in self.logy

    def _draw(self, axis: Any, table: Table, points: Any, name: str, number: int, names: int) -> None:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Lines(Figure):
    """Lines over ``x``."""

    markers: bool = True

    def _draw(self, axis: Any, table: Table, points: Any, name: str, number: int, names: int) -> None:
        style = {"marker": _MARKERS[number % len(_MARKERS)], "markersize": 4} if self.markers else {}
        points = points if points.index.dtype == object else points.sort_index()
        axis.plot(points.index, points, label=name, color=f"C{number % 10}", linewidth=1.3, **style)
        axis.grid(alpha=0.25)
        if self.logx:
            axis.xaxis.set_minor_formatter("")  # labels between powers of ten would overlap


@dataclass(frozen=True, kw_only=True)
class Bars(Figure):
    """Bars side by side: a group for each value of ``x``."""

    def _draw(self, axis: Any, table: Table, points: Any, name: str, number: int, names: int) -> None:
        groups, width = _values(table, self.x), 0.8 / names
        left = [groups.index(x) + (number - (names - 1) / 2) * width for x in points.index]
        axis.bar(left, points, width, label=name, color=f"C{number % 10}")
        axis.set_xticks(range(len(groups)), [str(x) for x in groups], fontsize=7, rotation=20)


@dataclass(frozen=True)
class Stacks:
    """Stacked bars of ``parts`` over ``x``, a panel for each value of ``panels``."""

    x: str
    parts: tuple[str, ...]
    panels: str
    ylabel: str
    level: float | None = None

    def __call__(self, figure: Any, rows: Rows) -> None:
        """Draw the rows."""
        table = Table.of_rows(rows)
        panels = _values(table, self.panels)
        axes = _panels(figure, len(panels), shared=True)
        for axis, panel in zip(axes, panels, strict=True):
            own = table[table[self.panels] == panel]
            own.plot.bar(x=self.x, y=list(self.parts), stacked=True, ax=axis, legend=False, rot=0, width=0.8)
            if self.level is not None:
                axis.axhline(self.level, color="black", linewidth=0.8, linestyle=":")
            axis.set(xlabel=self.x, ylabel=self.ylabel)
            axis.set_title(str(panel), fontsize=9)
        _legend(figure, axes)


def melted(columns: Mapping[str, str], table: Table, value: str = "value", name: str = "series") -> Table:
    """Return a row for each of some columns, named by their titles."""
    kept = [column for column in table.columns if column not in columns]
    return Table(table.rename(columns=dict(columns)).melt(kept, list(columns.values()), name, value))


def relative(table: Table, column: str, to: str, *by: str) -> Table:
    """Return every subject's mean of ``column`` relative to that of ``to``, for every ``by``."""
    wide = table.wide(column, *by)
    found = wide.div(wide[to], axis=0).dropna(subset=[to]).stack(future_stack=True).dropna()
    return Table(found.rename_axis([*by, table.subject]).rename("relative").reset_index())


def _labels(table: Table, spelled: str) -> Any:
    if "{" not in spelled:
        return table[spelled] if spelled else table.index.to_series()
    return table.apply(lambda row: spelled.format(**row), axis=1)


def _values(table: Table, spelled: str) -> list[Any]:
    return list(dict.fromkeys(_labels(table, spelled)))


def _title(column: str, panels: str, panel: Any, count: int) -> str:
    if panel is None or (column and count == 1):
        return column
    text = str(panel) if isinstance(panel, str) else f"{panels} = {panel}"
    return f"{column}, {text}" if column else text


def _panels(figure: Any, count: int, shared: bool, most: int = 3) -> list[Any]:
    columns = min(most, count)
    lines = -(-count // columns)
    figure.set_size_inches(3.6 * columns + 0.6 if count > 1 else 6.0, 2.9 * lines + 0.8 if count > 1 else 4.2)
    axes = list(figure.subplots(lines, columns, squeeze=False, sharey=shared).flat)
    for spare in axes[count:]:
        spare.axis("off")
    return axes[:count]


def _legend(figure: Any, axes: Sequence[Any]) -> None:
    found: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    ncols = max(1, min(5, len(found), 90 // (6 + max(map(len, found), default=0))))
    style = {"loc": "outside upper center", "ncols": ncols, "fontsize": 7, "frameon": False}
    figure.legend(list(found.values()), list(found), **style)
