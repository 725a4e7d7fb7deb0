"""Time columns as seconds: timestamps, dates, numbers, or text containing one of these.

Times are arrival times and a stream is in row order, so they never decrease: a row with an earlier time than
a preceding row arrives together with it and is counted as ``late``. Rows without a time are rejected.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class Clock:
    """The arrival times of a single pass over a stream.

    >>> clock = Clock("ts")
    >>> clock.seconds(pa.array([5, 4, 7]), 0).tolist(), clock.late
    ([5.0, 5.0, 7.0], 1)
    """

    def __init__(self, column: str):
        self.column = column
        self.late = 0
        self._latest = -np.inf

    def seconds(self, column: Any, rows_before: int) -> Float64Array:
        """Return the arrival time of each row."""
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if kinds.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.null_count:
            self._refuse("no time", column.is_null(), rows_before)
        times = np.asarray(self._as_seconds(column, rows_before), np.float64)
        if not np.isfinite(times).all():
            self._refuse("a time that is not finite", pa.array(~np.isfinite(times)), rows_before)
        clock: Float64Array = np.maximum.accumulate(np.concatenate([[self._latest], times]))[1:]
        self.late += int((clock > times).sum())
        self._latest = clock[-1] if clock.size else self._latest
        return clock

    def _as_seconds(self, column: Any, rows_before: int) -> Any:
        kind = column.type
        if kinds.is_string(kind) or kinds.is_large_string(kind):
            return self._as_seconds(self._from_text(column, rows_before), rows_before)
        if kinds.is_date(kind):
            column = column.cast(pa.timestamp("s"))
        if kinds.is_timestamp(column.type) or kinds.is_duration(kind) or kinds.is_time(kind):
            width = pa.int32() if kinds.is_time32(kind) else pa.int64()
            return column.cast(width).to_numpy() / _PER_SECOND[column.type.unit]
        if kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind):
            return column.cast(pa.float64(), safe=False).to_numpy()
        raise EvenflowError(
            f"time column {self.column!r} has type {kind}; use a column of timestamps, dates or numbers."
        )

    def _from_text(self, column: Any, rows_before: int) -> Any:
        accepted = (pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC"))
        for kind in accepted:
            try:
                return column.cast(kind)
            except pa.ArrowInvalid:
                continue
        for row, text in enumerate(column.to_pylist()):
            if not any(_casts(text, kind) for kind in accepted):
                raise EvenflowError(
                    f"row {rows_before + row + 1} has {text!r} in time column {self.column!r}; "
                    "times must be seconds or have the form 2024-01-31T12:00:00."
                )
        raise EvenflowError(
            f"time column {self.column!r} mixes numbers and dates; use one format for all times."
        )

    def _refuse(self, what: str, mask: Any, rows_before: int) -> None:
        row = rows_before + pc.index(mask, True).as_py() + 1
        raise EvenflowError(
            f"row {row} has {what} in column {self.column!r}; fix the value, or read without a time column."
        )


def _casts(text: str, kind: Any) -> bool:
    try:
        pa.scalar(text).cast(kind)
    except pa.ArrowInvalid:
        return False
    return True
