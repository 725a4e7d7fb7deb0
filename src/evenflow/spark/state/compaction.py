"""Few files instead of many: which state files are merged, and how.

Files of one batch, or of several that were merged, are a run; runs follow one another in time, and a look-up
goes from the newest to the oldest. When there are ``MOST_RUNS``, the newest ones become one, and older ones
join as long as they are not much larger than what has come together, so a row is written again about as often
as the logarithm of the table's size, never with every batch. What merging the oldest run shows to be
forgotten is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
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

MOST_RUNS = 12
LARGER = 2.0  # an older run joins if it has at most so many times the rows that came together


def runs_to_merge(files: Sequence[StateFile], most: int = MOST_RUNS) -> list[StateFile]:
    """Return the files of the runs to merge now; none if there are few runs."""
    runs: dict[tuple[int, int], list[StateFile]] = {}
    for file in sorted(files, key=lambda file: -file.last):
        runs.setdefault((file.first, file.last), []).append(file)
    if len(runs) < most:
        return []
    chosen: list[StateFile] = []
    rows = 0
    for number, run in enumerate(runs.values()):
        size = sum(file.rows for file in run)
        if number >= most // 2 and size > LARGER * rows:
            break
        chosen += run
        rows += size
    return chosen


def needed_by(files: Sequence[StateFile], owners: Owners) -> tuple[tuple[int, ...], ...]:
    """Return for each worker the numbers of the files that may hold its keys."""
    if not files:
        return ((),) * owners.workers
    held = np.array([file.buckets for file in files], np.float32)
    wanted = np.array([owners.state_buckets(worker) for worker in range(owners.workers)], np.float32)
    return tuple(tuple(np.flatnonzero(common).tolist()) for common in wanted @ held.T)


@dataclass(frozen=True)
class Merge:
    """A worker reads the rows of its keys from some files and writes the newest of each to one."""

    root: str
    keys: tuple[str, ...]
    files: tuple[StateFile, ...]
    needed: tuple[tuple[int, ...], ...]
    owners: Owners
    forget: bool  # nothing older is left that a forgotten key would hide

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Merge for the worker that this partition is."""
        for _ in batches:
            pass
        worker = current_worker()
        try:
            yield TaskReport(worker, self._merge(worker)).row()
        except DamagedFile as error:
            yield TaskReport.of_damage(worker, error).row()

    def _merge(self, worker: int) -> StateFile | None:
        files = [self.files[number] for number in self.needed[worker]]
        reader = StateReader(Path(self.root), files, self.keys, Cache(0))

        def own(hashes: Hashes) -> Any:
            return self.owners.of_hashes(hashes) == worker

        rows = reader.newest(self.owners.state_buckets(worker), own) if files else None
        if rows is not None and self.forget:
            rows = rows.filter(pc.invert(rows.column(REMOVED)))
        if rows is None or not rows.num_rows:
            return None
        first, last = min(file.first for file in self.files), max(file.last for file in self.files)
        return write_state(Path(self.root), rows, first, last, worker)
