"""The harness: one stream through the real pipeline on Spark, route, work, aggregate.

Sources are input partitions, each with a router of evenflow's (:func:`evenflow.spark.operators.place.place`);
worker w is partition w and serves its messages in Python; an aggregator merges partial states by key.
The clock runs from submitting the batch to the aggregator's answer, which must count every message.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int32Array
from evenflow.papers.deployments.finished import Run, read_finished
from evenflow.papers.deployments.work import KINDS, PARTIALS, Serve
from evenflow.schemes.base import Scheme
from evenflow.simulator import simulate
from evenflow.streams import Uniform, open_stream
from evenflow.streams.sample import Sample, take_sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


BROKER = "spark.evenflow.deployments.broker"  # setting of the session: HOST:PORT


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

    def write(self, folder: Path, sources: int) -> None:
        """Write one file per source: source j has the messages whose number is j modulo ``sources``."""
        folder.mkdir(parents=True)
        keys = self.ids.astype(np.int64) + 1
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


class Answer(NamedTuple):
    """When a run was submitted, the seconds until the aggregator's answer, and what it counted."""

    submitted: float
    seconds: float
    keys: int
    messages: int
    pairs: int


@dataclass
class Harness:
    """Runs on one session; streams are written once, to a folder of the harness."""

    spark: SparkSession
    folder: Path
    written: dict[tuple[str, int, int, int], str] = field(default_factory=dict)

    def run(self, scheme: Scheme, messages: Messages, cluster: Cluster, thinned: int = 1) -> Run:
        """Submit all messages, wait for the aggregator, return what was measured."""
        stream = (messages.spec, messages.messages, messages.keys_upper_bound(), cluster.sources)
        if stream not in self.written:
            self.written[stream] = self.write(messages, cluster.sources)
        logs = Path(tempfile.mkdtemp(prefix="run-", dir=self.folder))
        serve = Serve(cluster.service, cluster.speeds, str(logs), cluster.kind)
        try:
            found = self.answer(self.written[stream], scheme, cluster, serve)
            if found.messages != messages.messages:
                raise EvenflowError(
                    f"the aggregator counted {found.messages} of {messages.messages} messages; rows were "
                    "lost or repeated."
                )
            workers = read_finished(logs, cluster.workers)
            return Run(found.submitted, found.seconds, workers, found.keys, found.pairs, thinned)
        finally:
            shutil.rmtree(logs, ignore_errors=True)

    def write(self, messages: Messages, sources: int) -> str:
        """Write a stream to where the sources read it; return its name."""
        folder = self.folder / f"stream-{len(self.written)}"
        messages.write(folder, sources)
        return str(folder)

    def answer(self, stream: str, scheme: Scheme, cluster: Cluster, serve: Serve) -> Answer:
        """Run the pipeline on a stream until the aggregator answers."""
        from pyspark.sql import functions as F

        frame = self.spark.read.schema("k long").parquet(stream)
        merged = aggregated(partial_states(frame, scheme, cluster, serve))
        query = merged.agg(F.count("*"), F.sum("n"), F.sum("pairs"))
        submitted, start = time.time(), time.perf_counter()
        [found] = query.collect()
        seconds = time.perf_counter() - start
        return Answer(submitted, seconds, *(int(number or 0) for number in found))


def partial_states(frame: DataFrame, scheme: Scheme, cluster: Cluster, serve: Serve) -> DataFrame:
    """Return the partial states of all workers: sources route, workers serve."""
    from evenflow.spark.operators.place import place
    from evenflow.spark.routing.options import PlacementOptions

    options = PlacementOptions(
        cluster.workers, scheme, "online", order="as-is", seed=cluster.seed, sources=cluster.sources
    )
    return place(frame, "k", options).moved().select("k").mapInArrow(serve, PARTIALS)


def aggregated(partials: DataFrame) -> DataFrame:
    """Return what the aggregator makes of partial states: a row per key."""
    from pyspark.sql import functions as F

    return partials.groupBy("k").agg(F.sum("n").alias("n"), F.count("*").alias("pairs"))


@contextmanager
def open_harness() -> Iterator[Harness]:
    """Open a harness on the session that is open, with a temporary folder.

    If the session names a broker, streams go from topic to topic.
    """
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is None:
        raise EvenflowError("no Spark session is open; run this with `evenflow reproduce --on spark`.")
    with tempfile.TemporaryDirectory(prefix="evenflow-deploy-", ignore_cleanup_errors=True) as folder:
        servers = spark.conf.get(BROKER, None)
        if servers is None:
            yield Harness(spark, Path(folder))
            return
        from evenflow.papers.deployments.topics import TopicHarness

        harness = TopicHarness(spark, Path(folder), servers=servers)
        try:
            yield harness
        finally:
            harness.close()
