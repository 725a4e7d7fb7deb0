"""The streaming listener of a session, which passes the statistics of each micro-batch to its operator."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol
from uuid import uuid4
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryProgressEvent,
    StreamingQueryListener,
)

from evenflow.control.directory import Control
from evenflow.control.hot_keys import HotKeyNotes
from evenflow.errors import own_sentence
from evenflow.spark.replanning.batch_stats import BatchStats, HasHomes
from evenflow.spark.routing.router_snapshots import place_of, sweep

log = logging.getLogger("evenflow.spark.replanning")

_ENDS_KEPT = 100
OBSERVATION_PREFIX = "evenflow "  # of the names of observed metrics


class Learner(Protocol):
    """What makes the plans of an operator."""

    @property
    def used(self) -> Mapping[int | None, HasHomes]:
        """The last plans, by their serial numbers."""

    def learn(self, stats: BatchStats) -> None:
        """Make the plan for the next batches."""


class _WithoutCalls(JStreamingQueryListener):
    """Takes an event as one JSON text; PySpark's own would ask the JVM for each of its fields and metrics.

    That is some 500 calls per batch, which take 50 ms and more of a core.
    """

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802 - Spark's names
        """Pass on the event."""
        self.pylistener.onQueryProgress(QueryProgressEvent.fromJson(json.loads(jevent.json())))

    class Java:
        """What Py4J needs."""

        implements = JStreamingQueryListener.Java.implements


class BatchListener(StreamingQueryListener):
    """Logs the statistics of each batch and passes them to the operator's replanner; one per session."""

    def __init__(self) -> None:
        self.operators: dict[str, tuple[Control, str, Learner | None]] = {}
        self.last: dict[str, tuple[str, int]] = {}
        self._ends: dict[str, list[tuple[Control, dict[str, str]]]] = {}  # where to log the end of a run
        self._ended: dict[str, str | None] = {}  # the errors of the last runs that ended
        self.hot_keys: dict[str, HotKeyNotes] = {}

    @cached_property
    def _jlistener(self) -> Any:  # what Spark adds; on Spark Connect, events are JSON anyway
        from pyspark import SparkContext

        jvm: Any = SparkContext._jvm
        return jvm.PythonStreamingQueryListenerWrapper(_WithoutCalls(self))

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Log the end of a run of a query; it may start again."""
        run = str(event.runId)
        self._ended = dict([*list(self._ended.items())[-_ENDS_KEPT:], (run, event.exception)])
        self._log_end(run)

    def log_end(self, run: str, control: Control, **fields: str) -> None:
        """Log the end of a run when it comes, or now if it has come already."""
        self._ends.setdefault(run, []).append((control, fields))
        if run in self._ended:
            self._log_end(run)

    def _log_end(self, run: str) -> None:
        error = self._ended[run]
        failed = {"failed": own_sentence(str(error)) or True} if error else {}
        for control, fields in self._ends.pop(run, []):  # of two threads, one gets them
            if control.log.exists():  # else it was moved or deleted after the end, and must not come back
                control.note("ended", run=run, **fields, **failed)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Handle the statistics of a batch; a failure here must not affect the query."""
        try:
            for name, row in event.progress.observedMetrics.items():
                if name in self.operators:
                    self._handle(name, event.progress, row)
        except Exception:
            log.exception("the statistics of a batch could not be processed; the plan is unchanged")

    def _handle(self, name: str, progress: Any, row: Any) -> None:
        control, operator, replanner = self.operators[name]
        batch = (str(progress.runId), int(progress.batchId))
        if self.last.get(name) == batch:
            return
        started = name not in self.last or self.last[name][0] != batch[0]
        self.last[name] = batch
        stats = replace(
            BatchStats.from_row(row, batch[1]), query=str(progress.id), watermark=_watermark(progress)
        )
        if started:
            control.note(
                "started", operator=operator, query=str(progress.id), run=batch[0], batch=stats.batch,
                workers=int(stats.rows.size),
            )  # fmt: skip
            self.log_end(batch[0], control, operator=operator, query=str(progress.id))
            if replanner is None:
                sweep(place_of(control.location, operator, str(progress.id)), stats.batch)
        plan = replanner.used.get(stats.serial) if replanner is not None else None
        if stats.total:
            note = stats.summary(plan)
            hot_keys = self.hot_keys.setdefault(name, HotKeyNotes(control, operator))
            note["hot"] = hot_keys.of_batch(note["hot"], stats.values)
            control.note("batch", operator=operator, query=str(progress.id), **note, **_measured(progress))
        if replanner is not None:
            replanner.learn(stats)


def _measured(progress: Any) -> dict[str, Any]:
    """Return the duration of a batch and the size of Spark's state, as the progress of the query has them."""
    state = progress.stateOperators or []
    return {
        "seconds": progress.durationMs.get("triggerExecution", 0) / 1000,
        "state_keys": sum(int(one.numRowsTotal) for one in state) if state else None,
        "state_bytes": sum(int(one.memoryUsedBytes) for one in state) if state else None,
        "late": sum(int(one.numRowsDroppedByWatermark) for one in state) if state else None,
        "waiting": rows_waiting((one.endOffset, one.latestOffset) for one in progress.sources or []),
    }


def _watermark(progress: Any) -> int | None:
    """Return the watermark in microseconds; None if there is none, or if several operators keep state."""
    text = (progress.eventTime or {}).get("watermark")
    if text is None or len(progress.stateOperators or []) != 1:
        return None
    return round(datetime.fromisoformat(text).timestamp() * 1000) * 1000


def rows_waiting(sources: Iterable[tuple[Any, Any]]) -> int | None:
    """Return the rows that Kafka has beyond the end of a batch; None if no source is one of its topics.

    Sources are given by the offsets at which the batch ended and at which the source ends, as JSON. Those of
    other sources do not count rows.

    >>> rows_waiting([('{"orders": {"0": 5, "1": 7}}', '{"orders": {"0": 8, "1": 7}}'), ("7", None)])
    3
    >>> rows_waiting([('{"logOffset": 3}', '{"logOffset": 4}')]) is None
    True
    """
    known = []
    for offsets in sources:
        try:
            end, latest = (
                sum(int(rows) for partitions in json.loads(text).values() for rows in partitions.values())
                for text in offsets
            )
        except (AttributeError, TypeError, ValueError):
            continue
        known.append(max(0, latest - end))
    return sum(known) if known else None


_LISTENERS: WeakKeyDictionary[SparkSession, BatchListener] = WeakKeyDictionary()
CONTROLS: dict[str, Control] = {}  # by the name of an operator's observed metrics


def batch_listener(spark: SparkSession) -> BatchListener:
    """Return the listener of a session, which the first call adds."""
    listener = _LISTENERS.get(spark)
    if listener is None:
        listener = _LISTENERS[spark] = BatchListener()
        spark.streams.addListener(listener)
    return listener


def observe_operator(
    spark: SparkSession, control: Control, operator: str, replanner: Learner | None = None
) -> str:
    """Register an operator with the session's listener; return the name for its observed metrics."""
    listener = batch_listener(spark)
    name = f"{OBSERVATION_PREFIX}{operator} {uuid4().hex[:8]}"
    listener.operators[name] = (control, operator, replanner)
    CONTROLS[name] = control
    return name
