"""Where the plan of a join of streams is kept: the one for the next micro-batches.

Both sides of a join with a table read it as one value (:mod:`evenflow.spark.joining.stream_static`). Of two
streams it is what may be added to the plans in use (:mod:`evenflow.spark.joining.plan_versions`).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from evenflow.control.directory import Control
from evenflow.errors import EvenflowError
from evenflow.plan.join_plan import JoinPlan
from evenflow.spark.joining.hot_keys import SIDES, at_all_times, look_up
from evenflow.spark.replanning.plan_source import readable

KIND = "join plan"
LISTED_EVERY = 16  # batches, where listing is a request
_BITS = 62


def operator_name(how: str, workers: int, left: Sequence[str], right: Sequence[str]) -> str:
    """Return a name that separates the files of several joins, and of earlier versions of one."""
    identity = repr((how, workers, list(left), list(right)))
    return f"join-{hashlib.blake2b(identity.encode(), digest_size=6).hexdigest()}"


class Learned(NamedTuple):
    """A plan that was made from two streams, with the micro-batch after which it was made."""

    plan: JoinPlan
    query: str
    batch: int
    watermark: int | None  # of that batch, in microseconds; None if other operators keep state as well


@dataclass(frozen=True)
class StreamPlans:
    """The files of one join in a control directory.

    The rows of the side ``divided`` are never copied, whatever a plan says; None if those of both may be.
    """

    folder: str
    operator: str
    workers: int
    divided: str | None = None

    @property
    def control(self) -> Control:
        """The control directory."""
        return Control(self.folder)

    @property
    def file(self) -> str:
        """The path of the current plan, relative to the control directory."""
        return f"{self.operator}.plan"

    def write(self, serial: int, plan: JoinPlan, **fields: object) -> bool:
        """Replace the current plan; return whether that succeeded."""
        header = {"serial": serial, "plan": plan.to_json(), **fields}
        return self.control.write(self.file, KIND, header, {})

    def write_for_look_up(self, serial: int, plan: JoinPlan) -> bool:
        """Replace the current plan by one that Spark looks rows up in; return whether that succeeded."""
        sides = {side: at_all_times(self.usable(plan), side) for side in SIDES}
        made = secrets.randbits(_BITS)
        return self.write(serial, plan, **readable(self.workers, look_up(serial, sides, made)))

    def read(self) -> tuple[int, JoinPlan] | None:
        """Return the current plan and its serial number, or None."""
        found = self.read_with_reason()[0]
        return None if found is None else found[:2]

    def learned(self) -> Learned | None:
        """Return the plan that was made last from two streams, or None."""
        found = self.read_with_reason()[0]
        if found is None or "query" not in found[2]:
            return None
        header = found[2]
        return Learned(found[1], str(header["query"]), int(header["batch"]), header["watermark"])

    def read_with_reason(self) -> tuple[tuple[int, JoinPlan, dict[str, Any]] | None, str]:
        """Return the current plan with its serial number and the file's header, or None and the reason."""
        found, why = self.control.read_with_reason(self.file, KIND)
        if found is None:
            return None, why
        header = found[0]
        try:
            plan = JoinPlan.from_json(header["plan"])
            if plan.workers != self.workers:
                return None, f"the plan is for {plan.workers} workers, not {self.workers}"
            return (int(header["serial"]), self.usable(plan), header), ""
        except (EvenflowError, KeyError, TypeError, ValueError) as error:
            return None, f"{self.file} cannot be read: {error}"

    def usable(self, plan: JoinPlan) -> JoinPlan:
        """Return a plan without copies of the side that must not have any."""
        return plan.without_copies(left=self.divided == "left", right=self.divided == "right")


def empty_plan(workers: int) -> JoinPlan:
    """Return a plan without hot keys."""
    none, numbers = np.zeros(0), np.zeros(0, np.int32)
    even = np.full(workers, 1 / workers)
    keys = np.zeros(0, np.uint64)
    return JoinPlan(workers, keys, none, none, none, numbers, numbers, numbers, even, (0.0, 0.0))
