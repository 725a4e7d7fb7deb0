"""A local Spark session for examples, the demo, deployments and tests."""

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
    "spark.sql.shuffle.partitions": "8",  # the default of 200 suits clusters
    "spark.ui.showConsoleProgress": "false",
    # over TCP, every Python task waits 40 ms for a delayed acknowledgement (since Spark 4.1)
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # it walks the stack at every call
    # generous timeouts: on a busy machine, Python workers start and executors respond slowly
    "spark.python.authenticate.socketTimeout": "10m",
    "spark.network.timeout": "20m",
    "spark.executor.heartbeatInterval": "1m",
}


def local_session(master: str = "local[2]", **settings: Any) -> SparkSession:
    """Return a session on the loopback interface, without web UI, whose tasks run the current Python."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master)
    for name, value in {**LOCAL, **settings}.items():
        builder = builder.config(name, str(value))
    return builder.getOrCreate()
