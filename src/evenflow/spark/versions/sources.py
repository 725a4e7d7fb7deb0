"""Python sources of streams that stop with ``availableNow``.

Keep imports light: Python workers import this module.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSourceStreamReader

from evenflow.spark.versions import known

if known.CLIENT >= known.HAS_STOPPING_SOURCES:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

    class StoppingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
        """A reader that Spark tells when the query is to end at what is there now."""

else:

    class StoppingReader(DataSourceStreamReader):  # type: ignore[no-redef]
        """A reader that cannot be told: with ``availableNow``, Spark reads all input in a single batch."""
