"""Counting (`choices` I and V, word count): rows per key, the k most frequent keys, optionally per window.

Rows are counted on the workers where they are placed, and the partial counts of a key are added. The top k is
exact although only k keys are kept between micro-batches: counts only grow, so a key that enters the top k
must be among those that just grew. With ``window`` the same holds for every time window: trending keys.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from evenflow.apps.base import App, AppSetup, View, register
from evenflow.apps.windows import check_span, latest, window_name, with_window
from evenflow.errors import EvenflowError
from evenflow.spark.grouped.aggregator import Aggregator

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from evenflow.report.tables import Table

SCHEMA = "rows long"
_WINDOWS_SHOWN = 12


class Count(Aggregator):
    """Rows per key; each row also sleeps ``work`` microseconds.

    >>> import pyarrow as pa
    >>> Count().reduce((1,), pa.table({"word": ["to", "be"]}))
    (3,)
    """

    buffer = SCHEMA
    merges: ClassVar[Mapping[str, str]] = {"rows": "sum"}

    def __init__(self, work: float = 0.0):
        self.work = work

    def zero(self) -> tuple[int]:
        """Start at zero."""
        return (0,)

    def reduce(self, state: tuple[int], rows: Any) -> tuple[int]:
        """Add the number of rows."""
        if self.work:
            time.sleep(rows.num_rows * self.work * 1e-6)
        return (state[0] + rows.num_rows,)

    def merge(self, a: tuple[int], b: tuple[int]) -> tuple[int]:
        """Add both counts."""
        return (a[0] + b[0],)


@register
@dataclass(frozen=True)
class Counting(App):
    """Rows per key; with ``window``, per key and window of the column ``time``."""

    window: str | None = None
    time: str | None = None
    late: str | None = None  # allowed lateness of a row; None: one window
    work: float = 0.0  # extra microseconds per row, to show the effect of balance

    name = "count"
    summary = "rows per key, in total or per time window"
    source = "zipf:z=1.4,keys=1e5,messages=1e6"
    schema = SCHEMA

    def __post_init__(self) -> None:
        check_span("window", self.window)
        check_span("late", self.late)
        if not 0 <= self.work < 1e6:
            raise EvenflowError(f"work is {self.work}; it must be from 0 to below 1,000,000 microseconds.")

    def aggregator(self) -> Aggregator:
        """Count rows."""
        return Count(self.work)

    def rows(self, frame: DataFrame, setup: AppSetup) -> tuple[DataFrame, Sequence[str | Column]]:
        """Return the rows unchanged, with their window if there is one."""
        if self.window is None:
            return frame, setup.key
        timed, window = with_window(frame, self.window, self.time, self.late, self.name)
        return timed, [window, *setup.key]

    def fold(self, view: View, changed: DataFrame, setup: AppSetup) -> View:
        """Keep the most frequent keys, in total or per window."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        most, keys = F.desc("rows"), changed.columns[:-1]
        if self.window is None:
            rows = changed.orderBy(most, *keys).limit(setup.top).collect()
            return {"top": _merged_top(view.get("top", []), rows, keys, setup.top)}
        rank = F.row_number().over(Window.partitionBy("window").orderBy(most, *keys))
        windows: dict[str, Any] = dict(view.get("windows", {}))
        found: dict[str, list[Any]] = {}
        for row in changed.select("*", rank.alias("rank")).where(F.col("rank") <= setup.top).collect():
            found.setdefault(window_name(row["window"]), []).append(row)
        for name, rows in found.items():
            windows[name] = _merged_top(windows.get(name, []), rows, keys[1:], setup.top)
        return {"windows": latest(windows)}

    def tables(self, view: View, top: int) -> list[Table]:
        """Show the most frequent keys, in total or per window."""
        from evenflow.report.tables import Table

        if self.window is None:
            keys = [(_text(entry["key"]), entry["rows"]) for entry in view.get("top", [])]
            return [Table("Most frequent keys", ("key", "rows"), keys)]
        windows = list(view.get("windows", {}).items())
        rows = [
            (start, "  ".join(f"{_text(entry['key'])} {entry['rows']:,}" for entry in most[:5]))
            for start, most in windows[-_WINDOWS_SHOWN:]
        ]
        note = f"Last {len(rows)} of {len(windows)} windows; --json has more." if windows else _NO_TIME
        return [Table(f"Most frequent keys per {self.window}", ("from (UTC)", "keys and rows"), rows, note)]


_NO_TIME = "No row has a time, so there are no windows."


@register
@dataclass(frozen=True)
class TopK(Counting):
    """The most frequent keys, in total or per window."""

    name = "top-k"
    summary = "the most frequent keys, in total or per time window"
    writes_rows = False


def _merged_top(
    known: list[dict[str, Any]], changed: Iterable[Any], keys: list[str], k: int
) -> list[dict[str, Any]]:
    """Return the k keys with the most rows, given the former ones and those that grew; idempotent."""
    rows = {_frozen(entry["key"]): entry["rows"] for entry in known}
    for row in changed:
        key = tuple(_plain(row[name]) for name in keys)
        rows[key] = max(row["rows"], rows.get(key, 0))
    most = sorted(rows.items(), key=lambda pair: (-pair[1], str(pair[0])))[:k]
    return [{"key": key[0] if len(key) == 1 else list(key), "rows": count} for key, count in most]


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | bool | None) else str(value)


def _frozen(key: Any) -> tuple[Any, ...]:
    return tuple(key) if isinstance(key, list) else (key,)


def _text(key: Any) -> str:
    return ", ".join(map(str, key)) if isinstance(key, list) else str(key)
