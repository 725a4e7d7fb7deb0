"""Requests to a running ``stateful`` query: files in its control directory that its next batch applies."""

from __future__ import annotations

import time

from evenflow.control.directory import Control
from evenflow.errors import EvenflowError
from evenflow.spark.routing.options import check_workers
from evenflow.spark.state.batch import REBALANCE, RESCALE
from evenflow.spark.state.table import StateTable, history, open_table
from evenflow.storage import Storage


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
    before = control.read(name, name)
    latest = max(applied, 0 if before is None else int(before[0]["serial"]))
    header = {
        "serial": max(time.time_ns(), latest + 1),  # this clock may be behind the one of the last request
        "state": str(open_table(storage).metadata().id) if StateTable.exists(storage) else None,
        **fields,
    }
    if not control.write(name, name, header, {}):
        raise EvenflowError(f"cannot write the request to {control.location}; make that directory writable.")
