"""Replanning a stream: the plan for the next micro-batches is made from the statistics of the last ones.

While a batch runs, ``observe`` counts its keys and the rows of each worker. A listener receives the counts,
makes a plan that keeps previous homes where they still fit, and writes it to the control directory, where the
query reads it (:mod:`evenflow.spark.replanning.plan_source`). A new hot key is therefore followed one or
two batches later.

The homes of buckets are part of the query and fixed; hot keys fill the capacity that the tail leaves. The
load that the tail puts on each worker changes slowly and is averaged over batches. Hot keys are taken from
the last batch alone, unless it is small: then earlier batches top it up to a number of rows that suffices, so
that a tiny batch, such as Kafka and ``availableNow`` make by themselves, does not make a plan forget.
"""

from __future__ import annotations

import logging

import numpy as np

from evenflow.control.directory import Control
from evenflow.kernels import Float64Array, UInt64Array
from evenflow.plan import Plan, bucket_of
from evenflow.plan.counted import Counted, hot_only
from evenflow.plan.explain import Difference, difference
from evenflow.schemes.base import Scheme
from evenflow.schemes.handover import STEADY_ROWS_PER_WORKER
from evenflow.spark.replanning.batch_stats import BatchStats
from evenflow.spark.replanning.plan_source import read_plan, write_plan
from evenflow.spark.routing.key_counts import MIN_SAMPLED_ROWS

log = logging.getLogger("evenflow.spark.replanning")

MAX_HOT_KEYS = 4096  # bounds the size of the file
_PLANS_KEPT = 3  # to look up the homes that a batch used
_LATE_BATCHES = 3  # in a row that were far less even than their plans promised, before it is said
_LATE = 1.5  # times what the plan promised


class Replanner:
    """Makes the plans of one streaming operator from the statistics of its batches."""

    def __init__(self, control: Control, operator: str, scheme: Scheme, split: bool, seed: int, first: Plan):
        self.control = control
        self.operator = operator
        self.scheme = scheme
        self.split = split
        self.seed = seed
        self.past = Counted()
        self.serial, self.plan = read_plan(control, operator, first.workers)[0] or (0, first)
        if not np.array_equal(self.plan.buckets, first.buckets):
            self.plan = first  # the homes of buckets are part of the query and fixed while it runs
        self.tail: Float64Array = np.zeros(first.workers)  # share of the rows, averaged over tail_rows
        self.tail_rows = 0.0
        self.used: dict[int | None, Plan] = {}
        self._late_batches = 0
        self.write()

    @property
    def workers(self) -> int:
        """Number of workers."""
        return self.plan.workers

    def learn(self, stats: BatchStats) -> None:
        """Make and write the plan for the next batches."""
        if not stats.total:
            if read_plan(self.control, self.operator, self.workers)[0] is None:
                self.write()
            return
        if stats.serial is None:
            _, why = read_plan(self.control, self.operator, self.workers)
            why = why or "Spark cannot read the plan"
            self.control.note("fallback", operator=self.operator, batch=stats.batch, why=why)
        self._notice_late_plans(stats)
        self.past = blended(self.past, stats, self.workers)
        hot = hot_only(
            self.past.keys, self.past.counts, self.past.total, None, self.workers, MIN_SAMPLED_ROWS
        )
        hot = Counted(
            hot.keys[:MAX_HOT_KEYS], hot.counts[:MAX_HOT_KEYS], hot.total, self._buckets(hot, stats)
        )
        plan = self.scheme.plan(
            self.workers, hot, split=self.split, seed=self.seed, previous=self.plan, move_buckets=False
        )
        changes = difference(plan, self.plan)
        self.plan = plan
        self.write()
        self.control.note(
            "plan", operator=self.operator, serial=self.serial, batch=stats.batch, hot=int(plan.keys.size),
            expected=round(plan.max_over_mean, 4), changes=str(changes), changed=changes.is_change,
            reason=_reason(stats, plan, changes), numbers=changes._asdict(),
        )  # fmt: skip

    def _notice_late_plans(self, stats: BatchStats) -> None:
        """Warn if keys heat up faster than plans can follow."""
        plan = self.used.get(stats.serial)
        if plan is None or not plan.keys.size:  # made from no batch: a first one is placed by hash
            return
        measured = float(stats.rows.max()) * self.workers / stats.total
        late = measured > _LATE * plan.max_over_mean and stats.total >= STEADY_ROWS_PER_WORKER * self.workers
        self._late_batches = self._late_batches + 1 if late else 0
        if self._late_batches == _LATE_BATCHES:
            log.warning(
                "in %d batches in a row plans came too late: other keys are hot in every batch. In the last "
                "one the fullest worker had %.2f of the mean where %.2f was planned. Use mode='online', "
                "which adapts within a batch.",
                _LATE_BATCHES, measured, plan.max_over_mean,
            )  # fmt: skip

    def _buckets(self, hot: Counted, stats: BatchStats) -> Float64Array:
        """Return rows per bucket: those of hot keys, plus each worker's tail spread over its buckets."""
        buckets, size = self.plan.buckets, self.plan.buckets.size
        hot_buckets = bucket_of(hot.keys, size)
        in_batch = _counts_of(stats.keys, stats.counts, hot.keys)
        now = np.maximum(stats.tail - np.bincount(buckets[hot_buckets], in_batch, self.workers), 0.0)
        share = now / stats.total
        weight = stats.total / (stats.total + self.tail_rows)
        self.tail = (1 - weight) * self.tail + weight * share
        steady = STEADY_ROWS_PER_WORKER * self.workers
        self.tail_rows = max(stats.total, min(self.tail_rows + stats.total, steady))
        rest = max(0.0, hot.total - float(hot.counts.sum()))
        by_worker = self.tail * (rest / max(float(self.tail.sum()), 1e-300))
        per_worker = np.maximum(np.bincount(buckets, minlength=self.workers), 1)
        return (by_worker / per_worker)[buckets] + np.bincount(hot_buckets, hot.counts, size)

    def write(self) -> None:
        """Write the plan under the next serial number."""
        self.serial += 1
        self.used = {self.serial: self.plan, **dict(list(self.used.items())[:_PLANS_KEPT])}
        if not write_plan(self.control, self.operator, self.serial, self.plan):
            log.warning(
                "cannot write the plan to %s; rows are placed by hash until it is writable",
                self.control.location,
            )


def _reason(stats: BatchStats, plan: Plan, changes: Difference) -> str:
    """Return what the batch measured that led to a plan, and what the plan is expected to achieve."""
    hottest = float(stats.counts[0]) / stats.total if stats.counts.size else 0.0
    moved = ", ".join(
        text
        for count, text in (
            (changes.became_hot, f"{changes.became_hot} keys became hot"),
            (changes.cooled, f"{changes.cooled} cooled"),
            (changes.homes_added, f"{changes.homes_added} homes added"),
        )
        if count
    )
    return (
        f"the fullest worker had {stats.rows.max() * stats.rows.size / stats.total:.3f} of the mean, the "
        f"hottest key {hottest:.1%} of the rows ({hottest * plan.workers:.2f} of a worker's share): "
        f"{moved or 'the same homes'}, {plan.max_over_mean:.3f} of the mean expected"
    )


def blended(past: Counted, stats: BatchStats, workers: int) -> Counted:
    """Return the counts of a batch; a small one is topped up with those of earlier ones."""
    room = STEADY_ROWS_PER_WORKER * workers - stats.total
    if room <= 0 or not past.total:
        return Counted(stats.keys, stats.counts, stats.total)
    weight = min(1.0, room / past.total)
    keys = np.concatenate([stats.keys, past.keys])
    counts = np.concatenate([stats.counts, past.counts * weight])
    unique, where = np.unique(keys, return_inverse=True)
    joined: Float64Array = np.bincount(where, counts, unique.size).astype(np.float64)
    return _hottest(unique, joined, stats.total + weight * past.total)


def _counts_of(keys: UInt64Array, counts: Float64Array, wanted: UInt64Array) -> Float64Array:
    """Return the counts of the ``wanted`` keys; 0 for those not in ``keys``."""
    known = dict(zip(keys.tolist(), counts.tolist(), strict=True))
    return np.array([known.get(key, 0.0) for key in wanted.tolist()])


def _hottest(keys: UInt64Array, counts: Float64Array, total: float) -> Counted:
    order = np.argsort(-counts, kind="stable")[:MAX_HOT_KEYS]
    return Counted(keys[order], counts[order], total)
