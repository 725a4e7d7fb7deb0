"""Compaction: which state files are merged, and how.

The files of one batch, or of several merged batches, form a run; runs are ordered by time, and look-ups go
from the newest to the oldest. When there are ``MAX_RUNS``, the newest half is merged, together with older
runs as long as they are not much larger than the rows merged so far, so a row is rewritten about as often as
the logarithm of the table's size. When the oldest run is merged, removed keys are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.spark.grouped.runs import Batches
from evenflow.spark.state.files import Cache, DamagedFile, StateFile, StateReader, write_state
from evenflow.spark.state.owner_lookup import Hashes, Owners
from evenflow.spark.state.schema import REMOVED
from evenflow.spark.state.task_report import TaskReport
from evenflow.spark.task import current_worker
from evenflow.storage import Location, open_storage

MAX_RUNS = 12
MAX_SIZE_RATIO = 2.0  # an older run is included if it has at most this many times the rows merged so far


def runs_to_merge(files: Sequence[StateFile], max_runs: int = MAX_RUNS) -> list[StateFile]:
    """Return the files of the runs to merge; none if there are fewer than ``max_runs`` runs."""
    runs: dict[tuple[int, int], list[StateFile]] = {}
    for file in sorted(files, key=lambda file: -file.last):
        runs.setdefault((file.first, file.last), []).append(file)
    if len(runs) < max_runs:
        return []
    chosen: list[StateFile] = []
    rows = 0
    for number, run in enumerate(runs.values()):
        size = sum(file.rows for file in run)
        if number >= max_runs // 2 and size > MAX_SIZE_RATIO * rows:
            break
        chosen += run
        rows += size
    return chosen


def needed_by(files: Sequence[StateFile], owners: Owners) -> tuple[tuple[int, ...], ...]:
    """Return for each worker the indices of the files that may hold its keys."""
    if not files:
        return ((),) * owners.workers
    held = np.array([file.buckets for file in files], np.float32)
    wanted = np.array([owners.state_buckets(worker) for worker in range(owners.workers)], np.float32)
    return tuple(tuple(np.flatnonzero(common).tolist()) for common in wanted @ held.T)


@dataclass(frozen=True)
class FileMerge:
    """The task that merges the rows of a worker's keys into one file, keeping the newest row of each key."""

    root: Location
    epoch: int
    keys: tuple[str, ...]
    files: tuple[StateFile, ...]
    needed: tuple[tuple[int, ...], ...]
    owners: Owners
    drop_removed: bool  # no older file is left in which a removed key could reappear

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Merge the files of the worker of this partition."""
        for _ in batches:
            pass
        worker = current_worker()
        try:
            merged = self._merge(worker)
            yield TaskReport(worker, merged, requests=open_storage(self.root).take_requests()).row()
        except DamagedFile as error:
            yield TaskReport.for_damaged_file(worker, error).row()

    def _merge(self, worker: int) -> StateFile | None:
        files = [self.files[number] for number in self.needed[worker]]
        storage = open_storage(self.root)
        reader = StateReader(storage, files, self.keys, Cache(0))

        def own(hashes: Hashes) -> Any:
            return self.owners.of_hashes(hashes) == worker

        rows = reader.newest(self.owners.state_buckets(worker), own) if files else None
        if rows is not None and self.drop_removed:
            rows = rows.filter(pc.invert(rows.column(REMOVED)))
        if rows is None or not rows.num_rows:
            return None
        first, last = min(file.first for file in self.files), max(file.last for file in self.files)
        return write_state(storage, rows, first, last, worker, self.epoch)
