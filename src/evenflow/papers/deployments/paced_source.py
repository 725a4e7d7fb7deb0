"""A paced source (:mod:`.pace`) as a stream of Spark. Keep imports light: Python workers import this."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from evenflow.papers.deployments.pace import Pace, keys_of

FORMAT = "evenflow-paced"
SCHEMA = "k long, number long, created double"


class PacedSource(DataSource):
    """The stream in the folder of the option ``folder``, from as many ``sources``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the schema."""
        return SCHEMA

    def streamReader(self, schema: Any) -> PacedReader:  # noqa: N802 - Spark's names
        """Return the reader."""
        return PacedReader(Path(self.options["folder"]), int(self.options["sources"]))


@dataclass
class Part(InputPartition):
    """What one source creates from one message number to another."""

    source: int
    first: int
    end: int


class PacedReader(DataSourceStreamReader):
    """Offsets are numbers of messages."""

    def __init__(self, folder: Path, sources: int):
        self.folder, self.sources = folder, sources

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the offset before the first message."""
        return {"messages": 0}

    def latestOffset(self, *limits: Any) -> dict[str, int]:  # noqa: N802
        """Return how many messages there are."""
        return {"messages": Pace.read(self.folder).created_by(time.time())}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Part]:
        """Return a partition for each source."""
        return [Part(source, start["messages"], end["messages"]) for source in range(self.sources)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one source in the order of their creation."""
        assert isinstance(partition, Part)
        first = partition.first + (partition.source - partition.first) % self.sources
        numbers = np.arange(first, partition.end, self.sources)
        if numbers.size:
            created = Pace.read(self.folder).creation(numbers)
            columns = [pa.array(values) for values in (keys_of(self.folder, numbers), numbers, created)]
            yield pa.RecordBatch.from_arrays(columns, names=["k", "number", "created"])
