"""The Spark session of a deployment: as many slots as workers, and little that is not the pipeline.

Adaptive execution is off: it would join the aggregator's few bytes. Every source is one file and one
partition. Sorting shuffles instead of a file per worker and source, and a compiler for short runs, keep down
what Spark itself takes on a small machine; both are the same for every scheme.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from evenflow.errors import EvenflowError
from evenflow.java import SHORT_RUNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AGGREGATORS = 4  # partitions of the merge
SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": AGGREGATORS,
    "spark.sql.files.openCostInBytes": 1 << 30,
    "spark.sql.files.maxPartitionBytes": 1 << 30,
    "spark.shuffle.sort.bypassMergeThreshold": 1,
    "spark.shuffle.compress": "false",
    "spark.python.daemon.module": "evenflow.papers.deployments.daemon",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": SHORT_RUNS,
    "spark.executor.extraJavaOptions": SHORT_RUNS,
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


@contextmanager
def session_on(master: str | None, slots: int) -> Iterator[SparkSession]:
    """Open the session of a run: on ``master``, or on this machine with so many slots."""
    from pyspark.sql import SparkSession

    from evenflow.spark.session import local_session

    if SparkSession.getActiveSession() is not None:
        raise EvenflowError("a Spark session is open in this process; stop it before deploying.")
    spark = local_session(master or f"local[{slots}]", **SETTINGS)
    try:
        yield spark
    finally:
        spark.stop()


def current() -> SparkSession:
    """Return the session that is open."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        raise EvenflowError("no Spark session is open; run this with `evenflow reproduce --on spark`.")
    return session
