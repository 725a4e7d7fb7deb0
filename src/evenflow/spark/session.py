"""A Spark session on this machine, for examples, the demo, deployments and tests."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",  # 200 are for clusters
    "spark.ui.showConsoleProgress": "false",
    # on a busy machine a Python worker may take long to start, and an executor to answer
    "spark.python.authenticate.socketTimeout": "10m",
    "spark.network.timeout": "20m",
    "spark.executor.heartbeatInterval": "1m",
}


def local_session(master: str = "local[2]", **settings: Any) -> SparkSession:
    """Return a session on loopback without a web page, whose tasks run this very Python."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master)
    for name, value in {**LOCAL, **settings}.items():
        builder = builder.config(name, str(value))
    return builder.getOrCreate()
