"""A heartbeat for idle streams: one extra row at a regular interval.

Spark runs a micro-batch only when there is new input, so no time-out would fire on an idle stream. The
heartbeat is a second source, combined with the first by union; its rows are flagged and dropped at the start
of the batch. With ``availableNow`` it beats up to the start of the query and no more: a source that could not
say so would have Spark read all input of the other one in a single batch, whatever its limits.

Keep imports light: Python workers import this module.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, InputPartition

from evenflow.spark.versions.sources import StoppingReader

FORMAT = "evenflow-heartbeat"


class Heartbeat(DataSource):
    """A stream with one row every ``seconds``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the schema."""
        return "beat boolean"

    def streamReader(self, schema: Any) -> Beats:  # noqa: N802 - Spark's name
        """Return the reader."""
        return Beats(float(self.options["seconds"]))


class Beats(StoppingReader):
    """Offsets are beats since the epoch; a batch has one row, however many beats it covers."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self.last: int | None = None  # beat, if the query ends there

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let the current beat be the last one."""
        self.last = int(time.time() / self.seconds)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the current beat."""
        return {"beat": int(time.time() / self.seconds)}

    def latestOffset(self, *limits: Any) -> dict[str, int]:  # noqa: N802
        """Return the current beat, or the last one; not every Spark passes a start and a limit."""
        return {"beat": int(time.time() / self.seconds) if self.last is None else self.last}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Return one partition."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[bool]]:
        """Yield one row."""
        yield (True,)


def with_heartbeat(frame: DataFrame, seconds: float, beat: str) -> DataFrame:
    """Return a streaming frame with heartbeat rows, flagged in the boolean column ``beat``."""
    spark = frame.sparkSession
    spark.dataSource.register(Heartbeat)
    beats = spark.readStream.format(FORMAT).option("seconds", seconds).load()
    nulls = [F.lit(None).cast(field.dataType).alias(field.name) for field in frame.schema.fields]
    return frame.select("*", F.lit(False).alias(beat)).unionAll(
        beats.select(*nulls, F.col("beat").alias(beat))
    )
