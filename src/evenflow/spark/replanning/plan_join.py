"""Placement of a stream by its current plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenflow.control.directory import Control, temporary_control_dir
from evenflow.plan import Plan
from evenflow.schemes.base import Scheme
from evenflow.spark.monitoring.operator_name import operator_name
from evenflow.spark.replanning.batch_stats import observe, with_value_draw
from evenflow.spark.replanning.listener import observe_operator
from evenflow.spark.replanning.plan_source import current_plan
from evenflow.spark.replanning.replanner import Replanner
from evenflow.spark.routing.key_columns import (
    KeyColumn,
    helper_name,
    key_hash,
    quoted,
)
from evenflow.spark.routing.plan_sql import STEPS, bucket_home, with_current_worker, with_worker

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
    by_position: bool,
    worker: str,
) -> DataFrame:
    """Return a streaming ``df`` with each row's worker, and observe its batches.

    ``first`` is the initial plan; it is never replaced if the scheme's plans do not depend on key counts.
    ``draw`` depends on the position of a row if ``by_position``, else on its content.
    """
    control = Control(folder)
    operator = operator_name(scheme, first.workers, [column.name for column in keys])
    control.remove_drafts()
    if not scheme.counts_keys:
        hashed = key_hash(keys)
        placed = with_worker(df, first, hashed, draw, worker)
        name = observe_operator(df.sparkSession, control, operator)
        return observe(placed, name, F.expr(hashed), F.col(worker), first.workers, keys)
    replanner = Replanner(control, operator, scheme, split, seed, first)
    return with_replanned_worker(df, replanner, keys, draw, by_position, worker)


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
    by_position: bool,
    worker: str,
) -> DataFrame:
    """Return a streaming ``df`` with each row's worker by the plan current in its micro-batch."""
    name = observe_operator(df.sparkSession, replanner.control, replanner.operator, replanner)
    names = {step: helper_name([*df.columns, worker], step) for step in STEPS}
    hash_, tail, serial = (F.col(names[step]) for step in ("hash", "tail", "serial"))
    look_up = current_plan(df.sparkSession, replanner.control, replanner.operator, replanner.workers)
    # first what Spark does not compile, so that it compiles the rest as one
    draws, drawn = with_value_draw(df, draw, names["draw"], by_position, names["drawn"])
    bucket = bucket_home(df, replanner.plan, quoted(names["hash"]))
    placed = with_current_worker(df.select("*", *draws), look_up, key_hash(keys), bucket, worker, names)
    kept = [quoted(name) for name in (*df.columns, worker)]
    return observe(placed, name, hash_, F.col(worker), replanner.workers, keys, tail, serial, drawn, kept)
