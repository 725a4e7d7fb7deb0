"""The joins that ``evenflow bench join`` measures: their tables, and every way to join them.

The left has one hot key, 30 percent of its rows unless the case says otherwise; every other key of the left,
and every key of the right, is about equally frequent. No side is broadcast: the tables stand for larger ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.bench.on_spark import folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from evenflow.plan import JoinPlan

HOT = 7
SHARE = 0.3
SALTS = 32
FILES = 32
Join = Callable[[], "DataFrame"]

SKEW = "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes"
ADVISORY = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
FORCED = "spark.sql.adaptive.forceOptimizeSkewedJoin"
NO_BROADCAST = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
}
DEFAULTS = {"spark.sql.adaptive.enabled": "true", SKEW: "256MB", ADVISORY: "64MB", FORCED: "false"}
OFF = {**DEFAULTS, "spark.sql.adaptive.enabled": "false"}
TUNED = {**DEFAULTS, SKEW: "1MB", ADVISORY: "300KB"}


@dataclass(frozen=True)
class Way:
    """A way to compute a join, with the settings under which it runs."""

    name: str
    settings: dict[str, str]
    join: Join


@contextmanager
def tables(
    spark: SparkSession, left: int, right: int, hot: float = SHARE, pairs: int = 0, seed: int = 1
) -> Iterator[tuple[DataFrame, DataFrame, DataFrame]]:
    """Yield a left table and two right ones, as Parquet frames with the key k and a number each.

    A share ``hot`` of the left has the hot key. With ``pairs``, about as many rows of the left and a third as
    many of the right have it instead.
    """
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, right, left)
    keys[rng.random(left) < (pairs / left if pairs else hot)] = HOT
    with folder() as path:
        for name, own in {
            "left": keys,
            "first": _once(right, pairs // 3, rng),
            "second": _once(right, 0, rng),
        }.items():
            table = pa.table({"k": own, name: rng.integers(0, 2**62, own.size)})
            (path / name).mkdir()
            for file in range(FILES):
                pq.write_table(table.take(np.arange(file, own.size, FILES)), path / name / f"{file}.parquet")
        yield tuple(spark.read.parquet(str(path / name)) for name in ("left", "first", "second"))  # type: ignore[misc]


def _once(keys: int, hot_rows: int, rng: np.random.Generator) -> Any:
    """Return every key once, in any order, some of them replaced by the hot key."""
    found = rng.permutation(keys)
    found[:hot_rows] = HOT
    return found


def ways(left: DataFrame, first: DataFrame, second: DataFrame, case: str, workers: int) -> list[Way]:
    """Return every way to compute a case."""
    how = "full" if case == "full outer" else "inner"
    right = _aggregated(first) if case == "right aggregated" else first
    plans: list[JoinPlan] = []

    def plain() -> DataFrame:
        joined = left.join(right, "k", how)
        return joined.join(second, "k") if case == "three tables" else joined

    def ours(counting: bool) -> DataFrame:
        from evenflow.spark import join

        given = [None, None] if counting else [*plans, None]
        joined = join(left, right, "k", how, workers, plan=given[0])
        return join(joined, second, "k", how, workers, plan=given[1]) if case == "three tables" else joined

    _make_plans(plans, left, right, second, case, how, workers)
    found = [
        Way("plain", OFF, plain),
        Way("adaptive", DEFAULTS, plain),
        Way("adaptive, tuned", TUNED, plain),
    ]
    if case in ("right aggregated", "three tables"):
        found.append(Way("adaptive, tuned and forced", {**TUNED, FORCED: "true"}, plain))
    if how == "inner" and case not in ("three tables", "both sides hot"):
        found.append(Way("salting all keys", OFF, lambda: salted(left, right, all_keys=True)))
        found.append(Way("salting the hot key", OFF, lambda: salted(left, right, all_keys=False)))
    return [
        *found,
        Way("evenflow, plan given", OFF, lambda: ours(counting=False)),
        Way("evenflow, counting", OFF, lambda: ours(counting=True)),
    ]


def _make_plans(
    plans: list[JoinPlan], left: DataFrame, right: DataFrame, second: DataFrame, case: str, how: str,
    workers: int,
) -> None:  # fmt: skip
    """Append the plans of all joins of a case, unless they are left to Spark."""
    from evenflow.spark import join

    decided: list[Any] = []
    joined = join(left, right, "k", how, workers, on_placed=decided.append)
    if case == "three tables":
        join(joined, second, "k", how, workers, on_placed=decided.append)
    plans.extend(placed.plan or _empty_plan(workers) for placed in decided)


def _empty_plan(workers: int) -> JoinPlan:
    from evenflow.plan import make_join_plan
    from evenflow.plan.counted import Counted

    return make_join_plan(workers, Counted(), Counted())


def _aggregated(right: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return right.groupBy("k").agg(F.max("first").alias("first"))


def salted(left: DataFrame, right: DataFrame, all_keys: bool) -> DataFrame:
    """Join by hand: a random salt for left rows, and the right rows copied to every salt."""
    hot = "true" if all_keys else f"k = {HOT}"
    ours = left.selectExpr("*", f"if({hot}, int(rand(1) * {SALTS}), 0) as salt")
    theirs = right.selectExpr(
        "*", f"explode(if({hot}, sequence(0, {SALTS - 1}), array(0))) as salt"
    ).withColumnRenamed("first", "number")
    return ours.join(theirs, ["k", "salt"]).drop("salt")
