"""A program that places the records of a topic online, without and with a task that fails and runs again.

topic_retries.py SERVERS TOPIC JARS: prints where the records were, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from evenflow.spark.session import local_session
from evenflow.testing import acting, failing_once
from faults.jobs.retries import PLACEMENTS, where

if __name__ == "__main__":
    servers, topic, jars = sys.argv[1:]
    connector = ",".join(str(jar) for jar in sorted(Path(jars).glob("*.jar")))
    spark = local_session("local[2,4]", **{"spark.jars": connector, "spark.sql.shuffle.partitions": 3})
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic}
    records = spark.read.format("kafka").options(**options, startingOffsets="earliest").load()
    rows = records.selectExpr(
        "cast(key as string) as key", "cast(cast(value as string) as long) as number", "partition", "offset"
    )
    placed = PLACEMENTS["online, as it comes"]
    frames = {"without": acting(rows), "task failed": failing_once(rows)}
    print(json.dumps({name: where(frame.transform(placed)) for name, frame in frames.items()}))  # noqa: T201
    spark.stop()
