"""The parent of Spark's Python workers, with everything loaded before the first one is forked.

A hundred workers on a small machine: without this each of them would load numba and compiled kernels for
itself, and Spark's parent of workers collects garbage after every task, over all that was loaded. Forked from
here they share one copy that the collector does not look at. Spark starts this module by the setting
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
    import evenflow.papers.deployments.work
    import evenflow.spark.routing.online_task

    for scheme in ef.list_schemes().values():
        scheme().router(workers=4).route(np.arange(2000, dtype=np.uint64))


if __name__ == "__main__":
    load()
    gc.collect()
    gc.freeze()
    daemon.manager()
