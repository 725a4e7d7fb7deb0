"""A job that a test runs in a process of its own, since a process has one kind of session."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def main(folder: Path, scratch: Path) -> None:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    from evenflow.spark import aggregate, apply
    from evenflow.spark.merging import PROVIDER, ROCKS_DB
    from spark.aggregators import SCHEMA, Declared, Profile, plain
    from spark.stream_files import ROWS, read_batches, run_to_end
    from spark.tables import rows_of, table

    spark: Any = (
        SparkSession.builder.remote("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "America/New_York")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.conf.set(PROVIDER, ROCKS_DB)
    df = spark.createDataFrame(table("string", 200, 2.0, 8))
    for using in (Profile(), Declared()):
        found = aggregate(df, ["k", "user"], using, SCHEMA, workers=3, order="sort")
        assert rows_of(found.collect()) == rows_of(plain(df.groupBy("k", "user")).collect())

    def count(group: Any) -> Any:
        return group.select(["k", "user"]).slice(0, 1)

    found = apply(df, ["k", "user"], count, "k string, user long", workers=3)
    assert rows_of(found.collect()) == rows_of(df.select("k", "user").distinct().collect())

    stream = read_batches(spark, folder, ROWS).withWatermark("ts", "4 minutes")
    key = [F.window("ts", "5 minutes"), F.col("user")]
    wanted = run_to_end(plain(stream.groupBy(*key)), "append", "wanted", scratch / "wanted")
    assert wanted
    for name, using in (("by_spark", Declared()), ("in_python", Profile())):
        ours = aggregate(stream, key, using, SCHEMA, workers=3, scheme="key", output_mode="append")
        assert rows_of(run_to_end(ours, "append", name, scratch / name)) == rows_of(wanted), name
    spark.stop()
    print("all equal")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
