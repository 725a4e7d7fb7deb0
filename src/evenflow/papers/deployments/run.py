"""Runs deployments: one Spark session for all, with a slot for each worker of the largest."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from evenflow.papers.deployments.common import SparkRunConfig
from evenflow.papers.deployments.session import session_on
from evenflow.papers.experiment import Experiment, RunConfig
from evenflow.papers.reproduce import Outcome, Say, reproduce


def run(
    chosen: Sequence[Experiment],
    config: RunConfig,
    master: str | None,
    out: Path,
    say: Say = lambda done, total, what: None,
) -> Outcome:
    """Measure what is not there yet, then judge, draw and write everything."""
    given = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    deployed = SparkRunConfig(**given, master=master)
    with session_on(master, slots_for(chosen, deployed)):
        return reproduce(chosen, deployed, out, jobs=1, say=say)


def slots_for(chosen: Sequence[Experiment], config: RunConfig) -> int:
    """Return how many tasks run at the same time at most: as many as the largest has workers or sources."""
    points = [
        point for experiment in chosen for point in experiment.points(dataclasses.replace(config, asked=[]))
    ]
    return max((point.get(name, 10) for point in points for name in ("workers", "sources")), default=10)
