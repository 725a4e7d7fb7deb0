"""What a stream's throughput should be, without an engine.

The routers of a query route micro-batches one after the other, hand on what they learned and hear what the
workers measured, as on Spark (:mod:`evenflow.schemes.handover`). A worker's time is its messages by its pace,
and a batch takes as long as its slowest worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evenflow.papers.deployments.cluster import Cluster, Messages
from evenflow.schemes.base import Router, Scheme
from evenflow.schemes.handover import hand_over

BATCHES = 12
JUDGED = 4  # the last ones, by which the rate is taken


def predicted_rates(
    scheme: Scheme, messages: Messages, cluster: Cluster, interval: float, phases: Sequence[Sequence[float]]
) -> list[float]:
    """Return the messages per second that workers can serve, for the speeds of each phase in turn.

    Every batch has the messages that the one before it could have had in ``interval`` seconds.
    """
    from evenflow.spark.routing.worker_reports import measured_batches, report_of

    hashes = messages.hashes[messages.ids]
    known: Router | None = None
    notes: list[dict[str, object]] = []
    rates: list[float] = []
    start = batch = 0
    for speeds in phases:
        capacity = replace(cluster, speeds=tuple(speeds)).capacity
        found = [float(capacity.sum())]
        for _ in range(BATCHES):
            end = start + max(1, round(found[-1] * interval))
            rows = hashes[np.arange(start, end) % hashes.size]
            routers = _routers(scheme, cluster, known)
            parts = [router.route(rows[source :: len(routers)]) for source, router in enumerate(routers)]
            loads = np.bincount(np.concatenate(parts), minlength=cluster.workers)
            seconds = loads / capacity
            known = hand_over(scheme, cluster.workers, routers, known, cluster.seed)
            if scheme.needs_reports:
                notes += [
                    {"event": "busy", "batch": batch, "worker": worker, "rows": load, "seconds": busy}
                    for worker, (load, busy) in enumerate(zip(loads, seconds, strict=True))
                ]
                report = report_of(measured_batches(notes, cluster.workers, batch), known.clock)
                if report is not None:
                    known.report(report)
            found.append(rows.size / float(seconds.max()))
            start, batch = end, batch + 1
        rates.append(float(np.median(found[-JUDGED:])))
    return rates


def _routers(scheme: Scheme, cluster: Cluster, known: Router | None) -> list[Router]:
    """Return the routers of a micro-batch, one per source, with their share of what is known."""
    sources = cluster.sources
    routers = [
        scheme.router(cluster.workers, cluster.seed, source=i, sources=sources) for i in range(sources)
    ]
    for router in routers:
        if known is not None:
            router.learn([known], 1 / sources)
    return routers
