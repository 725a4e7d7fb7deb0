"""The harness: one stream through the real pipeline on Spark, route, work, aggregate.

Sources are input partitions, each with a router of evenflow's (:func:`evenflow.spark.operators.place.place`);
worker w is partition w and serves its messages in Python; an aggregator merges partial states by key.
The clock runs from handing in the batch to the aggregator's answer, which has to count every message.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array
from evenflow.papers.deployments.finished import Run, read_finished
from evenflow.papers.deployments.messages import Messages
from evenflow.papers.deployments.work import KINDS, PARTIALS, Serve
from evenflow.schemes.base import Scheme
from evenflow.simulator import simulate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
            raise EvenflowError(f"kind is {self.kind!r}; a worker's work is {' or '.join(KINDS)}.")
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
        """Seconds that all workers together need, each doing what it can."""
        return float(messages / self.capacity.sum())


def predicted_seconds(scheme: Scheme, messages: Messages, cluster: Cluster) -> float:
    """Return when the simulator says that the last worker is done, were there no engine."""
    found = simulate(
        scheme, messages, workers=cluster.workers, sources=cluster.sources, seed=cluster.seed, marks=1
    )
    return float((found.loads / cluster.capacity).max())


@dataclass
class Harness:
    """Runs on one session; streams are written once to a folder of the harness's own."""

    spark: SparkSession
    folder: Path
    written: dict[tuple[str, int, int, int], Path] = field(default_factory=dict)

    def frame(self, messages: Messages, sources: int) -> DataFrame:
        """Return the messages as Spark reads them: one file and partition per source."""
        place = (messages.name, messages.messages, messages.keys, sources)
        if place not in self.written:
            self.written[place] = self.folder / f"stream-{len(self.written)}"
            messages.write(self.written[place], sources)
        return self.spark.read.schema("k long").parquet(str(self.written[place]))

    def run(self, scheme: Scheme, messages: Messages, cluster: Cluster, thinned: int = 1) -> Run:
        """Hand in all messages, wait for the aggregator, return what was measured."""
        frame = self.frame(messages, cluster.sources)
        told = Path(tempfile.mkdtemp(prefix="run-", dir=self.folder))
        serve = Serve(cluster.service, cluster.speeds, str(told), cluster.kind)
        try:
            asked = pipeline(frame, scheme, cluster, serve)
            handed_in, start = time.time(), time.perf_counter()
            [found] = asked.collect()
            seconds = time.perf_counter() - start
            keys, total, pairs = (int(number or 0) for number in found)
            if total != messages.messages:
                raise EvenflowError(
                    f"the aggregator counted {total} of {messages.messages} messages; rows were lost or "
                    "repeated."
                )
            return Run(handed_in, seconds, read_finished(told, cluster.workers), keys, pairs, thinned)
        finally:
            shutil.rmtree(told, ignore_errors=True)


def pipeline(frame: DataFrame, scheme: Scheme, cluster: Cluster, serve: Serve) -> DataFrame:
    """Return the whole pipeline as a query for the aggregator's number of keys, messages, and pairs."""
    from pyspark.sql import functions as F

    from evenflow.spark.operators.place import place
    from evenflow.spark.routing.options import PlacementOptions

    options = PlacementOptions(
        cluster.workers, scheme, "online", order="as-is", seed=cluster.seed, sources=cluster.sources
    )
    placed = place(frame, "k", options)
    partials = placed.moved().select("k").mapInArrow(serve, PARTIALS)
    merged = partials.groupBy("k").agg(F.sum("n").alias("n"), F.count("*").alias("pairs"))
    return merged.agg(F.count("*"), F.sum("n"), F.sum("pairs"))


@contextmanager
def harness_on(spark: SparkSession) -> Iterator[Harness]:
    """Open a harness with a folder that goes with it."""
    with tempfile.TemporaryDirectory(prefix="evenflow-deploy-", ignore_cleanup_errors=True) as folder:
        yield Harness(spark, Path(folder))
