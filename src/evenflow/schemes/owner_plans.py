"""Plans for keyed state: every key has one owner, and each plan follows from the one before.

:class:`OwnerPlans` is what the adaptivity loop (:mod:`evenflow.owners`) asks of a scheme. The default serves
any plannable scheme that does not split keys. A scheme that can do better, by moving less or by following
load and speed, returns a subclass from :meth:`Scheme.owner_plans`.
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

JITTER = 0.05  # seconds by which a worker may differ from the others without being faster or slower


class OwnerPlans:
    """Makes the plans of one scheme, each from the one before."""

    follows_speed: ClassVar[bool] = False  # do plans depend on the workers' capacities?
    follows_signals: ClassVar[bool] = False  # do busy and idle workers move keys, slot by slot?

    def __init__(self, scheme: Scheme, seed: int):
        self.scheme = scheme
        self.seed = seed

    @property
    def follows_load(self) -> bool:
        """Whether plans depend on how often keys come."""
        return self.scheme.counts_keys

    def first(self, workers: int) -> Plan:
        """Return the plan to begin with, when nothing is known."""
        nobody = one_owner_plan(1, np.zeros(FEWEST_BUCKETS, np.int32))
        return self.following(nobody, workers, NOTHING, np.ones(workers))

    def following(self, plan: Plan, workers: int, counted: Counted, shares: Float64Array) -> Plan:
        """Return the plan after ``plan`` for what was counted; ``shares`` are the workers' capacities."""
        return self.scheme.plan(workers, counted, split=False, seed=self.seed, previous=plan)

    def hear(self, seconds: Sequence[float], loads: Float64Array) -> None:
        """Take the seconds that each worker was busy in a slot, and what each bucket brought in it.

        Called only if ``follows_signals``.
        """

    def to_bytes(self) -> bytes | None:
        """Return what the next plan depends on besides the last one; None: nothing."""
        return None

    def resume(self, saved: bytes) -> None:
        """Go on from what ``to_bytes`` returned."""
