"""How every benchmark measures: CPU time, everything in turn, medians of ratios.

A shared machine is slower at some times than at others. So time is what this process spent on cores, not what
passed on the wall; what is compared runs in turn, never one after the other; and a ratio is taken between two
runs that stand side by side, before the median over the rounds.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

Row = dict[str, Any]
Say = Callable[[int, int, str], None]  # done, total, what is next
Prepare = Callable[[], Callable[[], object]]  # makes everything ready; what it returns is measured


def silent(done: int, total: int, what: str) -> None:
    """Show no progress."""


class Measured(NamedTuple):
    """Medians over the rounds; the ratio is to the unit's time, with its lowest and highest value."""

    seconds: float
    ratio: float
    lowest: float
    highest: float


def cpu_seconds(prepare: Prepare) -> float:
    """Return the CPU seconds of one run."""
    work = prepare()
    start = time.process_time()
    work()
    return time.process_time() - start


def processor_seconds() -> float:
    """Return the processor time of all processes that this one started, those that ended included.

    The kernel's count of them (Linux); NaN elsewhere.
    """
    spent: dict[int, float] = {}
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile: its parent's count has it now
            fields = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
            spent[int(path.parent.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    if not spent:
        return float("nan")

    def is_ours(process: int) -> bool:
        parent = parents.get(process, 0)
        return parent == os.getpid() or (parent != 0 and is_ours(parent))

    ended = os.times()
    running = sum(seconds for process, seconds in spent.items() if is_ours(process))
    return running + ended.children_user + ended.children_system


def against(
    unit: Prepare, tasks: Mapping[str, Prepare], rounds: int, say: Say = silent
) -> dict[str, Measured]:
    """Run every task next to the unit, ``rounds`` times in turn. A task that is the unit has the ratio 1.

    >>> spin = lambda: lambda: sum(range(10**5))
    >>> against(spin, {"unit": spin}, rounds=3)["unit"].ratio
    1.0
    """
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    ratios: dict[str, list[float]] = {name: [] for name in tasks}
    for turn in range(rounds):
        for place, (name, task) in enumerate(tasks.items()):
            say(turn * len(tasks) + place, rounds * len(tasks), name)
            one = cpu_seconds(unit)
            own = one if task is unit else cpu_seconds(task)
            seconds[name].append(own)
            ratios[name].append(own / max(one, 1e-9))
    return {
        name: Measured(
            statistics.median(seconds[name]),
            statistics.median(ratios[name]),
            min(ratios[name]),
            max(ratios[name]),
        )
        for name in tasks
    }
