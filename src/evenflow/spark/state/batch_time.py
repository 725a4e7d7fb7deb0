"""The time of a micro-batch, the same for all of its tasks, and times that a processor gives."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Time:
    """Which clock keys expire by, and what it and the watermark show; microseconds."""

    clock: str = "processing"
    now: int | None = None  # what ``expire`` is measured against
    watermark: int | None = None
    column: int | None = None  # the event time, among the columns of the rows
    late: str = "process"

    @property
    def moment(self) -> datetime | None:
        """The time as a datetime."""
        return None if self.now is None else _EPOCH + timedelta(microseconds=self.now)

    def until(self, given: Any) -> int | None:
        """Return the moment that a processor gave, or None if that is none."""
        if isinstance(given, timedelta) and self.now is not None:
            return self.now + given // _MICROSECOND
        if isinstance(given, datetime) and given.tzinfo is not None:
            return (given - _EPOCH) // _MICROSECOND
        return None
