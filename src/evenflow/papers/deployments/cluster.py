"""What is deployed: the messages of a stream, and the sources and workers that they go through."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int32Array, Int64Array
from evenflow.streams import Uniform, open_stream
from evenflow.streams.sample import Sample, take_sample


class Messages(Sample):
    """A stream in memory; the key of id i is the number i + 1, in Spark and without an engine.

    >>> Messages(np.array([7, 3, 7, 7], np.int32)).keys.tolist()
    [2, 1, 2, 2]
    """

    def __init__(self, ids: Int32Array):
        found, numbers = np.unique(ids, return_inverse=True)
        super().__init__(Uniform(keys=found.size), numbers.astype(np.int32), None, None, "")

    @staticmethod
    def of(spec: str, messages: int | None = None) -> Messages:
        """Take so many messages of a stream, spread over its length where it is longer."""
        return Messages(take_sample(open_stream(spec), messages).ids)

    @property
    def keys(self) -> Int64Array:
        """The key of each message."""
        return self.ids.astype(np.int64) + 1


@dataclass(frozen=True)
class Cluster:
    """Sources, workers, and what a message costs each of them."""

    workers: int
    sources: int
    service: float  # seconds of a message on a worker of speed 1
    speeds: tuple[float, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
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
