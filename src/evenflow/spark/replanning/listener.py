"""The streaming listener of a session, which passes the statistics of each micro-batch to its operator."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Protocol
from uuid import uuid4
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from evenflow.control.directory import Control
from evenflow.errors import own_sentence
from evenflow.spark.replanning.batch_stats import BatchStats, HasHomes
from evenflow.spark.replanning.plan_datasource import PlanSource

log = logging.getLogger("evenflow.spark.replanning")

OBSERVATION_PREFIX = "evenflow "  # of the names of observed metrics


class Learner(Protocol):
    """What makes the plans of an operator."""

    @property
    def used(self) -> Mapping[int | None, HasHomes]:
        """The last plans, by their serial numbers."""

    def learn(self, stats: BatchStats) -> None:
        """Make the plan for the next batches."""


class BatchListener(StreamingQueryListener):
    """Logs the statistics of each batch and passes them to the operator's replanner; one per session."""

    def __init__(self) -> None:
        self.operators: dict[str, tuple[Control, str, Learner | None]] = {}
        self.last: dict[str, tuple[str, int]] = {}
        self.queries: dict[str, str] = {}  # Spark's id of the query of each operator
        self.hot_since: dict[str, dict[str, float]] = {}  # times, by operator and key

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        """Do nothing."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Log the end of a query; it may start again."""
        for name, query in self.queries.items():
            if query == str(event.id):
                control, operator, _ = self.operators[name]
                failed = {"failed": own_sentence(str(event.exception)) or True} if event.exception else {}
                control.note("ended", operator=operator, query=query, **failed)

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
        stats = BatchStats.from_row(row, batch[1])
        if started:
            control.note(
                "started", operator=operator, query=str(progress.id), run=batch[0], batch=stats.batch,
                workers=int(stats.rows.size),
            )  # fmt: skip
            self.queries[name] = str(progress.id)
        plan = replanner.used.get(stats.serial) if replanner is not None else None
        if stats.total:
            note = stats.summary(plan, self._hot_since(name))
            self.hot_since[name] = {key: since or time.time() for key, *_, since in note["hot"]}
            note["hot"] = [[*key[:3], round(self.hot_since[name][key[0]], 3)] for key in note["hot"]]
            control.note("batch", operator=operator, query=str(progress.id), **note, **_measured(progress))
        if replanner is not None:
            replanner.learn(stats)

    def _hot_since(self, name: str) -> dict[str, float]:
        """Return since when keys have been hot; at first, as the run before has logged it."""
        if name not in self.hot_since:
            control, operator, _ = self.operators[name]
            logged = [note for note in control.notes("batch") if note.get("operator") == operator]
            hot = logged[-1].get("hot", []) if logged else []
            self.hot_since[name] = {key: since for key, *_, since in hot if isinstance(since, float)}
        return self.hot_since[name]


def _measured(progress: Any) -> dict[str, Any]:
    """Return the duration of a batch and the size of Spark's state, as the progress of the query has them."""
    state = progress.stateOperators or []
    return {
        "seconds": progress.durationMs.get("triggerExecution", 0) / 1000,
        "state_keys": sum(int(one.numRowsTotal) for one in state) if state else None,
        "state_bytes": sum(int(one.memoryUsedBytes) for one in state) if state else None,
        "late": sum(int(one.numRowsDroppedByWatermark) for one in state) if state else None,
    }


_LISTENERS: WeakKeyDictionary[SparkSession, BatchListener] = WeakKeyDictionary()
CONTROLS: dict[str, Control] = {}  # by the name of an operator's observed metrics


def observe_operator(
    spark: SparkSession, control: Control, operator: str, replanner: Learner | None = None
) -> str:
    """Register an operator with the session's listener; return the name for its observed metrics.

    The first call also registers the data source that plans are read through.
    """
    listener = _LISTENERS.get(spark)
    if listener is None:
        listener = _LISTENERS[spark] = BatchListener()
        spark.streams.addListener(listener)
        spark.dataSource.register(PlanSource)
    name = f"{OBSERVATION_PREFIX}{operator} {uuid4().hex[:8]}"
    listener.operators[name] = (control, operator, replanner)
    CONTROLS[name] = control
    return name
