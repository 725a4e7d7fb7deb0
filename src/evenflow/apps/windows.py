"""Time windows of apps: finding and converting the time column, and naming windows."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from evenflow.errors import EvenflowError, nearest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TIMES = ("time", "ts", "timestamp", "date", "datetime")
_SPAN = re.compile(r"(\d+(?:\.\d+)?) *(seconds?|minutes?|hours?|days?|weeks?)")
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_KEPT = 1000  # windows kept in a view


def check_span(name: str, text: str | None) -> None:
    """Reject anything that is not a duration."""
    if text is not None and seconds(text) is None:
        raise EvenflowError(f"{name} is {text!r}; it must be a duration such as '10 minutes' or '1 day'.")


def seconds(text: str) -> float | None:
    """Return a duration in seconds, or None if it is invalid.

    >>> seconds("2 hours"), seconds("soon")
    (7200.0, None)
    """
    found = _SPAN.fullmatch(text.strip())
    return float(found[1]) * _SECONDS[found[2].removesuffix("s")] if found else None


def time_column(frame: DataFrame, name: str | None, app: str) -> Column:
    """Return the time of a row: the given column, or the first with a usual name.

    Numbers are Unix seconds; text is parsed as a Spark timestamp, and null if invalid.
    """
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    from evenflow.spark.routing.key_columns import quoted

    chosen = name if name is not None else next((column for column in TIMES if column in frame.columns), None)
    if chosen is None or chosen not in frame.columns:
        missing = f"there is no column {chosen!r}" if chosen else f"no column is named {' or '.join(TIMES)}"
        raise EvenflowError(
            f"{app} needs a time column, but {missing}; name it, as in --app {app}:"
            f"time={frame.columns[-1]} ({nearest(chosen or 'time', frame.columns)})"
        )
    column, kind = F.col(quoted(chosen)), frame.schema[chosen].dataType
    if isinstance(kind, T.TimestampType):
        return column
    if isinstance(kind, T.NumericType):
        return F.timestamp_seconds(column)
    return column.try_cast("timestamp")


def with_window(
    frame: DataFrame, window: str, time: str | None, late: str | None, app: str
) -> tuple[DataFrame, Column]:
    """Return the frame (a stream gets a watermark) and the window of each row, as a key column."""
    from pyspark.sql import functions as F

    from evenflow.spark.routing.key_columns import helper_name

    name = helper_name(frame, "time")
    timed = frame.select("*", time_column(frame, time, app).alias(name))
    if frame.isStreaming:
        timed = timed.withWatermark(name, late or window)
    return timed, F.window(name, window)


def window_name(window: Any) -> str:
    """Return the start of a window in UTC as sortable text; PySpark returns local times."""
    start: datetime = window["start"]
    return start.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="seconds")


def latest(windows: dict[str, Any]) -> dict[str, Any]:
    """Return the windows kept in a view, oldest first.

    >>> list(latest({"2020-01-02": 2, "2020-01-01": 1}))
    ['2020-01-01', '2020-01-02']
    """
    return dict(sorted(windows.items())[-_KEPT:])
