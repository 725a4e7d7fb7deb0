"""Cost of ``balance`` on Spark relative to ``repartition(n, key)``, and the resulting balance.

With uniform keys, where there is nothing to gain: the wall time of balancing with an existing plan, of the
planning pass, and of online routers, each relative to an adjacent ``repartition``. With Zipf z = 1.4:
max/mean rows per worker, and memory. Rows are read from Parquet files and written to Spark's no-op sink.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow.bench.measure import Progress, Row, silent
from evenflow.report.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS = 10**6
FILES = 8


def run(
    spark: SparkSession,
    *,
    rows: int = 10**7,
    workers: int = 32,
    rounds: int = 5,
    scheme: str = "fill",
    progress: Progress = silent,
) -> list[Row]:
    """Return one row per measurement: name, median, lowest and highest ratio, and rows."""
    with _frames(spark, rows) as (uniform, skewed):
        return [*_costs(uniform, workers, rounds, scheme, progress), *_evenness(skewed, workers, scheme)]


def _costs(df: DataFrame, workers: int, rounds: int, scheme: str, progress: Progress) -> Iterator[Row]:
    from evenflow.spark import balance
    from evenflow.spark.routing.placed import Placed

    made: list[Placed] = []
    df.transform(balance("k", workers, scheme, "planned", on_placed=made.append))
    plan = made[0].plan
    tasks: dict[str, Callable[[], Any]] = {
        "repartition": lambda: _drain(df.repartition(workers, "k")),
        "planned": lambda: _drain(df.transform(balance("k", workers, scheme, "planned", plan=plan))),
        "planning pass": lambda: df.transform(balance("k", workers, scheme, "planned")),
        "online": lambda: _drain(df.transform(balance("k", workers, scheme, "online"))),
    }
    for task in tasks.values():  # warm up
        task()
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for turn in range(rounds):
        for index, (name, task) in enumerate(tasks.items()):
            progress(turn * len(tasks) + index, rounds * len(tasks), f"balance, {name}")
            start = time.perf_counter()
            task()
            seconds[name].append(time.perf_counter() - start)
    for name, times in seconds.items():
        ratios = [own / unit for own, unit in zip(times, seconds["repartition"], strict=True)]
        yield {
            "part": "cost",
            "what": name,
            "ratio": statistics.median(ratios),
            "lowest": min(ratios),
            "highest": max(ratios),
            "seconds": statistics.median(times),
        }


def _evenness(df: DataFrame, workers: int, scheme: str) -> Iterator[Row]:
    from evenflow.spark import balance, loads

    for name, frame in {
        "repartition": df.repartition(workers, "k"),
        "planned": df.transform(balance("k", workers, scheme, "planned")),
        "online": df.transform(balance("k", workers, scheme, "online")),
    }.items():
        found = loads(frame, "k", workers=workers)
        yield {
            "part": "evenness",
            "what": name,
            "max_over_mean": found.max_over_mean,
            "memory": found.memory,
            "rows": sum(found.rows),
        }


def _drain(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


@contextmanager
def _frames(spark: SparkSession, rows: int) -> Iterator[tuple[DataFrame, DataFrame]]:
    """Yield two Parquet frames of a key, a number and a text: with uniform and with Zipf keys."""
    with tempfile.TemporaryDirectory(prefix="evenflow-bench-") as folder:
        for name, z in (("uniform", 0.0), ("skewed", 1.4)):
            _write(Path(folder) / name, rows, z)
        yield spark.read.parquet(f"{folder}/uniform"), spark.read.parquet(f"{folder}/skewed")


def _write(folder: Path, rows: int, z: float) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    folder.mkdir()
    weights = np.arange(1, KEYS + 1) ** -z
    bounds = np.cumsum(weights / weights.sum())
    for number in range(FILES):
        rng = np.random.default_rng(number)
        size = rows // FILES
        keys = pa.array(np.searchsorted(bounds, rng.random(size)).clip(max=KEYS - 1))
        text = pa.array(rng.integers(10**17, 10**18, size)).cast(pa.string())
        names = pc.binary_join_element_wise("user", keys.cast(pa.string()), "-")
        pq.write_table(
            pa.table({"k": names, "v": rng.random(size), "text": text}), folder / f"{number}.parquet"
        )


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return the cost and the balance as tables."""
    costs, even = ([row for row in rows if row["part"] == part] for part in ("cost", "evenness"))
    return [
        Table(
            "Uniform keys: wall time relative to repartition(n, key)",
            ("what", "median", "lowest", "highest", "seconds"),
            [tuple(row[part] for part in ("what", "ratio", "lowest", "highest", "seconds")) for row in costs],
        ),
        Table(
            "Zipf z = 1.4: max/mean rows per worker, and memory (pairs per key)",
            ("what", "max/mean", "memory"),
            [(row["what"], row["max_over_mean"], row["memory"]) for row in even],
        ),
    ]
