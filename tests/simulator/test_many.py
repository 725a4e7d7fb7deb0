"""Several configurations: the same results in one process or in two, in order; Ctrl-C keeps what is done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import evenflow as ef
from evenflow.simulator import Configuration, Interrupted, Queueing, Result, simulate_many
from simulator.same import assert_same

STREAM = "zipf:z=1.4,keys=1000,messages=2e4,seed=1"
CONFIGURATIONS = [
    Configuration(name, STREAM, workers=workers, sources=2, seed=3, queueing=queueing)
    for name in ("key", "d-choices")
    for workers, queueing in ((5, None), (20, Queueing(load=0.9)))
]


def test_processes_give_the_same_results_in_the_same_order() -> None:
    seen: list[tuple[int, int]] = []
    one_by_one = simulate_many(CONFIGURATIONS)
    at_once = simulate_many(
        CONFIGURATIONS, jobs=2, progress=lambda done, total, _: seen.append((done, total))
    )
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    for left, right in zip(one_by_one, at_once, strict=True):
        assert_same(left, right)


def test_an_error_comes_back_as_its_sentence() -> None:
    wrong = [*CONFIGURATIONS[:1], Configuration("key", STREAM, workers=0)]
    for jobs in (1, 2):
        with pytest.raises(ef.EvenflowError, match="workers is 0; a router needs at least one worker"):
            simulate_many(wrong, jobs=jobs)
    with pytest.raises(ef.EvenflowError, match="jobs is 0"):
        simulate_many(CONFIGURATIONS, jobs=0)


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_keeps_what_is_done(jobs: int) -> None:
    def stop(done: int, total: int, result: Result) -> None:
        raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="interrupted after 1 of 4 simulations") as caught:
        simulate_many(CONFIGURATIONS, jobs=jobs, progress=stop)
    assert sum(result is not None for result in caught.value.results) == 1


PROGRAM = """
import sys
from evenflow.simulator import Configuration, Interrupted, simulate_many

def main():
    short = Configuration("key", "zipf:z=1.4,keys=1000,messages=1e4", workers=5)
    endless = Configuration("key", "zipf:z=1.4,keys=1000,messages=1e12", workers=5)
    def note(done, total, result):
        print("done", flush=True)
    try:
        simulate_many([short, endless], jobs=2, progress=note)
    except Interrupted as interrupted:
        print([result is not None for result in interrupted.results], flush=True)
        sys.exit(130)

if __name__ == "__main__":
    main()
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
def test_ctrl_c_ends_all_processes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"  # the endless one is still at it
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process of the group
    output, _ = process.communicate(timeout=300)
    assert output == "[True, False]\n"
    assert process.returncode == 130
    while working(process.pid):  # ends, or pytest's own limit ends the test
        time.sleep(0.05)


def working(group: int) -> list[str]:
    """The processes of a group that still run; a dead one may wait long for its parent's attention."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, member = stat.read_text().rsplit(")", 1)[1].split()[:3]
        except (OSError, ValueError):
            continue
        if int(member) == group and state not in "ZX":
            found.append(stat.parent.name)
    return found
