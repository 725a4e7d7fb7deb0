"""The balance of a plan and the migration between two plans, for counted keys (`functions` 3).

Loads are those of the three resources of :mod:`evenflow.schemes.cost_model`, divided by the workers'
capacities. Counted keys are considered individually, the rest by bucket. A worker without load would make max
/ min in Eq. 2 infinite and all plans equally bad; its load is taken as a hundredth of the mean.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from evenflow.kernels import Float64Array, Int32Array
from evenflow.plan import Plan, bucket_of
from evenflow.plan.counted import Counted
from evenflow.plan.one_owner import owners_of
from evenflow.schemes.cost_model import Costs, Imbalance, resource

_LEAST_LOAD = 0.01  # of the mean: lower loads are raised to it


class Moved(NamedTuple):
    """State that changes owner, as a fraction of all state."""

    weight: float  # M over all state (Eq. 9)
    ideal: float  # the unavoidable part: the share of the workers that join or leave, else one worker's share
    relative: float  # M over the unavoidable part (Eq. 10, 12)


def imbalance(plan: Plan, counted: Counted, costs: Costs, shares: Float64Array) -> Imbalance:
    """Return the balance of the workers under ``plan``."""
    homes = owners_of(plan, counted.keys)
    loads = []
    for function in costs.resources:
        named, rest = _costs(function, counted, costs, plan.buckets.size)
        load = np.bincount(homes, named, plan.workers) + np.bincount(plan.buckets, rest, plan.workers)
        loads.append(load / shares)
    return balance(loads, costs)


def balance(loads: list[Float64Array], costs: Costs) -> Imbalance:
    """Return r and b of each resource, and the overall b, with no load below the least."""
    return costs.balance([np.maximum(load, _LEAST_LOAD * load.mean()) for load in loads])


def moved(before: Plan, after: Plan, counted: Counted, costs: Costs) -> Moved:
    """Return what moves, by the cost function of the state (Eq. 9, 10 and 12)."""
    size = max(before.buckets.size, after.buckets.size)
    named, rest = _costs(costs.resources[0], counted, costs, size)
    whole = math.fsum(named) + math.fsum(rest)
    if whole <= 0:
        named, rest = np.zeros(counted.keys.size), np.full(size, 1 / size)
        whole = 1.0
    keys = owners_of(before, counted.keys) != owners_of(after, counted.keys)
    buckets = spread(before.buckets, size) != spread(after.buckets, size)
    weight = (math.fsum(named[keys]) + math.fsum(rest[buckets])) / whole
    most = max(before.workers, after.workers)
    ideal = max(1, abs(after.workers - before.workers)) / most
    return Moved(weight, ideal, weight / ideal)


def bucket_loads(buckets: int, counted: Counted) -> Float64Array:
    """Return each bucket's share of all rows, including counted keys."""
    named, rest = _costs("L", counted, Costs(), buckets)
    return rest + np.bincount(bucket_of(counted.keys, buckets), named, buckets)


def spread(buckets: Int32Array, size: int) -> Int32Array:
    """Return the homes of ``size`` buckets, given those of fewer.

    Bucket i of ``size`` starts in bucket ``i * fewer // size`` of the fewer; exact if one number divides the
    other.
    """
    return buckets[np.arange(size, dtype=np.int64) * buckets.size // size]


def _costs(function: str, counted: Counted, costs: Costs, buckets: int) -> tuple[Float64Array, Float64Array]:
    """Return beta(f) of every counted key, and the sum of beta over the other keys of each bucket."""
    total = counted.total or 1.0
    frequencies = counted.counts / total
    key_buckets = bucket_of(counted.keys, buckets)
    keys = max(0, costs.domain - counted.keys.size) / buckets
    rows = counted.buckets
    if rows is not None and buckets % rows.size == 0:
        parts = buckets // rows.size
        mass = np.repeat(rows / parts / total, parts) - np.bincount(key_buckets, frequencies, buckets)
        mass = np.maximum(mass, 0.0)
    else:
        mass = np.full(buckets, max(0.0, 1.0 - math.fsum(frequencies)) / buckets)
    if function == "C":
        return np.ones(counted.keys.size), np.full(buckets, keys)
    if function == "L":
        return frequencies, mass
    return resource(function, frequencies), mass * mass / max(keys, 1.0)
