"""The Spark session of a deployment: slots for all workers at once, and little that is not the pipeline.

Adaptive execution is off: it would coalesce the aggregator's few bytes. What operators count for people
only, they do not count. Sort-based shuffles instead of a file per worker and source, and a JIT tuned for
short runs, keep Spark's own cost low on a small machine; both are the same for every scheme.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from evenflow.errors import EvenflowError
from evenflow.java import SHORT_RUNS
from evenflow.papers.deployments.lanes import LANES
from evenflow.papers.experiment import Experiment, RunConfig
from evenflow.papers.reproduce import WHOLE, Outcome, Part, Say, reproduce
from evenflow.spark.monitoring.switches import COMPARED, KEY_VALUES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AGGREGATORS = 1  # partitions of the merge; what they counted is then known without another stage
MOST_SLOTS = 150  # for several lanes: each may have a Python process
SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": AGGREGATORS,
    KEY_VALUES: "false",
    COMPARED: "0",
    "spark.shuffle.sort.bypassMergeThreshold": 1,
    "spark.shuffle.compress": "false",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",  # half of a checkpoint's files
    "spark.python.daemon.module": "evenflow.papers.deployments.daemon",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": SHORT_RUNS,
    "spark.executor.extraJavaOptions": SHORT_RUNS,
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def run(
    chosen: Sequence[Experiment], config: RunConfig, out: Path, say: Say = lambda done, total, what: None,
    part: Part = WHOLE, **settings: str,
) -> Outcome:  # fmt: skip
    """Measure what is missing in one session with slots for the largest deployment."""
    with session_on(config.master, slots_for(chosen, config), **settings):
        return reproduce(chosen, config, out, jobs=1, say=say, part=part)


def slots_for(chosen: Sequence[Experiment], config: RunConfig) -> int:
    """Return how many tasks run at the same time: workers or sources of one lane, and of more if they fit."""
    asking = dataclasses.replace(config, asked=[])
    points = [point for experiment in chosen for point in experiment.points(asking)]
    found = [point.get(name, 10) for point in points for name in ("workers", "sources")]
    largest = max((max(size) if isinstance(size, list) else size for size in found), default=10)
    return max(largest, min(LANES * largest, MOST_SLOTS))


@contextmanager
def session_on(master: str | None, slots: int, **settings: str) -> Iterator[SparkSession]:
    """Open the session of a run: on ``master``, or on this machine with so many slots."""
    from pyspark.sql import SparkSession

    from evenflow.spark.session import local_session

    if SparkSession.getActiveSession() is not None:
        raise EvenflowError("a Spark session is already open in this process; stop it before deploying.")
    spark = local_session(master or f"local[{slots}]", **SETTINGS, **settings)
    try:
        yield spark
    finally:
        spark.stop()
