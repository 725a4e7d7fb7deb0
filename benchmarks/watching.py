"""What it costs that a streaming `balance` is watched: comparing with hashing, logging values of hot keys.

CPU seconds of Spark and its Python workers, rounds in changing order, ratios to the query without either.
Nothing follows `balance`, so that this is the most it can cost.
"""

from __future__ import annotations

import random
import statistics
from typing import TYPE_CHECKING

from evenflow.bench.measure import Progress, Row, processor_seconds, silent
from evenflow.bench.on_spark import folder, session, zipf
from evenflow.report.tables import Table
from evenflow.spark import balance
from evenflow.spark.monitoring.switches import COMPARED, KEY_VALUES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WORKERS = 8
NEITHER, DEFAULT = "neither", "the default: values, one batch in 8 compared"
SETTINGS = {
    NEITHER: (0, "false"),
    "values of hot keys": (0, "true"),
    DEFAULT: (8, "true"),
    "values, every batch compared": (1, "true"),
}


def run(quick: bool, progress: Progress = silent) -> list[Row]:
    """Return the CPU seconds of each setting; ``quick`` reads a tenth of the rows, once."""
    batches, rounds, rows = 16, 1 if quick else 5, 10_000 if quick else 100_000
    spent: dict[str, list[float]] = {name: [] for name in SETTINGS}
    order = random.Random(1)
    with session("local[2]", WORKERS) as spark, zipf(spark, 1.4, batches * rows, batches) as table:
        path = table.inputFiles()[0].rpartition("/")[0]
        source = spark.readStream.schema(table.schema).option("maxFilesPerTrigger", 1).parquet(path)
        for turn in range(rounds + 2):  # the first two to warm up
            for number, name in enumerate(order.sample(list(SETTINGS), len(SETTINGS))):
                progress(turn * len(SETTINGS) + number, (rounds + 2) * len(SETTINGS), name)
                for setting, value in zip((COMPARED, KEY_VALUES), SETTINGS[name], strict=True):
                    spark.conf.set(setting, str(value))
                seconds = _seconds(source)
                if turn > 1:
                    spent[name].append(seconds)
    return [
        {
            "what": name,
            "rows": batches * rows,
            "cpu_seconds": statistics.median(own),
            "of_neither": statistics.median(
                one / unit for one, unit in zip(own, spent[NEITHER], strict=True)
            ),
        }
        for name, own in spent.items()
    ]


def _seconds(source: DataFrame) -> float:
    with folder() as path:
        even = source.transform(balance("k", workers=WORKERS, control=str(path / "control")))
        writer = even.writeStream.format("noop").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(path / "checkpoint"))
        start = processor_seconds()
        writer.start().awaitTermination()
        return processor_seconds() - start


def tables(rows: list[Row]) -> list[Table]:
    """Return the settings as a table."""
    return [
        Table(
            f"A stream through balance with nothing behind it, {rows[0]['rows']:,} rows in 16 micro-batches",
            ("logged", "CPU seconds", "of neither"),
            [(row["what"], row["cpu_seconds"], row["of_neither"]) for row in rows],
        )
    ]
