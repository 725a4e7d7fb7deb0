"""Runs experiments: points in parallel processes, each kept when done; figures, verdicts, one page.

In the output folder: ``PAPER-FIGURE.csv`` and ``.png``, ``claims.json``, ``index.html``, and ``points/`` with
every measured point under the digest of its parameters. A run that was interrupted goes on from there; a
point that fails takes only its own figure with it.
"""

from __future__ import annotations

import csv
import hashlib
import importlib
import json
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenflow.errors import EvenflowError
from evenflow.papers.experiment import Claim, Experiment, Row, Rows, Setting, judge
from evenflow.schemes import register

Say = Callable[[int, int, str], None]  # done, total, what is running


@dataclass
class Outcome:
    """What a run came to: rows and claims by figure, and what failed."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    claims: list[Row] = field(default_factory=list)
    captions: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Task:
    experiment: str
    measure: Callable[..., list[Row]]
    point: Row
    file: Path


def reproduce(
    experiments: Sequence[Experiment],
    setting: Setting,
    out: Path,
    jobs: int = 1,
    say: Say = lambda done, total, what: None,
    own_schemes: Sequence[str] = (),
) -> Outcome:
    """Measure what is not there yet, then judge, draw and write everything."""
    outcome = Outcome()
    tasks: list[_Task] = []
    for one in experiments:
        try:
            tasks += [
                _Task(one.name, one.measure, point, _file(out, one, point)) for point in one.points(setting)
            ]
        except Exception:
            outcome.failures[one.name] = traceback.format_exc(limit=2).strip()
    (out / "points").mkdir(parents=True, exist_ok=True)
    wanted = {task.file: task for task in reversed(tasks)}  # the first figure that needs a point measures it
    missing = [task for task in reversed(wanted.values()) if not task.file.exists()]
    _measure_all(missing, len(wanted), jobs, say, own_schemes, outcome)
    for one in experiments:
        if one.name in outcome.failures:
            continue
        own = [task for task in tasks if task.experiment == one.name]
        try:
            rows = [row for task in own for row in json.loads(task.file.read_text(encoding="utf-8"))["rows"]]
            outcome.rows[one.name] = rows
            _write_figure(one, rows, out)
        except Exception:
            outcome.failures[one.name] = traceback.format_exc(limit=3).strip()
            continue
        outcome.captions[one.name] = one.caption
        outcome.claims += [claim_row(one, claim, rows) for claim in one.claims]
    text = json.dumps(outcome.claims, indent=1, ensure_ascii=False)
    (out / "claims.json").write_text(text + "\n", encoding="utf-8")
    return outcome


def claim_row(one: Experiment, claim: Claim, rows: Rows) -> Row:
    """Return a claim with its verdict, as it stands in claims.json."""
    found = judge(claim, rows)
    return {
        "paper": one.paper,
        "figure": one.figure,
        "section": claim.section,
        "claim": claim.text,
        "expected": claim.expected,
        "measured": found.measured,
        "verdict": found.verdict,
        "note": found.note,
        "peer": claim.peer,
    }


def _file(out: Path, one: Experiment, point: Row) -> Path:
    """Return where a point is kept: figures that measure the same point share it."""
    measured_by = f"{one.measure.__module__}.{one.measure.__qualname__}"
    text = json.dumps([measured_by, one.version, point], sort_keys=True)
    return out / "points" / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def _measure_all(
    tasks: list[_Task], total: int, jobs: int, say: Say, own_schemes: Sequence[str], outcome: Outcome
) -> None:
    done = total - len(tasks)
    if not tasks:
        say(done, total, "nothing new to measure")
        return
    if jobs <= 1:
        for task in tasks:
            say(done, total, task.experiment)
            _keep(task, lambda own=task: own.measure(**own.point), outcome)
            done += 1
        say(done, total, "done")
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        jobs, context, initializer=_start, initargs=(list(own_schemes), list(sys.path))
    ) as pool:
        running: dict[Future[list[Row]], _Task] = {}
        waiting = list(reversed(tasks))
        try:
            while waiting or running:
                while waiting and len(running) < 2 * jobs:
                    task = waiting.pop()
                    running[pool.submit(task.measure, **task.point)] = task
                say(done, total, ", ".join(dict.fromkeys(task.experiment for task in running.values())))
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    task = running.pop(future)
                    _keep(task, future.result, outcome)
                    done += 1
        except KeyboardInterrupt:
            for future in running:
                future.cancel()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    say(done, total, "done")


def _start(own_schemes: list[str], path: list[str]) -> None:
    """Prepare a worker process: interrupts are the parent's business; the user's schemes are registered."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path[:] = path
    for spec in own_schemes:
        register_own(spec)


def register_own(spec: str) -> None:
    """Register a scheme of the user's, spelled ``module:name``."""
    module, _, name = spec.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise EvenflowError(f"--scheme is {spec!r}; write module:name of a Scheme class ({error}).") from None
    register(found)


def _keep(task: _Task, measure: Callable[..., list[Row]], outcome: Outcome) -> None:
    """Measure a task and keep its rows, or note why its figure fails."""
    start = time.perf_counter()
    try:
        rows = measure()
    except Exception:
        outcome.failures[task.experiment] = traceback.format_exc(limit=-2).strip()
        return
    text = json.dumps({"point": task.point, "rows": rows, "seconds": time.perf_counter() - start})
    temporary = task.file.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(task.file)


def _write_figure(one: Experiment, rows: Rows, out: Path) -> None:
    stem = f"{one.paper}-{one.figure}"
    names = list(dict.fromkeys(name for row in rows for name in row))
    with (out / f"{stem}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, restval="")
        writer.writeheader()
        writer.writerows(rows)
    if one.plot is not None and rows:
        from matplotlib.figure import Figure

        figure: Any = Figure(figsize=(6.4, 4.2), layout="constrained")
        one.plot(figure, rows)
        figure.savefig(out / f"{stem}.png", dpi=110)
