"""Plans for keyed state: every key has one owner, and each plan is derived from the previous one.

:class:`OwnerPlans` is the interface between the adaptivity loop (:mod:`evenflow.owners`) and a scheme. The
default serves any plannable scheme that does not split keys. A scheme that can do better, by moving less or
by following load and speed, returns a subclass from :meth:`Scheme.owner_plans`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from evenflow.kernels import Float64Array
from evenflow.plan import Plan
from evenflow.plan.counted import NOTHING, Counted
from evenflow.plan.one_owner import FEWEST_BUCKETS, one_owner_plan

if TYPE_CHECKING:
    from evenflow.schemes.base import Scheme

JITTER = 0.05  # seconds; smaller differences between workers count as equal speed


class OwnerPlans:
    """Makes the plans of one scheme, each from the previous one."""

    follows_speed: ClassVar[bool] = False  # do plans depend on the workers' capacities?
    follows_signals: ClassVar[bool] = False  # do busy and idle signals move keys, slot by slot?

    def __init__(self, scheme: Scheme, seed: int):
        self.scheme = scheme
        self.seed = seed

    @property
    def follows_load(self) -> bool:
        """Whether plans depend on key frequencies."""
        return self.scheme.counts_keys

    def first(self, workers: int) -> Plan:
        """Return the initial plan, when nothing is known."""
        empty = one_owner_plan(1, np.zeros(FEWEST_BUCKETS, np.int32))
        return self.following(empty, workers, NOTHING, np.ones(workers))

    def following(self, plan: Plan, workers: int, counted: Counted, shares: Float64Array) -> Plan:
        """Return the plan after ``plan``, given row counts and the workers' capacities (``shares``)."""
        return self.scheme.plan(workers, counted, split=False, seed=self.seed, previous=plan)

    def hear(self, seconds: Sequence[float], loads: Float64Array) -> None:
        """Take the busy seconds of each worker in a slot, and each bucket's share of the rows.

        Called only if ``follows_signals``.
        """

    def to_bytes(self) -> bytes | None:
        """Return what the next plan depends on besides the current one, or None."""
        return None

    def resume(self, saved: bytes) -> None:
        """Restore what ``to_bytes`` returned."""
