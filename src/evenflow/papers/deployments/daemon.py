"""The parent of Spark's Python workers, with everything loaded before the first one is forked.

With a hundred workers on a small machine, each would otherwise load numba and compiled kernels itself, and
Spark's worker daemon collects garbage after every task, over everything that was loaded. Forked from here
they share one copy that the collector ignores. Spark starts this module through the setting
``spark.python.daemon.module``.
"""

from __future__ import annotations

import gc

from pyspark import daemon


def load() -> None:
    """Import what workers need and load every scheme's kernels."""
    import numpy as np
    import pandas  # noqa: F401
    import pyarrow.compute  # noqa: F401
    import pyspark.worker  # noqa: F401

    import evenflow as ef
    import evenflow.papers.deployments.paced_source
    import evenflow.papers.deployments.serving
    import evenflow.spark.routing.online_task

    for scheme in ef.list_schemes().values():
        scheme().router(workers=4).route(np.arange(2000, dtype=np.uint64))


if __name__ == "__main__":
    load()
    gc.collect()
    gc.freeze()
    daemon.manager()
