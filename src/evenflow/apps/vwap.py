"""VWAP, the volume-weighted average price per ticker (the financial streams of `functions` 1).

VWAP = sum of price x size / sum of size: sums per key, which Spark itself can merge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from evenflow.apps.base import App, AppSetup, View, column, key_column, key_text, register
from evenflow.apps.windows import check_span, latest, window_name, with_window
from evenflow.spark.grouped.aggregator import Aggregator

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from evenflow.report.tables import Table

_WINDOWS_SHOWN = 6


class Traded(NamedTuple):
    """Totals of a ticker; ``unread`` counts rows without a price or size."""

    trades: int
    volume: float
    value: float
    unread: int


class Vwap(Aggregator):
    """Trades, volume and volume-weighted average price from the columns ``price`` and ``size``.

    >>> import pyarrow as pa
    >>> rows = pa.table({"price": [10.0, 20.0, None], "size": [300.0, 100.0, 1.0]})
    >>> Vwap().finish(Vwap().reduce(Vwap().zero(), rows))
    (2, 400.0, 12.5, 1)
    """

    buffer = "trades long, volume double, value double, unread long"
    merges: ClassVar[Mapping[str, str]] = dict.fromkeys(Traded._fields, "sum")

    def zero(self) -> Traded:
        """Start at zero."""
        return Traded(0, 0.0, 0.0, 0)

    def reduce(self, state: Traded, rows: Any) -> Traded:
        """Add trades."""
        import numpy as np

        price, size = (rows[name].to_numpy().astype(np.float64) for name in ("price", "size"))
        known = ~(np.isnan(price) | np.isnan(size))
        price, size = price[known], size[known]
        return Traded(
            state.trades + price.size,
            state.volume + float(size.sum()),
            state.value + float(price @ size),
            state.unread + rows.num_rows - price.size,
        )

    def finish(self, state: Traded) -> tuple[int, float, float | None, int]:
        """Return the totals and the average price, None without volume."""
        average = state.value / state.volume if state.volume else None
        return state.trades, state.volume, average, state.unread


@register
@dataclass(frozen=True)
class VwapApp(App):
    """The volume-weighted average price per key, in total or per time window."""

    price: str = "price"
    size: str = "size"
    window: str | None = None
    time: str | None = None
    late: str | None = None

    name = "vwap"
    summary = "volume-weighted average price per ticker, in total or per time window"
    source = "trades:messages=200000,tickers=500"
    keys = ("ticker", "symbol", "key")
    schema = "trades long, volume double, vwap double, unread long"

    def __post_init__(self) -> None:
        check_span("window", self.window)
        check_span("late", self.late)

    def aggregator(self) -> Aggregator:
        """Sum trades."""
        return Vwap()

    def rows(self, frame: DataFrame, setup: AppSetup) -> tuple[DataFrame, Sequence[str | Column]]:
        """Return key, price and size; values that are not numbers become null and count as unread."""
        by: list[str | Column] = list(setup.key)
        numbers = [column(frame, self, name).try_cast("double").alias(name) for name in ("price", "size")]
        others = [key_column(frame, name).alias(name) for name in setup.key if name not in ("price", "size")]
        if self.window is None:
            return frame.select(*others, *numbers), by
        timed, window = with_window(frame, self.window, self.time, self.late, self.name)
        return timed.select(timed.columns[-1], *others, *numbers), [window, *by]

    def fold(self, view: View, changed: DataFrame, setup: AppSetup) -> View:
        """Keep the tickers with the largest volume, in total or per window."""
        windows: dict[str, Any] = dict(view.get("windows", {}))
        for row in changed.collect():
            name = "all" if self.window is None else window_name(row["window"])
            known = {field: row[field] for field in ("trades", "volume", "vwap", "unread")}
            windows.setdefault(name, {})[key_text(row, setup)] = known
        for name, tickers in windows.items():
            most = sorted(tickers.items(), key=lambda item: (-item[1]["volume"], item[0]))
            windows[name] = dict(most[: setup.top])
        return {"windows": latest(windows)}

    def tables(self, view: View, top: int) -> list[Table]:
        """Show the tickers with the largest volume."""
        from evenflow.report.tables import Table

        windows = view.get("windows", {})
        tables = []
        for name, tickers in list(windows.items())[-_WINDOWS_SHOWN:]:
            rows = [
                (key, _price(ticker["vwap"]), ticker["volume"], ticker["trades"], ticker["unread"])
                for key, ticker in tickers.items()
            ]
            title = "VWAP of the tickers with the largest volume"
            title += "" if self.window is None else f", {self.window} from {name} UTC"
            tables.append(Table(title, ("ticker", "vwap", "volume", "trades", "unread"), rows, _note(rows)))
        return tables


def _price(vwap: float | None) -> str:
    return "" if vwap is None else f"{vwap:.2f}" if abs(vwap) >= 1 else f"{vwap:.6f}"


def _note(rows: list[Any]) -> str:
    unread = sum(row[4] for row in rows)
    return f"Unread: {unread:,} rows of these tickers have no valid price or size." if unread else ""
