"""A control directory in an object store: its log of several writers, its readers, and its size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from evenflow.cli import main
from evenflow.control import object_log
from evenflow.control.directory import Control
from evenflow.control.notes import HISTORY, MAX_LOG_BYTES, SEGMENTS
from evenflow.errors import EvenflowError
from evenflow.history.tail import open_tail
from evenflow.history.watch import Watched
from evenflow.storage import Location
from history.notes import batch_note
from storage.s3_server import Request, S3Server

WRITER = """
import json, sys
from evenflow.control.directory import Control
from evenflow.storage import Location
control = Control(Location(sys.argv[1], json.loads(sys.stdin.read())))
for number in range(5):
    control.note("n", who=sys.argv[2], number=number)
"""


def write(control: Control, number: int, workers: int = 4) -> None:
    note = batch_note(number, workers)
    control.note(**{name: value for name, value in note.items() if name != "time"})


def settle(control: Control) -> None:
    assert isinstance(control.log, object_log.ObjectLog)
    control.log.settle()


def test_files_and_their_reasons(moto: S3Server) -> None:
    control = Control(moto.bucket() / "control")
    assert not control.exists()
    assert control.read_with_reason("a/plan", "plan") == (None, "a/plan is missing")
    assert control.write("a/plan", "plan", {"serial": 3}, {"x": np.arange(4)})
    header, arrays = control.read("a/plan", "plan") or ({}, {})
    assert (header, arrays["x"].tolist()) == ({"serial": 3}, [0, 1, 2, 3])
    content = control.storage.read("a/plan")
    for broken in (content[:50], b"", content[:-1] + b"x"):
        control.storage.put("a/plan", broken)
        found, why = control.read_with_reason("a/plan", "plan")
        assert found is None
        assert why.startswith("a/plan cannot be read: ")
    assert control.exists()


def test_a_store_that_is_away_does_no_harm(moto: S3Server) -> None:
    place = Location(moto.bucket(), {"timeout": "300ms", "max_retries": "0", "retry_timeout": "300ms"})
    control = Control(place)
    moto.fault = lambda request: request.error("503 Slow Down")
    try:
        control.note("lost?")
        assert not control.write("plan", "plan", {}, {})
        assert list(control.notes()) == []
        assert list(open_tail(place).read()) == []
        assert control.read_with_reason("plan", "plan")[1].startswith(
            "plan cannot be read: cannot read s3://"
        )
    finally:
        moto.fault = None
    control.note("back")
    assert [note["event"] for note in control.notes()] == ["lost?", "back"]


def test_several_processes_write_one_log(moto: S3Server) -> None:
    place = moto.bucket() / "control"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(place), name], stdin=subprocess.PIPE, text=True)
        for name in ("a", "b")
    ]
    for writer in writers:
        writer.communicate(json.dumps(place.options))
    control = Control(place)
    control.note("n", who="c", number=0)
    seen = [(note["who"], note["number"]) for note in control.notes("n")]
    assert sorted(seen) == [(who, number) for who in "ab" for number in range(5)] + [("c", 0)]
    assert len(control.storage.entries(SEGMENTS)) == 3


def test_the_log_stays_small_and_every_note_is_read_once(moto: S3Server) -> None:
    place = moto.bucket() / "control"
    control, tail, seen = Control(place), open_tail(place), list[int]()
    moto.requests.clear()
    batches = 1000
    for number in range(batches):
        write(control, number, workers=40)
        if number % 50 == 49:
            seen += [note["batch"] for note in tail.read()]
    assert seen == list(range(batches))
    settle(control)
    size = sum(entry.size for entry in control.storage.entries())
    assert size < 3 * MAX_LOG_BYTES
    puts = [path for method, path in moto.requests if method == "PUT" and "/log/" in path]
    assert len(puts) == batches  # one request per note
    past, recent = list(control.past()), [note["batch"] for note in control.notes("batch")]
    assert past
    assert recent == list(range(recent[0], batches))
    assert sum(note["batches"] for note in past if note["event"] == "past") + len(recent) == batches


def test_a_writer_that_dies_while_it_condenses_repeats_nothing(
    moto: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_log, "SEGMENT_BYTES", 4000)
    monkeypatch.setattr(object_log, "MAX_LOG_BYTES", 10_000)
    control = Control(moto.bucket() / "control")

    def dies(request: Request) -> object:
        return request.error("403 Forbidden") if request.query.startswith("delete") else None

    moto.fault = dies  # type: ignore[assignment]
    try:
        for number in range(100):
            write(control, number)
        settle(control)
    finally:
        moto.fault = None
    assert control.storage.exists(HISTORY)
    for number in range(100, 250):
        write(control, number)
    settle(control)
    kept = [note["batches"] for note in control.past() if note["event"] == "past"]
    assert sum(kept) + len(list(control.notes("batch"))) == 250


def test_readers_take_a_url(moto: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = moto.bucket() / "control"
    with pytest.raises(EvenflowError, match=r"there is nothing at s3://.*pass the control directory"):
        Watched(place)
    control = Control(place)
    for number in range(3):
        write(control, number)
    watched = Watched(place, "orders")
    assert watched.poll()
    assert not watched.poll()
    (history,) = watched.histories()
    assert history.summary()["batch"] == 2
    assert watched.state is None
    for name, value in moto.environment.items():
        monkeypatch.setenv(name, value)
    page = str(tmp_path / "x.html")
    monkeypatch.setattr(sys, "argv", ["evenflow", "dashboard", str(place), "--save", page])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (None, 0)
    assert "control" in (tmp_path / "x.html").read_text()
