"""The lease on a state: refused while its holder lives, taken over from one that is silent or dead."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from evenflow.errors import EvenflowError
from evenflow.spark.state import lease as leases
from evenflow.spark.state.files import write_state
from evenflow.spark.state.lease import HOLDER, LEASE, Lease, release_lease, take_lease
from evenflow.spark.state.schema import StateLayout
from evenflow.spark.state.table import Committed, StateTable
from evenflow.storage import Location, locate, open_storage
from storage.s3_server import S3Server

LAYOUT = StateLayout(pa.schema([("k", pa.int64())]), pa.schema([("v", pa.int64())]))
HOLD = """
import json, sys
from evenflow.spark.state import lease
from evenflow.storage import Location
lease.BEAT_SECONDS, lease.LEASE_SECONDS = 0.2, 2.0
held = lease.take_lease(Location(sys.argv[1], json.loads(sys.stdin.readline())), "the other")
print(held.epoch, flush=True)
for line in sys.stdin:
    try:
        held.ensure()
        print("held", flush=True)
    except ValueError as error:
        print(error, flush=True)
"""


class Holder:
    """Another process that holds the lease of a state."""

    def __init__(self, root: Location):
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.epoch = int(self.ask(json.dumps(root.options)))

    def ask(self, line: str = "") -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)


@pytest.fixture(params=["folder", "moto"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    if request.param == "folder":
        return locate(tmp_path / "state")
    server: S3Server = request.getfixturevalue("moto")
    return server.bucket() / "state"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.2)
    monkeypatch.setattr(leases, "LEASE_SECONDS", 2.0)


@pytest.fixture
def other(root: Location) -> Iterator[Holder]:
    holder = Holder(root)
    yield holder
    holder.process.kill()
    holder.process.wait()


def committed(batch: int) -> Committed:
    return Committed(batch, "query", 1, [], "{}", None)


def test_one_query_at_a_time(root: Location, other: Holder) -> None:
    with pytest.raises(EvenflowError, match=f"in use by another query .process {other.process.pid} on "):
        take_lease(root, "mine")
    assert other.ask() == "held\n"
    other.process.kill()
    other.process.wait()
    mine = take_lease(root, "mine")  # at once: its holder was a process of this machine
    assert (mine.epoch, mine.contested) == (other.epoch + 1, True)
    assert take_lease(root, "mine") is mine
    with pytest.raises(EvenflowError, match=f"in use by another query .this process .{os.getpid()}"):
        take_lease(root, "yours")
    release_lease(root, "mine")
    yours = take_lease(root, "yours")
    assert (yours.epoch, yours.contested) == (other.epoch + 2, False)
    release_lease(root, "yours")


def test_a_holder_that_is_paused_loses_it(root: Location, other: Holder) -> None:
    other.send(signal.SIGSTOP)
    mine = take_lease(root, "mine")
    assert mine.contested
    other.send(signal.SIGCONT)
    assert "was taken over by another query" in other.ask()
    mine.ensure()
    release_lease(root, "mine")


def test_what_the_old_holder_commits_is_refused(root: Location) -> None:
    """It was paused between its look at the lease and its commit."""
    storage = open_storage(root)
    old, new = Lease(root, "old"), Lease(root, "new")
    old.acquire()
    before = StateTable(storage, LAYOUT, epoch=old.epoch)
    before.commit(committed(0), [])
    old._ended.set()  # no more beats, as if paused
    new.acquire()
    after = StateTable(storage, LAYOUT, epoch=new.epoch)
    after.claim()
    with pytest.raises(EvenflowError, match="another query has written"):
        before.commit(committed(1), [])
    after.commit(committed(1), [])
    assert after.committed is not None
    assert (after.committed.batch, after.committed.epoch) == (1, new.epoch)
    rows = pa.table([pa.array([value], field.type) for value, field in zip((1, 1, 1, 1, None, False), LAYOUT.schema, strict=True)], schema=LAYOUT.schema)  # fmt: skip # noqa: E501
    written = [write_state(storage, rows, 1, 1, 0, holder.epoch) for holder in (old, new)]
    before.keep = 0
    assert before.sweep() == 1  # its own, and not what the new holder is about to commit
    assert [storage.exists(file.name) for file in written] == [False, True]
    new.release()


def test_a_claim_goes_on_from_what_the_old_holder_has_just_committed(root: Location) -> None:
    storage = open_storage(root)
    before, after = StateTable(storage, LAYOUT, epoch=1), StateTable(storage, LAYOUT, epoch=2)
    before.commit(committed(0), [])
    after.claim()
    assert after.committed is not None
    assert (after.committed.batch, after.committed.epoch) == (0, 2)
    with pytest.raises(EvenflowError, match="another query has written"):
        before.commit(committed(1), [])


def test_a_lease_that_was_deleted_is_taken_again(root: Location) -> None:
    mine = take_lease(root, "mine")
    storage = open_storage(root / LEASE)
    storage.delete([HOLDER])
    while not storage.exists(HOLDER):
        time.sleep(0.05)
    mine.ensure()
    mine.is_active = lambda: False  # the query has failed
    while json.loads(storage.read(HOLDER))["token"]:
        time.sleep(0.05)
    again = take_lease(root, "mine")
    assert not again.contested
    release_lease(root, "mine")
