"""A program that balances rows while tasks fail, shuffle files vanish and an executor is killed.

Writes a JSON file: which rows were where, without and with each fault.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenflow.apps.counting import SCHEMA, Count
from evenflow.spark import aggregate, balance
from evenflow.spark.routing.online import CHECKSUM
from evenflow.spark.session import local_session
from evenflow.testing import acting, failing_once, losing_shuffle_files, once, wait_for

WORKERS = 6
Transformation = Callable[[DataFrame], DataFrame]

PLACEMENTS: dict[str, Transformation] = {
    "online, as it comes": balance("key", WORKERS, "fill", "online", order="as-is"),
    "online, sorted": balance("key", WORKERS, "d-choices", "online"),
    "planned": balance("key", WORKERS, mode="planned"),
}

# what is drawn after rows arrived in no fixed order; Spark's checksum is off, so nothing else protects them
UNORDERED: dict[str, Transformation] = {
    "sorted": balance("key", WORKERS, order="sort"),
    "content": balance("key", WORKERS, order="content"),
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


def mixed(df: DataFrame) -> DataFrame:
    """Return ``df`` with the rows of each partition in another order whenever a task computes them."""

    def mix(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if came := list(batches):
            rows = pa.Table.from_batches(came).combine_chunks()
            yield from rows.take(np.random.default_rng().permutation(len(rows))).to_batches()

    return df.repartition(3, "part").mapInArrow(mix, df.schema)


def losing_files_at_the_end(df: DataFrame, shuffled: Path, marker: Path) -> DataFrame:
    """Return ``df`` whose last task, when all others are done, finds all shuffle files lost."""
    done = marker.with_name(f"{marker.name} done")
    done.mkdir()

    def lose(task: Any) -> None:
        if task.partitionId() < WORKERS - 1:
            return
        wait_for(lambda: len(list(done.iterdir())) >= WORKERS - 1, "all other tasks")
        if once(marker):
            for path in shuffled.rglob("shuffle_*"):
                path.unlink(missing_ok=True)
            raise RuntimeError("shuffle files are lost on purpose")

    def tell(task: Any) -> None:
        (done / str(task.partitionId())).touch()

    return acting(df, before=lose, after=tell)


def texts(df: DataFrame) -> list[str]:
    """Return every row as text, which shows nulls and -0.0."""
    return sorted(row[0] for row in df.select(F.struct("*").cast("string")).collect())


def survive_unordered(rows: DataFrame, folder: Path, shuffled: Path) -> dict[str, Any]:
    """Return all rows, and those that are there after shuffle files were lost, with Spark's checksum off."""
    spark = rows.sparkSession
    for setting in CHECKSUM:
        spark.conf.set(setting, "false")
    found: dict[str, Any] = {"input": texts(rows)}
    for name, balanced in UNORDERED.items():
        marker = folder / f"lost, {name}"
        found[name] = texts(losing_files_at_the_end(mixed(rows).transform(balanced), shuffled, marker))
        found[f"{name}: files were lost"] = marker.exists()
    for setting in CHECKSUM:
        spark.conf.unset(setting)
    return found


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
    tricky = spark.read.parquet(str(folder / "tricky"))
    results["unordered"] = survive_unordered(tricky, folder, shuffled)
    counted = aggregate(rows, "key", Count(), SCHEMA, workers=WORKERS)
    results["aggregate"] = [sorted(map(list, df.collect())) for df in (counted, rows.groupBy("key").count())]
    (folder / "results.json").write_text(json.dumps(results))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
