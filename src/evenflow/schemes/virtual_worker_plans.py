"""Virtual workers that follow busy and idle signals (`heterogeneous` 5.2, one owner per key).

A key's virtual worker never changes. Each batch is one slot, and per slot a busy worker hands at most one
virtual worker to an idle one (:mod:`evenflow.schemes.consistent`). Speeds need not be known.

The paper's utilisation is relative to a capacity. A batch has none, but it is finished when its last worker
is: the slot length is chosen such that all workers together are busy for 80 percent of it, halfway between
the paper's idle (0.75) and busy (0.85). So busy means 1/16 above the workers' mean seconds, and idle 1/16
below.

A hot key makes its virtual worker heavy, and each new owner would hand it on in turn. The moves of a slot are
therefore reverted unless they bring the workers' seconds closer to their mean (less variance), with virtual
workers weighed by the rows that were counted.
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
    """``consistent`` with ``allocation="key"``: buckets map to virtual workers, and these to workers."""

    follows_signals = True
    scheme: ConsistentGrouping

    def __init__(self, scheme: ConsistentGrouping, seed: int):
        super().__init__(scheme, seed)
        self.router: ConsistentGroupingRouter | None = None

    def hear(self, seconds: Sequence[float], loads: Float64Array) -> None:
        """Take the signals of one slot; ``loads`` are the buckets' shares of the rows."""
        assert self.router is not None
        busy = np.asarray(seconds, np.float64)
        if busy.sum() <= 0:
            return
        scheme = self.scheme
        slot = busy.mean() / ((scheme.idle + scheme.busy) / 2)
        signal = signals(busy, np.zeros(busy.size), np.ones(busy.size), slot, scheme.idle, scheme.busy)
        signal[np.abs(busy - busy.mean()) <= JITTER] = 0
        before = self.router.to_bytes()
        old = self.router.state.assignment.owner.copy()
        self.router.report(WorkerReport(signal=signal))
        new = self.router.state.assignment.owner
        weights = loads.reshape(old.size, -1).sum(axis=1)
        held = np.bincount(old, weights, busy.size)
        pace = busy / np.maximum(held, 1e-300)
        expected = np.bincount(new, weights, busy.size) * np.where(held > 0, pace, pace[held > 0].mean())
        if (old != new).any() and expected.var() >= busy.var():
            self.resume(before)

    def following(self, plan: Plan, workers: int, counted: Counted, shares: Float64Array) -> Plan:
        """Return the current owners of the virtual workers as a plan."""
        if self.router is None:
            place = RouterPlace(workers, self.seed, source=0, sources=1)
            self.router = ConsistentGroupingRouter(self.scheme, place)
        elif workers != self.router.workers:
            self.router.rescale(workers)
        owner = self.router.state.assignment.owner
        buckets = np.repeat(owner, -(-FEWEST_BUCKETS // owner.size)).astype(np.int32)
        return one_owner_plan(workers, buckets, counted)

    def to_bytes(self) -> bytes | None:
        """Return the saved router."""
        return None if self.router is None else self.router.to_bytes()

    def resume(self, saved: bytes) -> None:
        """Restore a saved router."""
        self.router = ConsistentGroupingRouter.from_bytes(saved)
