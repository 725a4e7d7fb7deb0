"""The listener of a session: hands what each micro-batch showed to the operator that it belongs to."""

from __future__ import annotations

import logging
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from evenflow.spark.monitoring.control_dir import Control
from evenflow.spark.replanning.batch_stats import Observed
from evenflow.spark.replanning.plan_datasource import PlanSource
from evenflow.spark.replanning.replanner import Refresher

log = logging.getLogger("evenflow.spark")

OBSERVED = "evenflow "  # the names under which operators are observed begin so


class Watcher(StreamingQueryListener):
    """Hands what batches showed to whoever watches the operator; one per session, for all its queries."""

    def __init__(self) -> None:
        self.watched: dict[str, tuple[Control, str, Refresher | None]] = {}
        self.last: dict[str, tuple[str, int]] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        """Do nothing."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Do nothing; the query may start again."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Learn from the batch; whatever goes wrong here must not harm the query."""
        try:
            for name, row in event.progress.observedMetrics.items():
                if name in self.watched:
                    self._take(name, event.progress, row)
        except Exception:
            log.exception("a batch could not be learned from; the plan stays as it is")

    def _take(self, name: str, progress: Any, row: Any) -> None:
        control, operator, refresher = self.watched[name]
        batch = (str(progress.runId), int(progress.batchId))
        if self.last.get(name) == batch:
            return
        self.last[name] = batch
        seen = Observed.from_row(row, batch[1])
        plan = refresher.used.get(seen.serial) if refresher is not None else None
        if seen.total:
            control.note("batch", operator=operator, query=str(progress.id), **seen.summary(plan))
        if refresher is not None:
            refresher.learn(seen)


_WATCHERS: WeakKeyDictionary[SparkSession, Watcher] = WeakKeyDictionary()
CONTROLS: dict[str, Control] = {}  # by the name under which an operator is observed


def watch(spark: SparkSession, control: Control, operator: str, refresher: Refresher | None = None) -> str:
    """Have the session's listener watch an operator; return the name under which it is observed.

    With the listener comes the data source that the plans are read through.
    """
    watcher = _WATCHERS.get(spark)
    if watcher is None:
        watcher = _WATCHERS[spark] = Watcher()
        spark.streams.addListener(watcher)
        spark.dataSource.register(PlanSource)
    name = f"{OBSERVED}{operator} {uuid4().hex[:8]}"
    watcher.watched[name] = (control, operator, refresher)
    CONTROLS[name] = control
    return name
