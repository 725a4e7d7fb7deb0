"""The streaming listener of a session, which passes the statistics of each micro-batch to its operator."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Protocol
from uuid import uuid4
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from evenflow.spark.monitoring.control_dir import Control
from evenflow.spark.replanning.batch_stats import BatchStats, HasHomes
from evenflow.spark.replanning.plan_datasource import PlanSource

log = logging.getLogger("evenflow.spark")

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

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        """Do nothing."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Do nothing; the query may start again."""

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
        self.last[name] = batch
        stats = BatchStats.from_row(row, batch[1])
        plan = replanner.used.get(stats.serial) if replanner is not None else None
        if stats.total:
            control.note("batch", operator=operator, query=str(progress.id), **stats.summary(plan))
        if replanner is not None:
            replanner.learn(stats)


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
