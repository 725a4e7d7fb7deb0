"""Plans of a join that follow its streams: the next one is made from the rows of the last micro-batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import numpy as np

from evenflow.kernels import Int32Array, UInt64Array
from evenflow.plan import JoinPlan, make_join_plan
from evenflow.plan.counted import Counted, hot_only
from evenflow.plan.join_build import unevenness
from evenflow.spark.joining.join_keys import partition_of
from evenflow.spark.joining.stream_plans import StreamPlans
from evenflow.spark.replanning.batch_stats import BatchStats
from evenflow.spark.replanning.replanner import MAX_HOT_KEYS, blended
from evenflow.spark.routing.key_counts import MIN_SAMPLED_ROWS

log = logging.getLogger("evenflow.spark")

ADOPTED_FROM = 1.05  # times as uneven as a new plan: from here on, two streams get it
_PLANS_KEPT = 3  # to look up the homes that a batch used


class JoinReplanner:
    """Makes the plans of a join of a stream with a table, whose rows were counted before."""

    def __init__(self, plans: StreamPlans, how: str, stream_is_left: bool, table: Counted, first: JoinPlan):
        self.plans = plans
        self.how = how
        self.stream_is_left = stream_is_left
        self.table = table
        self.past = Counted()
        self.serial, self.plan = plans.read() or (0, first)
        self._used: dict[int | None, JoinPlan] = {}
        self.write()

    @property
    def used(self) -> Mapping[int | None, JoinPlan]:
        """The last plans, by their serial numbers."""
        return self._used

    def learn(self, stats: BatchStats) -> None:
        """Make and write the plan for the next batches."""
        if not stats.total:
            if self.plans.read() is None:
                self.write()
            return
        if stats.serial is None:
            why = self.plans.read_with_reason()[1] or "Spark cannot read the plan"
            self.plans.control.note("fallback", operator=self.plans.operator, batch=stats.batch, why=why)
        workers = self.plans.workers
        self.past = blended(self.past, stats, workers)
        hot = hot_only(self.past.keys, self.past.counts, self.past.total, None, workers, MIN_SAMPLED_ROWS)
        stream = Counted(hot.keys[:MAX_HOT_KEYS], hot.counts[:MAX_HOT_KEYS], hot.total, None, stats.distinct)
        sides = (stream, self.table) if self.stream_is_left else (self.table, stream)
        self.plan = make_join_plan(workers, *sides, self.how, copy_wanted=False)
        self.write()
        self.plans.control.note(
            "plan", operator=self.plans.operator, serial=self.serial, batch=stats.batch,
            hot=int(self.plan.keys.size), expected=round(self.plan.max_over_mean, 4),
        )  # fmt: skip

    def write(self) -> None:
        """Write the plan under the next serial number."""
        self.serial += 1
        self._used = {self.serial: self.plan, **dict(list(self._used.items())[:_PLANS_KEPT])}
        if not self.plans.write_for_look_up(self.serial, self.plan):
            log.warning(
                "cannot write the plan to %s; rows are placed by hash until it is writable", self.plans.folder
            )


class StreamsReplanner:
    """Makes the plans of a join of two streams.

    Rows that wait for a match keep the plan by which they were placed, and the other side is copied to the
    cells of both plans for a while, so a plan is kept as long as it is even enough.
    """

    def __init__(
        self,
        plans: StreamPlans,
        how: str,
        first: JoinPlan,
        forget_claims: Callable[[str, int], None] = lambda query, batch: None,
    ):
        self.plans = plans
        self.forget_claims = forget_claims  # of a query before a batch
        self.how = how
        self.past = {"left": Counted(), "right": Counted()}
        self.batch = {"left": -1, "right": -1}  # the last one of each side
        self.serial, self.plan = plans.read() or (0, first)

    def side(self, name: str) -> SideLearner:
        """Return what learns from the rows of a side."""
        return SideLearner(self, name)

    def learn(self, side: str, stats: BatchStats) -> None:
        """Make the plan for the next batches, and write it with the watermark of this one."""
        if side == "left":
            self.forget_claims(stats.query, stats.batch)
        workers = self.plans.workers
        if stats.total:
            past = blended(self.past[side], stats, workers)
            hot = hot_only(past.keys, past.counts, past.total, None, workers, MIN_SAMPLED_ROWS)
            keys, counts = hot.keys[:MAX_HOT_KEYS], hot.counts[:MAX_HOT_KEYS]
            self.past[side] = Counted(keys, counts, past.total, None, stats.distinct)
        left, right = self.past["left"], self.past["right"]
        self.batch[side] = stats.batch
        waits = min(self.batch.values()) == stats.batch - 1  # for the same batch of the other side
        if left.total and right.total and not waits:
            fresh = self.plans.usable(make_join_plan(workers, left, right, self.how, copy_wanted=False))

            def hashed(keys: UInt64Array) -> Int32Array:
                return partition_of(keys.view(np.int64), workers)

            uneven = unevenness(self.plan, left, right, self.how, hashed)
            if uneven > ADOPTED_FROM * fresh.max_over_mean:
                self.plan, self.serial = fresh, self.serial + 1
                self.plans.control.note(
                    "plan", operator=self.plans.operator, serial=self.serial, batch=stats.batch,
                    hot=int(fresh.keys.size), expected=round(fresh.max_over_mean, 4),
                )  # fmt: skip
        written = self.plans.write(
            self.serial, self.plan, query=stats.query, batch=stats.batch, watermark=stats.watermark
        )
        if not written:
            log.warning("cannot write the plan to %s; the query keeps the one it has", self.plans.folder)


class SideLearner:
    """Passes the statistics of one side on."""

    def __init__(self, both: StreamsReplanner, side: str):
        self.both = both
        self.name = side

    @property
    def used(self) -> Mapping[int | None, JoinPlan]:
        """The last plans; which rows went by which depends on their times, so none is listed."""
        return {}

    def learn(self, stats: BatchStats) -> None:
        """Make and write the plan for the next batches."""
        self.both.learn(self.name, stats)


def counted_by(plan: JoinPlan, left: bool) -> Counted:
    """Return the rows of a side as a plan has them."""
    rows = plan.left_rows if left else plan.right_rows
    return Counted(plan.keys, rows, plan.totals[0 if left else 1])
