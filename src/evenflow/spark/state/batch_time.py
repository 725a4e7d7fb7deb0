"""The time of a micro-batch, the same for all of its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class BatchTime:
    """The clock that keys expire by, its time and the watermark, in microseconds."""

    clock: str = "processing"
    now: int | None = None  # keys are due from this time
    watermark: int | None = None
    column: int | None = None  # index of the event-time column
    late: str = "process"

    @property
    def moment(self) -> datetime | None:
        """The time as a datetime."""
        return None if self.now is None else _EPOCH + timedelta(microseconds=self.now)

    def expiry(self, value: Any) -> int | None:
        """Return the expiry time that a processor returned, or None if it is invalid."""
        if isinstance(value, timedelta) and self.now is not None:
            return self.now + value // _MICROSECOND
        if isinstance(value, datetime) and value.tzinfo is not None:
            return (value - _EPOCH) // _MICROSECOND
        return None
