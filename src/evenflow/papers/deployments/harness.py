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

from evenflow.errors import EvenflowError
from evenflow.papers.deployments.cluster import Cluster, Messages
from evenflow.papers.deployments.finished import Run, read_finished
from evenflow.papers.deployments.work import PARTIALS, Serve
from evenflow.schemes.base import Scheme

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


BROKER = "spark.evenflow.deployments.broker"  # setting of the session: HOST:PORT


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
