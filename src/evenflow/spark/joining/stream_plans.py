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

**Two streams.** The pieces of a key are part of the state: rows that wait for a match are in one of them. The
plan is therefore bound to the query when its first micro-batch runs, and never changed: without it, no later
batch runs.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evenflow.blob import read_blob, write_blob
from evenflow.control.directory import Control
from evenflow.errors import EvenflowError
from evenflow.files import create_exclusive
from evenflow.plan.join_plan import JoinPlan
from evenflow.spark.joining.hot_keys import MicroBatch

KIND = "join plan"
PATIENCE = 10.0  # seconds in which the side of the stream waits for the other's claim
_STEP = 0.02
_CLAIMS_KEPT = 20
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

    def write(self, serial: int, plan: JoinPlan) -> bool:
        """Replace the current plan; return whether that succeeded."""
        return self.control.write(f"{self.operator}.plan", KIND, _header(serial, plan), {})

    def read(self) -> tuple[int, JoinPlan] | None:
        """Return the current plan and its serial number, or None."""
        return self._parsed(self.control.folder / f"{self.operator}.plan")

    def claim(self, batch: MicroBatch) -> tuple[int, JoinPlan]:
        """Return the plan of a micro-batch, for the side of the table: the current one, which it claims."""
        if not batch.execution:
            return 0, empty_plan(self.workers)
        path = self._claim(batch)
        claimed = self._parsed(path)
        if claimed is None and batch.is_retry:
            raise EvenflowError(
                f"the plan that batch {batch.batch} was started with is not in {path.parent} any more; start "
                "the query again, it repeats the batch."
            )
        if claimed is None:
            found = self.read()
            if found is None:
                self.control.note("fallback", operator=self.operator, why="there is no readable plan")
            claimed = found or (0, empty_plan(self.workers))
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                created = create_exclusive(path, write_blob(KIND, _header(*claimed), {}))
            except OSError as error:
                if error.errno in _NOT_WRITTEN:
                    return 0, empty_plan(self.workers)
                raise EvenflowError(
                    f"cannot write {path}: {error.strerror}; start the query again."
                ) from None
            if not created:  # by a speculative copy of this task
                claimed = self._parsed(path)
            if claimed is None:
                raise EvenflowError(f"cannot read {path} back; start the query again.")
            self._forget_claims(path.parent)
        return claimed

    def claimed(self, batch: MicroBatch) -> tuple[int, JoinPlan]:
        """Return the plan that was claimed for a micro-batch, for the side of the stream; one without hot
        keys if there is none."""
        path = self._claim(batch)
        patience = PATIENCE if batch.execution and not batch.has_one_slot else 0.0
        until = time.monotonic() + patience
        while (found := self._parsed(path)) is None:
            if time.monotonic() > until or not os.access(self.control.folder, os.W_OK):
                why = f"the plan of batch {batch.batch} is missing"
                self.control.note("fallback", operator=self.operator, why=why)
                return 0, empty_plan(self.workers)
            time.sleep(_STEP)
        return found

    def bound(self, first: JoinPlan, batch: MicroBatch) -> tuple[int, JoinPlan]:
        """Return the plan of a query with state; its first micro-batch binds it to ``first``."""
        if not batch.query:
            raise EvenflowError(
                "this Spark does not tell its tasks which query they belong to; use left.join."
            )
        path = self.control.folder / self.operator / f"{batch.query}.plan"
        found = self._parsed(path)
        if found is None and batch.batch == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)  # if it is damaged; no row waits by it yet
            create_exclusive(path, write_blob(KIND, _header(1, first), {}))
            found = self._parsed(path)
        if found is None:
            raise EvenflowError(
                f"{path} is missing or damaged, but the rows that wait for a match were placed by that plan; "
                "put it back, or start with a new checkpoint."
            )
        return found

    def usable(self, plan: JoinPlan) -> JoinPlan:
        """Return a plan without copies of the side that must not have any."""
        return plan.without_copies(left=self.divided == "left", right=self.divided == "right")

    def _claim(self, batch: MicroBatch) -> Path:
        return self.control.folder / self.operator / f"{batch.execution}.claim"

    def _forget_claims(self, folder: Path) -> None:
        with contextlib.suppress(OSError):
            claims = sorted(folder.glob("*.claim"), key=lambda path: path.stat().st_mtime)
            for path in claims[:-_CLAIMS_KEPT]:
                path.unlink(missing_ok=True)

    def _parsed(self, path: Path) -> tuple[int, JoinPlan] | None:
        try:
            header, _ = read_blob(KIND, path.read_bytes())
            plan = JoinPlan.from_json(header["plan"])
            return (int(header["serial"]), self.usable(plan)) if plan.workers == self.workers else None
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
