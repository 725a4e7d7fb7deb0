"""Runs experiments: points in parallel processes, each kept when done; figures, verdicts, one page.

In the output folder: ``PAPER-FIGURE.csv`` and ``.png``, ``claims.json``, ``index.html``, and ``points/`` with
every measured point under the digest of its parameters. An interrupted run resumes from there; a point that
fails takes only its own figure with it.
"""

from __future__ import annotations

import hashlib
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
    failures: dict[str, str] = field(default_factory=dict)

    def claims_of(self, experiment: Experiment) -> list[Row]:
        """Return the claims of a figure."""
        name = (experiment.paper, experiment.figure)
        return [claim for claim in self.claims if (claim["paper"], claim["figure"]) == name]


@dataclass(frozen=True)
class _Task:
    experiment: str
    measure: Callable[..., list[Row]]
    point: Row
    file: Path


def reproduce(
    experiments: Sequence[Experiment],
    config: RunConfig,
    out: Path,
    jobs: int = 1,
    say: Say = lambda done, total, what: None,
    own_schemes: Sequence[str] = (),
) -> Outcome:
    """Measure what is not there yet, then judge, draw and write everything."""
    outcome = Outcome()
    tasks: list[_Task] = []
    for experiment in experiments:
        asking = replace(config, asked=[])
        with _failing(experiment.name, outcome):
            tasks += [
                _Task(experiment.name, experiment.measure, point, point_file(out, experiment, point))
                for point in experiment.points(asking)
            ]
            data = [described(name, config.data[name]) for name in asking.asked]
            outcome.data[experiment.name] = data
            sentence = f" Data: {'; '.join(data)}." if data else ""
            outcome.captions[experiment.name] = experiment.caption + sentence
    (out / "points").mkdir(parents=True, exist_ok=True)
    wanted = {task.file: task for task in reversed(tasks)}  # the first figure that needs a point measures it
    missing = [task for task in reversed(wanted.values()) if not task.file.exists()]
    _measure_all(missing, len(wanted), jobs, say, own_schemes, outcome)
    for experiment in experiments:
        own = [task for task in tasks if task.experiment == experiment.name]
        if experiment.name not in outcome.failures:
            with _failing(experiment.name, outcome):
                rows = [row for task in own for row in labelled(task.point, _kept(task))]
                outcome.rows[experiment.name] = rows
                _write_figure(experiment, rows, out)
                outcome.claims += [claim_row(experiment, claim, rows) for claim in experiment.claims]
    text = json.dumps(outcome.claims, indent=1, ensure_ascii=False)
    (out / "claims.json").write_text(text + "\n", encoding="utf-8")
    return outcome


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
    return row | {"peer": claim.peer}


def point_file(out: Path, experiment: Experiment, point: Row) -> Path:
    """Return where a point is kept: figures that measure the same point share it."""
    measured_by = f"{experiment.measure.__module__}.{experiment.measure.__qualname__}"
    text = json.dumps([measured_by, experiment.version, measured(point)], sort_keys=True)
    return out / "points" / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def _measure_all(
    tasks: list[_Task], total: int, jobs: int, say: Say, own_schemes: Sequence[str], outcome: Outcome
) -> None:
    follow = _Follow(total - len(tasks), total, say)
    if not tasks:
        say(total, total, "nothing new to measure")
        return
    if jobs <= 1:
        for task in tasks:
            follow([task])
            _keep(task, partial(_timed, task.measure, measured(task.point)), outcome)
            follow.done += 1
        follow([])
        return
    context = multiprocessing.get_context("spawn")
    start = partial(ProcessPoolExecutor, jobs, context, initializer=_start)
    with start(initargs=(list(own_schemes), list(sys.path))) as pool:
        running: dict[Future[_Measured], _Task] = {}
        waiting = list(reversed(tasks))
        try:
            while waiting or running:
                while waiting and len(running) < 2 * jobs:
                    task = waiting.pop()
                    running[pool.submit(_timed, task.measure, measured(task.point))] = task
                follow(list(running.values())[:jobs])
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    _keep(running.pop(future), future.result, outcome)
                    follow.done += 1
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():  # they ignore the interrupt: see _start
                process.terminate()
            raise
    follow([])


class _Follow:
    """Shows what is running and, by the points measured so far, how long the rest takes."""

    def __init__(self, done: int, total: int, say: Say):
        self.done = self._found = done
        self._total, self._say, self._start = total, say, time.monotonic()

    def __call__(self, running: Sequence[_Task]) -> None:
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


def _keep(task: _Task, measure: Callable[[], _Measured], outcome: Outcome) -> None:
    """Measure a task and keep its rows, or note why its figure fails."""
    with _failing(task.experiment, outcome):
        rows, seconds = measure()
        text = json.dumps({"point": measured(task.point), "rows": rows, "seconds": round(seconds, 3)})
        temporary = task.file.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(task.file)


def _kept(task: _Task) -> list[Row]:
    if not task.file.exists():
        raise EvenflowError(f"a point that it shares with another figure failed: {measured(task.point)}.")
    rows: list[Row] = json.loads(task.file.read_text(encoding="utf-8"))["rows"]
    return rows


def _write_figure(experiment: Experiment, rows: Rows, out: Path) -> None:
    stem = f"{experiment.paper}-{experiment.figure}"
    pd.DataFrame(rows, dtype=object).to_csv(out / f"{stem}.csv", index=False)
    if experiment.plot is not None and rows:
        from matplotlib.figure import Figure

        figure: Any = Figure(figsize=(6.4, 4.2), layout="constrained")
        experiment.plot(figure, rows)
        figure.savefig(out / f"{stem}.png", dpi=110)
