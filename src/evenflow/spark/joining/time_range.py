"""How far apart the times of two rows of streams that match may be, as Spark derives it from the condition.

Spark needs the same range to know when a row that waits can find no match any more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from evenflow.spark.joining.sides import JoinSides

WATERMARK = "spark.watermarkDelayMs"
_MICROSECONDS = 1000  # in Spark's unit
_MARGIN = 10  # milliseconds, beyond Spark's rounding
_SOME_TIME = 2**40  # milliseconds; a number that Java takes for a LONG


class TimeRange(NamedTuple):
    """The time columns, and the bounds of the left time minus the right time, in microseconds."""

    left: str
    right: str
    least: int
    most: int

    def reversed(self) -> TimeRange:
        """Return the same range with the right time minus the left time.

        >>> TimeRange("a", "b", -5, 2).reversed()
        TimeRange(left='b', right='a', least=-2, most=5)
        """
        return TimeRange(self.right, self.left, -self.most, -self.least)


def time_range(sides: JoinSides) -> TimeRange | str:
    """Return the range in which the times of rows that match are, or why it is not known."""
    columns = []
    for frame, side in zip(sides.frames, ("left", "right"), strict=True):
        found = [field.name for field in frame.schema if WATERMARK in (field.metadata or {})]
        if len(found) != 1 or frame.columns.count(found[0]) != 1:
            return f"the {side} has {len(found) or 'no'} columns with a watermark, not one"
        if not isinstance(frame.schema[found[0]].dataType, T.TimestampType):
            return f"the watermark of the {side} is not a timestamp, but {frame.schema[found[0]].dataType}"
        columns.append(found[0])
    if sides.on.residual is None:
        return "no condition limits the time between two rows that match"
    if not all(hasattr(frame, "_jdf") for frame in sides.frames):
        return "Spark Connect does not tell the range of times that it derives from the condition"
    joined = sides.frames[0].join(sides.frames[1], sides.on.residual)
    waits = [_state_watermark(joined, columns, side) for side in (0, 1)]
    if waits[0] is None or waits[1] is None:
        return "Spark derives no range of times in both directions from the condition"
    least, most = waits[0] - _MARGIN, -waits[1] + _MARGIN
    return TimeRange(columns[0], columns[1], least * _MICROSECONDS, most * _MICROSECONDS)


def _state_watermark(joined: DataFrame, columns: list[str], side: int) -> int | None:
    """Return how much earlier, in milliseconds, than a row of the other side a row of ``side`` that matches
    it may be, negative if it may; None if Spark does not know."""
    frame: Any = joined
    jvm, plan = frame.sparkSession._jvm, frame._jdf.queryExecution().analyzed()
    catalyst = jvm.org.apache.spark.sql.catalyst
    sets = getattr(getattr(catalyst.expressions, "AttributeSet$"), "MODULE$")
    times = []
    for child, name in zip((plan.left(), plan.right()), columns, strict=True):
        output = child.output()
        attributes = (output.apply(number) for number in range(output.size()))
        times.append(sets.apply(next(found for found in attributes if found.name() == name)))
    helper = getattr(getattr(catalyst.analysis, "StreamingJoinHelper$"), "MODULE$")
    condition, at = plan.condition(), jvm.scala.Some(_SOME_TIME)
    found = helper.getStateValueWatermark(times[side], times[1 - side], condition, at)
    return int(found.get()) - _SOME_TIME if found.isDefined() else None
