"""Parts that run on Spark Connect, one after the other on one server, in a process of their own.

A process has one kind of session, and a server takes a while to start. Prints what the parts found as a line
of JSON; a part that failed gives its traceback, and the others go on.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from evenflow.spark.session import LOCAL
from extent import ALL, INTERPRETED
from spark import connect_aggregate, connect_apps, connect_balance, connect_join, connect_stateful

PARTS = {
    "aggregate": connect_aggregate,
    "balance": connect_balance,
    "join": connect_join,
    "stateful": connect_stateful,
}
if ALL:
    PARTS["apps"] = connect_apps

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.python.daemon.module": "preloaded_daemon",
    **({} if ALL else INTERPRETED),
}


def main(folder: Path) -> dict[str, Any]:
    builder = SparkSession.builder.remote("local[2]")
    for setting, value in {**LOCAL, **SETTINGS}.items():
        builder = builder.config(setting, value)
    spark = builder.getOrCreate()
    assert "connect" in type(spark).__module__
    found = {name: found_by(part, spark, folder / name) for name, part in PARTS.items()}
    spark.stop()  # or its server would keep this process from ending
    return found


def found_by(part: Any, spark: Any, folder: Path) -> Any:
    try:
        return part.found(spark, folder)
    except Exception:  # the test shows it
        return traceback.format_exc()


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(main(Path(sys.argv[1]))) + "\n")
