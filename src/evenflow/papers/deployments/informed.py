"""A scheme whose routers begin with what the workers have reported in earlier batches.

On Spark feedback comes between two batches. Reports are deterministic, so a router that has heard them all is
a fresh one to which they are told again; routers of every task can then begin alike.
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

Told = tuple[tuple[str, tuple[float, ...]], ...]  # of one report: the fields that were told


@dataclass(frozen=True)
class Informed(Scheme):
    """``inner`` with its parameters, and every report so far."""

    inner: str = "shuffle"
    options: tuple[tuple[str, Any], ...] = ()
    reports: tuple[Told, ...] = ()

    name = "informed"
    summary = "a scheme that begins with what workers reported before"

    @property
    def scheme(self) -> Scheme:
        """The scheme that decides."""
        return scheme_named(self.inner, **dict(self.options))

    def new_router(self, place: RouterPlace) -> Router:
        """Start the scheme at one source and tell it all reports."""
        router = self.scheme.new_router(place)
        for number, told in enumerate(self.reports, 1):
            router.report(_report(float(number), told))
        return router

    def after(self, run: Run) -> Informed:
        """Return this scheme with what the workers of a run have to report."""
        told = report_of(self.scheme, run)
        return Informed(self.inner, self.options, (*self.reports, told))


def report_of(scheme: Scheme, run: Run) -> Told:
    """Return what the workers of a run report, measured by the time they were at work.

    Consistent Grouping hears busy and idle, the utilisation being that of messages which come at 80 percent
    of what all workers together were able to do; other schemes hear messages per second.
    """
    loads = run.loads.astype(np.float64)
    busy = np.array([worker.busy for worker in run.workers])
    served = busy > 0
    typical = float(np.median(loads[served] / busy[served]))
    capacity = np.where(served, loads / np.where(served, busy, 1.0), typical)
    if (rule := scheme.busy_signals) is not None:
        seconds = loads.sum() / (LOAD * capacity.sum())
        said = signals(loads, np.zeros(loads.size), capacity, seconds, rule.idle, rule.busy)
        return (("signal", tuple(float(one) for one in said)),)
    return (
        ("capacity", tuple(capacity.tolist())),
        ("seconds_per_message", tuple((1 / capacity).tolist())),
    )


def _report(time: float, told: Told) -> WorkerReport:
    fields: dict[str, Any] = {
        name: np.array(values, np.int8 if name == "signal" else np.float64) for name, values in told
    }
    return WorkerReport(time=time, **fields)
