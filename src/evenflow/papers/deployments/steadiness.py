"""Fig. 4 of `evolving`: does the same work take a worker the same time?

Ten workers, each with twelve batches of as many messages; every message is the same computation. Ten workers
of one machine share its cores, so a batch's time is the processor time that its worker took, not the time on
the wall. A worker's fluctuation is how far its slowest and fastest batch are apart, relative to its mean.
"""

from __future__ import annotations

import numpy as np

import evenflow as ef
from evenflow.kernels import Float64Array
from evenflow.papers.deployments.finished import Finished
from evenflow.papers.deployments.harness import Cluster, harness_on
from evenflow.papers.deployments.messages import Messages
from evenflow.papers.deployments.session import current
from evenflow.papers.experiment import Row
from evenflow.papers.table import Table

WORKERS, BATCHES = 10, 12
SERVICE = 1e-4


def steadiness(messages: int, master: str | None = None) -> list[Row]:
    """Let ten workers compute twelve batches of ``messages`` messages each; a row per worker and batch."""
    cluster = Cluster(WORKERS, 5, SERVICE, kind="cpu")
    stream = Messages.of(f"zipf:z=1,keys=10000,messages={WORKERS * BATCHES * messages},seed=1")
    with harness_on(current()) as harness:
        run = harness.run(ef.scheme("shuffle"), stream, cluster)
    return [
        {"worker": worker, "batch": batch, "seconds": float(seconds)}
        for worker, told in enumerate(run.workers)
        for batch, seconds in enumerate(batch_seconds(told, BATCHES))
    ]


def batch_seconds(told: Finished, batches: int) -> Float64Array:
    """Return the processor seconds of each of ``batches`` equal parts of what a worker served.

    >>> batch_seconds(Finished(np.array([[0, 1, 3, 0.3], [1, 2, 1, 0.2]])), 2).tolist()
    [0.2, 0.3]
    """
    served = np.concatenate([[0.0], np.cumsum(told.slices[:, 2])])
    used = np.concatenate([[0.0], np.cumsum(told.slices[:, 3])])
    ends = np.linspace(0, served[-1], batches + 1)
    found: Float64Array = np.diff(np.interp(ends, served, used)).round(9)
    return found


def fluctuation(t: Table) -> tuple[float, float]:
    """Return (slowest - fastest) / mean of a worker's batches: the mean over the workers, and the largest."""
    seconds = t.groupby("worker")["seconds"]
    found = (seconds.max() - seconds.min()) / seconds.mean()
    return float(found.mean()), float(found.max())
