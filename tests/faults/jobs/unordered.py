"""A program whose shuffle files vanish when rows have no fixed order and Spark's checksum is off.

Writes a JSON file: all rows, and those that are there afterwards.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenflow.spark import Placed, balance
from evenflow.spark.session import local_session
from evenflow.spark.versions.known import CHECKSUM
from evenflow.testing import acting, once, wait_for

WORKERS = 6
ORDERS = ("sort", "content", "as-is")
MASTER = "local[2, 4]"  # a task may fail; on two cores one task can wait for the others


def mixed(df: DataFrame) -> DataFrame:
    """Return ``df`` with the rows of each partition in another order whenever a task computes them."""

    def mix(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if came := list(batches):
            rows = pa.Table.from_batches(came).combine_chunks()
            yield from rows.take(np.random.default_rng().permutation(len(rows))).to_batches()

    return df.repartition(3, "part").mapInArrow(mix, df.schema)


def losing_files_at_the_end(df: DataFrame, victim: int, shuffled: Path, folder: Path) -> DataFrame:
    """Return ``df`` of which worker ``victim``, when all others are done, finds all shuffle files lost."""
    folder.mkdir()

    def lose(task: Any) -> None:
        if task.partitionId() != victim:
            return
        wait_for(lambda: len(list(folder.glob("done-*"))) >= WORKERS - 1, "the end of all other tasks")
        if once(folder / "lost"):
            for path in shuffled.rglob("shuffle_*"):
                path.unlink(missing_ok=True)
            raise RuntimeError("shuffle files are lost on purpose")

    def tell(task: Any) -> None:
        (folder / f"done-{task.partitionId()}").touch()

    return acting(df, before=lose, after=tell)


def shares_a_key(placed: Placed) -> int:
    """Return a worker that has some of a split key's rows: only these may go elsewhere."""
    assert placed.plan is not None
    return next(homes[0] for key in placed.plan.keys if len(homes := placed.plan.homes_of(int(key))) > 1)


def texts(df: DataFrame) -> list[str]:
    """Return every row as text, which shows nulls and -0.0."""
    return sorted(row[0] for row in df.select(F.struct("*").cast("string")).collect())


def main(folder: Path) -> None:
    """Run all of it."""
    off = dict.fromkeys(CHECKSUM, "false")
    spark = local_session(MASTER, **{**off, "spark.local.dir": str(folder / "local")})
    rows = spark.read.parquet(str(folder / "rows.parquet"))
    found: dict[str, Any] = {"input": texts(rows)}
    for order in ORDERS:
        placed: list[Placed] = []
        balanced = balance(mixed(rows), "key", WORKERS, mode="planned", order=order, on_placed=placed.append)
        victim = shares_a_key(placed[0])
        found[order] = texts(losing_files_at_the_end(balanced, victim, folder / "local", folder / order))
        found[f"{order}: files were lost"] = (folder / order / "lost").exists()
    (folder / "results.json").write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
