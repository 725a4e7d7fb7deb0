"""Ratios are taken side by side, then their median."""

from __future__ import annotations

import time
from collections.abc import Callable

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
