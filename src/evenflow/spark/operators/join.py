"""`join`: a join whose work is even although its keys are not."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenflow.control.directory import temporary_control_dir
from evenflow.errors import EvenflowError
from evenflow.plan import JoinPlan, make_join_plan
from evenflow.plan.counted import Counted
from evenflow.plan.join_build import KINDS
from evenflow.spark.joining.join_replanner import counted_by
from evenflow.spark.joining.on import On, resolve_on
from evenflow.spark.joining.side import any_null
from evenflow.spark.joining.sides import JoinSides, keeps_unmatched
from evenflow.spark.joining.stream_plans import empty_plan
from evenflow.spark.joining.stream_static import check_kind, joined_with_table
from evenflow.spark.joining.stream_stream import check_streams, joined_streams
from evenflow.spark.monitoring.job_description import job_description
from evenflow.spark.routing.key_columns import key_hash, quoted
from evenflow.spark.routing.key_counts import count_frequent_keys, rows_counted
from evenflow.spark.routing.options import (
    ORDERS,
    check_choice,
    check_settings,
    resolve_workers,
)
from evenflow.storage import locate

log = logging.getLogger("evenflow.spark.operators")

_SPELLINGS = {
    "outer": "full", "fullouter": "full", "leftouter": "left", "rightouter": "right", "semi": "left_semi",
    "leftsemi": "left_semi", "anti": "left_anti", "leftanti": "left_anti",
}  # fmt: skip
_JOIN = re.compile(r"^[\s:+\-*()\d]*(\w*Join)\b", re.MULTILINE)
_SAMPLED_ROWS_PER_WORKER = 2048  # a key of a worker's share is known to 2 percent; no tail is weighed
_FIRST_ROWS = 16_384  # of each partition, counted exactly in the first pass
_EVEN_ANYWAY = 0.25  # of a worker's share: without a key this large, Spark's hash is even enough
_NULL = 0x6E756C6C_6B657973  # counted in place of the hash of a key with a null


@dataclass(frozen=True)
class PlacedJoin:
    """What `join` decided: the plan, None if the join was left to Spark, and the reasons."""

    how: str
    workers: int
    plan: JoinPlan | None
    reasons: list[str] = field(default_factory=list)

    def explain(self) -> str:
        """Return a description of what was decided and why."""
        lines = [f"{self.how} join on {self.workers} workers", *self.reasons]
        return "\n".join([*lines, self.plan.explain()] if self.plan is not None else lines)


def join(
    left: DataFrame,
    right: DataFrame,
    on: On,
    how: str = "inner",
    workers: int | None = None,
    *,
    condition: Column | None = None,
    plan: JoinPlan | None = None,
    sample: float | None = None,
    order: str = "auto",
    seed: int = 0,
    control: str | None = None,
    on_placed: Callable[[PlacedJoin], None] | None = None,
) -> DataFrame:
    """Join two frames so that every partition has the same work, also if some keys have many rows.

    Use it where ``left.join(right, on, how)`` waits for one task and adaptive execution does not help: full
    outer joins, inputs that were aggregated or repartitioned, keys that are hot on both sides. Rows, columns
    and names are those of ``left.join(right, on, how)``, in any order.

    The rows of a hot key are divided among several partitions and the other side's rows of that key copied to
    them. Both sides are counted first, which runs a job; pass ``plan`` to skip it. A side that Spark would
    broadcast is left to Spark, and so is a join without hot keys.

    Parameters
    ----------
    left, right : DataFrame
        The frames to join; one or both may be streams, see the documentation of joins.
    on : str, Column, or a list of them
        Names of columns that both sides have, or conditions with an equality of a left and a right column.
    how : str
        inner, left, right, full, left_semi or left_anti, or another spelling that Spark knows.
    workers : int, optional
        Number of partitions of the result. Default: that of ``plan``, or ``spark.sql.shuffle.partitions``.
    condition : Column, optional
        What else must hold for two rows to match.
    plan : JoinPlan, optional
        An existing plan, such as ``placed.plan`` of an earlier run. A plan that does not fit costs balance,
        never rows.
    sample : float, optional
        Fraction of the rows to count. Default: large enough for good balance.
    order : {"auto", "as-is", "content"}
        How rows of a divided key are assigned to its pieces: by content, or by position in input order, which
        is your promise that a retried task reads its rows in the same order; see `balance`.
    seed : int
        Seed of draws.
    control : str, optional
        Control directory of a stream, for plans and the log. Joining two streams needs one that is kept as
        long as the checkpoint.
    on_placed : callable, optional
        Called with the `PlacedJoin`, which has the plan and the reasons.

    Returns
    -------
    DataFrame
        The joined rows.

    Examples
    --------
    >>> from evenflow.spark import join
    >>> users = df.groupBy("user_id").count()
    >>> rows = join(df, users, on="user_id", how="full", workers=4)
    >>> rows.count() == df.count()
    True
    """
    kind = _kind(how)
    check_choice("order", order, tuple(name for name in ORDERS if name != "sort"))
    if control is not None and not (left.isStreaming or right.isStreaming):
        raise EvenflowError(f"control is {control!r}, but neither side is a stream; omit control.")
    check_settings(left)
    keys = resolve_on(left, right, on, condition)
    _check_plan(plan, sample)
    count = resolve_workers(left, workers, plan)
    sides = JoinSides(left, right, keys)
    reasons: list[str] = []
    if left.isStreaming or right.isStreaming:
        result, plan = _join_streams(sides, kind, count, plan, sample, order, seed, control, reasons)
    else:
        plan = plan or _make_plan(sides, kind, count, sample, seed, reasons)
        if plan is None:
            result = sides.plain(kind)
        else:
            result = sides.right_keys_once(kind).joined(plan, kind, order, seed, reasons)
    for reason in reasons:
        log.info(reason)
    if on_placed is not None:
        on_placed(PlacedJoin(kind, count, plan, reasons))
    return result


def _kind(how: Any) -> str:
    kind = str(how).lower().replace("_", "")
    kind = _SPELLINGS.get(kind, kind)
    if kind not in KINDS:
        raise EvenflowError(f"how is {how!r}; choose one of {', '.join(KINDS)}.")
    return kind


def _check_plan(plan: JoinPlan | None, sample: float | None) -> None:
    if plan is None:
        return
    if not isinstance(plan, JoinPlan):
        raise EvenflowError(f"plan is a {type(plan).__name__}; pass the plan of an earlier join.")
    if sample is not None:
        raise EvenflowError(f"sample is {sample!r}, but plan is given, so no keys are counted; omit sample.")


def _make_plan(
    sides: JoinSides,
    how: str,
    workers: int,
    sample: float | None,
    seed: int,
    reasons: list[str],
) -> JoinPlan | None:
    """Return a plan from the counts of both sides; None if the join is better left to Spark."""
    if _broadcasts(sides.plain(how)):
        reasons.append("left to Spark: one side is small enough to broadcast, so the keys do not matter")
        return None
    placed = sides.right_keys_once(how)
    counted = [
        (keyed, f"if({any_null(keys)}, {_NULL}L, {key_hash(keys)})")
        if keeps
        else (keyed.where(f"not ({any_null(keys)})"), key_hash(keys))
        for (keyed, keys), keeps in zip((placed.left, placed.right), keeps_unmatched(how), strict=True)
    ]
    with job_description(sides.frames[0].sparkSession, "evenflow: count the keys of both sides of a join"):
        counts = count_frequent_keys(
            counted, workers=workers, buckets=0, sample=sample, seed=seed,
            per_worker=_SAMPLED_ROWS_PER_WORKER, first_rows=_FIRST_ROWS,
        )  # fmt: skip
    for (found, fraction), side in zip(counts, ("left", "right"), strict=True):
        reasons.append(f"keys of the {side} were counted in {rows_counted(found, fraction)}")
    (left, left_nulls), (right, right_nulls) = (_without_nulls(found) for found, _ in counts)
    plan = make_join_plan(workers, left, right, how)
    nulls = (left_nulls + right_nulls) / max(1.0, counts[0][0].total + counts[1][0].total)
    if not plan.splits and max(nulls, plan.weights.max(initial=0.0)) * workers < _EVEN_ANYWAY:
        reasons.append("left to Spark: no key is hot, so its own hash is even enough")
        return None
    return plan


def _without_nulls(counted: Counted) -> tuple[Counted, float]:
    """Return the counts of the rows with a key, and the number of the others, which no key has to itself."""
    is_null = counted.keys == np.uint64(_NULL)
    nulls = float(counted.counts[is_null].sum())
    distinct = counted.distinct
    if nulls and distinct is not None:
        distinct -= 1
    kept = counted.keys[~is_null], counted.counts[~is_null]
    return Counted(*kept, counted.total - nulls, None, distinct), nulls


def _join_streams(
    sides: JoinSides,
    how: str,
    workers: int,
    plan: JoinPlan | None,
    sample: float | None,
    order: str,
    seed: int,
    control: str | None,
    reasons: list[str],
) -> tuple[DataFrame, JoinPlan | None]:
    """Return the join, and its first plan; None if the join is left to Spark."""
    left, right = sides.frames
    if control is not None:  # Python workers have a working directory of their own
        control = locate(control)
    if left.isStreaming and right.isStreaming:
        check_streams(sides, how, workers, control)
        assert control is not None
        return joined_streams(sides, how, workers, plan, control, order, seed, reasons)
    stream = "left" if left.isStreaming else "right"
    check_kind(how, stream)
    placed = sides.right_keys_once(how)
    keyed, keys = placed.right if left.isStreaming else placed.left
    copy = keyed.toDF(*(f"__evenflow_{number}" for number in range(len(keyed.columns))))
    same = F.col(quoted(keys[0].frame_name)) == F.col(copy.columns[keyed.columns.index(keys[0].frame_name)])
    if plan is None and _broadcasts(keyed.join(copy, same)):
        reasons.append("left to Spark: the table is small enough to broadcast, so the keys do not matter")
        return sides.plain(how), None
    if plan is None:
        rows = keyed.where(f"not ({any_null(keys)})"), key_hash(keys)
        with job_description(left.sparkSession, "evenflow: count the keys of the table of a join"):
            [(table, fraction)] = count_frequent_keys(
                [rows], workers=workers, buckets=0, sample=sample, seed=seed
            )
        reasons.append(f"keys of the table were counted in {rows_counted(table, fraction)}")
        if not table.total:
            reasons.append("left to Spark: the table has no rows")
            return sides.plain(how), None
        plan = empty_plan(workers)
    else:
        table = counted_by(plan, left=not left.isStreaming)
    reasons.append("each micro-batch is planned from the ones before it")
    folder = control or temporary_control_dir()
    return joined_with_table(placed, how, table, plan, folder, order, seed, reasons), plan


def _broadcasts(plain: DataFrame) -> bool:
    """Return whether Spark would broadcast a side of the join."""
    text = plain.sparkSession.sql("EXPLAIN SELECT * FROM {frame}", frame=plain).collect()[0][0]
    found = _JOIN.search(text)
    return found is not None and found.group(1).startswith("Broadcast")
