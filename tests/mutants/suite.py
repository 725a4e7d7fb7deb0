"""Runs mutants: each is measured by a process of its own, and its verdicts are compared with ours.

Everything measured is kept in ``.cache/mutants``, under a digest of the sources and of the mutant, so that a
run that was interrupted goes on; claims are judged anew every time. Points of schemes that a mutant does not
touch are taken over from the unmutated run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenflow.papers import find
from evenflow.papers.data import GENERATED
from evenflow.papers.experiment import VERDICTS, RunConfig
from evenflow.papers.points import point_file, source_digest
from mutants.measure import outcome_of
from mutants.mutant import SOURCE, Mutant

KEPT = SOURCE.parent / ".cache" / "mutants"
RANKS = {verdict: rank for rank, verdict in enumerate(VERDICTS[:3])}  # untested is neither better nor worse


@dataclass(frozen=True)
class Caught:
    """A claim that a mutant does not keep."""

    figure: str
    claim: str
    before: str
    after: str
    measured: str


@dataclass(frozen=True)
class Result:
    """What became of a mutant."""

    mutant: Mutant
    caught: tuple[Caught, ...]
    seconds: float
    failure: str = ""


def verdicts(figures: list[str], kept: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return every claim of the figures by figure and text, from the measurements in ``kept``."""
    outcome = outcome_of(figures, kept)
    if outcome.failures:
        raise RuntimeError(str(outcome.failures))
    return {(f"{claim['paper']}/{claim['figure']}", claim["claim"]): claim for claim in outcome.claims}


class Suite:
    """The unmutated run and the mutants that are compared with it."""

    def __init__(self, kept: Path = KEPT):
        self._kept = kept / source_digest()

    def measure_unmutated(self, figures: list[str]) -> None:
        """Measure the figures as they are."""
        verdicts(figures, self._kept / "unmutated")

    def run(self, mutant: Mutant) -> Result:
        """Measure a mutant and compare its verdicts with ours; the unmutated figures have been measured."""
        start = time.monotonic()
        figures, folder = list(mutant.figures), self._kept / f"{mutant.name}-{mutant.digest}"
        ours = verdicts(figures, self._kept / "unmutated")
        if self._take_over(mutant, folder):
            failure = _measure(mutant, folder)
            if failure:
                return Result(mutant, (), time.monotonic() - start, failure)
        theirs = verdicts(figures, folder)
        caught = [
            Caught(*place, ours[place]["verdict"], claim["verdict"], claim["measured"])
            for place, claim in theirs.items()
            if RANKS.get(claim["verdict"], -1) > RANKS.get(ours[place]["verdict"], 2)
        ]
        return Result(mutant, tuple(caught), time.monotonic() - start)

    def _take_over(self, mutant: Mutant, folder: Path) -> bool:
        """Take over the points that a mutant does not touch; return whether some are still missing."""
        (folder / "points").mkdir(parents=True, exist_ok=True)
        missing = False
        for experiment in find(list(mutant.figures)):
            for point in experiment.points(RunConfig("small", GENERATED)):
                file = point_file(folder, experiment, point)
                if file.exists():
                    continue
                if _touches(mutant, point):
                    missing = True
                else:
                    shutil.copy(point_file(self._kept / "unmutated", experiment, point), file)
        return missing


def _touches(mutant: Mutant, point: dict[str, Any]) -> bool:
    subject = point.get("scheme", point.get("symbol"))
    return not mutant.touches or subject is None or subject in mutant.touches or bool(point.get("inside"))


def _measure(mutant: Mutant, folder: Path) -> str:
    """Measure the missing points with a broken copy of the sources; return what went wrong."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as temporary:
        half_written = shutil.ignore_patterns("*.tmp.*", "*.pyc.*")  # by tests that run at the same time
        shutil.copytree(SOURCE, Path(temporary) / "src", ignore=half_written)  # with compiled kernels
        mutant.apply(Path(temporary) / "src")
        path = os.pathsep.join([str(Path(temporary) / "src"), str(Path(__file__).parents[1])])
        command = [sys.executable, "-m", "mutants.measure", str(folder), *mutant.figures]
        done = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
        )
    return done.stderr[-2000:] if done.returncode else ""
