"""control.py: files that vanish, break or are of another version read as None; the log stays small."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest

import evenflow as ef
from evenflow.control.directory import Control, local_path
from evenflow.control.notes import LOG, MAX_LOG_BYTES


def test_what_was_written_is_read(tmp_path: Path) -> None:
    control = Control(tmp_path / "deep" / "er")
    assert control.write("a/plan", "plan", {"serial": 3}, {"x": np.arange(4)})
    header, arrays = control.read("a/plan", "plan") or ({}, {})
    assert header == {"serial": 3}
    assert arrays["x"].tolist() == [0, 1, 2, 3]
    assert [path.name for path in (tmp_path / "deep" / "er" / "a").iterdir()] == ["plan"]


@pytest.mark.parametrize(
    "damage", ["missing", "cut", "flipped", "empty", "other version", "other kind", "a folder"]
)
def test_anything_else_reads_as_none_with_a_reason(tmp_path: Path, damage: str) -> None:
    control = Control(tmp_path)
    control.write("plan", "other" if damage == "other kind" else "plan", {"serial": 3}, {"x": np.arange(40)})
    path = tmp_path / "plan"
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "a folder":
        path.unlink()
        path.mkdir()
    elif damage in ("cut", "empty"):
        path.write_bytes(content[: 50 if damage == "cut" else 0])
    elif damage == "flipped":
        content[60] ^= 1
        path.write_bytes(content)
    elif damage == "other version":
        content[8] = 99
        path.write_bytes(content)
    found, why = control.read_with_reason("plan", "plan")
    assert found is None
    assert why.startswith("plan is missing" if damage == "missing" else "plan cannot be read")


def test_a_folder_that_cannot_be_written_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    control = Control(tmp_path / "file" / "below")
    control.note("hello")
    assert not control.write("plan", "plan", {}, {})
    assert list(control.notes()) == []


def test_notes_of_several_threads_do_not_mix_and_broken_lines_are_left_out(tmp_path: Path) -> None:
    control = Control(tmp_path)

    def write(who: int) -> None:
        for _ in range(50):
            control.note("n", who=who, text="x" * 100)

    threads = [threading.Thread(target=write, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with (tmp_path / LOG).open("a") as log:
        log.write('{"event": "cut sh\n[1]\n\xff\n')
    assert len(list(control.notes("n"))) == 200
    assert {note["who"] for note in control.notes()} == {0, 1, 2, 3}


def test_the_log_is_cut_before_it_grows_large(tmp_path: Path) -> None:
    control = Control(tmp_path)
    for number in range(60):
        control.note("long", number=number, text="x" * 10_000)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2 * MAX_LOG_BYTES
    numbers = [note["number"] for note in control.notes()]
    assert numbers == list(range(60 - len(numbers), 60))
    assert len(numbers) >= 15
    for line in (tmp_path / LOG).read_text().splitlines():
        assert json.loads(line)["event"] == "long"


def test_drafts_of_a_killed_writer_are_swept(tmp_path: Path) -> None:
    (tmp_path / ".plan.123").write_bytes(b"half")
    (tmp_path / "plan").write_bytes(b"whole")
    Control(tmp_path).remove_drafts()
    assert [path.name for path in tmp_path.iterdir()] == ["plan"]


def test_paths(tmp_path: Path) -> None:
    assert Control(f"file://{tmp_path}").folder == tmp_path
    with pytest.raises(ef.EvenflowError, match=r"control is 'hdfs://bucket/x'; hdfs is not supported"):
        Control("hdfs://bucket/x")
    with pytest.raises(ef.EvenflowError, match=r"path is 's3a://bucket/state'.*mounted"):
        local_path("s3a://bucket/state", "path")
    with pytest.raises(ef.EvenflowError, match="control is empty"):
        Control("")
