"""Checks once per session that Spark's Python workers can run evenflow, before a job needs them.

Without it, a Python that lacks a package shows as dozens of lines of a worker's traceback.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING
from weakref import WeakSet

from pyspark.sql import functions as F

from evenflow.errors import EvenflowError

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_NEEDED = ("evenflow", "numba", "numpy", "pyarrow")
_OTHER_VERSION = "PYTHON_VERSION_MISMATCH"
_CHECKED: WeakSet[SparkSession] = WeakSet()


def check_worker_python(spark: SparkSession) -> None:
    """Raise an error unless a task's Python has what evenflow needs."""
    if spark in _CHECKED:
        return
    try:
        missing = spark.range(1, numPartitions=1).select(_missing_there()).collect()[0][0]
    except Exception as error:
        if _OTHER_VERSION not in str(error):
            raise
        raise EvenflowError(
            "Spark's Python workers run another version of Python than this process; before starting "
            f"Spark, run: export PYSPARK_PYTHON={sys.executable}"
        ) from None
    if missing:
        raise EvenflowError(
            f"{missing} cannot be imported by Spark's Python workers; install evenflow there or, "
            f"before starting Spark, run: export PYSPARK_PYTHON={sys.executable}"
        )
    _CHECKED.add(spark)


def _missing_there() -> Column:
    """Return a column with the needed packages that a worker cannot import.

    The task must not fail where they are missing, or Spark logs its traceback. So it uses none of them: the
    function is sent by value, since it is a local one, and its rows are not Arrow's.
    """
    needed = _NEEDED

    def missing() -> str:
        from importlib.util import find_spec

        return ", ".join(name for name in needed if find_spec(name) is None)

    return F.udf(missing, "string", useArrow=False)()
