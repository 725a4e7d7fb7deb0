"""`join`: a join whose work is even although its keys are not."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenflow.errors import EvenflowError
from evenflow.plan import JoinPlan, make_join_plan
from evenflow.plan.build import BUCKETS_PER_WORKER
from evenflow.plan.join_build import KINDS
from evenflow.spark.joining.copied import is_copied, matched_once, unmatched_once
from evenflow.spark.joining.on import JoinOn, On, resolve_on
from evenflow.spark.joining.side import SideNames, placed_side
from evenflow.spark.monitoring.job_description import job_description
from evenflow.spark.routing.key_columns import KeyColumn, helper_name, key_hash, quoted, with_keys
from evenflow.spark.routing.key_counts import count_frequent_keys
from evenflow.spark.routing.options import (
    ORDERS,
    check_choice,
    check_settings,
    check_workers,
    default_workers,
)

log = logging.getLogger("evenflow.spark")

_SPELLINGS = {
    "outer": "full", "fullouter": "full", "leftouter": "left", "rightouter": "right", "semi": "left_semi",
    "leftsemi": "left_semi", "anti": "left_anti", "leftanti": "left_anti",
}  # fmt: skip
_JOIN = re.compile(r"^[\s:+\-*()\d]*(\w*Join)\b", re.MULTILINE)
_EVEN_ANYWAY = 0.25  # of a worker's share: without a key this large, Spark's hash is even enough


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
        The frames to join.
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
    for frame, side in ((left, "left"), (right, "right")):
        if frame.isStreaming:
            raise EvenflowError(f"the {side} is a stream; join takes two batch frames.")
    check_settings(left)
    keys = resolve_on(left, right, on, condition)
    count = workers if workers is not None else plan.workers if plan is not None else default_workers(left)
    check_workers(count)
    _check_plan(plan, count, sample)
    sides = _Sides(left, right, keys)
    reasons: list[str] = []
    if plan is None:
        plain = sides.plain(kind)
        plan = _make_plan(sides, kind, count, plain, sample, seed, reasons)
    for reason in reasons:
        log.info(reason)
    if on_placed is not None:
        on_placed(PlacedJoin(kind, count, plan, reasons))
    return sides.plain(kind) if plan is None else sides.joined(plan, kind, order, seed, reasons)


def _kind(how: Any) -> str:
    kind = str(how).lower().replace("_", "")
    kind = _SPELLINGS.get(kind, kind)
    if kind not in KINDS:
        raise EvenflowError(f"how is {how!r}; choose one of {', '.join(KINDS)}.")
    return kind


def _check_plan(plan: JoinPlan | None, workers: int, sample: float | None) -> None:
    if plan is None:
        return
    if not isinstance(plan, JoinPlan):
        raise EvenflowError(f"plan is a {type(plan).__name__}; pass the plan of an earlier join.")
    if plan.workers != workers:
        raise EvenflowError(f"plan is for {plan.workers} workers but workers is {workers}; make them equal.")
    if sample is not None:
        raise EvenflowError(f"sample is {sample!r}, but plan is given, so no keys are counted; omit sample.")


def _make_plan(
    sides: _Sides,
    how: str,
    workers: int,
    plain: DataFrame,
    sample: float | None,
    seed: int,
    reasons: list[str],
) -> JoinPlan | None:
    """Return a plan from the counts of both sides; None if the join is better left to Spark."""
    if _broadcasts(plain):
        reasons.append("left to Spark: one side is small enough to broadcast, so the keys do not matter")
        return None
    counted = [
        (keyed.where(f"not ({_any_null(keys)})"), key_hash(keys)) for keyed, keys in (sides.left, sides.right)
    ]
    buckets = BUCKETS_PER_WORKER * workers
    with job_description(sides.frames[0].sparkSession, "evenflow: count the keys of both sides of a join"):
        counts = count_frequent_keys(counted, workers=workers, buckets=buckets, sample=sample, seed=seed)
    for (found, fraction), side in zip(counts, ("left", "right"), strict=True):
        rows = "all" if fraction == 1 else f"{fraction:.1%} of about"
        reasons.append(f"keys of the {side} were counted in {rows} {found.total:.0f} rows")
    plan = make_join_plan(workers, counts[0][0], counts[1][0], how)
    if not plan.splits and plan.weights.max(initial=0.0) * workers < _EVEN_ANYWAY:
        reasons.append("left to Spark: no key is hot, so its own hash is even enough")
        return None
    return plan


def _broadcasts(plain: DataFrame) -> bool:
    """Return whether Spark would broadcast a side of the join."""
    text = plain.sparkSession.sql("EXPLAIN SELECT * FROM {frame}", frame=plain).collect()[0][0]
    found = _JOIN.search(text)
    return found is not None and found.group(1).startswith("Broadcast")


def _any_null(keys: list[KeyColumn]) -> str:
    return " or ".join(f"{quoted(key.frame_name)} is null" for key in keys)


class _Sides:
    """Both frames with their keys, and the ways to join them."""

    def __init__(self, left: DataFrame, right: DataFrame, on: JoinOn):
        self.frames = left, right
        self.on = on
        self.left, self.right = with_keys(left, on.left), with_keys(right, on.right)

    def plain(self, how: str) -> DataFrame:
        """Return Spark's own join."""
        return self._join(*self.frames, how)

    def joined(self, plan: JoinPlan, how: str, order: str, seed: int, reasons: list[str]) -> DataFrame:
        """Return the join of both sides on the workers of the plan."""
        same = self.on.names is not None
        names = [SideNames.of(side, *self.frames, same) for side in ("left", "right")]
        keeps_all = how in ("left", "full", "left_semi", "left_anti"), how in ("right", "full")
        left, right = (
            placed_side(
                frame, *keyed, plan, pieces, own, keeps_all=keeps, order=order, seed=seed, reasons=reasons
            )
            for frame, keyed, pieces, own, keeps in zip(
                self.frames, (self.left, self.right), (plan.left, plan.right), names, keeps_all, strict=True
            )
        )
        joined = self._with_unmatched(left, right, how, names)
        return joined.drop(*{name for own in names for name in own.all()})

    def _with_unmatched(
        self, left: DataFrame, right: DataFrame, how: str, names: list[SideNames]
    ) -> DataFrame:
        workers = (names[0].worker, names[1].worker)
        copied_left, copied_right = (
            own.copies in frame.columns for own, frame in zip(names, (left, right), strict=True)
        )
        if not (copied_left or copied_right):
            return self._join(left, right, how, workers)
        ours, theirs = names
        if how in ("left_semi", "left_anti"):
            some, rest = left.where(is_copied(ours)), left.where(~is_copied(ours))
            once = matched_once if how == "left_semi" else unmatched_once
            found = once(self._join(some, right, how, workers), ours)
            return self._join(rest, right, how, workers).unionAll(found)
        joined = self._join(left, right, how, workers)
        nothing = F.lit(False)
        result = joined
        if copied_left:
            result = result.where(~(is_copied(ours) & F.col(quoted(theirs.here)).isNull()))
        if copied_right:
            result = result.where(~(is_copied(theirs) & F.col(quoted(ours.here)).isNull()))
        if copied_left:
            alone = self._join(left.where(is_copied(ours)), right, "left_anti", workers)
            alone = unmatched_once(alone, ours)
            result = result.unionAll(self._join(alone, right.where(nothing), "left", workers, residual=False))
        if copied_right:
            alone = self._join(right.where(is_copied(theirs)), left, "left_anti", workers[::-1])
            alone = unmatched_once(alone, theirs)
            result = result.unionAll(self._join(left.where(nothing), alone, "right", workers, residual=False))
        return result

    def _join(
        self,
        left: DataFrame,
        right: DataFrame,
        how: str,
        workers: tuple[str, ...] = (),
        residual: bool = True,
    ) -> DataFrame:
        """Join two frames on the keys, on the workers in the columns ``workers`` and on the rest."""
        names, rest = self.on.names, self.on.residual if residual else None
        if names is not None:
            using = [*names, *workers[:1]]
            return (
                left.join(right, using, how) if rest is None else _join_using(left, right, using, rest, how)
            )
        condition = self.on.condition
        assert condition is not None
        if workers:
            condition = condition & (F.col(quoted(workers[0])) == F.col(quoted(workers[1])))
        return left.join(right, condition if rest is None else condition & rest, how)


def _join_using(left: DataFrame, right: DataFrame, using: list[str], residual: Column, how: str) -> DataFrame:
    """Join on names and a condition; the result has the named columns once, as from a join on names alone."""
    taken = [*left.columns, *right.columns]
    rows = [helper_name(taken, f"{side}_row") for side in ("left", "right")]
    copies = [
        [helper_name(taken, f"{side}_using_{i}") for i in range(len(using))] for side in ("left", "right")
    ]
    packed = [
        frame.select(
            "*",
            F.struct("*").alias(row),
            *(F.col(quoted(name)).alias(copy) for name, copy in zip(using, own, strict=True)),
        )
        for frame, row, own in zip((left, right), rows, copies, strict=True)
    ]
    condition = residual
    for a, b in zip(*copies, strict=True):
        condition = (F.col(a) == F.col(b)) & condition
    joined = packed[0].join(packed[1], condition, how)
    row, other = (F.col(name) for name in rows)
    keys = [
        {"right": other[name], "full": F.coalesce(row[name], other[name])}.get(how, row[name]).alias(name)
        for name in using
    ]
    rest = [row[name].alias(name) for name in left.columns if name not in using]
    if how not in ("left_semi", "left_anti"):
        rest += [other[name].alias(name) for name in right.columns if name not in using]
    return joined.select(*keys, *rest)
