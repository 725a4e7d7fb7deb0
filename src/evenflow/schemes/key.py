"""Key grouping (`choices` II-B): every message of a key goes to one worker, ``candidate(key, 0)``.

The papers do not specify the hash; here it is the first candidate of the family in :mod:`evenflow.keys`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, kernel
from evenflow.keys import candidate
from evenflow.plan import Plan
from evenflow.plan.build import BUCKETS_PER_WORKER
from evenflow.plan.counted import Counted
from evenflow.plan.one_owner import enough_buckets, equal_ranges, one_owner_plan
from evenflow.schemes.base import Router, RouterPlace, Scheme
from evenflow.schemes.owner_plans import OwnerPlans
from evenflow.schemes.registry import register


@register
@dataclass(frozen=True)
class Key(Scheme):
    """Send every message of a key to the worker that its hash selects; a hot key overloads its worker.

    Examples
    --------
    >>> router = Key().router(workers=4)
    >>> set(router.route(np.array([3, 3, 3], np.uint64)).tolist())
    {1}

    References
    ----------
    Nasir et al., *When Two Choices Are not Enough* (ICDE 2016), section II-B.
    """

    name = "key"
    aliases = ("kg", "hash")
    paper = "choices II-B"
    summary = "hash the key: one worker per key, no balancing"
    splits_keys = False
    plannable = True
    only_hashes = True

    def new_router(self, place: RouterPlace) -> KeyRouter:
        """Return a router for key grouping."""
        return KeyRouter(self, place)

    def new_plan(self, workers: int, counted: Counted, **options: Any) -> Plan:
        """Give every worker one range of buckets."""
        return one_owner_plan(workers, equal_ranges(self.plan_buckets(workers), workers), counted)

    def plan_buckets(self, workers: int) -> int:
        """Return the number of buckets of a plan: equally many for every worker."""
        return BUCKETS_PER_WORKER * workers

    def owner_plans(self, seed: int) -> OwnerPlans:
        """Return the planner for keyed state."""
        return KeyPlans(self, seed)


class KeyPlans(OwnerPlans):
    """One range of buckets for each worker, whatever their load."""

    def following(self, plan: Plan, workers: int, counted: Counted, shares: Float64Array) -> Plan:
        """Return equal ranges for ``workers`` workers."""
        buckets = enough_buckets(plan.buckets, workers).size
        return one_owner_plan(workers, equal_ranges(buckets, workers), counted)


class KeyState(NamedTuple):
    """Messages sent to each worker."""

    loads: Int64Array


class KeyRouter(Router):
    """Key grouping at one source."""

    def __init__(self, scheme: Key, place: RouterPlace):
        super().__init__(scheme, place)
        self.state = KeyState(np.zeros(place.workers, np.int64))

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        _route(keys, out, self.state, self.place.salt)


@kernel
def _route(keys: UInt64Array, out: Int32Array, state: KeyState, salt: np.uint64) -> None:
    n = state.loads.size
    for i in range(keys.size):
        worker = candidate(keys[i], 0, salt, n)
        state.loads[worker] += 1
        out[i] = worker
