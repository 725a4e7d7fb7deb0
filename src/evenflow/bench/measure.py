"""Measurement: CPU time, interleaved runs, medians of ratios.

The speed of a shared machine varies. So benchmarks measure CPU time rather than wall time, interleave the
tasks they compare, and take each ratio between adjacent runs before the median over the rounds.
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
Progress = Callable[[int, int, str], None]  # done, total, next task
Prepare = Callable[[], Callable[[], object]]  # sets up; the function it returns is measured


def silent(done: int, total: int, what: str) -> None:
    """Show no progress."""


class Measured(NamedTuple):
    """Medians over the rounds; the ratio is relative to the baseline, with its lowest and highest value."""

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
    """Return the CPU time of all descendants of this process, including finished ones.

    From ``/proc`` (Linux only); NaN elsewhere.
    """
    spent: dict[int, float] = {}
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # finished meanwhile: its parent's count includes it
            fields = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
            spent[int(path.parent.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    if not spent:
        return float("nan")

    def is_descendant(process: int) -> bool:
        parent = parents.get(process, 0)
        return parent == os.getpid() or (parent != 0 and is_descendant(parent))

    ended = os.times()
    running = sum(seconds for process, seconds in spent.items() if is_descendant(process))
    return running + ended.children_user + ended.children_system


def against(
    unit: Prepare, tasks: Mapping[str, Prepare], rounds: int, progress: Progress = silent
) -> dict[str, Measured]:
    """Run every task next to the baseline ``unit``, ``rounds`` times, interleaved; the unit has ratio 1.

    >>> spin = lambda: lambda: sum(range(10**5))
    >>> against(spin, {"unit": spin}, rounds=3)["unit"].ratio
    1.0
    """
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    ratios: dict[str, list[float]] = {name: [] for name in tasks}
    for turn in range(rounds):
        for index, (name, task) in enumerate(tasks.items()):
            progress(turn * len(tasks) + index, rounds * len(tasks), name)
            unit_seconds = cpu_seconds(unit)
            own = unit_seconds if task is unit else cpu_seconds(task)
            seconds[name].append(own)
            ratios[name].append(own / max(unit_seconds, 1e-9))
    return {
        name: Measured(
            statistics.median(seconds[name]),
            statistics.median(ratios[name]),
            min(ratios[name]),
            max(ratios[name]),
        )
        for name in tasks
    }
