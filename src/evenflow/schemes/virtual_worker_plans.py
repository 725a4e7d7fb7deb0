"""Virtual workers that follow the workers' busy and idle signals (`heterogeneous` 5.2, one owner per key).

A key's virtual worker never changes; each batch is one slot, and a busy worker hands at most one virtual
worker to an idle one per slot (:mod:`evenflow.schemes.consistent`). Nobody has to know a speed.

The paper's utilisation needs a capacity. A batch has none, but it is done when the last worker is: a slot is
taken to be as long as lets all workers together be busy 80 percent of it, between the paper's idle (0.75) and
busy (0.85). So busy means 1/16 above the mean of the workers' seconds, idle 1/16 below.

A hot key makes its virtual worker heavy, and whoever got it last would hand it on for ever. So a slot's moves
are taken back unless they bring the workers' seconds nearer to their mean (less variance), as far as the rows
that were counted tell what the virtual workers weigh.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenflow.kernels import Float64Array
from evenflow.plan import Plan
from evenflow.plan.counted import Counted
from evenflow.plan.one_owner import FEWEST_BUCKETS, one_owner_plan
from evenflow.schemes.base import RouterPlace, WorkerReport
from evenflow.schemes.consistent import ConsistentGrouping, ConsistentGroupingRouter, signals
from evenflow.schemes.owner_plans import JITTER, OwnerPlans


class VirtualWorkerPlans(OwnerPlans):
    """``consistent`` with ``allocation="key"``: buckets belong to virtual workers, these to workers."""

    follows_signals = True
    scheme: ConsistentGrouping

    def __init__(self, scheme: ConsistentGrouping, seed: int):
        super().__init__(scheme, seed)
        self.router: ConsistentGroupingRouter | None = None

    def hear(self, seconds: Sequence[float], loads: Float64Array) -> None:
        """Take the signals of one slot; ``loads`` are what the buckets bring."""
        assert self.router is not None
        busy = np.asarray(seconds, np.float64)
        if busy.sum() <= 0:
            return
        scheme = self.scheme
        slot = busy.mean() / ((scheme.idle + scheme.busy) / 2)
        said = signals(busy, np.zeros(busy.size), np.ones(busy.size), slot, scheme.idle, scheme.busy)
        said[np.abs(busy - busy.mean()) <= JITTER] = 0
        before = self.router.to_bytes()
        old = self.router.state.assignment.owner.copy()
        self.router.report(WorkerReport(signal=said))
        new = self.router.state.assignment.owner
        weights = loads.reshape(old.size, -1).sum(axis=1)
        held = np.bincount(old, weights, busy.size)
        pace = busy / np.maximum(held, 1e-300)
        expected = np.bincount(new, weights, busy.size) * np.where(held > 0, pace, pace[held > 0].mean())
        if (old != new).any() and expected.var() >= busy.var():
            self.resume(before)

    def following(self, plan: Plan, workers: int, counted: Counted, shares: Float64Array) -> Plan:
        """Return where the virtual workers are now."""
        if self.router is None:
            place = RouterPlace(workers, self.seed, source=0, sources=1)
            self.router = ConsistentGroupingRouter(self.scheme, place)
        elif workers != self.router.workers:
            self.router.rescale(workers)
        owner = self.router.state.assignment.owner
        buckets = np.repeat(owner, -(-FEWEST_BUCKETS // owner.size)).astype(np.int32)
        return one_owner_plan(workers, buckets, counted)

    def to_bytes(self) -> bytes | None:
        """Return the router, saved."""
        return None if self.router is None else self.router.to_bytes()

    def resume(self, saved: bytes) -> None:
        """Go on with a saved router."""
        self.router = ConsistentGroupingRouter.from_bytes(saved)
