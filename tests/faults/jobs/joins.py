"""A program that joins skewed rows while tasks fail, shuffle files vanish and an executor is killed.

Arguments: master, folder, folder of the shuffle files, kinds of joins, whether Spark's checksum is on, and
whether an executor is to be killed. Writes a JSON file: what each join returns, without and with each fault.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenflow.spark import PlacedJoin, join
from evenflow.spark.session import local_session
from evenflow.spark.versions.known import CHECKSUM
from evenflow.testing import acting, failing_once, losing_shuffle_files
from faults.jobs import retries, unordered
from faults.jobs.retries import wait_to_be_killed
from faults.jobs.unordered import losing_files_at_the_end, mixed

WORKERS = 6
for _module in (retries, unordered):  # executors do not have them
    cloudpickle.register_pickle_by_value(_module)  # type: ignore[no-untyped-call]


def what(df: DataFrame) -> list[int]:
    """Return how many rows there are, and what they are in any order."""
    row = df.select(F.xxhash64(*df.columns).alias("h")).agg(
        F.count("h"), F.bit_xor("h"), F.sum(F.col("h").cast("decimal(38,0)")).cast("string")
    )
    return list(row.collect()[0])


def shared_worker(placed: PlacedJoin) -> int:
    """Return a worker that has some rows of a divided key: only these may go elsewhere."""
    plan = placed.plan
    assert plan is not None
    key = next(number for number in range(plan.keys.size) if plan.left_pieces[number] > 1)
    return int(plan.homes[plan.starts[key]])


def main(master: str, folder: Path, shuffled: Path, kinds: str, checksum: str, kill: str) -> None:
    """Run all of it."""
    settings = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.executor.memory": "512m"}
    settings |= dict.fromkeys(CHECKSUM, checksum)
    if master.startswith("local"):
        settings["spark.local.dir"] = str(shuffled)
    spark = local_session(master, **settings)
    spark.conf.set("spark.sql.shuffle.partitions", 3)
    left, right = (spark.read.parquet(str(folder / name)) for name in ("left", "right"))
    results: dict[str, Any] = {}
    for how in kinds.split(","):
        rows = left if checksum == "true" else mixed(left)
        got: list[PlacedJoin] = []
        found: dict[str, Any] = {"plain": what(left.join(right, "k", how))}
        ours = join(rows, right, "k", how, WORKERS, on_placed=got.append)
        found["ours"] = what(acting(ours))
        found["task failed"] = what(join(failing_once(rows), right, "k", how, plan=got[0].plan))
        marks = folder / f"lost-{how}"
        if checksum == "true":
            marks.mkdir()
            lost = losing_shuffle_files(ours, shuffled, marks / "lost")
        else:
            lost = losing_files_at_the_end(ours, shared_worker(got[0]), shuffled, marks)
        found["files lost"] = what(lost)
        found["were lost"] = (marks / "lost").exists()
        results[how] = found
    if kill == "kill":
        ours = join(left, right, "k", "full", WORKERS)
        results["killed"] = {
            "plain": what(left.join(right, "k", "full")),
            "ours": what(acting(ours, before=wait_to_be_killed(folder))),
        }
    (folder / "results.json").write_text(json.dumps(results))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:7])
