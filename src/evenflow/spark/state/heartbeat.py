"""A heartbeat for streams that fall silent: one row every so often, beside the rows of the user.

Spark runs a micro-batch only when there is something to read, so on a silent stream no time-out would ever
come. The beats are a second source, joined to the first by union; their rows are marked and go no further
than the beginning of the batch. Light to import: a Python worker does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

FORMAT = "evenflow-heartbeat"


class Heartbeat(DataSource):
    """A stream of beats, one every ``seconds``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns."""
        return "beat boolean"

    def streamReader(self, schema: Any) -> Beats:  # noqa: N802 - Spark's name
        """Return the reader."""
        return Beats(float(self.options["seconds"]))


class Beats(DataSourceStreamReader):
    """Counts beats since 1970; however many were missed, a batch has one row for them."""

    def __init__(self, seconds: float):
        self.seconds = seconds

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Begin now."""
        return {"beat": int(time.time() / self.seconds)}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802 - the form without limits
        """Return the last beat."""
        return {"beat": int(time.time() / self.seconds)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Return one partition."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[bool]]:
        """Yield the beat."""
        yield (True,)


def with_heartbeat(frame: DataFrame, seconds: float, beat: str) -> DataFrame:
    """Return a streaming frame with beats between its rows, and a column that says which rows these are."""
    spark = frame.sparkSession
    spark.dataSource.register(Heartbeat)
    beats = spark.readStream.format(FORMAT).option("seconds", seconds).load()
    nothing = [F.lit(None).cast(field.dataType).alias(field.name) for field in frame.schema.fields]
    return frame.select("*", F.lit(False).alias(beat)).unionAll(
        beats.select(*nothing, F.col("beat").alias(beat))
    )
