"""Where the plans of joins of streams are kept, and how a micro-batch comes to one plan for both sides.

**A stream and a table.** Plans change while the query runs, and the two sides read theirs at different times,
in tasks of their own. If they differed, a row of the stream would wait in a cell to which no row of the table
was copied. So the side of the table decides: it writes the plan that it uses to a file of its own for each
execution of a micro-batch, its claim. The side of the stream uses that claim or no plan at all. Without a
plan its rows go where Spark's own hash sends them, and every row of the table has a copy there. Whatever is
lost, truncated or put back in the control directory, a row of the stream thus meets all rows of the table
with its key: a cell is used only if there is a claim, and a claim was written by the task whose rows are
copied. Only a second attempt at that task could come to another plan than the first; it must find the claim,
or the batch fails.

**Two streams.** The pieces of a key are part of the state: rows that wait for a match are in one of them.
Plans that were used stay: see :mod:`evenflow.spark.joining.plan_versions`.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenflow.blob import read_blob, write_blob
from evenflow.control.directory import Control
from evenflow.errors import EvenflowError, first_line
from evenflow.plan.join_plan import JoinPlan
from evenflow.spark.joining.hot_keys import MicroBatch
from evenflow.storage import StorageError

KIND = "join plan"
PATIENCE = 10.0  # seconds in which the side of the stream waits for the other's claim
_STEP = 0.02
_MOST_STEP = 0.5  # where every look is a request
_CLAIMS_KEPT = 20
LISTED_EVERY = 16  # batches, where listing is a request
_NOT_WRITTEN = {
    errno.EACCES,
    errno.EDQUOT,
    errno.ENOENT,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}


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

    def write(self, serial: int, plan: JoinPlan, **fields: object) -> bool:
        """Replace the current plan; return whether that succeeded."""
        return self.control.write(f"{self.operator}.plan", KIND, {**_header(serial, plan), **fields}, {})

    def read(self) -> tuple[int, JoinPlan] | None:
        """Return the current plan and its serial number, or None."""
        return self._parsed(f"{self.operator}.plan")

    def learned(self) -> Learned | None:
        """Return the plan that was made last from two streams, or None."""
        found = self.read()
        content = self.control.read(f"{self.operator}.plan", KIND)
        if found is None or content is None or "query" not in content[0]:
            return None
        header = content[0]
        return Learned(found[1], str(header["query"]), int(header["batch"]), header["watermark"])

    def claim(self, batch: MicroBatch) -> tuple[int, JoinPlan]:
        """Return the plan of a micro-batch, for the side of the table: the current one, which it claims."""
        if not batch.execution:
            return 0, empty_plan(self.workers)
        name, storage = self._claim(batch), self.control.storage
        place = storage.location
        claimed = self._parsed(name)
        if claimed is None and batch.is_retry:
            raise EvenflowError(
                f"the plan that batch {batch.batch} was started with is not in {place} any more; start "
                "the query again, it repeats the batch."
            )
        if claimed is None:
            found = self.read()
            if found is None:
                self.control.note("fallback", operator=self.operator, why="there is no readable plan")
            claimed = found or (0, empty_plan(self.workers))
            try:
                created = storage.create(name, write_blob(KIND, _header(*claimed), {}))
            except OSError as error:
                if error.errno in _NOT_WRITTEN:
                    return 0, empty_plan(self.workers)
                why = error.strerror or first_line(error)
                raise EvenflowError(f"cannot write {place / name}: {why}; start the query again.") from None
            if not created:  # by a speculative copy of this task
                claimed = self._parsed(name)
            if claimed is None:
                raise EvenflowError(f"cannot read {place / name} back; start the query again.")
        return claimed

    def claimed(self, batch: MicroBatch) -> tuple[int, JoinPlan]:
        """Return the plan that was claimed for a micro-batch, for the side of the stream; one without hot
        keys if there is none."""
        name, step, is_local = self._claim(batch), _STEP, self.control.location.is_local
        patience = PATIENCE if batch.execution and not batch.has_one_slot else 0.0
        until = time.monotonic() + patience
        while (found := self._parsed(name)) is None:
            unwritable = is_local and not os.access(self.control.folder, os.W_OK)
            if time.monotonic() > until or unwritable:
                why = f"the plan of batch {batch.batch} is missing"
                self.control.note("fallback", operator=self.operator, why=why)
                return 0, empty_plan(self.workers)
            time.sleep(step)
            step = step if is_local else min(2 * step, _MOST_STEP)
        return found

    def usable(self, plan: JoinPlan) -> JoinPlan:
        """Return a plan without copies of the side that must not have any."""
        return plan.without_copies(left=self.divided == "left", right=self.divided == "right")

    def _claim(self, batch: MicroBatch) -> str:
        return f"{self.operator}/{batch.execution}.claim"

    def forget_claims(self, batch: int) -> None:
        """Delete old claims after a batch; lists them, in an object store only now and then."""
        storage = self.control.storage
        if not storage.location.is_local and batch % LISTED_EVERY:
            return
        with contextlib.suppress(OSError):
            claims = [entry for entry in storage.entries(self.operator) if entry.name.endswith(".claim")]
            claims.sort(key=lambda entry: entry.modified)
            storage.delete(entry.name for entry in claims[:-_CLAIMS_KEPT])

    def _parsed(self, name: str, must_answer: bool = False) -> tuple[int, JoinPlan] | None:
        """Return the plan of a file; None if it is missing or damaged, or if its store does not answer."""
        try:
            header, _ = read_blob(KIND, self.control.storage.read(name))
            plan = JoinPlan.from_json(header["plan"])
            return (int(header["serial"]), self.usable(plan)) if plan.workers == self.workers else None
        except StorageError:
            if must_answer:
                raise
            return None
        except (OSError, EvenflowError, KeyError, TypeError, ValueError):
            return None


def empty_plan(workers: int) -> JoinPlan:
    """Return a plan without hot keys."""
    none, numbers = np.zeros(0), np.zeros(0, np.int32)
    even = np.full(workers, 1 / workers)
    keys = np.zeros(0, np.uint64)
    return JoinPlan(workers, keys, none, none, none, numbers, numbers, numbers, even, (0.0, 0.0))


def _header(serial: int, plan: JoinPlan) -> dict[str, object]:
    return {"serial": serial, "plan": plan.to_json()}
