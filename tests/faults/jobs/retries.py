"""A program that balances rows while tasks fail, shuffle files vanish and an executor is killed.

Writes a JSON file: which rows were where, without and with each fault.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenflow.apps.counting import SCHEMA, Count
from evenflow.spark import aggregate, balance
from evenflow.spark.session import local_session
from evenflow.testing import acting, failing_once, losing_shuffle_files, wait_for

WORKERS = 6
Transformation = Callable[[DataFrame], DataFrame]

PLACEMENTS: dict[str, Transformation] = {
    "online, as it comes": balance("key", WORKERS, "fill", "online", order="as-is"),
    "online, sorted": balance("key", WORKERS, "d-choices", "online"),
    "planned": balance("key", WORKERS, mode="planned"),
}


def where(df: DataFrame) -> dict[str, list[int]]:
    """Return for every partition how many rows it has and what they are."""
    what = [F.count(F.lit(1)).alias("rows"), F.bit_xor(F.xxhash64("key", "number")).alias("which")]
    found = df.groupBy(F.spark_partition_id().alias("partition")).agg(*what).collect()
    return {str(row["partition"]): [row["rows"], row["which"]] for row in found}


def survive(rows: DataFrame, balanced: Transformation, folder: Path, shuffled: Path) -> dict[str, Any]:
    """Return where rows are as they should be, after a failed task and after lost files."""
    plain = acting(rows)  # so that all three have the same stages
    lost = losing_shuffle_files(plain.transform(balanced), shuffled, folder / "lost")
    (folder / "lost").unlink(missing_ok=True)
    return {
        "without": where(plain.transform(balanced)),
        "task failed": where(failing_once(rows).transform(balanced)),
        "files lost": where(lost),
        "files were lost": (folder / "lost").exists(),
    }


def wait_to_be_killed(folder: Path) -> Callable[[Any], None]:
    """Return what a task does: say that it runs, and go on when the executor has been killed."""

    def wait(task: Any) -> None:
        (folder / "running").touch()
        wait_for((folder / "killed").exists, "the kill of an executor")

    return wait


def main(master: str, folder: Path, shuffled: Path) -> None:
    """Run all of it."""
    spark: SparkSession = local_session(master, **{"spark.executor.memory": "512m"})
    spark.conf.set("spark.sql.shuffle.partitions", 3)
    rows = spark.read.parquet(str(folder / "rows"))
    results: dict[str, Any] = {
        name: survive(rows, balanced, folder, shuffled) for name, balanced in PLACEMENTS.items()
    }
    balanced = rows.transform(PLACEMENTS["online, as it comes"])
    results["killed"] = {"without": where(acting(balanced))}
    results["killed"]["killed"] = where(acting(balanced, before=wait_to_be_killed(folder)))
    results["input"] = where(rows)
    counted = aggregate(rows, "key", Count(), SCHEMA, workers=WORKERS)
    results["aggregate"] = [sorted(map(list, df.collect())) for df in (counted, rows.groupBy("key").count())]
    (folder / "results.json").write_text(json.dumps(results))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
