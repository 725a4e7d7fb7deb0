"""The state table without Spark: one commit per batch, a fence, what is kept and what is swept."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from evenflow.errors import EvenflowError
from evenflow.spark.state.files import write_state
from evenflow.spark.state.schema import StateLayout
from evenflow.spark.state.table import Committed, StateTable, committed_at, history
from evenflow.storage import open_storage

LAYOUT = StateLayout(pa.schema([("k", pa.int64())]), pa.schema([("v", pa.int64())]))


def committed(batch: int) -> Committed:
    return Committed(batch, "query", 1, [], "{}", None)


def rows(batch: int) -> pa.Table:
    values = [[batch], [batch], [batch], [batch], [None], [False]]
    return pa.table([pa.array(value, field.type) for value, field in zip(values, LAYOUT.schema, strict=True)],
                    schema=LAYOUT.schema)  # fmt: skip


def add(table: StateTable, batch: int) -> None:
    table.commit(committed(batch), [write_state(table.storage, rows(batch), batch, batch, 0)])


def merge(table: StateTable) -> None:
    files = table.files()
    last = max(file.last for file in files)
    merged = write_state(table.storage, rows(last), 0, last, 0)
    assert table.committed is not None
    table.commit(table.committed, [merged], files)


def test_of_two_writers_one_is_refused(tmp_path: Path) -> None:
    one, two = StateTable(open_storage(tmp_path), LAYOUT), StateTable(open_storage(tmp_path), LAYOUT)
    add(one, 0)
    with pytest.raises(EvenflowError, match="another query has written"):
        add(two, 0)
    two = StateTable(open_storage(tmp_path), LAYOUT)
    assert two.committed == committed(0)
    add(two, 1)
    with pytest.raises(EvenflowError, match="another query has written"):
        merge(one)
    one = StateTable(open_storage(tmp_path), LAYOUT)
    merge(one)
    assert one.committed == committed(1)
    assert [batch.batch for _, batch in history(open_storage(tmp_path))] == [1, 1, 0]


def test_old_versions_and_files_go(tmp_path: Path) -> None:
    """What is older than asked to be kept is gone, log and files, and the last commit is still whole."""
    table = StateTable(open_storage(tmp_path), LAYOUT, keep=1)
    for batch in range(30):
        add(table, batch)
    orphan = write_state(open_storage(tmp_path), rows(0), 0, 0, 0)
    merge(table)
    assert table.sweep() == 1  # the orphan; what was merged is kept for a second
    assert not (tmp_path / orphan.name).exists()
    assert len(list((tmp_path / "data").iterdir())) == 31
    time.sleep(2.1)
    for batch in range(30, 55):  # checkpoints come every 20 commits, and clean the log
        add(table, batch)
    assert table.sweep() == 30
    assert len(list((tmp_path / "data").iterdir())) == 26
    assert len(list((tmp_path / "_delta_log").glob("*.json"))) < 45
    again = StateTable(open_storage(tmp_path), LAYOUT, keep=1)
    assert again.committed == committed(54)
    assert len(again.files()) == 26
    assert committed_at(open_storage(tmp_path), again.version) == committed(54)


def test_a_merge_whose_log_entry_is_lost_changes_nothing(tmp_path: Path) -> None:
    table = StateTable(open_storage(tmp_path), LAYOUT)
    for batch in range(3):
        add(table, batch)
    before = table.files()
    merge(table)
    max((tmp_path / "_delta_log").glob("*.json")).unlink()
    again = StateTable(open_storage(tmp_path), LAYOUT)
    assert again.committed == committed(2)
    assert {file.name for file in again.files()} == {file.name for file in before}


def test_another_table_or_declaration_is_refused(tmp_path: Path) -> None:
    StateTable(open_storage(tmp_path / "a"), LAYOUT)
    other = StateLayout(LAYOUT.keys, pa.schema([("v", pa.string())]))
    with pytest.raises(EvenflowError, match="v int64, but this query has k and k int64, v string"):
        StateTable(open_storage(tmp_path / "a"), other)
    DeltaTable.create(str(tmp_path / "b"), pa.schema([("x", pa.int64())]))
    with pytest.raises(EvenflowError, match="not created by evenflow"):
        StateTable(open_storage(tmp_path / "b"), LAYOUT)


def test_names_that_clash(tmp_path: Path) -> None:
    with pytest.raises(EvenflowError, match="also a column of the key"):
        StateLayout(pa.schema([("k", pa.int64())]), pa.schema([("K", pa.int64())]))
    with pytest.raises(EvenflowError, match="two columns named"):
        StateLayout(pa.schema([("k", pa.int64()), ("k", pa.int64())]), LAYOUT.state)
    with pytest.raises(EvenflowError, match="cannot store"):
        StateLayout(LAYOUT.keys, pa.schema([("v", pa.list_(pa.duration("us")))]))
