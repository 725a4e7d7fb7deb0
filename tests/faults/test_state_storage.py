"""Directories of a stateful query deleted, full or read-only: nothing is lost, the sentence comes first."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evenflow.errors import EvenflowError
from evenflow.spark import read_state
from evenflow.spark.state.files import FOLDER
from spark.stateful_runs import Sunk, cut, finish, held, numbers, start, totals
from spark.stream_files import write_batches

pytestmark = pytest.mark.spark

TAKE_LEASE = """
import sys
from evenflow.spark.state.lease import take_lease
from evenflow.storage import locate
try:
    take_lease(locate(sys.argv[1]), "another query")
except ValueError as error:
    print(error, flush=True)
else:
    print("taken", flush=True)
sys.stdin.read()
"""


class Starting:
    """Another process that starts on a state, and ends at the end of the block."""

    def __init__(self, root: Path):
        command = [sys.executable, "-c", TAKE_LEASE, str(root)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def __exit__(self, *raised: object) -> None:
        self.process.communicate()


def test_control_is_deleted_and_another_process_starts_on_the_state(spark: Any, tmp_path: Path) -> None:
    table, sunk, root = numbers(4), Sunk(), tmp_path / "state"
    batches = cut(table)
    write_batches(tmp_path / "in", batches[:1])
    query = start(spark, tmp_path, sunk)
    query.processAllAvailable()
    with Starting(root) as answer:
        assert "in use by another query" in answer
    shutil.rmtree(root / "_evenflow")
    write_batches(tmp_path / "in", batches[1:2], first=1)
    query.processAllAvailable()
    (root / "_lease" / "holder.json").unlink()
    wait_for((root / "_lease" / "holder.json").exists)  # the next beat has taken it again
    with Starting(root) as answer:
        assert "in use by another query" in answer
    query.stop()
    write_batches(tmp_path / "in", batches[2:], first=2)
    finish(start(spark, tmp_path, sunk))
    assert held(read_state(spark, root)) == totals(table) == sunk.last()
    assert [batch for batch, _ in sunk.calls] == [0, 1, 2, 3]


def wait_for(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.1)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes, mounted where the user may do so."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this user may not mount a small file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_is_freed_bit_by_bit(spark: Any, tmp_path: Path, small_disk: Path) -> None:
    table, sunk = numbers(3), Sunk()
    options: dict[str, Any] = {"state": small_disk / "state", "checkpoint": tmp_path / "checkpoint"}
    batches = cut(table)
    write_batches(tmp_path / "in", batches[:1])
    finish(start(spark, tmp_path, sunk, **options))
    filler = small_disk / "filler"
    free = shutil.disk_usage(small_disk).free
    filler.write_bytes(bytes(free))
    assert shutil.disk_usage(small_disk).free == 0
    write_batches(tmp_path / "in", batches[1:], first=1)
    failures = 0
    for _ in range(12):
        try:
            finish(start(spark, tmp_path, sunk, **options))
        except EvenflowError as error:
            first = str(error).splitlines()[0]
            assert str(small_disk / "state") in first
            assert "No space left on device" in first
            failures += 1
            assert held(read_state(spark, small_disk / "state")).items() <= sunk.last().items()
            with filler.open("r+b") as file:
                file.truncate(max(0, filler.stat().st_size - 16_384 * 2**failures))
        else:
            break
    assert 2 <= failures < 12
    assert held(read_state(spark, small_disk / "state")) == totals(table) == sunk.last()


def test_only_the_files_of_the_state_do_not_fit(spark: Any, tmp_path: Path, small_disk: Path) -> None:
    """Outputs and commits have room elsewhere: without its state, the batch must fail all the same."""
    table, sunk, root = numbers(2), Sunk(), tmp_path / "state"
    batches = cut(table)
    root.mkdir()
    (root / FOLDER).symlink_to(small_disk)
    write_batches(tmp_path / "in", batches[:1])
    finish(start(spark, tmp_path, sunk))
    filler = small_disk / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(small_disk).free))
    write_batches(tmp_path / "in", batches[1:], first=1)
    with pytest.raises(EvenflowError, match=r"^batch 1 cannot be written to the state at .*No space left on"):
        finish(start(spark, tmp_path, sunk))
    assert [batch for batch, _ in sunk.calls] == [0]
    assert held(read_state(spark, root)) == totals(batches[0])
    filler.unlink()
    finish(start(spark, tmp_path, sunk))
    assert held(read_state(spark, root)) == totals(table) == sunk.last()


def test_a_control_directory_that_cannot_be_written_costs_nothing_but_its_log(
    spark: Any, tmp_path: Path
) -> None:
    """Also root cannot write below a file, whereas it may write to a read-only directory."""
    table, sunk = numbers(2), Sunk()
    (tmp_path / "file").write_text("")
    write_batches(tmp_path / "in", cut(table))
    query = start(spark, tmp_path, sunk, control=tmp_path / "file" / "control")
    finish(query)
    assert held(read_state(spark, tmp_path / "state")) == totals(table) == sunk.last()
    assert query.decisions() == []
    with pytest.raises(
        EvenflowError, match=r"cannot write the request to .*file/control; make that directory"
    ):
        query.rescale(5)
