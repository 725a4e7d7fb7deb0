"""The task of ``stateful``: one pass over the rows of a worker.

Rows arrive sorted by the key's hash and the key, and are split where the key changes. The state of a group of
keys is looked up at once, the processor runs key by key, and at the end the touched keys are written to a new
state file and the outputs to another. If files are to be merged, their rows of the worker's keys go into the
same state file. Both files have unique names and count only once the driver commits them, so a task that dies
or runs twice leaves only a file that is swept later.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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
from evenflow.spark.state.batch_time import BatchTime
from evenflow.spark.state.files import (
    NEVER,
    Cache,
    DamagedFile,
    RowGroup,
    StateFile,
    StateReader,
    forget_copies,
    newest_rows,
    write_state,
)
from evenflow.spark.state.frequent_keys import FrequentKeys
from evenflow.spark.state.owner_lookup import Bools, Hashes, Owners
from evenflow.spark.state.processor import KeyedProcessor
from evenflow.spark.state.results import ProcessorResults
from evenflow.spark.state.schema import HASH, REMOVED, StateLayout
from evenflow.spark.state.staged_outputs import StagedOutputs
from evenflow.spark.state.task_report import TaskReport
from evenflow.spark.task import current_worker
from evenflow.storage import Location, open_storage

MAX_REPORTED_KEYS = 1000  # hottest keys in a worker's report


class KeyGroups(NamedTuple):
    """Several keys, each with all of its rows; the first key column is the hash."""

    keys: list[pa.Array]
    groups: list[Any]


def key_groups(batches: Batches, layout: Layout, rows: str) -> Iterator[KeyGroups]:
    """Yield keys with all of their rows; the last key of a batch is held until the next one."""
    pending: list[pa.RecordBatch] = []
    last: list[pa.Array] | None = None
    for batch in split_runs(batches, layout):
        runs = list(zip(batch.starts, batch.ends, strict=True))
        if batch.continues:
            start, end = runs.pop(0)
            pending.append(batch.rows.slice(start, end - start))
        if not runs:
            continue
        new_keys, group = batch.new_keys(), ROW_FORMATS[rows](batch.rows)
        groups = [group(start, end) for start, end in runs[:-1]]
        keys = [key.slice(0, len(groups)) for key in new_keys]
        if last is not None:
            groups.insert(0, join_group(pending, rows))
            keys = [pa.concat_arrays([before, key]) for before, key in zip(last, keys, strict=True)]
        start, end = runs[-1]
        pending = [batch.rows.slice(start, end - start)]
        last = [key.slice(len(runs) - 1) for key in new_keys]
        if groups:
            yield KeyGroups(keys, groups)
    if last is not None:
        yield KeyGroups(last, [join_group(pending, rows)])


@dataclass(frozen=True)
class TaskSpec:
    """The task of a micro-batch, identical for all workers; the worker is the number of the partition."""

    processor: KeyedProcessor
    name: str
    root: Location
    epoch: int  # of the holder of the state
    batch: int
    layout: Layout  # the hash is the first key column
    state: StateLayout
    output: pa.Schema
    owners: Owners
    before: Owners | None  # the previous owners, if they differ
    files: tuple[StateFile, ...]
    needed: tuple[tuple[int, ...], ...]  # per worker: indices of the files that may hold its keys
    time: BatchTime
    merging: tuple[StateFile, ...] = ()  # merged with what this batch writes
    log_values: bool = True  # of hot keys

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Run the task of this partition; yield its report."""
        worker = current_worker()
        try:
            report = Task(self, worker).run(batches)
        except DamagedFile as error:
            report = TaskReport.for_damaged_file(worker, error)
        yield report.row()


@dataclass
class Task:
    """The task of one worker in one micro-batch."""

    spec: TaskSpec
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
        spec = self.spec
        files = [spec.files[number] for number in spec.needed[self.worker]]
        self.storage = open_storage(spec.root)
        self.reader = StateReader(self.storage, files, spec.state.key_names)
        self.reader.cache.retain(self.storage, spec.files)
        forget_copies(self.storage, spec.files, spec.batch)
        self.frequent = FrequentKeys(spec.state.key_names) if spec.log_values else None
        self.states = Records(spec.name, spec.state.state, "state")
        self.outputs = StagedOutputs(
            self.storage, spec.batch, self.worker, spec.epoch, Records(spec.name, spec.output, "output")
        )
        self.processor = spec.processor
        self.processor.now = spec.time.moment

    def run(self, batches: Batches) -> TaskReport:
        """Process all rows, then the expired keys; write the results and return a report."""
        moved = self._fetch_moved()
        began = time.perf_counter()  # excludes fetching moved keys, which does not reflect the worker's speed
        try:
            for portion in key_groups(self._incoming(batches), self.spec.layout, self.processor.rows):
                self._process(portion)
            self._expire()
            outputs = self.outputs.close()
        except BaseException:
            self.outputs.abort()
            raise
        written = self._write()
        seconds = time.perf_counter() - began - self.waited
        hashes = np.concatenate(self.hashes) if self.hashes else np.zeros(0, np.int64)
        counts = np.concatenate(self.counts) if self.counts else np.zeros(0, np.int64)
        hottest = np.argsort(-counts, kind="stable")[:MAX_REPORTED_KEYS]
        per_bucket = np.bincount(bucket_of(hashes, self.spec.owners.buckets.size), counts).astype(np.int64)
        return TaskReport(
            worker=self.worker,
            rows=self.rows,
            seconds=seconds,
            keys=hashes[hottest].tolist(),
            counts=counts[hottest].tolist(),
            values=None if self.frequent is None else self.frequent.values(),
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
            requests=self.storage.take_requests(),
        )

    def _incoming(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield batches, without late rows if these are dropped, and measure the time waiting for input."""
        source, clock = iter(batches), self.spec.time
        while True:
            start = time.perf_counter()
            batch = next(source, None)
            self.waited += time.perf_counter() - start
            if batch is None:
                return
            if clock.column is not None:
                batch = self._drop_late(batch, clock)
            self.rows += batch.num_rows
            yield batch

    def _drop_late(self, batch: pa.RecordBatch, clock: BatchTime) -> pa.RecordBatch:
        times = batch.column(clock.column).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        latest = pc.max(times).as_py()
        if latest is not None:
            self.latest = latest if self.latest is None else max(self.latest, latest)
        if clock.watermark is None:
            return batch
        late = pc.fill_null(pc.less(times, clock.watermark), False)
        self.late += pc.sum(late).as_py() or 0
        return batch.filter(pc.invert(late)) if clock.late == "drop" else batch

    def _process(self, portion: KeyGroups) -> None:
        """Run the processor over a group of keys."""
        hashes = portion.keys[0].to_numpy()
        keys = self._as_stored(portion.keys[1:])
        values = _key_values(keys)
        stored = self.reader.find(hashes, keys).states(self.spec.state.state.names)
        self.hashes.append(hashes)
        self.counts.append(np.array([len(group) for group in portion.groups], np.int64))
        if self.frequent is not None:
            self.frequent.add(keys, hashes, self.counts[-1], self.rows)
        processor, names = self.processor, self.spec.state.state.names
        results = ProcessorResults(self, keys, hashes)
        is_new = np.array([state is None for state in stored], np.bool_)
        for row, (key, state, group) in enumerate(zip(values, stored, portion.groups, strict=True)):
            try:
                if state is None:
                    first = processor.start(key)
                    now = dict(zip(names, first, strict=True)) if isinstance(first, tuple) else first
                else:
                    now = dict(zip(names, state, strict=True))
                result = processor.process(key, now, group)
            except Exception as error:
                pandas_by = 'set rows = "pandas" in the class' if self.processor.rows == "arrow" else ""
                raise failure(f"{self.spec.name}.process", results.label(row), error, pandas_by) from error
            results.add(row, result, "process")
        results.flush()
        self.created += int((is_new & ~results.removed).sum())
        self.forgotten += int((~is_new & results.removed).sum())

    def _as_stored(self, keys: Sequence[pa.Array]) -> list[pa.Array]:
        return [
            key if key.type == stored.type else key.cast(stored.type)
            for key, stored in zip(keys, self.spec.state.keys, strict=True)
        ]

    def _expire(self) -> None:
        """Run the processor over the expired keys without rows in this batch."""
        now = self.spec.time.now
        if now is None:
            return
        due = self._due(now)
        if due is None:
            return
        keys = [due.column(name).chunk(0) for name in self.spec.state.key_names]
        names = self.spec.state.state.names
        columns = [to_values(due.column(name)) for name in names]
        results = ProcessorResults(self, keys, due.column(HASH).to_numpy())
        for row, (key, state) in enumerate(zip(_key_values(keys), zip(*columns, strict=True), strict=True)):
            try:
                result = self.processor.expire(key, dict(zip(names, state, strict=True)))
            except Exception as error:
                raise failure(f"{self.spec.name}.expire", results.label(row), error) from error
            results.add(row, result, "expire")
        results.flush()
        self.expired = due.num_rows
        self.forgotten += int(results.removed.sum())

    def _due(self, now: int) -> pa.Table | None:
        """Return the rows of this worker's expired keys that were not touched in this batch."""
        due = []
        for number, file in enumerate(self.reader.files):
            if file.earliest is None or file.earliest > now:
                continue
            newer = StateReader(self.storage, self.reader.files[:number], self.reader.keys)
            for row_group in self.reader.row_groups(file):
                at = np.flatnonzero(row_group.expires <= now)
                at = at[self.spec.owners.of_hashes(row_group.hashes[at]) == self.worker]
                at = at[~self._touched(row_group, at)]
                if not at.size:
                    continue
                rows = row_group.rows.take(pa.array(at))
                matches = newer.find(row_group.hashes[at], [rows.column(name) for name in self.reader.keys])
                superseded = matches.group_index >= 0
                row_group.expires[at[superseded]] = NEVER
                self.reader.bytes_read += newer.bytes_read
                newer.bytes_read = 0
                if not superseded.all():
                    due.append(rows.take(pa.array(np.flatnonzero(~superseded))))
        return pa.Table.from_batches(due).combine_chunks() if due else None

    def _touched(self, row_group: RowGroup, at: npt.NDArray[np.int64]) -> Bools:
        """Return which rows of a row group belong to keys touched in this batch; keys may share a hash."""
        touched = np.zeros(at.size, np.bool_)
        for part in self.written:
            hashes = part.column(HASH).to_numpy()  # sorted, like the input
            first, last = (np.searchsorted(hashes, row_group.hashes[at], side) for side in ("left", "right"))
            for offset in range(int((last - first).max(initial=0))):
                hits = np.flatnonzero(first + offset < last)
                rows, others = pa.array(at[hits]), pa.array((first + offset)[hits])
                equal = np.ones(hits.size, np.bool_)
                for name in self.reader.keys:
                    equal &= equal_keys(
                        row_group.rows.column(name).take(rows), part.column(name).take(others)
                    )
                touched[hits] |= equal
        return touched

    def _fetch_moved(self) -> dict[str, int]:
        """Read the state of the keys that moved to this worker, before its rows; return its size."""
        now, before = self.spec.owners, self.spec.before
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
        """Write the touched keys, and those of files to be merged, sorted by hash."""
        table = pa.Table.from_batches(self.written) if self.written else None
        first = last = self.spec.batch
        if self.spec.merging:
            first = min(file.first for file in self.spec.merging)
            table = self._merged(table)
        if table is None or not table.num_rows:
            return None
        hashes = table.column(HASH).to_numpy()
        if (hashes[1:] < hashes[:-1]).any():
            table = table.take(pa.array(np.argsort(hashes, kind="stable")))
        return write_state(self.storage, table.combine_chunks(), first, last, self.worker, self.spec.epoch)

    def _merged(self, written: pa.Table | None) -> pa.Table | None:
        """Return the newest row of each of the worker's keys in the files to be merged and in ``written``."""
        began, spec, owners = time.perf_counter(), self.spec, self.spec.owners
        # read apart: what is merged now is not needed again
        reader = StateReader(self.storage, spec.merging, spec.state.key_names, Cache(0))

        def own(hashes: Hashes) -> Bools:
            return owners.of_hashes(hashes) == self.worker

        rows = reader.newest(owners.state_buckets(self.worker), own)
        if rows is None:
            rows = written
        elif written is not None:
            rows = newest_rows(pa.concat_tables([written, rows]), spec.state.key_names)
        if rows is not None and len(spec.merging) == len(spec.files):
            rows = rows.filter(pc.invert(rows.column(REMOVED)))  # no older row of such a key is left
        self.waited += time.perf_counter() - began  # which does not reflect the worker's speed
        return rows


def _key_values(keys: Sequence[pa.Array]) -> list[Any]:
    """Return keys as passed to the processor."""
    columns = [to_values(key) for key in keys]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
