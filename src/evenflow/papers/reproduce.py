"""Runs experiments: points in parallel processes, each kept when done; figures, verdicts, one page.

In the output folder: ``PAPER-FIGURE.csv`` and ``.png``, ``claims.json``, ``index.html``, and ``points/`` with
every measured point (:mod:`evenflow.papers.points`). An interrupted run resumes from there; a point that
fails takes only its own figure with it. A run can also be done in parts: some figures, so many minutes.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from evenflow.errors import EvenflowError
from evenflow.papers.data import described
from evenflow.papers.experiment import Claim, Experiment, Row, Rows, RunConfig, judge, labelled, measured
from evenflow.papers.points import Task, point_file
from evenflow.papers.spread import spread
from evenflow.schemes.plugins import load_scheme

Say = Callable[[int, int, str], None]  # done, total, what is running
_Measured = tuple[list[Row], float]  # rows, processor seconds


@dataclass
class Outcome:
    """What a run came to: rows and claims by figure, and what failed."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    claims: list[Row] = field(default_factory=list)
    captions: dict[str, str] = field(default_factory=dict)
    data: dict[str, list[str]] = field(default_factory=dict)  # by figure: what stands in for its streams
    made: dict[str, Row] = field(default_factory=dict)  # by figure: dates, commits, processor seconds
    left: dict[str, tuple[int, int]] = field(default_factory=dict)  # by figure: missing points, of how many
    failures: dict[str, str] = field(default_factory=dict)

    def claims_of(self, experiment: Experiment) -> list[Row]:
        """Return the claims of a figure."""
        name = (experiment.paper, experiment.figure)
        return [claim for claim in self.claims if (claim["paper"], claim["figure"]) == name]


@dataclass(frozen=True)
class Part:
    """What of a run is to be done now; figures whose points are all there are judged in any case."""

    resume: bool = False  # take points of other commits
    only: frozenset[str] | None = None  # measure points of these figures alone
    minutes: float = float("inf")  # begin no point after so long

    def wants(self, task: Task) -> bool:
        """Whether a point is of a figure to measure now."""
        return self.only is None or task.experiment in self.only


WHOLE = Part()


def reproduce(
    experiments: Sequence[Experiment],
    config: RunConfig,
    out: Path,
    jobs: int = 1,
    say: Say = lambda done, total, what: None,
    own_schemes: Sequence[str] = (),
    part: Part = WHOLE,
) -> Outcome:
    """Measure what is not there yet, then judge, draw and write everything."""
    outcome = Outcome()
    tasks: list[Task] = []
    for experiment in experiments:
        asking = replace(config, asked=[])
        with _failing(experiment.name, outcome):
            tasks += [
                Task(experiment.name, experiment.measure, point, point_file(out, experiment, point))
                for point in experiment.points(asking)
            ]
            data = [described(name, config.data[name]) for name in asking.asked]
            outcome.data[experiment.name] = data
            sentence = f" Data: {'; '.join(data)}." if data else ""
            outcome.captions[experiment.name] = experiment.caption + sentence
    (out / "points").mkdir(parents=True, exist_ok=True)
    wanted = {task.file: task for task in reversed(tasks)}  # the first figure that needs a point measures it
    lacking = {file for file, task in wanted.items() if not task.usable(part.resume)}
    now = {task.file: task for task in reversed(tasks) if task.file in lacking and part.wants(task)}
    done, failed = _measure_all(list(reversed(now.values())), len(wanted) - len(lacking), len(wanted), jobs,
                                say, own_schemes, outcome, part)  # fmt: skip
    for experiment in experiments:
        own = [task for task in tasks if task.experiment == experiment.name]
        missing = len({task.file for task in own} & (lacking - done))
        with _failing(experiment.name, outcome):
            if experiment.name in outcome.failures:
                continue
            if any(task.file in failed for task in own):
                raise EvenflowError("a point that it shares with another figure failed.")
            if missing:
                outcome.left[experiment.name] = (missing, len({task.file for task in own}))
                continue
            _finish(experiment, own, out, outcome)
    text = json.dumps(outcome.claims, indent=1, ensure_ascii=False)
    (out / "claims.json").write_text(text + "\n", encoding="utf-8")
    return outcome


def _finish(experiment: Experiment, tasks: list[Task], out: Path, outcome: Outcome) -> None:
    """Judge and draw a figure whose points are all there."""
    kept = [task.kept() for task in tasks]
    rows = [row for task, own in zip(tasks, kept, strict=True) for row in labelled(task.point, own["rows"])]
    outcome.rows[experiment.name] = rows
    _write_figure(experiment, rows, out)
    outcome.claims += [claim_row(experiment, claim, rows) for claim in experiment.claims]
    made = {f"{name}s": sorted({own[name] for own in kept}) for name in ("date", "commit")}
    outcome.made[experiment.name] = made | {"seconds": round(sum(own["seconds"] for own in kept), 1)}


@contextmanager
def _failing(experiment: str, outcome: Outcome) -> Iterator[None]:
    """Note why a figure fails."""
    try:
        yield
    except Exception:
        outcome.failures[experiment] = traceback.format_exc(limit=-2).strip()


def claim_row(experiment: Experiment, claim: Claim, rows: Rows) -> Row:
    """Return a claim with its verdict, as it stands in claims.json."""
    found = judge(claim, rows)
    row = {"paper": experiment.paper, "figure": experiment.figure, "on": experiment.on}
    row |= {"section": claim.section, "claim": claim.text, "expected": claim.expected}
    row |= {"measured": found.measured, "verdict": found.verdict, "note": found.note}
    return row | {"spread": spread(claim, rows), "peer": claim.peer}


def _measure_all(
    tasks: list[Task], found: int, total: int, jobs: int, say: Say, own_schemes: Sequence[str],
    outcome: Outcome, part: Part,
) -> tuple[set[Path], set[Path]]:  # fmt: skip
    """Measure points until all are done or the time is up; return those that are done and that failed."""
    follow = _Follow(found, total, say)
    end = time.monotonic() + 60 * part.minutes
    done: set[Path] = set()
    failed: set[Path] = set()
    if not tasks:
        say(found, total, "nothing new to measure")
        return done, failed

    def finish(task: Task, measure: Callable[[], _Measured]) -> None:
        failed.add(task.file)
        with _failing(task.experiment, outcome):
            task.keep(*measure())
            done.add(task.file)
            failed.remove(task.file)
        follow.done += 1

    if jobs <= 1:
        for task in tasks:
            if time.monotonic() >= end:
                break
            follow([task])
            finish(task, partial(_timed, task.measure, measured(task.point)))
        follow([])
        return done, failed
    context = multiprocessing.get_context("spawn")
    start = partial(ProcessPoolExecutor, jobs, context, initializer=_start)
    with start(initargs=(list(own_schemes), list(sys.path))) as pool:
        running: dict[Future[_Measured], Task] = {}
        waiting = list(reversed(tasks))
        try:
            while waiting or running:
                waiting = waiting if time.monotonic() < end else []
                while waiting and len(running) < 2 * jobs:
                    task = waiting.pop()
                    running[pool.submit(_timed, task.measure, measured(task.point))] = task
                follow(list(running.values())[:jobs])
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    finish(running.pop(future), future.result)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():  # they ignore the interrupt: see _start
                process.terminate()
            raise
    follow([])
    return done, failed


class _Follow:
    """Shows what is running and, by the points measured so far, how long the rest takes."""

    def __init__(self, done: int, total: int, say: Say):
        self.done = self._found = done
        self._total, self._say, self._start = total, say, time.monotonic()

    def __call__(self, running: Sequence[Task]) -> None:
        what = ", ".join(dict.fromkeys(task.experiment for task in running)) or "done"
        new = self.done - self._found
        if new and running:
            seconds = (time.monotonic() - self._start) / new * (self._total - self.done)
            left = f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"
            what += f", about {left} left"
        self._say(self.done, self._total, what)


def _start(own_schemes: list[str], path: list[str]) -> None:
    """Prepare a worker process: it ignores interrupts, ends with its parent, and knows the user's schemes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.path[:] = path
    for spec in own_schemes:
        load_scheme(spec)


def _end_with_parent() -> None:
    """End this process when its parent has ended, even if that was killed: nobody else would."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _timed(measure: Callable[..., list[Row]], point: Row) -> _Measured:
    """Measure a point; return its rows and the processor seconds that they took."""
    start = time.process_time()
    return measure(**point), time.process_time() - start


def _write_figure(experiment: Experiment, rows: Rows, out: Path) -> None:
    stem = f"{experiment.paper}-{experiment.figure}"
    pd.DataFrame(rows, dtype=object).to_csv(out / f"{stem}.csv", index=False)
    if experiment.plot is not None and rows:
        from matplotlib.figure import Figure

        figure: Any = Figure(figsize=(6.4, 4.2), layout="constrained")
        experiment.plot(figure, rows)
        figure.savefig(out / f"{stem}.png", dpi=110)
