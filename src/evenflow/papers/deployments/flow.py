"""A stream that runs: a paced source, the online routers of a scheme, workers that serve, an aggregator.

One streaming query, started once and driven by the harness: it sets how many messages come and what they
cost, window by window. A micro-batch starts every ``interval`` seconds, or when the one before it is
done, and has the messages that came in the windows before. Routers pass on what they learned and hear
what workers measured, as in every streaming query of evenflow. A batch is over when the aggregator has
merged the workers' partial states and Spark has committed it; every message must then have been counted
once.

Several flows can run at once, each in a lane: its windows end a part of an interval after those of the
lane before. While the workers of one flow sleep, Spark has the cores for the others.
"""

from __future__ import annotations

import math
import os
import threading
import time
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int64Array
from evenflow.papers.deployments.pace import Pace, write_keys
from evenflow.papers.deployments.serving import PARTIALS, Serve, Served, read_served, write_service
from evenflow.schemes.base import Scheme

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AHEAD = 0.15  # seconds before a window begins in which its messages cannot be changed any more
_LOOK = 0.05  # seconds between two looks for a new answer
_REGISTERING = threading.Lock()
_STARTING = threading.Semaphore(os.cpu_count() or 1)
_STARTS = "Initializing"  # the status of a query begins so
_STARTED = 3  # times, until its source has
_TOO_LATE = "Python worker failed to connect back"
_CHECK = 1.0  # seconds between two questions to Spark, which cost it processor time, whether the query runs


@dataclass(frozen=True)
class Batch:
    """One micro-batch: seconds from its trigger to its commit, and what the aggregator counted.

    ``end`` is the number of the first message after it. ``late`` are the seconds from when the next one was
    due until it was done, below 0 if it was in time.
    """

    number: int
    seconds: float
    messages: int
    pairs: int
    end: int
    late: float


@dataclass(frozen=True)
class Timing:
    """Seconds between the ends of two windows, and the lane of a flow among so many.

    >>> Timing(1.0, 1, 3).interval, Timing(1.0, 1, 3).start(100.5)
    (0.999, 101.232)
    """

    seconds: float
    lane: int = 0
    lanes: int = 1

    @property
    def tick(self) -> int:
        """Milliseconds between the windows of two lanes."""
        return round(1000 * self.seconds / self.lanes)

    @property
    def interval(self) -> float:
        """Seconds between the ends of two windows: a whole number of ticks, as Spark's triggers are."""
        return self.lanes * self.tick / 1000

    def start(self, now: float) -> float:
        """Return when the first window begins."""
        whole = math.ceil(now / self.interval)
        return round(whole * self.interval + self.lane * self.tick / 1000, 3)


class Flow:
    """A running query over the messages with these keys."""

    LAG = 0.0  # seconds from the end of a window to the trigger of its micro-batch

    def __init__(
        self, spark: SparkSession, folder: Path, keys: Int64Array, scheme: Scheme, workers: int, sources: int,
        timing: Timing, seed: int = 0, computes: bool = False,
    ):  # fmt: skip
        self.folder, self.workers, self.sources = folder, workers, sources
        self.interval = timing.interval
        self.batches: list[Batch] = []
        self._seen = -1
        self._answers: dict[int, tuple[int, int]] = {}
        write_keys(folder, keys)
        self.pace = Pace(timing.start(time.time()) - self.LAG, self.interval)
        self._costs = {0: np.zeros(workers)}
        write_service(folder, self._costs)
        self.pace.write(folder)
        frame = self._messages(spark)
        states = _partial_states(
            frame, scheme, workers, sources, seed, Serve(str(folder), computes), str(folder / "control")
        )
        writer = states.writeStream.foreachBatch(self._answer)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        writer = writer.trigger(processingTime=f"{timing.tick} milliseconds")
        for _ in range(_STARTED):
            with _STARTING:  # Spark gives the Python process of a source ten seconds to start
                self.query = writer.start()
                while self.query.isActive and self.query.status["message"].startswith(_STARTS):
                    time.sleep(_LOOK)
            if _TOO_LATE not in str(self.query.exception()):
                break

    @property
    def sent(self) -> int:
        """How many messages came or are still to come."""
        return sum(self.pace.counts)

    def serve(self, cost: Float64Array, after: int = 0) -> None:
        """Set what a message costs each worker, but for those sent and so many ``after`` them.

        All messages of a window must cost the same.
        """
        self._costs[self.sent + after] = cost
        write_service(self.folder, self._costs)

    def run(self, *counts: int) -> list[Batch]:
        """Let so many messages come in each of the next windows; return their batches when all are done."""
        now = time.time()
        first = max(len(self.pace.counts), self.pace.window(now + AHEAD) + 1)
        idle = (0,) * (first - len(self.pace.counts))
        self.pace = replace(self.pace, counts=(*self.pace.counts, *idle, *counts))
        self.pace.write(self.folder)
        known, due = len(self.batches), now
        while sum(batch.messages for batch in self.batches) < self.sent:
            if time.time() >= due:
                self._check()
                due += _CHECK
            time.sleep(_LOOK)
            if max(self._answers, default=-1) > self._seen:
                self._look()
        return self.batches[known:]

    def served(self) -> Served:
        """Return what all workers served up to now."""
        return read_served(self.folder)

    def stop(self) -> None:
        """Stop the query."""
        self.query.stop()

    def _messages(self, spark: SparkSession) -> DataFrame:
        """Return the stream: columns k, number, created."""
        from evenflow.papers.deployments.paced_source import FORMAT, PacedSource

        with _REGISTERING:  # each stream its own source: of one that starts, Spark changes the environment
            spark.dataSource.register(PacedSource)
            reader = spark.readStream.format(FORMAT).option("folder", str(self.folder))
            return reader.option("sources", self.sources).load()

    def _answer(self, partials: DataFrame, batch: int) -> None:
        """Take the aggregator's answer on a micro-batch."""
        self._answers[batch] = counted(aggregated(partials))

    def _check(self) -> None:
        """Raise an error unless the query runs."""
        if (failure := self.query.exception()) is not None:
            raise EvenflowError(f"the query failed: {failure}")
        if not self.query.isActive:
            raise EvenflowError("the query was stopped, since another one failed.")

    def _look(self) -> None:
        """Take over what the query says of its new batches; the first one may have no messages."""
        newest = self.query.lastProgress
        if newest is None or newest.batchId <= self._seen or newest.batchId not in self._answers:
            return
        for found in [newest] if newest.batchId == self._seen + 1 else self.query.recentProgress:
            if found.batchId <= self._seen or not found.numInputRows:
                continue
            self._seen = found.batchId
            messages, pairs = self._answers[self._seen]
            if messages != found.numInputRows:
                raise EvenflowError(
                    f"the aggregator counted {messages} of {found.numInputRows} messages; rows were lost or "
                    "repeated."
                )
            seconds = found.durationMs["triggerExecution"] / 1000
            end = messages + (self.batches[-1].end if self.batches else 0)
            done = datetime.fromisoformat(found.timestamp).timestamp() + seconds
            late = done - self.LAG - self.pace.due(end - 1)
            self.batches.append(Batch(self._seen, seconds, messages, pairs, end, late))


def _partial_states(
    frame: DataFrame, scheme: Scheme, workers: int, sources: int, seed: int, serve: Serve, control: str
) -> DataFrame:
    """Return the partial states of all workers: sources route, workers serve and report."""
    from evenflow.spark.monitoring.task_timing import with_timing
    from evenflow.spark.operators.place import place
    from evenflow.spark.routing.options import PlacementOptions

    options = PlacementOptions(
        workers, scheme, "online", order="as-is", seed=seed, sources=sources, control=control
    )
    placed = place(frame, "k", options)
    moved = placed.moved().select("k", "number", "created")
    return moved.mapInArrow(with_timing(serve, control, heard=placed.hears), PARTIALS)


def aggregated(partials: DataFrame) -> DataFrame:
    """Return what the aggregator makes of partial states: a row per key."""
    from pyspark.sql import functions as F

    return partials.groupBy("k").agg(F.sum("n").alias("n"), F.count("*").alias("pairs"))


def counted(merged: DataFrame) -> tuple[int, int]:
    """Return how many messages and (key, worker) pairs the aggregator counted."""
    from pyspark.sql import functions as F

    [found] = merged.agg(F.sum("n"), F.sum("pairs")).collect()
    return int(found[0] or 0), int(found[1] or 0)
