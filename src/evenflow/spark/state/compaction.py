"""Compaction: which state files are merged.

The files of one batch, or of several merged batches, form a run; runs are ordered by time, and look-ups go
from the newest to the oldest. When there are ``MAX_RUNS``, the next batch merges the newest half with what it
writes itself, together with older runs as long as they are not much larger than the rows merged so far, so a
row is rewritten about as often as the logarithm of the table's size. When the oldest run is merged, removed
keys are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenflow.spark.state.files import StateFile
from evenflow.spark.state.owner_lookup import Owners

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
