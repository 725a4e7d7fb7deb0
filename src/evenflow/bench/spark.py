"""evenflow on Spark compared with plain Spark: the cost of balancing, the balance, and the gain.

These are wall times, since work on Spark is spread over processes. Runs are interleaved after a warm-up, and
ratios are taken within a round before the median over at least five rounds. ``quick`` uses a tenth of the
rows and fewer rounds; its ratios are rough, since the fixed cost of a job weighs more.

Parts: :mod:`evenflow.bench.spark_balance` and :mod:`evenflow.bench.spark_work`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from evenflow.bench import spark_balance, spark_work
from evenflow.bench.measure import Progress, Row, silent
from evenflow.bench.subjects import Limit
from evenflow.report.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 10**7
BALANCE_PARTS = ("cost", "evenness")


class Target(NamedTuple):
    """A target for one row."""

    part: str
    what: str
    value: str
    limit: Limit
    z: float | None = None


TARGETS = (
    Target("cost", "planned", "ratio", Limit("at most", 1.15)),
    Target("cost", "planning pass", "ratio", Limit("at most", 0.5)),
    Target("cost", "online", "ratio", Limit("at most", 2.5)),
    Target("evenness", "repartition", "max_over_mean", Limit("at least", 10)),
    Target("evenness", "planned", "max_over_mean", Limit("at most", 1.03)),
    Target("evenness", "online", "max_over_mean", Limit("at most", 1.03)),
    Target("sleep", "aggregate", "of_shuffle", Limit("at least", 0.9), 1.4),
    Target("sleep", "aggregate", "of_shuffle", Limit("at least", 0.9), 2.0),
    Target("sleep", "aggregate", "of_key_grouping", Limit("at least", 10), 2.0),
    Target("cpu", "aggregate", "of_ideal", Limit("at least", 0.95)),
    Target("slices", "apply", "times_as_fast", Limit("at least", 5)),
)


def run(quick: bool = False, progress: Progress = silent) -> list[Row]:
    """Measure everything, on local Spark with two cores and then with 32 workers."""
    sessions = Sessions()
    try:
        rows = spark_balance.run(
            sessions("local[2]"),
            rows=ROWS // 10 if quick else ROWS,
            rounds=3 if quick else 5,
            progress=progress,
        )
        rows += spark_work.run(sessions, quick=quick, progress=progress)
    finally:
        sessions.stop()
    return rows


class Sessions:
    """One session at a time; a new one stops the previous one."""

    def __init__(self) -> None:
        self.spark: SparkSession | None = None

    def __call__(self, master: str) -> SparkSession:
        """Return a quiet session on a local master."""
        from pyspark.sql import SparkSession

        self.stop()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master(master).appName("evenflow bench")
        for name, value in {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "4g",
            "spark.sql.shuffle.partitions": "8",
        }.items():
            builder = builder.config(name, value)
        self.spark = builder.getOrCreate()
        return self.spark

    def stop(self) -> None:
        """Stop the session, if there is one."""
        if self.spark is not None:
            self.spark.stop()
            self.spark = None


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return the parts as tables, and the targets."""
    balance = [row for row in rows if row["part"] in BALANCE_PARTS]
    work = [row for row in rows if row["part"] not in BALANCE_PARTS]
    return [*spark_balance.tables(balance), *spark_work.tables(work), targets(rows)]


def targets(rows: Sequence[Row]) -> Table:
    """Return every target with its measured value."""
    lines = []
    for target in TARGETS:
        for row in rows:
            if (row["part"], row["what"]) == (target.part, target.what) and target.z in (None, row.get("z")):
                value = row[target.value]
                what = f"{target.what}, {target.value.replace('_', ' ')}"
                named = f"{target.part}: {what}" + (f", z = {target.z}" if target.z is not None else "")
                limit = f"{target.limit.rule} {target.limit.bound:g}"
                lines.append((named, value, limit, "ok" if target.limit.holds(value) else "missed"))
    return Table("Targets", ("what", "measured", "target", ""), lines)
