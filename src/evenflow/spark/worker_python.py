"""Checks once per session that Spark's Python workers can run evenflow, before a job needs them.

Without it, a Python that lacks a package shows as dozens of lines of a worker's traceback. Keep imports
light: Python workers import this module.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from evenflow.errors import EvenflowError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEEDED = ("numba", "numpy")  # beside evenflow and pyarrow, without which the task itself fails
_NO_MODULE = re.compile(r"No module named '([\w.]+)'")
_OTHER_VERSION = re.compile(r"PYTHON_VERSION_MISMATCH")
_CHECKED: WeakSet[SparkSession] = WeakSet()


def check_worker_python(spark: SparkSession) -> None:
    """Raise an error unless a task's Python has what evenflow needs."""
    if spark in _CHECKED:
        return
    try:
        rows = spark.range(1, numPartitions=1).mapInArrow(_missing, "name string").collect()
        names = [row["name"] for row in rows]
    except Exception as error:
        found = _NO_MODULE.search(str(error))
        if _OTHER_VERSION.search(str(error)):
            raise EvenflowError(
                "Spark's Python workers run another version of Python than this process; before starting "
                f"Spark, run: export PYSPARK_PYTHON={sys.executable}"
            ) from None
        if found is None:
            raise
        names = [found[1].partition(".")[0]]
    if names:
        raise EvenflowError(
            f"{' and '.join(names)} cannot be imported by Spark's Python workers; install evenflow there or, "
            f"before starting Spark, run: export PYSPARK_PYTHON={sys.executable}"
        )
    _CHECKED.add(spark)


def _missing(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the needed packages that this process cannot import."""
    import pyarrow as pa

    for _ in batches:
        pass
    yield pa.record_batch({"name": pa.array([name for name in _NEEDED if find_spec(name) is None], "string")})
