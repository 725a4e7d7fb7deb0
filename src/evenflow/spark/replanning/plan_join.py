"""A stream placed by the plan of its micro-batch: a broadcast join with the plan's data source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenflow.plan import Plan
from evenflow.schemes.base import Scheme
from evenflow.spark.monitoring.control_dir import Control, operator_name, own_folder
from evenflow.spark.replanning.batch_stats import observe
from evenflow.spark.replanning.listener import watch
from evenflow.spark.replanning.plan_datasource import FORMAT
from evenflow.spark.replanning.replanner import Refresher
from evenflow.spark.routing.key_columns import KeyColumn, helper, key_hash, quoted
from evenflow.spark.routing.plan_sql import bucket_home, with_worker

if TYPE_CHECKING:
    from evenflow.spark.routing.place import Placed


def place_stream(
    df: DataFrame,
    keys: list[KeyColumn],
    folder: str,
    scheme: Scheme,
    split: bool,
    seed: int,
    first: Plan,
    draw: Column | None,
    worker: str,
) -> DataFrame:
    """Return a streaming ``df`` with every row's worker, and have its batches observed.

    ``first`` is the plan to begin with; it stays where the scheme's plans do not hang on what comes.
    """
    control = Control(folder)
    operator = operator_name(scheme, first.workers, [column.name for column in keys])
    control.clear()
    hashed = key_hash(keys)
    if not scheme.counts_keys:
        placed = with_worker(df, first, hashed, draw, worker)
        name = watch(df.sparkSession, control, operator)
        return observe(placed, name, F.expr(hashed), F.col(worker), first.workers)
    refresher = Refresher(control, operator, scheme, split, seed, first)
    return with_refreshed_worker(df, refresher, hashed, draw, worker)


def observe_stream(placed: Placed) -> DataFrame:
    """Return the frame of a stream that routers place, with its batches observed for `loads`."""
    operator = operator_name(placed.scheme, placed.workers, [column.name for column in placed.keys])
    name = watch(placed.frame.sparkSession, Control(placed.control or own_folder()), operator)
    worker = F.col(quoted(placed.worker))
    return observe(placed.frame, name, F.expr(key_hash(placed.keys)), worker, placed.workers)


def with_refreshed_worker(
    df: DataFrame, refresher: Refresher, hashed: str, draw: Column | None, worker: str
) -> DataFrame:
    """Return a streaming ``df`` with every row's worker, by the plan that is current in its micro-batch."""
    spark = df.sparkSession
    name = watch(spark, refresher.control, refresher.operator, refresher)
    parts = ("below", "cut", "above", "serial")
    steps = ("hash", "draw", "key", *parts, "wide", "cell")
    names = {step: helper([*df.columns, worker], step) for step in steps}
    hash_, draw_, key, below, cut, above, serial, wide, cell = (F.col(name) for name in names.values())
    table = (
        spark.read.format(FORMAT)
        .option("control", str(refresher.control.folder))
        .option("operator", refresher.operator)
        .option("workers", str(refresher.workers))
        .load()
        .select(F.col("hash").alias(names["key"]), *(F.col(part).alias(names[part]) for part in parts))
    )
    drawn = (F.lit(0.0) if draw is None else draw).alias(names["draw"])
    home = F.when(wide - cell < F.get(cut, cell), F.get(below, cell)).otherwise(F.get(above, cell))
    tail = F.expr(bucket_home(refresher.plan, names["hash"]))
    placed = (
        df.select("*", F.expr(hashed).alias(names["hash"]), drawn)
        .join(F.broadcast(table), hash_ == key, "left")
        .select("*", (draw_ * F.size(below)).alias(names["wide"]))
        .select("*", wide.cast("int").alias(names["cell"]))
        .select("*", F.when(key.isNotNull(), home).otherwise(tail).alias(worker))
        .drop(*(names[step] for step in steps if step not in ("hash", "serial")))
    )
    seen = observe(placed, name, hash_, F.col(worker), refresher.workers, tail, serial)
    return seen.drop(names["hash"], names["serial"])
