"""Where every row goes: the one way from a frame and a key to a worker, for `balance`, `apply`, `aggregate`.

``place`` returns the frame with an INT column that names each row's worker; ``Placed.moved()`` then puts
every row on the partition of that number. The law: where a row goes depends on what the row holds, on its
position where that is fixed, and on a plan or snapshot that is frozen for the run, never on timing.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenflow.errors import EvenflowError
from evenflow.plan import Plan
from evenflow.plan.from_scheme import buckets_for, check_plannable, needs_counts, plan_for
from evenflow.schemes.base import Scheme
from evenflow.schemes.base import scheme as scheme_named
from evenflow.spark.monitoring.control_dir import own_folder
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
from evenflow.spark.routing.plan_sql import bucket_home, with_worker
from evenflow.spark.routing.row_content import row_content
from evenflow.spark.routing.row_order import has_fixed_order, sorted_by_content

log = logging.getLogger("evenflow.spark")

MODES = ("auto", "planned", "online")
ORDERS = ("auto", "as-is", "sort", "content")
_ALL_KEYS = "spark.sql.requireAllClusterKeysForDistribution"


@dataclass(frozen=True)
class Placed:
    """A frame whose rows know their worker; ``frame`` has the user's columns, our keys, then ``worker``."""

    frame: DataFrame
    worker: str
    workers: int
    keys: list[KeyColumn]
    columns: list[str]  # the user's, in order
    mode: str
    scheme: Scheme
    plan: Plan | None = None
    reasons: list[str] = field(default_factory=list)
    control: str | None = None
    direct: tuple[DataFrame, Column] | None = (
        None  # the user's frame and its worker, where no helper is needed
    )

    def rows(self) -> DataFrame:
        """Return the user's columns, with every row on the partition of its worker."""
        if self.direct is not None:  # without a column for the worker, rows are smaller while they move
            df, worker = self.direct
            return df.repartitionById(self.workers, worker)
        return self.moved().drop(*self.helpers())

    def moved(self) -> DataFrame:
        """Return the frame with every row on the partition of its worker, helper columns included."""
        return self.frame.repartitionById(self.workers, F.col(quoted(self.worker)))

    def helpers(self) -> list[str]:
        """Return the columns that are not the user's."""
        return [*(key.inside for key in self.keys if key.is_helper), self.worker]

    def explain(self) -> str:
        """Say what was chosen, why, and what the plan does."""
        lines = [f"{self.mode} {self.scheme} on {self.workers} workers", *self.reasons]
        return "\n".join([*lines, self.plan.explain()] if self.plan is not None else lines)


def place(
    df: DataFrame,
    key: Key,
    *,
    workers: int,
    scheme: str | Scheme = "fill",
    mode: str = "auto",
    split: bool = True,
    sample: float | None = None,
    order: str = "auto",
    seed: int = 0,
    plan: Plan | None = None,
    sources: int | None = None,
    control: str | None = None,
) -> Placed:
    """Choose a worker for every row of ``df``.

    ``split=False`` keeps every key on one worker. ``plan``: use this one and look at nothing. ``order``: what
    is known of the rows' order, see `evenflow.spark.balance`. ``sources``: number of input partitions,
    where an online router should know it. ``control``: the control directory.
    """
    chosen = as_scheme(scheme)
    check_workers(workers)
    _check_choice("mode", mode, MODES)
    _check_choice("order", order, ORDERS)
    check_settings(df)
    reasons: list[str] = []
    mode = _choose_mode(chosen, mode, plan, reasons)
    if mode == "planned":
        return _place_planned(df, key, workers, chosen, split, sample, order, seed, plan, control, reasons)
    from evenflow.spark.routing.online import place_online

    placed = place_online(
        df, key, workers=workers, scheme=chosen, split=split, order=order, seed=seed, sources=sources,
        control=control, reasons=reasons,
    )  # fmt: skip
    if df.isStreaming:
        from evenflow.spark.replanning.plan_join import observe_stream

        return replace(placed, frame=observe_stream(placed))
    return placed


def _place_planned(
    df: DataFrame,
    key: Key,
    workers: int,
    scheme: Scheme,
    split: bool,
    sample: float | None,
    order: str,
    seed: int,
    plan: Plan | None,
    control: str | None,
    reasons: list[str],
) -> Placed:
    keyed, keys = with_keys(df, key)
    hashed = key_hash(keys)
    if plan is not None:
        _check_plan(plan, workers, split)
    elif df.isStreaming or not needs_counts(scheme):
        reasons.append(
            f"{scheme.name} needs no look at the rows"
            if not needs_counts(scheme)
            else "plans are made from each micro-batch for those after it"
        )
        plan = plan_for(scheme, workers, split=split, seed=seed)
    else:
        plan = _look(keyed, hashed, workers, scheme, split, sample, seed, reasons)
    draw, added = None, list[str]()
    refreshed = df.isStreaming and needs_counts(scheme)
    if plan.splits or (refreshed and split and getattr(scheme, "split", scheme.splits_keys)):
        keyed, draw, added = draw_for(keyed, df, keys, order, seed, reasons)
    worker = helper(keyed, "worker")
    if df.isStreaming:
        from evenflow.spark.replanning.plan_join import place_stream

        frame = place_stream(keyed, keys, control or own_folder(), scheme, split, seed, plan, draw, worker)
    else:
        frame = with_worker(keyed, plan, hashed, draw, worker)
    frame = frame.drop(*added)
    for reason in reasons:
        log.info(reason)
    direct = None
    if not (df.isStreaming or plan.keys.size or any(column.is_helper for column in keys)):
        direct = (df, F.expr(bucket_home(plan, hashed)))
    return Placed(frame, worker, workers, keys, df.columns, "planned", scheme, plan, reasons, control, direct)


def _check_plan(plan: Plan, workers: int, split: bool) -> None:
    if plan.workers != workers:
        raise EvenflowError(f"plan is for {plan.workers} workers, workers is {workers}; make them the same.")
    if not split and plan.splits:
        raise EvenflowError("split is False and the plan splits keys; make the plan with split=False.")


def _look(
    df: DataFrame,
    hashed: str,
    workers: int,
    scheme: Scheme,
    split: bool,
    sample: float | None,
    seed: int,
    reasons: list[str],
) -> Plan:
    """Make a plan from the rows of ``df``."""
    buckets = buckets_for(scheme, workers)
    counted, part = count_keys(df, hashed, workers=workers, buckets=buckets, sample=sample, seed=seed)
    rows = "all" if part == 1 else f"{part:.1%} of about"
    reasons.append(f"keys were counted in {rows} {counted.total:.0f} rows")
    return plan_for(scheme, workers, counted, split=split, seed=seed)


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


def as_scheme(scheme: str | Scheme) -> Scheme:
    """Return the scheme that a name stands for."""
    return scheme if isinstance(scheme, Scheme) else scheme_named(scheme)


def check_workers(workers: Any) -> None:
    """Refuse a number of workers that is none."""
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise EvenflowError(f"workers is {workers!r}; give the number of partitions to balance, 1 or more.")
    if workers > 2**20:
        raise EvenflowError(f"workers is {workers}; evenflow balances at most {2**20}.")


def check_settings(df: DataFrame) -> None:
    """Refuse settings that would undo the placement."""
    if str(df.sparkSession.conf.get(_ALL_KEYS, "false")).lower() == "true":
        raise EvenflowError(
            f"{_ALL_KEYS} is true, so Spark would shuffle balanced rows by key again and undo the balance; "
            "set it to false."
        )


def _check_choice(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise EvenflowError(f"{name} is {value!r}; choose one of {', '.join(known)}.")


def _choose_mode(scheme: Scheme, mode: str, plan: Plan | None, reasons: list[str]) -> str:
    if mode == "planned" or plan is not None:
        check_plannable(scheme)
        return "planned"
    if mode == "auto":
        mode = "planned" if scheme.plannable else "online"
        why = (
            "can be planned, which costs no more than a shuffle"
            if scheme.plannable
            else "decides row by row and cannot be planned"
        )
        reasons.append(f"auto chose {mode}: {scheme.name} {why}")
    return mode
