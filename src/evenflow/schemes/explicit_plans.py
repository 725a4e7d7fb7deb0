"""Explicit maps as plans for keyed state (`functions` 4.5).

Buckets are dealt by capacity with as few moves as possible; the tracked keys are placed by scan, redist or
readj, starting from their current owners (4.2). The paper uses a consistent-hash ring; evenly dealt buckets
move as little as a ring does, without its unevenness.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, UInt64Array
from evenflow.plan import Plan, bucket_of
from evenflow.plan.bin_packing import settle
from evenflow.plan.counted import Counted
from evenflow.plan.one_owner import enough_buckets, one_owner_plan, owners_of
from evenflow.schemes.cost_model import resource
from evenflow.schemes.key_placement import place
from evenflow.schemes.owner_plans import OwnerPlans

if TYPE_CHECKING:
    from evenflow.schemes.explicit import Explicit


class ExplicitPlans(OwnerPlans):
    """Hot keys placed by scan, redist or readj; buckets dealt evenly."""

    follows_speed = True
    scheme: Explicit

    def following(self, plan: Plan, workers: int, counted: Counted, shares: Float64Array) -> Plan:
        """Deal the buckets, then place the tracked keys."""
        scheme, costs = self.scheme, self.scheme.costs
        buckets = dealt(enough_buckets(plan.buckets, workers), shares)
        frequencies = counted.counts / (counted.total or 1.0)
        chosen = costs.tracked(frequencies, workers, scheme.epsilon(workers))
        chosen = chosen[np.lexsort((counted.keys[chosen], -frequencies[chosen]))]
        keys, tracked = counted.keys[chosen], frequencies[chosen]
        gone = np.setdiff1d(plan.keys, keys)
        gone_costs = resource(costs.resources[0], _frequency_of(gone, counted.keys, frequencies))
        gone_new = buckets[bucket_of(gone, buckets.size)]
        state = resource(costs.resources[0], tracked)
        owners = place(
            scheme.algorithm,
            scheme.utility,
            costs,
            workers,
            tracked,
            owners_of(plan, keys),
            buckets[bucket_of(keys, buckets.size)],
            moved=math.fsum(gone_costs[owners_of(plan, gone) != gone_new]),
            ideal=(math.fsum(state) + math.fsum(gone_costs)) / workers,
            shares=shares,
        )
        return one_owner_plan(workers, buckets, counted, Counted(keys, counted.counts[chosen]), owners)


def dealt(buckets: Int32Array, shares: Float64Array) -> Int32Array:
    """Return bucket owners in proportion to the shares, within one bucket, with as few moves as possible.

    >>> dealt(np.zeros(6, np.int32), np.array([2.0, 1.0])).tolist()
    [1, 1, 0, 0, 0, 0]
    """
    return settle(np.ones(buckets.size), buckets, shares, tolerance=0.0)


def _frequency_of(wanted: UInt64Array, keys: UInt64Array, frequencies: Float64Array) -> Float64Array:
    """Return the frequencies of the ``wanted`` keys, 0 for unknown ones."""
    if not keys.size:
        return np.zeros(wanted.size)
    order = np.argsort(keys)
    at = order[np.minimum(np.searchsorted(keys[order], wanted), keys.size - 1)]
    return np.where(keys[at] == wanted, frequencies[at], 0.0)
