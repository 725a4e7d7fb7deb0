"""Measures the missing points of figures, in a process whose ``evenflow`` is a mutant's."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from evenflow.papers import find
from evenflow.papers.data import GENERATED
from evenflow.papers.experiment import RunConfig
from evenflow.papers.reproduce import Outcome, Part, reproduce


def outcome_of(figures: list[str], out: Path) -> Outcome:
    """Measure what is missing and judge, at scale small and on generated streams, without pictures."""
    experiments = [replace(experiment, plot=None) for experiment in find(figures)]
    part = Part(resume=True)  # points that a mutant does not touch are of other sources
    return reproduce(experiments, RunConfig("small", GENERATED), out, part=part)


if __name__ == "__main__":
    found = outcome_of(sys.argv[2:], Path(sys.argv[1]))
    for figure, failure in found.failures.items():
        sys.stderr.write(f"{figure}: {failure}\n")
    sys.exit(bool(found.failures))
