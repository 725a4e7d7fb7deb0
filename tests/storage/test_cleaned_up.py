"""The objects of a state stay bounded over many batches: the table as the driver keeps it, without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
def test_objects_are_bounded(moto: S3Server, batches: int) -> None:
    storage = open_storage(moto.bucket() / "state")
    table = StateTable(storage, LAYOUT, keep=0.5)
    table.sweep()
    counts = list[int]()
    for batch in range(batches):
        output = unique_name(OUTPUTS, batch, 0, 0)
        storage.put(output, b"staged")
        now = replace(committed(batch), outputs=[{"name": output, "bytes": 6}])
        table.commit(now, [write_state(storage, rows(batch), batch, batch, 0)])
        chosen = runs_to_merge(table.files())
        if chosen:
            first, last = min(file.first for file in chosen), max(file.last for file in chosen)
            table.commit(now, [write_state(storage, rows(last), first, last, 0)], chosen)
            table.sweep()
            counts.append(len(storage.entries()))
    half = len(counts) // 2
    assert max(counts[half:]) <= 1.3 * max(counts[:half]), counts
    again = StateTable(storage, LAYOUT, keep=0.5)
    assert again.committed is not None
    assert again.committed.batch == batches - 1
    assert again.live == table.live
