"""Plans of a join that follow its stream: the next one is made from the rows of the last micro-batches."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from evenflow.plan import JoinPlan, make_join_plan
from evenflow.plan.counted import Counted, hot_only
from evenflow.spark.joining.stream_plans import StreamPlans
from evenflow.spark.replanning.batch_stats import BatchStats
from evenflow.spark.replanning.replanner import MAX_HOT_KEYS, blended
from evenflow.spark.routing.key_counts import MIN_SAMPLED_ROWS

log = logging.getLogger("evenflow.spark")

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
        if not self.plans.write(self.serial, self.plan):
            log.warning(
                "cannot write the plan to %s; rows are placed by hash until it is writable", self.plans.folder
            )


def counted_by(plan: JoinPlan, left: bool) -> Counted:
    """Return the rows of a side as a plan has them."""
    rows = plan.left_rows if left else plan.right_rows
    return Counted(plan.keys, rows, plan.totals[0 if left else 1])
