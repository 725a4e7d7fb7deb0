"""Ratios are taken side by side, then their median."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from evenflow.bench import measure


class Clock:
    """CPU time that passes only when a task says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def task(self, *seconds: float) -> Callable[[], Callable[[], None]]:
        """Return a task that takes so long, one after the other; making it ready takes an hour."""
        left = iter(seconds)

        def prepare() -> Callable[[], None]:
            self.now += 3600
            return lambda: setattr(self, "now", self.now + next(left))

        return prepare


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "process_time", lambda: clock.now)
    return clock


def test_a_slow_spell_hits_both_sides_of_a_ratio(clock: Clock) -> None:
    unit = clock.task(1, 10, 2)
    found = measure.against(unit, {"task": clock.task(3, 30, 8)}, rounds=3)["task"]
    assert found.ratio == pytest.approx(3)
    assert (found.lowest, found.highest) == pytest.approx((3, 4))
    assert found.seconds == pytest.approx(8)


def test_tasks_take_turns_and_say_so(clock: Clock) -> None:
    said: list[tuple[int, int, str]] = []
    tasks = {"a": clock.task(1, 1), "b": clock.task(1, 1)}
    measure.against(clock.task(1, 1, 1, 1), tasks, 2, lambda *step: said.append(step))
    assert said == [(0, 4, "a"), (1, 4, "b"), (2, 4, "a"), (3, 4, "b")]


def test_the_unit_is_one(clock: Clock) -> None:
    unit = clock.task(1, 2, 3)
    assert measure.against(unit, {"unit": unit}, 3)["unit"] == (2, 1, 1, 1)


BUSY = "import time\nwhile time.process_time() < 0.3: pass\n"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the kernel tells it in /proc")
def test_processor_time_is_that_of_children_and_their_children() -> None:
    before = measure.processor_seconds()
    grandchild = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"
    subprocess.run([sys.executable, "-c", grandchild], check=True)
    ended = measure.processor_seconds() - before
    assert ended >= 0.28
    with subprocess.Popen([sys.executable, "-c", f"{BUSY}print(flush=True); input()"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as child:  # fmt: skip
        assert child.stdout is not None
        child.stdout.readline()
        running = measure.processor_seconds() - before
        child.communicate(b"\n")
    assert running >= ended + 0.28
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass  # our own time is not counted
    assert measure.processor_seconds() - before < running + 0.1
