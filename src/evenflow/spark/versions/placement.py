"""Rows on the partition of their worker, exactly.

Without ``repartitionById``, rows are repartitioned by an INT whose hash is the worker's number: Spark's hash
of INTs is one to one, so there is one for every worker.
"""

from __future__ import annotations

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenflow.spark.murmur3 import int_with_hash
from evenflow.spark.stored_arrays import stored_arrays
from evenflow.spark.versions import known


def on_workers(df: DataFrame, workers: int, worker: Column) -> DataFrame:
    """Return ``df`` in ``workers`` partitions, every row in the one that the INT column ``worker`` names."""
    if known.version_of(df.sparkSession) >= known.HAS_REPARTITION_BY_ID:
        return df.repartitionById(workers, worker)
    numbers = int_with_hash(np.arange(workers, dtype=np.int32))
    number = F.get(stored_arrays(df.sparkSession, {"numbers": numbers})["numbers"], worker)
    return df.repartition(workers, number)
