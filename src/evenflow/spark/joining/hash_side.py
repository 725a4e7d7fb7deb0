"""Which side of a placed join Spark may hold in a hash table instead of sorting both sides.

A hash join does not spill: if the rows that a task has to hold exceed its memory, the query fails. So a side
is held only if one task could hold all of it. Then no plan, however stale, puts too many rows in one place.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from evenflow.plan import JoinPlan
from evenflow.plan.join_build import NO_PRODUCT

HINT = "shuffle_hash"
_SIZE = re.compile(r"Statistics\(sizeInBytes=([\d.E+]+) ([KMGTPE]i)?B")
_UNITS = {unit: 1024.0**power for power, unit in enumerate(["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])}
_INFLATED = 4.0  # bytes in memory for each byte of a file, where compression is usual
_ROW_BYTES = 72.0  # pointers, null flags and a half-empty hash table
_FIXED_BYTES, _OTHER_BYTES = 8.0, 48.0  # of a column
_RESERVED = 300 * 1024.0**2  # of the heap, by Spark itself
_DEFAULT_HEAP, _DEFAULT_CORES = "1g", 16


def side_to_hash(frames: tuple[DataFrame, DataFrame], plan: JoinPlan, how: str) -> int | None:
    """Return the side to hold in hash tables, 0 for the left and 1 for the right; None for neither."""
    most = task_memory(frames[0].sparkSession)
    sizes = {
        side: bytes_in_memory(frames[side], plan.totals[side])
        for side in ((1,) if how in NO_PRODUCT else (0, 1))
    }
    smallest = min(sizes, key=lambda side: sizes[side])
    return smallest if sizes[smallest] <= most else None


def bytes_in_memory(df: DataFrame, rows: float) -> float:
    """Return an estimate, rather too high, of a hash table of all rows.

    It is the higher one of what Spark estimates and of ``rows``, which were counted, times their width.
    """
    stored = _estimated_bytes(df)
    fixed = sum(isinstance(field.dataType, _FIXED) for field in df.schema)
    width = _ROW_BYTES + fixed * _FIXED_BYTES + (len(df.schema) - fixed) * _OTHER_BYTES
    return max(stored * _INFLATED, rows * width)


def _estimated_bytes(df: DataFrame) -> float:
    """Return Spark's own estimate of a frame's size."""
    java: Any = getattr(df, "_jdf", None)
    if java is not None:
        return float(str(java.queryExecution().optimizedPlan().stats().sizeInBytes()))
    try:  # Spark Connect shows it as text only
        text = df.sparkSession.sql("EXPLAIN COST SELECT * FROM {frame}", frame=df).collect()[0][0]
    except PySparkException:
        return float("inf")
    found = _SIZE.search(text)
    return float(found.group(1)) * _UNITS[found.group(2) or ""] if found else float("inf")


_FIXED = (
    T.IntegralType, T.FractionalType, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType,
)  # fmt: skip


def task_memory(spark: SparkSession) -> float:
    """Return the bytes that Spark grants a task at least, if all cores of an executor are busy."""
    settings = spark.conf
    master = str(settings.get("spark.master", "") or "")
    local = re.match(r"local(?:\[(\d+|\*))?", master)
    heap = settings.get(f"spark.{'driver' if local else 'executor'}.memory", _DEFAULT_HEAP)
    cores: float = _DEFAULT_CORES
    if local:
        if local.group(1) != "*":
            cores = float(local.group(1) or 1)
    else:
        cores = float(settings.get("spark.executor.cores", str(_DEFAULT_CORES)) or _DEFAULT_CORES)
    fraction = float(settings.get("spark.memory.fraction", "0.6") or 0.6)
    return max(0.0, (_bytes(str(heap)) - _RESERVED) * fraction / (2 * max(1.0, cores)))


def _bytes(text: str) -> float:
    """Return the bytes in a setting such as 4g; without a unit, Spark reads MiB.

    >>> _bytes("4g") == 4 * 1024**3 == _bytes("4096")
    True
    """
    found = re.fullmatch(r"(\d+)\s*([bkmgtp]?)b?", text.strip().lower())
    if found is None:
        return 0.0
    power = {"b": 0, "k": 1, "m": 2, "": 2, "g": 3, "t": 4, "p": 5}[found.group(2)]
    return float(found.group(1)) * 1024.0**power
