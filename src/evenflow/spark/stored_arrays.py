"""Arrays of the driver as Columns, which Spark neither parses nor prints."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import Column, SparkSession


def stored_arrays(spark: SparkSession, arrays: dict[str, Any]) -> dict[str, Column]:
    """Return each array as a Column with the whole array as its value.

    They are the columns of a one-row local table, each read by a scalar subquery. Spark evaluates it once and
    passes the array to the generated code like a literal.
    """
    columns = {}
    for name, values in arrays.items():
        items = pa.array(values)
        kind = pa.list_(pa.field("item", items.type, nullable=False))
        columns[name] = pa.ListArray.from_arrays(pa.array([0, len(items)], pa.int32()), items, type=kind)
    frame = spark.createDataFrame(pa.table(columns))
    return {name: frame.select(name).scalar() for name in arrays}
