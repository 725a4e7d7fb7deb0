"""Does the same work take a worker the same time? Fig. 4 of `evolving`, on a stream.

Every worker gets as many messages in each micro-batch, and computes the same for each. Workers of one machine
share its cores, so the time of a batch is the processor time that its worker used, not wall time.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import evenflow as ef
from evenflow.papers.deployments.cluster import Messages
from evenflow.papers.deployments.flow import Timing
from evenflow.papers.deployments.lanes import active_session, flow_kind
from evenflow.papers.deployments.serving import read_used
from evenflow.papers.experiment import Row

ROUNDS = 60  # of a loop, for each message: a few microseconds
INTERVAL = 1.0  # seconds in which the messages of a batch come; the next ones wait until it is done
WARM_UP = 3  # batches before the first that counts


def steadiness(workers: int, sources: int, batches: int, size: int, master: str | None = None) -> list[Row]:
    """Let every worker compute batches of ``size`` messages each; a row per worker and batch."""
    keys = Messages.of(f"zipf:z=1,keys=10000,messages={workers * size},seed=1").keys
    with tempfile.TemporaryDirectory(prefix="evenflow-steady-", ignore_cleanup_errors=True) as folder:
        spark = active_session()
        flow = flow_kind(spark)(spark, Path(folder), keys, ef.scheme("shuffle"), workers, sources,
                                Timing(INTERVAL), computes=True)  # fmt: skip
        try:
            flow.serve(np.full(workers, ROUNDS))
            done = [flow.run(workers * size)[-1].number for _ in range(WARM_UP + batches)]
            used = read_used(Path(folder))
        finally:
            flow.stop()
    rows = []
    for batch, number in enumerate(done[WARM_UP:]):
        for worker in range(workers):
            messages, seconds = used[number, worker]
            rows.append({"worker": worker, "batch": batch, "messages": messages, "seconds": seconds})
    return rows
