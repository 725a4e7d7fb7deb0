"""The parent of Spark's Python workers, with everything loaded before the first one is forked.

With a hundred workers on a small machine, each would otherwise load numba and compiled kernels itself, and
Spark's worker daemon collects garbage after every task, over everything that was loaded. Forked from here
they share one copy that the collector ignores. Spark starts this module through the setting
``spark.python.daemon.module``.
"""

from __future__ import annotations

import contextlib
import gc
from typing import Any

from pyspark import daemon

from evenflow.schemes.base import Scheme

_run_worker = daemon.worker


def worker(sock: Any, authenticated: bool) -> int:
    """Run a worker until Spark closes its socket, which is how idle ones end and no error."""
    with contextlib.suppress(BrokenPipeError):
        return int(_run_worker(sock, authenticated))
    return 1


def load() -> None:
    """Import what workers need and load every scheme's kernels."""
    import pandas  # noqa: F401
    import pyarrow.compute  # noqa: F401
    import pyspark.worker  # noqa: F401

    import evenflow as ef
    import evenflow.papers.deployments.paced_source
    import evenflow.papers.deployments.serving
    import evenflow.spark.routing.online_task

    for scheme in ef.list_schemes().values():
        _run(scheme())


def _run(scheme: Scheme) -> None:
    """Route, hand over, report and learn, so that all compiled kernels are loaded."""
    import numpy as np

    from evenflow.schemes.base import Router, WorkerReport
    from evenflow.schemes.handover import hand_over

    keys, workers, known = np.arange(2000, dtype=np.uint64), 4, None
    for _ in range(2):
        routers = [scheme.router(workers, source=source, sources=2) for source in range(2)]
        for router in routers:
            if known is not None:
                router.learn([known], 1 / 2)
            router.route(keys)
        saved = [Router.from_bytes(router.to_bytes()) for router in routers]
        known = hand_over(scheme, workers, saved, known)
        if scheme.needs_reports:
            capacity = np.full(workers, 1000.0)
            known.report(WorkerReport(known.clock, seconds_per_message=1 / capacity, capacity=capacity))


if __name__ == "__main__":
    load()
    gc.collect()
    gc.freeze()
    daemon.worker = worker
    daemon.manager()
