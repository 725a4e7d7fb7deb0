"""Streaming: every micro-batch is observed, and the plan for the next ones is made from what was seen.

While a batch runs, ``observe`` counts its keys and the rows of each worker. A listener gets the counts, makes
a plan that keeps the homes of the plan before where they still fit, and writes it to the control directory,
from where the query reads it (:mod:`evenflow.spark.replanning.plan_datasource`). So a new hot key is followed
one or two batches later.

The homes of buckets are part of the query and stay; hot keys are poured into the room that the tail leaves.
What the tail brings to each worker changes slowly and is averaged over the batches. Hot keys are taken from
the last batch alone, unless it is small: then the past is added, at most half of what is new.
"""

from __future__ import annotations

import logging

import numpy as np

from evenflow.blob import Array
from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, UInt64Array
from evenflow.plan import Plan, bucket_of
from evenflow.plan.counted import Counted
from evenflow.schemes.base import Scheme
from evenflow.spark.monitoring.control_dir import Control
from evenflow.spark.replanning.batch_stats import Observed
from evenflow.spark.replanning.plan_datasource import plan_file
from evenflow.spark.routing.key_counts import MIN_SAMPLED_ROWS, hot_only

log = logging.getLogger("evenflow.spark")

STEADY = 256  # rows per worker of which hot keys can be told without the past
PAST = 0.5  # weight of the past: of the tail always, of hot keys at most
MOST_NAMED = 4096  # hot keys: the file stays small
_REMEMBERED = 3  # plans, to say which homes a batch used


class Refresher:
    """Makes the plans of one streaming operator, from what its batches showed."""

    def __init__(self, control: Control, operator: str, scheme: Scheme, split: bool, seed: int, first: Plan):
        self.control = control
        self.operator = operator
        self.scheme = scheme
        self.split = split
        self.seed = seed
        self.past = Counted()
        self.serial, self.plan = read_plan(control, operator, first.workers) or (0, first)
        if not np.array_equal(self.plan.buckets, first.buckets):
            self.plan = first  # the homes of buckets are part of the query and do not change while it runs
        self.tail: Float64Array | None = None
        self.used: dict[int | None, Plan] = {}
        self.write()

    @property
    def workers(self) -> int:
        """Number of workers."""
        return self.plan.workers

    def learn(self, seen: Observed) -> None:
        """Make and write the plan for the next batches."""
        if not seen.total:
            if read_plan(self.control, self.operator, self.workers) is None:
                self.write()
            return
        self.past = _joined(self.past, seen, self.workers)
        hot = hot_only(
            self.past.keys, self.past.counts, self.past.total, None, self.workers, MIN_SAMPLED_ROWS
        )
        hot = Counted(hot.keys[:MOST_NAMED], hot.counts[:MOST_NAMED], hot.total, self._buckets(hot, seen))
        plan = self.scheme.plan(
            self.workers, hot, split=self.split, seed=self.seed, previous=self.plan, move_buckets=False
        )
        changes = plan.changes(self.plan)
        self.plan = plan
        self.write()
        self.control.note(
            "plan", operator=self.operator, serial=self.serial, batch=seen.batch, hot=int(plan.keys.size),
            expected=round(plan.max_over_mean, 4), changes=changes,
        )  # fmt: skip

    def _buckets(self, hot: Counted, seen: Observed) -> Float64Array:
        """Return rows per bucket: hot keys, and what the tail brings to a worker spread over its buckets."""
        buckets, size = self.plan.buckets, self.plan.buckets.size
        hot_buckets = bucket_of(hot.keys, size)
        in_batch = _pick(seen.keys, seen.counts, hot.keys)
        now = np.maximum(seen.tail - np.bincount(buckets[hot_buckets], in_batch, self.workers), 0.0)
        share = now / seen.total
        self.tail = share if self.tail is None else PAST * self.tail + (1 - PAST) * share
        rest = max(0.0, hot.total - float(hot.counts.sum()))
        by_worker = self.tail * (rest / max(float(self.tail.sum()), 1e-300))
        per_worker = np.maximum(np.bincount(buckets, minlength=self.workers), 1)
        return (by_worker / per_worker)[buckets] + np.bincount(hot_buckets, hot.counts, size)

    def write(self) -> None:
        """Write the plan and the cells of its hot keys, under the next serial number."""
        self.serial += 1
        self.used = {self.serial: self.plan, **dict(list(self.used.items())[:_REMEMBERED])}
        if not write_plan(self.control, self.operator, self.serial, self.plan):
            log.warning("the plan cannot be written to %s; rows go by hash", self.control.folder)


def write_plan(control: Control, operator: str, serial: int, plan: Plan) -> bool:
    """Write a plan, and its hot keys as the data source reads them; return whether that worked."""
    table = plan.table
    arrays: dict[str, Array] = {
        "keys": table.keys, "starts": table.starts, "below": table.below, "cut": table.cut,
        "above": table.above,
    }  # fmt: skip
    header = {"serial": serial, "workers": plan.workers, "plan": plan.to_json()}
    return control.write(plan_file(operator), "plan", header, arrays)


def read_plan(control: Control, operator: str, workers: int) -> tuple[int, Plan] | None:
    """Return the serial number and the plan that an operator had last, or None."""
    found = control.read(plan_file(operator), "plan")
    try:
        if found is not None and found[0]["workers"] == workers:
            return int(found[0]["serial"]), Plan.from_json(found[0]["plan"])
    except (EvenflowError, KeyError, TypeError, ValueError):
        pass
    return None


def _joined(past: Counted, seen: Observed, workers: int) -> Counted:
    """Return what was seen, with as much of the past as makes it steady."""
    room = min(PAST * seen.total, STEADY * workers - seen.total)
    if room <= 0 or not past.total:
        return Counted(seen.keys, seen.counts, seen.total)
    weight = min(1.0, room / past.total)
    keys = np.concatenate([seen.keys, past.keys])
    counts = np.concatenate([seen.counts, past.counts * weight])
    unique, where = np.unique(keys, return_inverse=True)
    joined: Float64Array = np.bincount(where, counts, unique.size).astype(np.float64)
    return _hottest(unique, joined, seen.total + weight * past.total)


def _pick(keys: UInt64Array, counts: Float64Array, wanted: UInt64Array) -> Float64Array:
    """Return the counts of the ``wanted`` keys; 0 where one is not among ``keys``."""
    known = dict(zip(keys.tolist(), counts.tolist(), strict=True))
    return np.array([known.get(key, 0.0) for key in wanted.tolist()])


def _hottest(keys: UInt64Array, counts: Float64Array, total: float) -> Counted:
    order = np.argsort(-counts, kind="stable")[:MOST_NAMED]
    return Counted(keys[order], counts[order], total)
