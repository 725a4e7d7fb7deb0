"""Write an archive of Spark's classes, which halves the start of every JVM that the tests start.

python scripts/share_classes.py .cache/spark-classes.jsa

The archive is that of the JVM that runs the work below (class data sharing,
``-XX:ArchiveClassesAtExit``). A JVM of another version or with another class path ignores it, so it never has
to be checked.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from evenflow.java import SHORT_RUNS


def load_classes(folder: Path) -> None:
    """Use what most tests use: SQL, Parquet, Python workers, a stream with its state."""
    from evenflow.spark import balance
    from evenflow.spark.session import local_session

    with local_session(**{"spark.sql.shuffle.partitions": 2}) as spark:
        frame = spark.range(1000).selectExpr("id % 7 AS key", "id").transform(balance("key", 2))
        frame.mapInArrow(lambda batches: batches, "key long, id long").write.parquet(str(folder / "rows"))
        stream = spark.readStream.schema("key long, id long").parquet(str(folder / "rows"))
        counts = stream.groupBy("key").count().writeStream.format("memory").queryName("counts")
        counts.outputMode("complete").trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    archive = Path(sys.argv[1]).absolute()
    archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    os.environ["JDK_JAVA_OPTIONS"] = f"{SHORT_RUNS} -Xlog:disable -XX:ArchiveClassesAtExit={unfinished}"
    with tempfile.TemporaryDirectory() as folder:
        load_classes(Path(folder))
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends when its standard input does, and writes the archive then
    gateway.proc.wait()
    if unfinished.exists():  # else this JVM cannot write one, and the tests start it as ever
        unfinished.replace(archive)
