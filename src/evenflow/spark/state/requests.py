"""Requests to a running ``stateful`` query: a file in its control directory that its next batch reads."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from evenflow.blob import read_blob, write_blob
from evenflow.control.directory import Control
from evenflow.errors import EvenflowError
from evenflow.spark.routing.options import check_workers
from evenflow.spark.state.batch import REBALANCE, REQUESTS, RESCALE
from evenflow.spark.state.table import StateTable, history, open_table
from evenflow.storage import Storage

_TRIES = 5  # while others make requests too


def request_rescale(storage: Storage, control: Control, workers: int) -> None:
    """Ask for another number of workers."""
    check_workers(workers)
    applied = next((committed.rescaled for _, committed in history(storage)), 0)
    _request(storage, control, RESCALE, applied, workers=workers)


def request_rebalance(storage: Storage, control: Control) -> None:
    """Ask for a new plan, whatever it moves."""
    applied = next((committed.rebalanced for _, committed in history(storage)), 0)
    _request(storage, control, REBALANCE, applied)


def _request(storage: Storage, control: Control, name: str, applied: int, **fields: int) -> None:
    identity = str(open_table(storage).metadata().id) if StateTable.exists(storage) else None
    with contextlib.suppress(OSError):
        for _ in range(_TRIES):
            made, version = _last_requests(control)
            latest = max(applied, int(made.get(name, {}).get("serial", 0)))
            serial = max(time.time_ns(), latest + 1)  # this clock may be behind the one of the last request
            request = {"serial": serial, "state": identity, **fields}
            content = write_blob(REQUESTS, {**made, name: request}, {})
            if control.storage.swap(REQUESTS, content, version) is not None:
                return
    raise EvenflowError(f"cannot write the request to {control.location}; make that directory writable.")


def _last_requests(control: Control) -> tuple[dict[str, dict[str, Any]], str | None]:
    """Return the requests that were made, and the version of their file."""
    try:
        content, version = control.storage.read_version(REQUESTS)
    except FileNotFoundError:
        return {}, None
    try:
        return dict(read_blob(REQUESTS, content)[0]), version
    except (EvenflowError, ValueError, KeyError):
        return {}, version
