"""Plans of a join of two streams that follow them while the query runs.

The cells of a hot key are part of the state: rows wait for a match in them. So a plan is never replaced. A
new one is added, valid from a time T of the rows on, with cells of its own. A row of one side, the *placed*
one, goes by the plan that is valid at its time. A row of the other side is copied to the cells of every plan
that is valid at the time of a row that it may match; the join's range of times tells which. Two rows that
match thus meet in exactly one cell, that of the placed row's plan, whichever comes first.

A plan may be added if no row seen so far would go elsewhere with it: T is later than the times of all placed
rows so far, and than all times that a row of the other side so far may match. Rows of the other side are then
copied to both plans' cells before the first placed row uses the new ones, and to the old ones as long as
placed rows there may be matched: widening and narrowing are both exact by order, and the watermark decides
only when a plan is forgotten.

**What every micro-batch knows.** The first task of a batch that needs its plans writes their list to a file,
its claim, which all others read, also if the batch runs again. A claim lists what the one before it lists,
perhaps with another plan at the end. The highest time of each side, rounded up, is in a file that tasks
compare and set before they send such rows on: when a claim is made, all batches before have been committed,
so it is that of all rows in the state.

Everything is read by its name, since a listing may be behind, and takes time; listings only help to remove
old claims, beside the batches. Batches without rows make no claims. After many of them the last claim is
found by a file that is written before the first claim of every block of batches: it has the number of the
block and, since a batch may fail before it makes its claim, that of the block with the claim before.

Keep imports light: Python workers import this module.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow.compute as pc

from evenflow.blob import read_blob, write_blob
from evenflow.errors import EvenflowError, first_line
from evenflow.plan.join_plan import JoinPlan
from evenflow.spark.joining.hot_keys import EVER, NEVER, SIDES, MicroBatch, Span, Spans, look_up
from evenflow.spark.joining.join_keys import key_on_worker
from evenflow.spark.joining.stream_plans import LISTED_EVERY, StreamPlans
from evenflow.storage import Storage, StorageError

if TYPE_CHECKING:
    import pyarrow as pa

    from evenflow.kernels import Int32Array, Int64Array

KIND = "plans of a batch"
SEEN = "highest time of a side"
MAX_VERSIONS = 16  # valid at a time; a new one then waits until the first is forgotten
_CLAIMS_KEPT = 100  # batches to which Spark goes back by default
_BLOCK = 32  # batches
_LAST = "last"
_SECOND = 1_000_000
_STEPS = 8  # in the range of times, to which highest times are rounded up


class Reach(NamedTuple):
    """Bounds of a placed row's time minus that of a row that matches it, in microseconds."""

    least: int
    most: int


class Version(NamedTuple):
    """A plan that is valid from a time of the rows on."""

    serial: int  # the batch in which it was added
    start: int
    plan: JoinPlan
    generations: Int64Array  # of each hot key's cells; cells of different generations are different


@dataclass(frozen=True)
class PlanVersions:
    """The plans of a join of two streams, the first of which is ``first``.

    Without ``reach``, no plan is ever added.
    """

    plans: StreamPlans
    first: JoinPlan
    placed: str  # the side of which a row goes by one plan
    reach: Reach | None

    def of_batch(self, batch: MicroBatch) -> list[Version]:
        """Return the plans of a micro-batch, which claims them if it is the first to ask."""
        if not batch.query:
            raise EvenflowError(
                "this Spark does not tell its tasks which query they belong to; use left.join."
            )
        folder = self.folder(batch)
        number = 0 if self.reach is None else batch.batch  # one plan for ever is that of the first claim
        name = f"{folder}/{number}.claim"
        found = self._read(folder, number)
        if found is None and (batch.batch == 0 or (number and not self._storage.exists(name))):
            before = self._before(folder, number)
            known = None if before is None else self._read(folder, before)
            if known is not None or batch.batch == 0:
                header = self._decided(batch, folder, known)
                self._note_block(folder, number, before)
                if batch.batch == 0:
                    self._storage.delete([name])  # if it is damaged; no row waits by it yet
                self._storage.create(name, write_blob(KIND, header, {}))
                found = self._read(folder, number)
        if found is None:
            found = self._read(folder, number)  # another task may have made it since it was looked for
        if found is None:
            raise EvenflowError(
                f"{self._storage.location / name} is missing or damaged, but the rows that wait for a match "
                "were placed by its plans; put it back, or start with a new checkpoint."
            )
        return found

    @property
    def _storage(self) -> Storage:
        return self.plans.control.storage

    def looked_up(self, batch: MicroBatch) -> dict[str, Any]:
        """Return what the rows of both sides look up in a micro-batch."""
        versions = self.of_batch(batch)
        return look_up(versions[-1].serial, {side: spans_of(versions, side) for side in SIDES})

    def folder(self, batch: MicroBatch) -> str:
        """Return where the claims of a query are in the control directory."""
        return self._folder(batch.query)

    def _folder(self, query: str) -> str:
        return f"{self.plans.operator}/{query}"

    def _read(self, folder: str, number: int) -> list[Version] | None:
        try:
            header, _ = read_blob(KIND, self._storage.read(f"{folder}/{number}.claim"))
            return [self._version(folder, int(serial)) for serial in header["versions"]]
        except StorageError:
            raise  # it does not answer, which says nothing about the claim
        except (OSError, EvenflowError, KeyError, TypeError, ValueError):
            return None

    def _before(self, folder: str, number: int) -> int | None:
        """Return the last batch before this one that has a claim; batches without rows have none."""

        def last_of(first: int) -> int | None:
            recent = range(min(number, first + _BLOCK) - 1, max(-1, first - 1), -1)
            return next((one for one in recent if self._storage.exists(f"{folder}/{one}.claim")), None)

        found = last_of(number - _BLOCK)
        if found is None and number > _BLOCK:
            of_blocks = (last_of(block * _BLOCK) for block in self._blocks(folder))
            found = next((claim for claim in of_blocks if claim is not None), None)
        return found

    def _blocks(self, folder: str) -> list[int]:
        """Return the block of batches with the last claim, and that of the claim before this block."""
        name = f"{folder}/{_LAST}"
        try:
            return [int(block) for block in read_blob(KIND, self._storage.read(name))[0]["blocks"]]
        except StorageError:
            raise  # it does not answer
        except (OSError, EvenflowError, KeyError, TypeError, ValueError):
            raise EvenflowError(
                f"{self._storage.location / name} is missing or damaged, by which the plans of waiting rows "
                "are found; put it back, or start with a new checkpoint."
            ) from None

    def _note_block(self, folder: str, number: int, before: int | None) -> None:
        """Note the block of a claim that is about to be made, if that of the claim before is another."""
        blocks = [number // _BLOCK] if before is None else [number // _BLOCK, before // _BLOCK]
        if before is None or blocks[0] > blocks[1]:
            self._storage.put(f"{folder}/{_LAST}", write_blob(KIND, {"blocks": blocks}, {}))

    def _claims(self, folder: str) -> list[int]:
        """Return the batches that have claims."""
        names = [PurePosixPath(entry.name) for entry in self._storage.entries(folder)]
        return [int(name.stem) for name in names if name.suffix == ".claim" and name.stem.isdecimal()]

    def _version(self, folder: str, serial: int) -> Version:
        header, _ = read_blob(KIND, self._storage.read(f"{folder}/{serial}.claim"))
        plan = JoinPlan.from_json(header["plan"])
        if plan.workers != self.plans.workers:
            raise ValueError(plan.workers)
        return Version(serial, int(header["start"]), plan, np.array(header["generations"], np.int64))

    def _decided(self, batch: MicroBatch, folder: str, known: list[Version] | None) -> dict[str, Any]:
        """Return the content of a new claim: the plans before, without dead ones, and perhaps a new one."""
        if known is None:
            return _claim([], batch.batch, EVER, self.plans.usable(self.first), None)
        learned = None if self.reach is None else self.plans.learned()
        if self.reach is not None and learned is not None:
            ours = learned.query == batch.query and learned.batch < batch.batch
            if ours and learned.watermark is not None:
                # rows up to that watermark are late now, and those that wait are not matched by later ones
                dead = min(learned.watermark, learned.watermark + self.reach.least)
                while len(known) > 1 and known[1].start <= dead:
                    known = known[1:]
            start, last = self._free_from(folder), known[-1]
            if start is not None and start > last.start and not same_cells(learned.plan, last.plan):
                if len(known) < MAX_VERSIONS:
                    return _claim(known, batch.batch, start, learned.plan, last)
                why = f"{MAX_VERSIONS} plans are valid, and the watermark has passed none of them"
                self.plans.control.note("fallback", operator=self.plans.operator, why=why)
        return {"versions": [version.serial for version in known]}

    def _free_from(self, folder: str) -> int | None:
        """Return a time later than all placed rows so far, and all that others so far may match."""
        assert self.reach is not None
        highest = ((side, self._highest_time(folder, side)[0]) for side in SIDES)
        seen = {side: time for side, time in highest if time is not None}
        times = [time + (0 if side == self.placed else self.reach.most) for side, time in seen.items()]
        return max(times) + 1 if times else None

    def mark(self, side: str) -> Callable[[pa.Array], pa.Array]:
        """Return a function that returns times as they are, after it has noted how late they are."""
        assert self.reach is not None
        step = max(_SECOND, (self.reach.most - self.reach.least) // _STEPS)
        noted: dict[str, int] = {}

        def marked(times: pa.Array) -> pa.Array:
            latest = pc.max(times).as_py()
            batch = MicroBatch.current()
            if latest is not None and noted.get(batch.query, EVER) < latest:
                time = -(-latest // step) * step
                try:
                    self._raise_highest_time(self.folder(batch), side, time)
                except OSError as error:
                    place = self._storage.location / self.folder(batch) / "seen" / side
                    raise EvenflowError(
                        f"cannot write {place}: {error.strerror or first_line(error)}; without it, plans "
                        "could not be changed safely; make room there and start the query again."
                    ) from None
                noted[batch.query] = time
            return times

        return marked

    def forget_claims(self, query: str, batch: int) -> None:
        """Remove the claims of batches to which Spark does not go back, unless their plans are needed."""
        if not self._storage.location.is_local and batch % LISTED_EVERY:
            return
        with contextlib.suppress(OSError):
            self._forget_claims(self._folder(query), batch)

    def _forget_claims(self, folder: str, batch: int) -> None:
        claims = self._claims(folder)
        oldest = max((number for number in claims if number <= batch - _CLAIMS_KEPT), default=None)
        kept = None if oldest is None else self._read(folder, oldest)
        if oldest is None or kept is None:
            return
        needed = {version.serial for version in kept}
        self._storage.delete(
            f"{folder}/{number}.claim" for number in claims if number < oldest and number not in needed
        )

    def _highest_time(self, folder: str, side: str) -> tuple[int | None, str | None]:
        """Return the highest time of a side, rounded up, and the version of its file."""
        name = f"{folder}/seen/{side}"
        try:
            content, version = self._storage.read_version(name)
        except FileNotFoundError:
            return None, None
        try:
            return int(read_blob(SEEN, content)[0]["time"]), version
        except (EvenflowError, KeyError, TypeError, ValueError):
            raise EvenflowError(
                f"{self._storage.location / name} is damaged, but no new plan is safe without it; put it "
                "back, or start with a new checkpoint."
            ) from None

    def _raise_highest_time(self, folder: str, side: str, time: int) -> None:
        """Note a time of a side, unless there is a higher one."""
        own = write_blob(SEEN, {"time": time, "by": uuid4().hex}, {})
        while True:
            known, version = self._highest_time(folder, side)
            if known is not None and known >= time:
                return
            if self._storage.swap(f"{folder}/seen/{side}", own, version) is not None:
                return


def same_cells(first: JoinPlan, second: JoinPlan) -> bool:
    """Return whether two plans send all rows to the same workers."""
    return all(
        np.array_equal(getattr(first, name), getattr(second, name))
        for name in ("keys", "left_pieces", "right_pieces", "homes")
    )


def _claim(
    known: list[Version], serial: int, start: int, plan: JoinPlan, last: Version | None
) -> dict[str, Any]:
    """Return the content of a claim with a new plan; keys whose cells stay where they are keep them.

    No cell is the key's hash, which is the cell of the key in plans in which it is not hot.
    """
    before = {} if last is None else {int(key): number for number, key in enumerate(last.plan.keys)}
    new = np.full(plan.keys.size, 2 * serial)
    cells = _cells(plan, plan.homes, new) == np.repeat(plan.keys.view(np.int64), np.diff(plan.starts))
    new += np.isin(np.arange(new.size), np.repeat(np.arange(new.size), np.diff(plan.starts))[cells])
    generations = []
    for number, key in enumerate(plan.keys.tolist()):
        old = before.get(key)
        stays = last is not None and old is not None and _grid(plan, number) == _grid(last.plan, old)
        generations.append(int(last.generations[old] if stays and last is not None else new[number]))
    return {
        "versions": [*(version.serial for version in known), serial],
        "start": start,
        "plan": plan.to_json(),
        "generations": generations,
    }


def _cells(plan: JoinPlan, homes: Int32Array, generations: Int64Array) -> Int64Array:
    """Return the join keys of cells on the workers ``homes``, different ones for each generation."""
    counts = np.diff(plan.starts)
    most = 2**31 // plan.workers - 1  # all of them are numbers of 31 bits with the worker as remainder
    targets = homes + plan.workers * (np.repeat(generations, counts) % most)
    return key_on_worker(np.repeat(plan.keys, counts), targets.astype(np.int32))


def _grid(plan: JoinPlan, number: int) -> tuple[int, int, list[int]]:
    homes = plan.homes[plan.starts[number] : plan.starts[number + 1]]
    return int(plan.left_pieces[number]), int(plan.right_pieces[number]), homes.tolist()


def spans_of(versions: Sequence[Version], side: str) -> Spans:
    """Return the spans of every key that is hot in a plan; where it is not, its only cell is its hash."""
    stops = [version.start for version in versions[1:]] + [NEVER]
    starts = [EVER, *stops[:-1]]
    keys = np.unique(np.concatenate([version.plan.keys for version in versions]))
    found: dict[int, list[Span]] = {int(key): [] for key in keys}
    for version, start, stop in zip(versions, starts, stops, strict=True):
        plan = version.plan
        pieces = plan.left if side == "left" else plan.right
        cells = _cells(plan, pieces.homes, version.generations)
        where = {int(key): number for number, key in enumerate(plan.keys)}
        for key, spans in found.items():
            number = where.get(key)
            if number is None:
                grid = (1, 1, [int(np.uint64(key).view(np.int64))])
            else:
                own = cells[plan.starts[number] : plan.starts[number + 1]].tolist()
                grid = (int(pieces.pieces[number]), int(pieces.copies[number]), own)
            if spans and spans[-1][2:] == grid:
                spans[-1] = spans[-1]._replace(stop=stop)
            else:
                spans.append(Span(start, stop, *grid))
    return found
