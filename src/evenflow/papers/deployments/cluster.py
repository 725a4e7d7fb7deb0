"""What is deployed: the messages of a stream, and the sources and workers that they go through."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int32Array, Int64Array
from evenflow.papers.deployments.work import KINDS
from evenflow.schemes.base import Scheme
from evenflow.simulator import simulate
from evenflow.streams import Uniform, open_stream
from evenflow.streams.sample import Sample, take_sample


class Messages(Sample):
    """A stream in memory; the key of id i is the number i + 1, in Spark's files and in the simulator.

    >>> Messages(np.array([7, 3, 7, 7], np.int32)).thinned(2).ids.tolist()
    [0, 0]
    """

    def __init__(self, ids: Int32Array, spec: str = "messages"):
        found, numbers = np.unique(ids, return_inverse=True)
        super().__init__(Uniform(keys=found.size), numbers.astype(np.int32), None, None, "")
        self.spec = spec  # of the stream that they were taken from

    @staticmethod
    def of(spec: str, messages: int | None = None) -> Messages:
        """Take so many messages of a stream, spread over its length where it is longer."""
        return Messages(take_sample(open_stream(spec), messages).ids, spec)

    def thinned(self, step: int) -> Messages:
        """Return every ``step``-th message."""
        return self if step == 1 else Messages(self.ids[::step], self.spec)

    @property
    def keys(self) -> Int64Array:
        """The key of each message."""
        return self.ids.astype(np.int64) + 1

    def write(self, folder: Path, sources: int) -> None:
        """Write one file per source: source j has the messages whose number is j modulo ``sources``."""
        folder.mkdir(parents=True)
        keys = self.keys
        for source in range(sources):
            path = folder / f"{source:05d}.parquet"
            pq.write_table(
                pa.table({"k": keys[source::sources]}), path, compression="none", use_dictionary=False
            )


@dataclass(frozen=True)
class Cluster:
    """Sources, workers, and what a message costs each of them."""

    workers: int
    sources: int
    service: float  # seconds of a message on a worker of speed 1
    speeds: tuple[float, ...] = ()
    kind: str = "sleep"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise EvenflowError(f"kind is {self.kind!r}; choose {' or '.join(KINDS)}.")
        if not self.speeds:
            object.__setattr__(self, "speeds", (1.0,) * self.workers)
        if len(self.speeds) != self.workers or not all(speed > 0 for speed in self.speeds):
            raise EvenflowError(
                f"speeds are {self.speeds!r} for {self.workers} workers; give one above 0 for each."
            )

    @property
    def capacity(self) -> Float64Array:
        """Messages per second that each worker can serve."""
        found: Float64Array = np.array(self.speeds) / self.service
        return found

    def ideal_seconds(self, messages: int) -> float:
        """Return how long perfectly balanced workers take."""
        return float(messages / self.capacity.sum())

    def predicted_seconds(self, scheme: Scheme, messages: Messages) -> float:
        """Return when the last worker is done according to the simulator, without an engine."""
        found = simulate(
            scheme, messages, workers=self.workers, sources=self.sources, seed=self.seed, marks=1
        )
        return float((found.loads / self.capacity).max())
