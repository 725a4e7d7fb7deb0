"""A query with keyed state from topic to topic, which is killed from outside; started again, it goes on.

topics.py SERVERS FOLDER JARS: every record of topic ``in`` comes out once in topic ``out``, with the count of
its key so far.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from evenflow.spark import KafkaSink, KeyedProcessor, stateful
from evenflow.spark.session import local_session


class Numbered(KeyedProcessor):
    """Gives every row of a key its number."""

    state = "n long"

    def start(self, key: Any) -> Any:
        """Begin with nothing."""
        return {"n": 0}

    def process(self, key: Any, state: Any, rows: Any) -> Any:
        """Count one row after the other."""
        values = []
        for value in rows["value"].to_pylist():
            state["n"] += 1
            values.append({"name": key, "number": int(value), "count": state["n"]})
        return state, values


if __name__ == "__main__":
    servers, folder, jars = sys.argv[1:]
    connector = ",".join(str(jar) for jar in sorted(Path(jars).glob("*.jar")))
    spark = local_session("local[2]", **{"spark.jars": connector, "spark.sql.shuffle.partitions": 3})
    options = {"kafka.bootstrap.servers": servers, "subscribe": "in", "startingOffsets": "earliest"}
    stream = spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger=400).load()
    rows = stream.selectExpr("cast(key as string) as name", "cast(value as string) as value")
    writer = stateful(rows, "name", Numbered(), "name string, number long, count long", f"{folder}/state")
    sink = KafkaSink(f"kafka://{servers}/out", query="numbered", key="name")
    query = writer.start(sink, availableNow=True)
    query.awaitTermination()
    spark.stop()
