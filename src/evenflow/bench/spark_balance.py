"""Cost of ``balance`` on Spark relative to ``repartition(n, key)``, and the resulting balance.

With uniform keys, where there is nothing to gain: the wall time of balancing with an existing plan, of the
planning pass, and of online routers, each relative to an adjacent ``repartition``. With Zipf z = 1.4:
max/mean rows per worker, and memory. Rows are read from Parquet files and written to Spark's no-op sink.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import TYPE_CHECKING

from evenflow.bench.measure import Progress, Row, silent
from evenflow.bench.on_spark import drain, in_turn, ratios, zipf
from evenflow.bench.results import Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS = 10**6
FILES = 8
COLUMNS: dict[str, Columns] = {
    "cost": (
        "Uniform keys: wall time relative to repartition(n, key)",
        ("what", ("median", "ratio"), "lowest", "highest", "seconds"),
    ),
    "evenness": (
        "Zipf z = 1.4: max/mean rows per worker, and memory (pairs per key)",
        ("what", ("max/mean", "max_over_mean"), "memory"),
    ),
}


def run(
    spark: SparkSession, *, rows: int = 10**7, workers: int = 32, rounds: int = 5, scheme: str = "fill",
    progress: Progress = silent,
) -> list[Row]:  # fmt: skip
    """Return one row per measurement: name, median, lowest and highest ratio, and rows."""
    with zipf(spark, 0.0, rows, FILES, KEYS, wide=True) as uniform:
        costs = list(_costs(uniform, workers, rounds, scheme, progress))
    with zipf(spark, 1.4, rows, FILES, KEYS, wide=True) as skewed:
        return [*costs, *_evenness(skewed, workers, scheme)]


def _costs(df: DataFrame, workers: int, rounds: int, scheme: str, progress: Progress) -> Iterator[Row]:
    from evenflow.spark import balance
    from evenflow.spark.routing.placed import Placed

    made: list[Placed] = []
    df.transform(balance("k", workers, scheme, "planned", on_placed=made.append))
    plan = made[0].plan
    tasks = {
        "repartition": lambda: drain(df.repartition(workers, "k")),
        "planned": lambda: drain(df.transform(balance("k", workers, scheme, "planned", plan=plan))),
        "planning pass": lambda: df.transform(balance("k", workers, scheme, "planned")),
        "online": lambda: drain(df.transform(balance("k", workers, scheme, "online"))),
    }
    seconds = in_turn(tasks, rounds, progress, "balance")
    for name, times in seconds.items():
        found = ratios(times, seconds["repartition"])
        low, high = min(found), max(found)
        row = {"part": "cost", "what": name, "ratio": statistics.median(found), "lowest": low}
        yield row | {"highest": high, "seconds": statistics.median(times)}


def _evenness(df: DataFrame, workers: int, scheme: str) -> Iterator[Row]:
    from evenflow.spark import balance, loads

    for name, frame in {
        "repartition": df.repartition(workers, "k"),
        "planned": df.transform(balance("k", workers, scheme, "planned")),
        "online": df.transform(balance("k", workers, scheme, "online")),
    }.items():
        found = loads(frame, "k", workers=workers)
        row = {"part": "evenness", "what": name, "max_over_mean": found.max_over_mean}
        yield row | {"memory": found.memory, "rows": sum(found.rows)}
