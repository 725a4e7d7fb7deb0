"""`rewind_state`: put a state back to an earlier batch, so that it fits an older checkpoint.

The table is a history: files that later batches replaced stay for the time ``keep``. Going back is one more
commit, which lists the files of the earlier version again; nothing is written or read but that.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from evenflow.errors import EvenflowError
from evenflow.spark.monitoring.control_dir import Control, local_path
from evenflow.spark.state.files import DamagedFile, StateFile, read_footer
from evenflow.spark.state.lock import release_lock, take_lock
from evenflow.spark.state.schema import OURS, StateLayout
from evenflow.spark.state.table import Committed, StateTable, described, history, live_files, opened


def rewind_state(path: str | Path, batch: int) -> None:
    """Put the state of a stopped `stateful` query back to what it was after a batch.

    Later batches are undone. Use it after restoring a checkpoint that is older than the state; the query's
    refusal names the batch. Possible as long as the files of that batch are kept (``keep`` of `stateful`).

    Parameters
    ----------
    path : str or Path
        The path that ``stateful`` was given as ``state``.
    batch : int
        The batch to go back to.
    """
    root, token = local_path(path), uuid4().hex
    if not StateTable.exists(root):
        raise EvenflowError(f"there is no state at {root}; check the path.")
    take_lock(root, token)
    try:
        table = StateTable(root, stored_layout(root))
        now = table.committed
        if now is None or now.batch == batch:
            if now is None:
                raise EvenflowError(f"the state at {root} has no batch yet; there is nothing to go back to.")
            return
        version, committed, target = _version_of(root, batch)
        live = {  # their footers are not read: one of them may be why
            name: StateFile(name, size, rows=0, first=0, last=0, worker=0, earliest=None, bits="")
            for name, size in live_files(table.table).items()
        }
        table.commit(
            replace(committed, rewound=version),
            [file for name, file in target.items() if name not in live],
            [file for name, file in live.items() if name not in target],
        )
        Control(root / "_evenflow").note("rewound", batch=batch, undone=now.batch)
    finally:
        release_lock(root, token)


def stored_layout(root: Path) -> StateLayout:
    """Return the columns of a state as its table declares them."""
    table = opened(root)
    keys = described(table, root)["keys"]
    fields = list(pa.schema(table.schema().to_arrow()))
    ours = {*keys, *OURS.names}
    return StateLayout(
        pa.schema([field for name in keys for field in fields if field.name == name]),
        pa.schema([field for field in fields if field.name not in ours]),
    )


def batch_to_rewind_to(root: Path, query: str, spark_batch: int, offsets: str | None) -> int | None:
    """Return the state's number for one of Spark's batches if the state can go back to it."""
    for version, committed in history(root):
        same = committed.query == query and committed.spark_batch == spark_batch
        same = same and (offsets is None or committed.offsets in (None, offsets))
        if same and _files(root, version) is not None:
            return committed.batch
    return None


def _version_of(root: Path, batch: int) -> tuple[int, Committed, dict[str, StateFile]]:
    kept: set[int] = set()
    for version, committed in history(root):
        files = _files(root, version)
        if files is not None and committed.batch == batch:
            return version, committed, files
        if files is not None:
            kept.add(committed.batch)
    known = ", ".join(map(str, sorted(kept))) or "none"
    raise EvenflowError(
        f"batch is {batch}, and the state at {root} cannot go back to it; batches that are kept: {known}."
    )


def _files(root: Path, version: int) -> dict[str, StateFile] | None:
    """Return the files of a version; None unless all are there."""
    try:
        live = live_files(opened(root, version))
        return {name: read_footer(root, name, size) for name, size in live.items()}
    except (EvenflowError, DamagedFile):
        return None
