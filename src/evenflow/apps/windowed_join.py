"""A join-like windowed operator (`functions` 3.1): all pairs of rows of a key and window are compared.

The work per key is quadratic in its rows: beta_c(f) = f^2. Workers with the same number of rows may thus have
very different amounts of work, as their busy times show. A match is a pair of rows whose ``value`` differs by
at most ``band``; without ``value`` their times are compared, in seconds.

The rows of a split key are compared on each of its workers, and across workers when their states are merged:
every pair is compared exactly once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evenflow.apps.base import App, AppSetup, View, column, key_column, key_text, register
from evenflow.apps.windows import check_span, time_column, window_name, with_window
from evenflow.kernels import Float64Array
from evenflow.spark.grouped.aggregator import Aggregator
from evenflow.spec import check

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from evenflow.report.tables import Table

_CELLS = 1 << 20  # comparisons in memory at a time


class Joined(NamedTuple):
    """State of a window: the values of its rows, the pairs compared, and the matches."""

    comparisons: int
    matches: int
    values: list[float]


class BandJoin(Aggregator):
    """Pairs of rows whose ``value`` differs by at most ``band``; rows without a value never match.

    >>> import pyarrow as pa
    >>> join = BandJoin(band=1.0)
    >>> join.finish(join.reduce(join.zero(), pa.table({"value": [1.0, 2.0, 9.0, None]})))
    (3, 3, 1)
    """

    buffer = "comparisons long, matches long, values array<double>"

    def __init__(self, band: float):
        self.band = band

    def zero(self) -> Joined:
        """Start with an empty window."""
        return Joined(0, 0, [])

    def reduce(self, state: Joined, rows: Any) -> Joined:
        """Compare new rows with each other and with the existing ones."""
        values = rows["value"].to_numpy().astype(np.float64)
        values = values[~np.isnan(values)]
        size = values.size
        fresh = Joined(size * (size - 1) // 2, _inside(values, self.band), values.tolist())
        return self.merge(state, fresh)

    def merge(self, a: Joined, b: Joined) -> Joined:
        """Compare the rows of both states with each other."""
        across = _across(np.array(a.values), np.array(b.values), self.band)
        return Joined(
            a.comparisons + b.comparisons + len(a.values) * len(b.values),
            a.matches + b.matches + across,
            [*a.values, *b.values],
        )

    def finish(self, state: Joined) -> tuple[int, int, int]:
        """Return rows, comparisons, matches."""
        return len(state.values), state.comparisons, state.matches


def _inside(values: Float64Array, band: float) -> int:
    """Return the number of matching pairs of ``values``, by comparing all pairs."""
    return (_across(values, values, band) - values.size) // 2 if values.size else 0


def _across(a: Float64Array, b: Float64Array, band: float) -> int:
    step = max(1, _CELLS // max(1, b.size))
    parts = (a[start : start + step, None] for start in range(0, a.size, step))
    return sum(int(np.count_nonzero(np.abs(part - b) <= band)) for part in parts)


@register
@dataclass(frozen=True)
class WindowedJoin(App):
    """Pairs of rows with the same key and window that are close in value or time."""

    window: str = "1 minute"
    band: float = 1.0
    value: str | None = None
    time: str | None = None
    late: str | None = None

    name = "windowed-join"
    summary = "close pairs of rows within a key and window; the work is quadratic in a key's rows"
    source = "trades:messages=200000,tickers=500"
    keys = ("key", "ticker", "symbol")
    schema = "rows long, comparisons long, matches long"

    def __post_init__(self) -> None:
        check_span("window", self.window)
        check_span("late", self.late)
        check("band", self.band, self.band >= 0, "it must be at least 0")

    def aggregator(self) -> Aggregator:
        """Compare rows."""
        return BandJoin(self.band)

    def rows(self, frame: DataFrame, setup: AppSetup) -> tuple[DataFrame, Sequence[str | Column]]:
        """Return key, window and value."""
        timed, window = with_window(frame, self.window, self.time, self.late, self.name)
        if self.value is None:
            value = time_column(frame, self.time, self.name).cast("double")
        else:
            value = column(frame, self, "value").try_cast("double")
        others = [key_column(frame, name).alias(name) for name in setup.key if name != "value"]
        return timed.select(timed.columns[-1], *others, value.alias("value")), [window, *setup.key]

    def fold(self, view: View, changed: DataFrame, setup: AppSetup) -> View:
        """Keep the keys and windows with the most comparisons, which only grow."""
        from pyspark.sql import functions as F

        known = {(row["window"], row["key"]): row for row in view.get("most", [])}
        for row in changed.orderBy(F.desc("comparisons"), *changed.columns[1:-3]).limit(setup.top).collect():
            key, window = key_text(row, setup), window_name(row["window"])
            numbers = {name: row[name] for name in ("rows", "comparisons", "matches")}
            known[window, key] = {"window": window, "key": key, **numbers}
        most = sorted(
            known.values(), key=lambda entry: (-entry["comparisons"], entry["window"], entry["key"])
        )
        return {"most": most[: setup.top]}

    def tables(self, view: View, top: int) -> list[Table]:
        """Show the keys and windows with the most work."""
        from evenflow.report.tables import Table

        rows = [
            (entry["window"], entry["key"], entry["rows"], entry["comparisons"], entry["matches"])
            for entry in view.get("most", [])
        ]
        columns = ("from (UTC)", "key", "rows", "comparisons", "matches")
        return [Table("Keys and windows with the most comparisons", columns, rows)]
