"""State survives kills of the driver, of Python workers and of executors, while workers come and go.

``make test`` kills a few times, ``make faults`` (EVENFLOW_FAULTS=all) more than fifty times.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from evenflow.storage import Location
from evenflow.streams import Zipf
from evenflow.testing import LocalCluster
from extent import ALL, in_make_faults
from faults.jobs.keyed import DRIVER, EXECUTOR, WORKER, remember, table
from spark.stream_files import write_batches
from storage.s3_server import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.faults]

JOB = Path(__file__).parent / "jobs" / "keyed.py"
ROWS = 150
POINTS = [*DRIVER, *WORKER]
FEW = {1: "written", 2: "processing"}  # 2 begins with other workers than 1


def many(seed: int) -> dict[int, str]:
    """Return a kill for every batch, each kind at least once, the rest by chance."""
    chance = random.Random(seed)
    kinds = [*POINTS, *chance.choices(POINTS, k=5)]
    chance.shuffle(kinds)
    return dict(enumerate(kinds))


@pytest.fixture(params=["folder", pytest.param("store", marks=in_make_faults)])
def place(request: pytest.FixtureRequest) -> Location | None:
    """Where state and control are."""
    return None if request.param == "folder" else request.getfixturevalue("s3").bucket() / "state"


@pytest.mark.parametrize("kills", [many(seed) for seed in range(3)] if ALL else [FEW])
@pytest.mark.timeout(3600)
def test_state_and_outputs_are_those_of_an_undisturbed_run(
    tmp_path: Path, kills: dict[int, str], place: Location | None
) -> None:
    batches = prepare(tmp_path, max(kills) + 2)
    restarts = 0
    while (status := start(tmp_path, kills, place=place).wait(900)) == -signal.SIGKILL:
        restarts += 1
        assert restarts <= len(kills)
    check(tmp_path, status, batches)
    happened = {int(marker.name.split("-")[1]) for marker in tmp_path.glob("killed-*")}
    merges = {batch for batch, where in kills.items() if where in ("merging", "merged")}
    assert set(kills) - merges <= happened  # files are merged in some batches only


@in_make_faults
@pytest.mark.timeout(3600)
def test_executors_of_a_cluster_are_killed(tmp_path: Path) -> None:
    """Spark runs their tasks again on another; the query never stops."""
    kills = dict.fromkeys((1, 3, 4), EXECUTOR)
    batches = prepare(tmp_path, max(kills) + 2)
    with LocalCluster() as cluster:
        status = start(tmp_path, kills, cluster.master).wait(900)
    check(tmp_path, status, batches)
    assert {marker.name for marker in tmp_path.glob("killed-*")} == {f"killed-{batch}" for batch in kills}


@in_make_faults
@pytest.mark.timeout(3600)
def test_kills_at_any_moment(tmp_path: Path, place: Location | None) -> None:
    """Kill everything at once, or one Python worker, after a while that chance says."""
    chance, kills = random.Random(7), 0
    batches = prepare(tmp_path, 30)
    while True:
        job = start(tmp_path, {}, place=place)
        before = emitted(tmp_path)
        while job.poll() is None and emitted(tmp_path) == before:
            time.sleep(0.05)
        if kills >= 18:
            break
        time.sleep(chance.uniform(0, 1.5))
        if job.poll() is not None:
            break
        if chance.random() < 0.4 and (workers := python_workers(job.pid)):
            os.kill(chance.choice(workers), signal.SIGKILL)
            kills += 1
            time.sleep(chance.uniform(0, 1.5))
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            kills += 1
        job.wait(60)
    assert kills >= 16
    check(tmp_path, job.wait(900), batches)


@in_make_faults
@pytest.mark.timeout(3600)
def test_a_driver_that_was_paused_finds_another_in_its_place(tmp_path: Path, place: Location | None) -> None:
    """The second takes the state over, does all there is to do, and nothing of the first comes after it."""
    batches = prepare(tmp_path, 6)
    first = start(tmp_path, {}, place=place)
    while first.poll() is None and emitted(tmp_path) < 2:
        time.sleep(0.05)
    os.killpg(first.pid, signal.SIGSTOP)
    second = start(tmp_path, {}, place=place)
    status = second.wait(900)
    os.killpg(first.pid, signal.SIGCONT)
    assert first.wait(600) != 0
    check(tmp_path, status, batches)


@in_make_faults
@pytest.mark.timeout(3600)
def test_executors_that_share_no_folder(
    tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """State and control in an object store, executors as on machines of their own, of which some die."""
    kills = dict.fromkeys((1, 3), EXECUTOR)
    batches, place = prepare(tmp_path, max(kills) + 3), s3.bucket() / "state"
    used = set[str]()
    for name, value in s3.environment.items():  # as machines have it from their role
        monkeypatch.setenv(name, value)
    with LocalCluster(apart=True) as cluster:
        job = start(tmp_path, kills, cluster.master, place)
        while job.poll() is None:
            for copies in cluster.folder.glob("worker-*/local/*/*/*/evenflow"):
                used.add(copies.relative_to(cluster.folder).parts[0])
            time.sleep(0.2)
        written = [path for path in cluster.folder.rglob("*.json") if "_delta_log" in path.parts]
    check(tmp_path, job.wait(900), batches)
    assert not written
    assert used == {"worker-0", "worker-1"}, used
    assert {marker.name for marker in tmp_path.glob("killed-*")} == {f"killed-{batch}" for batch in kills}
    assert not (tmp_path / "state" / "_delta_log").exists()


@in_make_faults
@pytest.mark.timeout(3600)
def test_spark_connect_with_the_state_in_an_object_store(tmp_path: Path, s3: S3Server) -> None:
    batches, place = prepare(tmp_path, 4), s3.bucket() / "state"
    job = start(tmp_path, {}, "connect", place, JOB.with_name("keyed_connect.py"))
    check(tmp_path, job.wait(900), batches)
    assert not (tmp_path / "state" / "_delta_log").exists()


def prepare(folder: Path, files: int) -> list[pa.Table]:
    """Write the input, one file for each table."""
    ids = Zipf(z=1.2, keys=120, messages=ROWS * files, seed=3).generate(0, ROWS * files).ids
    batches = [
        table(number, [f"k{key}" if key else None for key in ids[at : at + ROWS].tolist()], at)
        for number, at in enumerate(range(0, ids.size, ROWS))
    ]
    write_batches(folder / "in", batches)
    (folder / "out").mkdir()
    return batches


def start(
    folder: Path,
    kills: dict[int, str],
    master: str = "local[2,4]",
    place: Location | None = None,
    program: Path = JOB,
) -> subprocess.Popen[bytes]:
    """Start the program in a group of its own, to be killed together."""
    tests = str(JOB.parents[2])  # modules of tests, for every process that Spark starts
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    environment["PYTHONPATH"] = os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])
    if place is not None:
        named = {name.upper(): value for name, value in place.options.items()}
        environment |= {**named, "EVENFLOW_STATE": str(place)}
    command = [sys.executable, str(program), str(folder), json.dumps(kills), master]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, env=environment
        )


def as_read(folder: Path, files: list[pa.Table]) -> list[pa.Table]:
    """Return the micro-batches as Spark read them.

    Killed after it listed new files and before it wrote down that they are a batch, Spark lists on, and the
    next batch has them all.
    """
    paths = sorted(
        (folder / "state" / "_checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name)
    )
    ends = [json.loads(path.read_text().splitlines()[-1])["logOffset"] + 1 for path in paths]
    assert ends[-1] == len(files)
    return [pa.concat_tables(files[at:end]) for at, end in zip([0, *ends], ends, strict=False)]


def check(folder: Path, status: int, batches: list[pa.Table]) -> None:
    """Compare what came out with what should."""
    assert status == 0, (folder / "log").read_text()[-5000:]
    assert not (folder / "changed").exists(), (folder / "changed").read_text()
    outputs, state = remember(as_read(folder, batches))
    assert [
        json.loads((folder / "out" / f"{batch}.json").read_text()) for batch in range(len(outputs))
    ] == outputs
    assert json.loads((folder / "state.json").read_text()) == state


def emitted(folder: Path) -> int:
    """Return how many batches have reached the sink."""
    return len(list((folder / "out").glob("*.json")))


def python_workers(group: int) -> list[int]:
    """Return the Python workers that Spark has forked in a group of processes."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,pgid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    rows = [line.split(None, 3) for line in listed]
    daemons = {row[0] for row in rows if len(row) > 3 and "pyspark.daemon" in row[3]}
    return [int(row[0]) for row in rows if row[2] in daemons and int(row[1]) == group]
