"""The objects of a state stay bounded over many batches: the table as the driver keeps it, without Spark."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from evenflow.spark.state import table as table_module
from evenflow.spark.state.compaction import runs_to_merge
from evenflow.spark.state.files import unique_name, write_state
from evenflow.spark.state.staged_outputs import OUTPUTS
from evenflow.spark.state.table import StateTable
from evenflow.storage import open_storage
from extent import long
from spark.test_state_table import LAYOUT, committed, rows
from storage.s3_server import S3Server


@pytest.mark.parametrize("batches", [120, long(1000)])
@pytest.mark.timeout(900)
def test_objects_are_bounded(moto: S3Server, monkeypatch: pytest.MonkeyPatch, batches: int) -> None:
    """A file is kept for 30 seconds after it was replaced, and a batch takes one second of this clock."""
    clock = SimpleNamespace(now=1e9)
    monkeypatch.setattr(table_module, "time", SimpleNamespace(time=lambda: clock.now))
    storage = open_storage(moto.bucket() / "state")
    table = StateTable(storage, LAYOUT, keep=30)
    table.sweep()
    counts = list[int]()
    for batch in range(batches):
        clock.now += 1
        output = unique_name(OUTPUTS, batch, 0, 0)
        storage.put(output, b"staged")
        now = replace(committed(batch), outputs=[{"name": output, "bytes": 6}])
        table.commit(now, [write_state(storage, rows(batch), batch, batch, 0)])
        chosen = runs_to_merge(table.files())
        if chosen:
            first, last = min(file.first for file in chosen), max(file.last for file in chosen)
            table.commit(now, [write_state(storage, rows(last), first, last, 0)], chosen)
            table.sweep()
            table.look_after()
            counts.append(len(storage.entries()))
    half = len(counts) // 2
    assert max(counts[half:]) <= 1.3 * max(counts[:half]), counts
    again = StateTable(storage, LAYOUT, keep=30)
    assert again.committed is not None
    assert again.committed.batch == batches - 1
    assert again.live == table.live


def test_a_listing_is_beside_the_batches(moto: S3Server) -> None:
    """No sweep after the first one lists objects, or makes any other request. What tasks that failed left
    goes when there was a listing, and what a task was writing meanwhile stays."""
    storage = open_storage(moto.bucket() / "state")
    table = StateTable(storage, LAYOUT, keep=0)
    table.sweep()
    left = [write_state(storage, rows(0), 0, 0, 0).name, unique_name(OUTPUTS, 0, 0, 0)]
    storage.put(left[1], b"staged")
    moto.requests.clear()
    for batch in range(60):
        table.commit(committed(batch), [write_state(storage, rows(batch), batch, batch, 0)])
        if batch % 2:
            files = table.files()
            table.commit(committed(batch), [write_state(storage, rows(batch), 0, batch, 0)], files)
        table.sweep()
    assert listings(moto) == []
    assert not [method for method, path in moto.requests if method in ("POST", "DELETE")]
    assert all(map(storage.exists, left))
    writing, asked = write_state(storage, rows(60), 60, 60, 0), storage.requests
    table.look_after()
    assert len(listings(moto)) == 2
    assert storage.requests == asked  # none that a batch waits for
    table.commit(committed(60), [writing])
    table.sweep()
    table.look_after()
    assert not any(map(storage.exists, left))
    assert all(map(storage.exists, table.live))
    table.look_after()
    assert len(listings(moto)) == 2


def listings(server: S3Server) -> list[str]:
    return [path for _, path in server.requests if "list-type" in path]
