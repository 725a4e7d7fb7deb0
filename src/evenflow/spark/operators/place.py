"""Placement: the worker of every row, for `balance`, `apply` and `aggregate`.

``place`` returns the frame with an INT column that holds each row's worker; ``Placed.moved()`` repartitions
by it. A row's worker depends on its content, on its position if that is fixed, and on a plan or snapshot that
is frozen for the run, never on timing.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenflow.control.directory import temporary_control_dir
from evenflow.errors import EvenflowError
from evenflow.plan import JoinPlan, Plan
from evenflow.schemes.spelling import as_scheme
from evenflow.spark.monitoring.job_description import job_description
from evenflow.spark.replanning.plan_join import observe_stream, place_stream
from evenflow.spark.routing.key_columns import (
    Key,
    hash_partition,
    helper_name,
    key_hash,
    with_keys,
)
from evenflow.spark.routing.key_counts import count_keys, rows_counted
from evenflow.spark.routing.online import place_online
from evenflow.spark.routing.options import PlacementOptions, ResolvedOptions
from evenflow.spark.routing.placed import Placed
from evenflow.spark.routing.plan_sql import bucket_home, with_worker
from evenflow.spark.routing.row_draws import with_draw

log = logging.getLogger("evenflow.spark.operators")


def place(df: DataFrame, key: Key, options: PlacementOptions) -> Placed:
    """Choose a worker for every row of ``df``."""
    chosen = options.resolve(df)
    if chosen.mode == "planned":
        return _place_planned(df, key, chosen)
    placed = (_place_as_spark_does if chosen.mode == "repartition" else place_online)(df, key, chosen)
    if df.isStreaming:
        return replace(placed, frame=observe_stream(placed))
    return placed


def stay(df: DataFrame, key: Key, plan: JoinPlan) -> Placed:
    """Leave every row where a join with this plan has put it; its keys may be on several workers."""
    if df.isStreaming:
        raise EvenflowError("plan is the plan of a join, but df is a stream; omit plan.")
    keyed, keys = with_keys(df, key)
    reasons = ["rows stay where the join has put them"]
    worker = helper_name(keyed, "worker")
    return Placed(
        keyed, worker, plan.workers, keys, df.columns, "planned", as_scheme("fill"), None, reasons, stays=True
    )


def _place_as_spark_does(df: DataFrame, key: Key, options: ResolvedOptions) -> Placed:
    """Choose the workers that ``df.repartition(workers, key)`` chooses."""
    keyed, keys = with_keys(df, key)
    worker = helper_name(keyed, "worker")
    frame = keyed.select("*", F.expr(hash_partition(keys, options.workers)).alias(worker))
    return Placed(
        frame, worker, options.workers, keys, df.columns, "repartition", options.scheme, None,
        list(options.reasons), options.control,
    )  # fmt: skip


def _place_planned(df: DataFrame, key: Key, options: ResolvedOptions) -> Placed:
    workers, scheme, split, seed, plan = (
        options.workers, options.scheme, options.split, options.seed, options.plan,
    )  # fmt: skip
    reasons = list(options.reasons)
    keyed, keys = with_keys(df, key)
    hashed = key_hash(keys)
    if plan is not None:
        if not split and plan.splits:
            raise EvenflowError("split is False but the plan splits keys; make the plan with split=False.")
    elif df.isStreaming or not scheme.counts_keys:
        reasons.append(
            f"{scheme.name} is planned without counting keys"
            if not scheme.counts_keys
            else "each micro-batch is planned from the ones before it"
        )
        plan = scheme.plan(workers, split=split, seed=seed)
    else:
        names = ", ".join(column.name for column in keys)
        with job_description(df.sparkSession, f"evenflow: count the keys ({names}) to plan their partitions"):
            plan = _plan_from_counts(keyed, hashed, options, reasons)
    draw, added = None, list[str]()
    replanned = df.isStreaming and scheme.counts_keys
    if plan.splits or (replanned and split and not scheme.one_owner):
        keyed, draw, added = with_draw(keyed, df, keys, options.order, seed, reasons)
    worker = helper_name(keyed, "worker")
    control = options.control
    if df.isStreaming:
        frame = place_stream(
            keyed, keys, control or temporary_control_dir(), scheme, split, seed, plan, draw,
            draw is not None and not added, worker,
        )  # fmt: skip
    else:
        frame = with_worker(keyed, plan, hashed, draw, worker)
    if added:
        frame = frame.drop(*added)
    for reason in reasons:
        log.info(reason)
    direct = None
    if not (df.isStreaming or plan.keys.size or any(column.is_helper for column in keys)):
        direct = (df, bucket_home(df, plan, hashed))
    return Placed(frame, worker, workers, keys, df.columns, "planned", scheme, plan, reasons, control, direct)


def _plan_from_counts(df: DataFrame, hashed: str, options: ResolvedOptions, reasons: list[str]) -> Plan:
    """Count the keys of ``df`` and make a plan."""
    workers, scheme, seed = options.workers, options.scheme, options.seed
    buckets = scheme.plan_buckets(workers)
    counted, fraction = count_keys(
        df, hashed, workers=workers, buckets=buckets, sample=options.sample, seed=seed
    )
    reasons.append(f"keys were counted in {rows_counted(counted, fraction)}")
    return scheme.plan(workers, counted, split=options.split, seed=seed)
