"""Where every row goes: the one way from a frame and a key to a worker, for `balance`, `apply`, `aggregate`.

``place`` returns the frame with an INT column that names each row's worker; ``Placed.moved()`` then puts
every row on the partition of that number. The law: where a row goes depends on what the row holds, on its
position where that is fixed, and on a plan or snapshot that is frozen for the run, never on timing.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenflow.errors import EvenflowError
from evenflow.plan import Plan
from evenflow.spark.monitoring.control_dir import temporary_control_dir
from evenflow.spark.replanning.plan_join import observe_stream, place_stream
from evenflow.spark.routing.draws import HOME, draw_by_content, draw_by_position
from evenflow.spark.routing.key_columns import (
    Key,
    KeyColumn,
    helper,
    key_hash,
    quoted,
    with_keys,
)
from evenflow.spark.routing.key_counts import count_keys
from evenflow.spark.routing.online import place_online
from evenflow.spark.routing.options import PlacementOptions, ResolvedOptions
from evenflow.spark.routing.placed import Placed
from evenflow.spark.routing.plan_sql import bucket_home, with_worker
from evenflow.spark.routing.row_content import row_content
from evenflow.spark.routing.row_order import has_fixed_order, sorted_by_content

log = logging.getLogger("evenflow.spark")


def place(df: DataFrame, key: Key, options: PlacementOptions) -> Placed:
    """Choose a worker for every row of ``df``."""
    chosen = options.resolve(df)
    if chosen.mode == "planned":
        return _place_planned(df, key, chosen)
    placed = place_online(df, key, chosen)
    if df.isStreaming:
        return replace(placed, frame=observe_stream(placed))
    return placed


def _place_planned(df: DataFrame, key: Key, options: ResolvedOptions) -> Placed:
    workers, scheme, split, seed, plan = (
        options.workers, options.scheme, options.split, options.seed, options.plan,
    )  # fmt: skip
    reasons = list(options.reasons)
    keyed, keys = with_keys(df, key)
    hashed = key_hash(keys)
    if plan is not None:
        _check_plan(plan, workers, split)
    elif df.isStreaming or not scheme.counts_keys:
        reasons.append(
            f"{scheme.name} needs no look at the rows"
            if not scheme.counts_keys
            else "plans are made from each micro-batch for those after it"
        )
        plan = scheme.plan(workers, split=split, seed=seed)
    else:
        plan = _look(keyed, hashed, options, reasons)
    draw, added = None, list[str]()
    refreshed = df.isStreaming and scheme.counts_keys
    if plan.splits or (refreshed and split and not scheme.one_owner):
        keyed, draw, added = draw_for(keyed, df, keys, options.order, seed, reasons)
    worker = helper(keyed, "worker")
    control = options.control
    if df.isStreaming:
        frame = place_stream(
            keyed, keys, control or temporary_control_dir(), scheme, split, seed, plan, draw, worker
        )
    else:
        frame = with_worker(keyed, plan, hashed, draw, worker)
    frame = frame.drop(*added)
    for reason in reasons:
        log.info(reason)
    direct = None
    if not (df.isStreaming or plan.keys.size or any(column.is_helper for column in keys)):
        direct = (df, bucket_home(df, plan, hashed))
    return Placed(frame, worker, workers, keys, df.columns, "planned", scheme, plan, reasons, control, direct)


def _check_plan(plan: Plan, workers: int, split: bool) -> None:
    if plan.workers != workers:
        raise EvenflowError(f"plan is for {plan.workers} workers, workers is {workers}; make them the same.")
    if not split and plan.splits:
        raise EvenflowError("split is False and the plan splits keys; make the plan with split=False.")


def _look(df: DataFrame, hashed: str, options: ResolvedOptions, reasons: list[str]) -> Plan:
    """Make a plan from the rows of ``df``."""
    workers, scheme, seed = options.workers, options.scheme, options.seed
    buckets = scheme.plan_buckets(workers)
    counted, part = count_keys(df, hashed, workers=workers, buckets=buckets, sample=options.sample, seed=seed)
    rows = "all" if part == 1 else f"{part:.1%} of about"
    reasons.append(f"keys were counted in {rows} {counted.total:.0f} rows")
    return scheme.plan(workers, counted, split=options.split, seed=seed)


def draw_for(
    keyed: DataFrame, df: DataFrame, keys: list[KeyColumn], order: str, seed: int, reasons: list[str]
) -> tuple[DataFrame, Column, list[str]]:
    """Return the frame, sorted if need be, the draw that picks one of a key's homes, and columns it added."""
    if order == "auto":
        if has_fixed_order(df):
            order = "as-is"
            reasons.append("rows are drawn by position: the input is a plain scan, its order is fixed")
        elif not df.isStreaming and all(name in {column.inside for column in keys} for name in df.columns):
            order = "sort"
            reasons.append("rows are sorted, then drawn by position: equal keys are equal rows")
        else:
            order = "content"
            reasons.append(
                "rows are drawn by what they hold, since their order is not fixed; rows that are identical "
                "stay together" + ("" if df.isStreaming else " (order='sort' would split them too)")
            )
    if order == "content":
        content, hashed = row_content(keyed), helper(keyed, "content")
        hashed_rows = content.frame.select("*", content.hash(seed).alias(hashed)).drop(*content.added)
        return hashed_rows, F.expr(draw_by_content(quoted(hashed))), [hashed]
    if order == "sort":
        if df.isStreaming:
            raise EvenflowError("order is 'sort', and Spark does not sort streams; use 'content' or 'as-is'.")
        keyed = sorted_by_content(keyed, seed)
    return keyed, F.expr(draw_by_position(seed, HOME, df.isStreaming)), []
