"""Placement of a stream by its current plan: a broadcast join with the plan's data source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from evenflow.control.directory import Control, temporary_control_dir
from evenflow.plan import Plan
from evenflow.schemes.base import Scheme
from evenflow.spark.monitoring.operator_name import operator_name
from evenflow.spark.replanning.batch_stats import observe
from evenflow.spark.replanning.listener import observe_operator
from evenflow.spark.replanning.plan_datasource import registered_format
from evenflow.spark.replanning.replanner import Replanner
from evenflow.spark.routing.key_columns import (
    KeyColumn,
    helper_name,
    key_hash,
    quoted,
)
from evenflow.spark.routing.plan_sql import bucket_home, with_worker

if TYPE_CHECKING:
    from evenflow.spark.routing.placed import Placed


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
    """Return a streaming ``df`` with each row's worker, and observe its batches.

    ``first`` is the initial plan; it is never replaced if the scheme's plans do not depend on key counts.
    """
    control = Control(folder)
    operator = operator_name(scheme, first.workers, [column.name for column in keys])
    control.remove_drafts()
    hashed = key_hash(keys)
    if not scheme.counts_keys:
        placed = with_worker(df, first, hashed, draw, worker)
        name = observe_operator(df.sparkSession, control, operator)
        return observe(placed, name, F.expr(hashed), F.col(worker), first.workers, keys)
    replanner = Replanner(control, operator, scheme, split, seed, first)
    return with_replanned_worker(df, replanner, keys, draw, worker)


def observe_stream(placed: Placed) -> DataFrame:
    """Return the frame of a stream placed by online routers, with its batches observed for `loads`."""
    operator = operator_name(placed.scheme, placed.workers, [column.name for column in placed.keys])
    name = observe_operator(
        placed.frame.sparkSession, Control(placed.control or temporary_control_dir()), operator
    )
    worker = F.col(quoted(placed.worker))
    return observe(placed.frame, name, F.expr(key_hash(placed.keys)), worker, placed.workers, placed.keys)


def with_replanned_worker(
    df: DataFrame,
    replanner: Replanner,
    keys: list[KeyColumn],
    draw: Column | None,
    worker: str,
) -> DataFrame:
    """Return a streaming ``df`` with each row's worker by the plan current in its micro-batch."""
    name = observe_operator(df.sparkSession, replanner.control, replanner.operator, replanner)
    names = {step: helper_name([*df.columns, worker], step) for step in ("hash", "tail", "serial")}
    hash_, tail, serial = (F.col(name) for name in names.values())
    hot_keys = current_plan(df.sparkSession, replanner.control, replanner.operator, replanner.workers)
    rows = df.select("*", F.expr(key_hash(keys)).alias(names["hash"]))
    rows = rows.select("*", bucket_home(df, replanner.plan, names["hash"]).alias(names["tail"]))
    placed = with_joined_worker(rows, hot_keys, hash_, tail, draw, worker, names["serial"])
    stats = observe(placed, name, hash_, F.col(worker), replanner.workers, keys, tail, serial)
    return stats.drop(*names.values())


def current_plan(spark: SparkSession, control: Control, operator: str, workers: int) -> DataFrame:
    """Return the hot keys of the plan in a control directory, reread by every micro-batch."""
    return (
        spark.read.format(registered_format(spark, control.location))
        .option("control", str(control.location))
        .option("operator", operator)
        .option("workers", str(workers))
        .load()
    )


def with_joined_worker(
    df: DataFrame,
    hot_keys: DataFrame,
    hashed: Column,
    bucket: Column,
    draw: Column | None,
    worker: str,
    serial: str,
) -> DataFrame:
    """Return ``df`` with each row's worker: a home of its hot key, or ``bucket``, the home of its bucket.

    The steps for a hot key are those of :class:`evenflow.plan.table.PlanTable`. The column ``serial`` holds
    the plan's serial number for rows of hot keys, and null for all others.
    """
    columns = ("hash", "below", "cut", "above")
    steps = ("draw", *columns, "scaled", "cell")
    names = {step: helper_name([*df.columns, worker, serial], f"plan_{step}") for step in steps}
    draw_, key, below, cut, above, scaled, cell = (F.col(name) for name in names.values())
    table = hot_keys.select(
        *(F.col(column).alias(names[column]) for column in columns), F.col("serial").alias(serial)
    )
    home = F.when(scaled - cell < F.get(cut, cell), F.get(below, cell)).otherwise(F.get(above, cell))
    return (
        df.select("*", (F.lit(0.0) if draw is None else draw).alias(names["draw"]))
        .join(F.broadcast(table), hashed == key, "left")
        .select("*", (draw_ * F.size(below)).alias(names["scaled"]))
        .select("*", scaled.cast("int").alias(names["cell"]))
        .select("*", F.when(key.isNotNull(), home).otherwise(bucket).alias(worker))
        .drop(*names.values())
    )
