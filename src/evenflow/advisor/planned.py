"""Predict what Spark does with a scheme that it runs by a plan.

`evenflow.spark.balance` counts the keys, has the scheme make a plan and places each row by it. Here the same
is done with a sample: the same counts make the same plan, and rows of split keys are drawn at random. The
router below follows a plan, so that the simulator measures it as it does every other router.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array
from evenflow.plan import Plan, bucket_of
from evenflow.plan.counted import hot_only
from evenflow.schemes import Router, Scheme
from evenflow.streams.sample import Sample


def plan_for(scheme: Scheme, sample: Sample, workers: int, seed: int = 0) -> Plan:
    """Return the plan that Spark would make if the sample were all rows.

    Examples
    --------
    >>> from evenflow.schemes import scheme
    >>> from evenflow.streams import open_stream
    >>> from evenflow.streams.sample import take_sample
    >>> sample = take_sample(open_stream("zipf:z=1.4,keys=1000,messages=1e4"), None)
    >>> plan_for(scheme("fill"), sample, workers=8).max_over_mean < 1.02
    True
    """
    counts = np.bincount(sample.ids, minlength=sample.hashes.size).astype(np.float64)
    buckets = scheme.plan_buckets(workers)
    by_bucket = np.bincount(bucket_of(sample.hashes, buckets), counts, buckets).astype(np.float64)
    counted = hot_only(sample.hashes, counts, float(counts.sum()), by_bucket, workers)
    return scheme.plan(workers, counted, split=not scheme.one_owner, seed=seed)


class _Loads(NamedTuple):
    loads: Int64Array


class _PlanRouter(Router):
    scheme: FollowPlan

    def __init__(self, scheme: FollowPlan, place: Any):
        super().__init__(scheme, place)
        self.state = _Loads(np.zeros(place.workers, np.int64))
        self.draws = np.random.default_rng((place.seed % 2**63, place.source))

    def _route(self, keys: UInt64Array, times: Float64Array | None, out: Int32Array) -> None:
        out[:] = self.scheme.plan_to_follow.route(keys, self.draws.random(keys.size))
        self.state.loads[:] += np.bincount(out, minlength=self.workers)


@dataclass(frozen=True, eq=False)
class FollowPlan(Scheme):
    """Routes by a plan that was made before."""

    name: ClassVar[str] = "plan"
    summary: ClassVar[str] = "follows a plan"
    plan_to_follow: Plan

    def new_router(self, place: Any) -> Router:
        """Return a router that follows the plan."""
        return _PlanRouter(self, place)


def makespan(loads: Int64Array, cores: int) -> int:
    """Return when the last of ``cores`` cores is done if each takes the next worker's rows when it is free.

    This is how Spark schedules the tasks of a stage, in rows instead of seconds.

    Examples
    --------
    >>> makespan(np.array([1, 1, 1, 9]), cores=4), makespan(np.array([1, 1, 1, 9]), cores=2)
    (9, 10)
    """
    free = [0] * min(cores, loads.size)
    for load in loads.tolist():
        heapq.heapreplace(free, free[0] + load)
    return max(free)
