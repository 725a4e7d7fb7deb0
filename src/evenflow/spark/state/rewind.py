"""`rewind_state`: restore a state to an earlier batch, so that it matches an older checkpoint.

The table keeps its history: superseded files are retained for the time ``keep``. A rewind is one more commit
that lists the files of an earlier version; no data is copied.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from evenflow.control.directory import Control
from evenflow.errors import EvenflowError
from evenflow.spark.state.files import DamagedFile, StateFile, read_footer
from evenflow.spark.state.lease import release_lease, take_lease
from evenflow.spark.state.schema import METADATA_SCHEMA, StateLayout
from evenflow.spark.state.table import (
    Committed,
    StateTable,
    history,
    live_files,
    open_table,
    read_description,
)
from evenflow.storage import Storage, locate, open_storage


def rewind_state(path: str | Path, batch: int) -> None:
    """Restore the state of a stopped `stateful` query to an earlier batch.

    Later batches are undone. Use it after restoring a checkpoint that is older than the state; the error at
    the start of the query names the batch. Possible as long as the batch is kept (see ``keep`` of
    `stateful`).

    Parameters
    ----------
    path : str or Path
        The path passed to ``stateful`` as ``state``.
    batch : int
        The batch to restore.
    """
    root, token = locate(path, "path"), uuid4().hex
    storage = open_storage(root)
    if not StateTable.exists(storage):
        raise EvenflowError(f"there is no state at {root}; check the path.")
    lease = take_lease(root, token)
    try:
        table = StateTable(storage, stored_layout(storage), epoch=lease.epoch)
        if lease.contested:
            table.claim()
        now = table.committed
        if now is None or now.batch == batch:
            if now is None:
                raise EvenflowError(
                    f"batch is {batch}, but the state at {root} has no batch yet; start the query first."
                )
            return
        version, committed, target = _version_of(storage, batch)
        live = {  # footers are not read: a damaged one may be the reason to rewind
            name: StateFile(name, size, rows=0, first=0, last=0, worker=0, earliest=None, bits="")
            for name, size in table.live.items()
        }
        table.commit(
            replace(committed, rewound=version),
            [file for name, file in target.items() if name not in live],
            [file for name, file in live.items() if name not in target],
        )
        Control(root / "_evenflow").note("rewound", batch=batch, undone=now.batch)
    finally:
        release_lease(root, token)


def stored_layout(storage: Storage) -> StateLayout:
    """Return the columns of a state as declared by its table."""
    table = open_table(storage)
    keys = read_description(table, storage.location)["keys"]
    fields = list(pa.schema(table.schema().to_arrow()))
    other = {*keys, *METADATA_SCHEMA.names}
    return StateLayout(
        pa.schema([field for name in keys for field in fields if field.name == name]),
        pa.schema([field for field in fields if field.name not in other]),
    )


def batch_to_rewind_to(storage: Storage, query: str, spark_batch: int, offsets: str | None) -> int | None:
    """Return the state's number for one of Spark's batches, or None if the state cannot be rewound to it."""
    for version, committed in history(storage):
        same = committed.query == query and committed.spark_batch == spark_batch
        same = same and (offsets is None or committed.offsets in (None, offsets))
        if same and _files(storage, version) is not None:
            return committed.batch
    return None


def _version_of(storage: Storage, batch: int) -> tuple[int, Committed, dict[str, StateFile]]:
    kept: set[int] = set()
    for version, committed in history(storage):
        files = _files(storage, version)
        if files is not None and committed.batch == batch:
            return version, committed, files
        if files is not None:
            kept.add(committed.batch)
    choice = f"choose one of {', '.join(map(str, sorted(kept)))}" if kept else "no batch is kept"
    raise EvenflowError(
        f"batch is {batch}, which the state at {storage.location} no longer has in full; {choice}."
    )


def _files(storage: Storage, version: int) -> dict[str, StateFile] | None:
    """Return the files of a version; None if one is missing or damaged."""
    try:
        live = live_files(open_table(storage, version))
        return {name: read_footer(storage, name, size) for name, size in live.items()}
    except (EvenflowError, DamagedFile):
        return None
