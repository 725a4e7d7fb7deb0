"""Queries of several schemes at once, each in a lane (:mod:`.flow`), and how long an interval is.

A worker sleeps for most of an interval, so one query alone leaves the cores idle. With their windows
apart, ``LANES`` queries share them, and what a micro-batch needs of them rarely meets that of another
lane.
"""

from __future__ import annotations

import queue
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import evenflow as ef
from evenflow.errors import EvenflowError
from evenflow.papers.deployments.cluster import Cluster, Messages
from evenflow.papers.deployments.flow import Flow, Timing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LANES = 6
LITTLE = 0.15  # of an interval, that a micro-batch without work must stay below
EMPTY = 0.12  # of an interval, for a micro-batch without work, when an interval is chosen
GROWTH = 2.0  # times an interval, that the next one may have
EMPTY_WINDOWS = 3  # of messages that cost nothing, of which the last two are measured
COLD = 8  # more windows before them, when a process measures for the first time
BROKER = "spark.evenflow.deployments.broker"  # setting of the session: HOST:PORT
_EMPTY: list[float] = []  # seconds of one for each task of its workers and sources, once measured


def active_session() -> SparkSession:
    """Return the session that is open."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is None:
        raise EvenflowError("no Spark session is open; run this with `evenflow reproduce --on spark`.")
    return spark


def stop_queries(spark: SparkSession) -> None:
    """Stop all queries of a session."""
    for running in spark.streams.active:
        running.stop()


def flow_kind(spark: SparkSession) -> type[Flow]:
    """Return what a stream runs through: if the session names a broker, from topic to topic."""
    if spark.conf.get(BROKER, None) is None:
        return Flow
    from evenflow.papers.deployments.topics import TopicFlow

    return TopicFlow


def first_interval(
    spark: SparkSession, messages: Messages, cluster: Cluster, interval: float, lanes: int
) -> float:
    """Return seconds of which a micro-batch without work should take ``EMPTY``; ``interval`` at least.

    The last configuration tells, by the number of its tasks. If there is none yet, so many queries at once
    warm the process up and measure it. That may be far off, so it counts for up to ``GROWTH`` times
    ``interval``: if a micro-batch really takes so long, the queries find it again (`longer_interval`).
    """
    if not _EMPTY:
        window = round(float(cluster.capacity.sum()) * interval)
        found = []
        all_lanes = Lanes(lanes, lanes, 0, shares=False, stop=partial(stop_queries, spark))
        spark.range(1).mapInArrow(_unchanged, "id long").collect()  # the parent of Python workers loads

        def run(number: int, lane: int) -> None:
            with tempfile.TemporaryDirectory(prefix="evenflow-empty-", ignore_cleanup_errors=True) as folder:
                timing = Timing(interval, lane, lanes)
                flow = flow_kind(spark)(spark, Path(folder), messages.keys, ef.scheme("shuffle"),
                                        cluster.workers, cluster.sources, timing)  # fmt: skip
                try:
                    all_lanes.largest(number)
                    flow.run(*COLD * [window])
                    all_lanes.largest(number)
                    found.append(min(batch.seconds for batch in flow.run(*EMPTY_WINDOWS * [window])[1:]))
                finally:
                    flow.stop()

        all_lanes.run(run)
        remember(cluster, max(found))
    measured = _EMPTY[0] * _tasks(cluster) / EMPTY
    return max(interval, min(measured, GROWTH * interval))


def longer_interval(interval: float, empty_seconds: float) -> float | None:
    """Return the interval with which a configuration begins again; None if this one is long enough.

    >>> longer_interval(2.5, 0.37), longer_interval(2.0, 0.36), longer_interval(2.5, 24.0)
    (None, 3.0, 5.0)
    """
    if empty_seconds < LITTLE * interval:
        return None
    return min(empty_seconds / EMPTY, GROWTH * interval)


def remember(cluster: Cluster, empty_seconds: float) -> None:
    """Let the next interval depend on what micro-batches without work took the last queries."""
    _EMPTY[:] = [empty_seconds / _tasks(cluster)]


def _unchanged(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def _tasks(cluster: Cluster) -> int:
    return cluster.workers + cluster.sources


def room(spark: SparkSession, cluster: Cluster) -> int:
    """Return how many lanes there are slots for, up to ``LANES``."""
    slots = int(spark.sparkContext.defaultParallelism)
    return min(LANES, slots // max(cluster.workers, cluster.sources))


class Lanes:
    """Runs trials, in order, in as many lanes as there are; the first one may tell the others its results."""

    def __init__(self, trials: int, most: int, phases: int, shares: bool, stop: Callable[[], object]):
        self.trials, self.shares, self.stop = trials, shares, stop
        self.count = max(1, min(most, trials))
        self._rates: list[Future[float]] = [Future() for _ in range(phases)]
        self._free: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._failed = threading.Event()
        self._error: BaseException | None = None  # the first one
        self._together = threading.Barrier(self.count)
        self._said: list[float] = []

    def teller(self, number: int) -> Callable[[int, float], object]:
        """Return what a trial calls with the rate of each phase."""
        if number == 0 and self.shares:
            return lambda phase, rate: self._rates[phase].set_result(rate)
        return lambda phase, rate: None

    def told(self, phase: int) -> float | None:
        """Return the rate of a phase when it is known; None if nobody tells it."""
        return self._rates[phase].result() if self.shares else None

    def largest(self, number: int, value: float = 0.0) -> float:
        """Wait for all trials that began at once; return the largest of their values.

        The others begin when one of these is over, and do not wait.
        """
        if number >= self.count:
            return value
        self._said.append(value)
        try:
            self._together.wait()
            found = max(self._said[-self.count :])
            self._together.wait()  # until all have read it
        except threading.BrokenBarrierError:
            raise EvenflowError("the trial was ended, since another one failed.") from None
        return found

    def run(self, trial: Callable[[int, int], None]) -> None:
        """Call ``trial(number, lane)`` for each; if one fails, the others end and its error is raised."""
        for lane in range(self.count):
            self._free.put(lane)

        def one(number: int) -> None:
            if self._failed.is_set():
                return
            lane = self._free.get()
            try:
                trial(number, lane)
            except BaseException as error:
                self._fail(error)
                raise
            finally:
                self._free.put(lane)

        with ThreadPoolExecutor(self.count) as pool:
            running = [pool.submit(one, number) for number in range(self.trials)]
            try:
                wait(running, return_when=FIRST_EXCEPTION)
            except BaseException as error:  # an interrupt, here
                self._fail(error)
                raise
        if self._error is not None:
            raise self._error

    def _fail(self, error: BaseException) -> None:
        """Let no trial begin, and end those that run or wait."""
        if self._failed.is_set():
            return
        self._error = error
        self._failed.set()
        self._together.abort()
        for rate in self._rates:
            if not rate.done():
                rate.set_exception(error)
        self.stop()
