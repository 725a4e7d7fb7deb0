"""Spark's Python daemon with the imports of most tasks done once, so that forked workers start with them."""

from __future__ import annotations

import importlib
import runpy

for _name in (
    "pandas",
    "pyarrow.parquet",
    "pyspark.sql.pandas.serializers",
    "evenflow.spark.grouped.aggregate_task",
    "evenflow.spark.routing.online_task",
    "evenflow.spark.state.worker_task",
):
    importlib.import_module(_name)

if __name__ == "__main__":
    runpy.run_module("pyspark.daemon", run_name="__main__")
