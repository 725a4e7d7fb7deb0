"""What a Python worker does for ``stateful``: one pass over the rows that were placed on it.

Rows come sorted by the key's hash and the key, so they are split_runs where the key changes. For the keys of
a portion the state is looked up at once, the processor runs key by key, and at the end the touched keys go to
one new state file, the outputs to another. Both have names of their own; they count only if the driver
commits them, so a task that dies, or runs twice, leaves nothing but a file that is swept.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.plan.table import bucket_of
from evenflow.spark.grouped.record_columns import Records, to_values
from evenflow.spark.grouped.runs import (
    ROW_FORMATS,
    Batches,
    Layout,
    equal_keys,
    failure,
    join_group,
    split_runs,
)
from evenflow.spark.state.batch_time import Time
from evenflow.spark.state.files import NEVER, DamagedFile, Piece, StateFile, StateReader, write_state
from evenflow.spark.state.owner_lookup import Bools, Hashes, Owners
from evenflow.spark.state.processor import KeyedProcessor
from evenflow.spark.state.results import Given
from evenflow.spark.state.schema import HASH, REMOVED, StateLayout
from evenflow.spark.state.staged_outputs import Outputs
from evenflow.spark.state.task_report import TaskReport
from evenflow.spark.task import current_worker

NAMED = 1000  # keys that a worker names, the hottest


class Portion(NamedTuple):
    """Some keys, each with all of its rows; the first column of the keys is their hash."""

    keys: list[pa.Array]
    groups: list[Any]


def portions(batches: Batches, layout: Layout, rows: str) -> Iterator[Portion]:
    """Yield keys with all of their rows; the last key of a batch waits for the next one."""
    waiting: list[pa.RecordBatch] = []
    last: list[pa.Array] | None = None
    for here in split_runs(batches, layout):
        runs = list(zip(here.starts, here.ends, strict=True))
        if here.continues:
            start, end = runs.pop(0)
            waiting.append(here.rows.slice(start, end - start))
        if not runs:
            continue
        begun, group = here.new_keys(), ROW_FORMATS[rows](here.rows)
        groups = [group(start, end) for start, end in runs[:-1]]
        keys = [key.slice(0, len(groups)) for key in begun]
        if last is not None:
            groups.insert(0, join_group(waiting, rows))
            keys = [pa.concat_arrays([before, key]) for before, key in zip(last, keys, strict=True)]
        start, end = runs[-1]
        waiting = [here.rows.slice(start, end - start)]
        last = [key.slice(len(runs) - 1) for key in begun]
        if groups:
            yield Portion(keys, groups)
    if last is not None:
        yield Portion(last, [join_group(waiting, rows)])


@dataclass(frozen=True)
class Work:
    """One micro-batch's work, the same for all workers; which of them this is, the task knows."""

    processor: KeyedProcessor
    name: str
    root: str
    batch: int
    layout: Layout  # the key's hash comes first among the keys
    state: StateLayout
    output: pa.Schema
    owners: Owners
    before: Owners | None  # who owned keys until now, if that has changed
    files: tuple[StateFile, ...]
    needed: tuple[tuple[int, ...], ...]  # of each worker: the files that may hold its keys
    time: Time

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Work on one partition; yield its report."""
        worker = current_worker()
        try:
            report = Task(self, worker).run(batches)
        except DamagedFile as error:
            report = TaskReport.of_damage(worker, error)
        yield report.row()


@dataclass
class Task:
    """The work of one worker in one micro-batch."""

    work: Work
    worker: int
    rows: int = 0
    late: int = 0
    latest: int | None = None  # event time
    waited: float = 0.0
    hashes: list[Hashes] = field(default_factory=list)
    counts: list[npt.NDArray[np.int64]] = field(default_factory=list)
    written: list[pa.RecordBatch] = field(default_factory=list)
    expired: int = 0
    created: int = 0
    forgotten: int = 0

    def __post_init__(self) -> None:
        work = self.work
        files = [work.files[number] for number in work.needed[self.worker]]
        self.reader = StateReader(Path(work.root), files, work.state.key_names)
        self.reader.cache.keep_only(self.reader.root, work.files)
        self.states = Records(work.name, work.state.state, "state")
        self.outputs = Outputs(work.root, work.batch, self.worker, Records(work.name, work.output, "output"))
        self.processor = work.processor
        self.processor.now = work.time.moment

    def run(self, batches: Batches) -> TaskReport:
        """Take all rows, then the keys whose time has come; write, and report."""
        moved = self._fetch_moved() if self.work.before is not None else {"keys": 0, "bytes": 0}
        began = time.perf_counter()  # to fetch keys that moved says nothing of a worker's speed
        try:
            for portion in portions(self._incoming(batches), self.work.layout, self.processor.rows):
                self._process(portion)
            self._expire()
            outputs = self.outputs.close()
        except BaseException:
            self.outputs.abandon()
            raise
        written = self._write()
        seconds = time.perf_counter() - began - self.waited
        hashes = np.concatenate(self.hashes) if self.hashes else np.zeros(0, np.int64)
        counts = np.concatenate(self.counts) if self.counts else np.zeros(0, np.int64)
        hottest = np.argsort(-counts, kind="stable")[:NAMED]
        per_bucket = np.bincount(bucket_of(hashes, self.work.owners.buckets.size), counts).astype(np.int64)
        return TaskReport(
            worker=self.worker,
            rows=self.rows,
            seconds=seconds,
            keys=hashes[hottest].tolist(),
            counts=counts[hottest].tolist(),
            buckets=np.flatnonzero(per_bucket).tolist(),
            bucket_rows=per_bucket[per_bucket > 0].tolist(),
            touched=sum(part.num_rows for part in self.written),
            created=self.created,
            forgotten=self.forgotten,
            expired=self.expired,
            late=self.late,
            latest=self.latest,
            bytes_read=self.reader.bytes_read,
            state_bytes=sum(part.nbytes for part in self.written),
            moved_keys=moved["keys"],
            moved_bytes=moved["bytes"],
            state=written,
            outputs=outputs,
        )

    def _incoming(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Pass batches on, without late rows where these are dropped; the waiting for them is no work."""
        given, clock = iter(batches), self.work.time
        while True:
            start = time.perf_counter()
            batch = next(given, None)
            self.waited += time.perf_counter() - start
            if batch is None:
                return
            if clock.column is not None:
                batch = self._look_at_times(batch, clock)
            self.rows += batch.num_rows
            yield batch

    def _look_at_times(self, batch: pa.RecordBatch, clock: Time) -> pa.RecordBatch:
        times = batch.column(clock.column).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        latest = pc.max(times).as_py()
        if latest is not None:
            self.latest = latest if self.latest is None else max(self.latest, latest)
        if clock.watermark is None:
            return batch
        late = pc.fill_null(pc.less(times, clock.watermark), False)
        self.late += pc.sum(late).as_py() or 0
        return batch.filter(pc.invert(late)) if clock.late == "drop" else batch

    def _process(self, portion: Portion) -> None:
        """Run the processor over some keys."""
        hashes = portion.keys[0].to_numpy()
        keys = self._as_stored(portion.keys[1:])
        values = _key_values(keys)
        stored = self.reader.find(hashes, keys).states(self.work.state.state.names)
        self.hashes.append(hashes)
        self.counts.append(np.array([len(group) for group in portion.groups], np.int64))
        processor, names = self.processor, self.work.state.state.names
        given = Given(self, keys, hashes)
        begun = np.array([state is None for state in stored], np.bool_)
        for row, (key, state, group) in enumerate(zip(values, stored, portion.groups, strict=True)):
            try:
                if state is None:
                    first = processor.start(key)
                    now = dict(zip(names, first, strict=True)) if isinstance(first, tuple) else first
                else:
                    now = dict(zip(names, state, strict=True))
                result = processor.process(key, now, group)
            except Exception as error:
                raise failure(f"{self.work.name}.process", given.label(row), error) from error
            given.take(row, result, "process")
        given.done()
        self.created += int((begun & ~given.removed).sum())
        self.forgotten += int((~begun & given.removed).sum())

    def _as_stored(self, keys: Sequence[pa.Array]) -> list[pa.Array]:
        return [
            key if key.type == stored.type else key.cast(stored.type)
            for key, stored in zip(keys, self.work.state.keys, strict=True)
        ]

    def _expire(self) -> None:
        """Run the processor over the keys that are due and had no rows."""
        now = self.work.time.now
        if now is None:
            return
        due = self._due(now)
        if due is None:
            return
        keys = [due.column(name).chunk(0) for name in self.work.state.key_names]
        names = self.work.state.state.names
        columns = [due.column(name).to_pylist(maps_as_pydicts="strict") for name in names]
        given = Given(self, keys, due.column(HASH).to_numpy())
        for row, (key, state) in enumerate(zip(_key_values(keys), zip(*columns, strict=True), strict=True)):
            try:
                result = self.processor.expire(key, dict(zip(names, state, strict=True)))
            except Exception as error:
                raise failure(f"{self.work.name}.expire", given.label(row), error) from error
            given.take(row, result, "expire")
        given.done()
        self.expired = due.num_rows
        self.forgotten += int(given.removed.sum())

    def _due(self, now: int) -> pa.Table | None:
        """Return the rows of this worker's keys that are due, newest by key, not touched in this batch."""
        due = []
        for number, file in enumerate(self.reader.files):
            if file.earliest is None or file.earliest > now:
                continue
            newer = StateReader(self.reader.root, self.reader.files[:number], self.reader.keys)
            newer.files = self.reader.files[:number]
            for piece in self.reader.pieces(file):
                at = np.flatnonzero(piece.until <= now)
                at = at[self.work.owners.of_hashes(piece.hashes[at]) == self.worker]
                at = at[~self._touched(piece, at)]
                if not at.size:
                    continue
                rows = piece.rows.take(pa.array(at))
                known = newer.find(piece.hashes[at], [rows.column(name) for name in self.reader.keys])
                old = known.piece >= 0
                piece.until[at[old]] = NEVER  # a row that a newer one replaced stays replaced
                self.reader.bytes_read += newer.bytes_read
                newer.bytes_read = 0
                if not old.all():
                    due.append(rows.take(pa.array(np.flatnonzero(~old))))
        return pa.Table.from_batches(due).combine_chunks() if due else None

    def _touched(self, piece: Piece, at: npt.NDArray[np.int64]) -> Bools:
        """Return which rows of a piece are of keys that had rows in this batch; two keys may share a hash."""
        touched = np.zeros(at.size, np.bool_)
        for part in self.written:
            hashes = part.column(HASH).to_numpy()  # sorted, as the rows of a portion come
            first, last = (np.searchsorted(hashes, piece.hashes[at], side) for side in ("left", "right"))
            for offset in range(int((last - first).max(initial=0))):
                here = np.flatnonzero(first + offset < last)
                rows, others = pa.array(at[here]), pa.array((first + offset)[here])
                equal = np.ones(here.size, np.bool_)
                for name in self.reader.keys:
                    equal &= equal_keys(piece.rows.column(name).take(rows), part.column(name).take(others))
                touched[here] |= equal
        return touched

    def _fetch_moved(self) -> dict[str, int]:
        """Read the state of the keys that became this worker's, before its rows come; say how much it is."""
        now, before = self.work.owners, self.work.before
        if before is None:
            return {"keys": 0, "bytes": 0}

        def arrived(hashes: Hashes) -> Any:
            return (now.of_hashes(hashes) == self.worker) & (before.of_hashes(hashes) != self.worker)

        rows = self.reader.newest(now.state_buckets(self.worker) & before.moved_buckets(now), arrived)
        if rows is None:
            return {"keys": 0, "bytes": 0}
        rows = rows.filter(pc.invert(rows.column(REMOVED)))
        return {"keys": rows.num_rows, "bytes": rows.nbytes}

    def _write(self) -> StateFile | None:
        """Write the touched keys, sorted by hash."""
        if not self.written:
            return None
        table = pa.Table.from_batches(self.written)
        hashes = table.column(HASH).to_numpy()
        if (hashes[1:] < hashes[:-1]).any():
            table = table.take(pa.array(np.argsort(hashes, kind="stable")))
        return write_state(
            Path(self.work.root), table.combine_chunks(), self.work.batch, self.work.batch, self.worker
        )


def _key_values(keys: Sequence[pa.Array]) -> list[Any]:
    """Return keys as the processor sees them."""
    columns = [to_values(key) for key in keys]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
