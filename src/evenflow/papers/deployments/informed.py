"""A scheme whose routers start with what the workers reported in earlier batches.

On Spark, feedback arrives between two batches. Reports are deterministic, so a router that has received them
all is a fresh one that receives them again; the routers of all tasks can then start alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenflow.papers.deployments.finished import Run
from evenflow.schemes.base import Router, RouterPlace, Scheme, WorkerReport
from evenflow.schemes.consistent import signals
from evenflow.schemes.registry import scheme as scheme_named

LOAD = 0.8  # of all capacity: what `heterogeneous` lets shuffle grouping run at

Report = tuple[tuple[str, tuple[float, ...]], ...]  # the fields of a WorkerReport that are known


@dataclass(frozen=True)
class Informed(Scheme):
    """``inner`` with its parameters, and every report so far."""

    inner: str = "shuffle"
    options: tuple[tuple[str, Any], ...] = ()
    reports: tuple[Report, ...] = ()

    name = "informed"
    summary = "a scheme that starts with what workers reported before"

    @property
    def scheme(self) -> Scheme:
        """The scheme that decides."""
        return scheme_named(self.inner, **dict(self.options))

    def new_router(self, place: RouterPlace) -> Router:
        """Start the scheme at one source and replay all reports to it."""
        router = self.scheme.new_router(place)
        for number, report in enumerate(self.reports, 1):
            types = {name: np.int8 if name == "signal" else np.float64 for name, _ in report}
            fields: dict[str, Any] = {name: np.array(values, types[name]) for name, values in report}
            router.report(WorkerReport(time=float(number), **fields))
        return router

    def after(self, run: Run) -> Informed:
        """Return this scheme with the reports of a run's workers added."""
        return Informed(self.inner, self.options, (*self.reports, report_of(self.scheme, run)))


def report_of(scheme: Scheme, run: Run) -> Report:
    """Return what the workers of a run report, based on their busy time.

    Consistent Grouping gets busy and idle signals, for the utilisation at which messages arrive at 80 percent
    of the total capacity; other schemes get messages per second.
    """
    loads = run.loads.astype(np.float64)
    busy = np.array([worker.busy for worker in run.workers])
    served = busy > 0
    typical = float(np.median(loads[served] / busy[served]))
    capacity = np.where(served, loads / np.where(served, busy, 1.0), typical)
    if (rule := scheme.busy_signals) is not None:
        seconds = loads.sum() / (LOAD * capacity.sum())
        found = signals(loads, np.zeros(loads.size), capacity, seconds, rule.idle, rule.busy, rule.certainty)
        return (("signal", tuple(map(float, found))),)
    return (("capacity", tuple(capacity.tolist())), ("seconds_per_message", tuple((1 / capacity).tolist())))
