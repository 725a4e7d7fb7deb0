"""Every operator over topics of a real broker gives what plain Spark gives, planned and online."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from evenflow.spark import KafkaSink, aggregate, balance, join, loads, stateful
from extent import in_make_faults
from spark.aggregators import SCHEMA, Declared, plain
from spark.processors import OUTPUT, Adding
from spark.stream_files import run_to_end
from spark.tables import rows_of

pytestmark = pytest.mark.spark
FIELDS = "user string, word string, x double, second long"
ROWS = 240
BATCH = 100  # records of a micro-batch
NAMES = ["id", "user", "word", "x", "second", "ts", "other", "at"]
LONG = [pytest.mark.faults, in_make_faults]


def user(number: int) -> str:
    return "hot" if number % 2 else f"u{number % 30}"


@pytest.fixture(scope="session")  # as the broker: tests of a module may run apart
def sales(broker: Any) -> str:
    """A topic of JSON records, two minutes long, of which one user has half; the key is a number."""
    topic = broker.create("sales", 2)
    rows = [
        {"user": user(number), "word": f"w{number % 4}", "x": float(number % 9), "second": number // 2}
        for number in range(ROWS)
    ]
    broker.produce(topic, [(str(n).encode(), json.dumps(row).encode()) for n, row in enumerate(rows)])
    return str(topic)


@pytest.fixture(scope="session")  # as the broker: tests of a module may run apart
def visits(broker: Any) -> str:
    """A topic like it, of other users and times."""
    topic = broker.create("visits-joined", 3)
    rows: list[dict[str, Any]] = [{"user": user(3 * number), "second": 2 * number} for number in range(60)]
    broker.produce(topic, [(row["user"].encode(), json.dumps(row).encode()) for row in rows])
    return str(topic)


def read(spark: Any, broker: Any, topic: str, *, streaming: bool = True) -> Any:
    """Return a topic's records as Spark reads them, their fields as columns."""
    options = {"kafka.bootstrap.servers": broker.servers, "subscribe": topic, "startingOffsets": "earliest"}
    reader = spark.readStream.option("maxOffsetsPerTrigger", BATCH) if streaming else spark.read
    fields = F.from_json(F.col("value").cast("string"), FIELDS)
    records = reader.format("kafka").options(**options).load()
    rows = records.select(F.col("key").cast("string").alias("id"), fields.alias("v")).select("id", "v.*")
    return rows.withColumn("ts", F.timestamp_seconds("second"))


@pytest.mark.parametrize("mode", [pytest.param("planned", marks=LONG), "online"])
def test_balance_keeps_every_record(
    spark_kafka: Any, broker: Any, sales: str, mode: str, tmp_path: Path
) -> None:
    even = read(spark_kafka, broker, sales).transform(balance(F.upper("user"), workers=3, mode=mode))
    found = run_to_end(even, "append", f"balanced_{mode}", tmp_path)
    assert rows_of(found) == rows_of(read(spark_kafka, broker, sales, streaming=False).collect())


@pytest.mark.parametrize("mode", [pytest.param("planned", marks=LONG), "online"])
def test_aggregate_equals_sparks_own(
    spark_kafka: Any, broker: Any, sales: str, mode: str, tmp_path: Path
) -> None:
    ours = aggregate(read(spark_kafka, broker, sales), "user", Declared(), SCHEMA, workers=3, mode=mode)
    found = run_to_end(ours, "complete", f"aggregated_{mode}", tmp_path)
    wanted = plain(read(spark_kafka, broker, sales, streaming=False).groupBy("user"))
    assert rows_of(found) == rows_of(wanted.collect())


def test_order_per_key_is_kept_where_large_partitions_are_divided(
    spark_kafka: Any, broker: Any, tmp_path: Path
) -> None:
    topic = broker.create("ordered", 2)
    broker.produce(topic, [(user(number).encode(), str(number).encode()) for number in range(ROWS)])
    options = {"kafka.bootstrap.servers": broker.servers, "subscribe": topic, "minPartitions": 7}
    once = spark_kafka.read.format("kafka").options(**options).load()
    assert once.select(F.spark_partition_id()).distinct().count() >= 7
    stream = spark_kafka.readStream.format("kafka").options(**options, startingOffsets="earliest").load()
    rows = stream.selectExpr("string(key) as key", "bigint(string(value)) as number")
    writer = stateful(rows, "key", Adding(), OUTPUT, tmp_path / "state", workers=3)  # fails if out of order
    emitted: list[Any] = []
    query = writer.start(lambda frame, batch: emitted.extend(frame.collect()), availableNow=True)
    query.awaitTermination()
    assert {row.key: row.n for row in emitted} == Counter(user(number) for number in range(ROWS))


def test_loads_are_of_the_last_batch_however_small(
    spark_kafka: Any, broker: Any, sales: str, tmp_path: Path
) -> None:
    even = read(spark_kafka, broker, sales).transform(balance("user", workers=3))
    writer = even.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    sizes = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    assert sizes[-1] < BATCH / 2 < sizes[0]
    assert sum(loads(query).rows) == sizes[-1]


@pytest.mark.faults
@in_make_faults
def test_stateful_writes_what_it_counts_to_a_topic(
    spark_kafka: Any, broker: Any, sales: str, tmp_path: Path
) -> None:
    out = broker.create("added", 2)
    rows = read(spark_kafka, broker, sales).selectExpr("user as key", "cast(id as long) as number")
    writer = stateful(rows, "key", Adding(), OUTPUT, tmp_path / "state", workers=3, order_by="number")
    sink = KafkaSink(broker.address(out), query="added", key="key")
    writer.start(sink, availableNow=True).awaitTermination()
    records = [(record.key().decode(), json.loads(record.value())) for record in broker.consume(out)]
    assert all(key == row["key"] for key, row in records)
    last = {key: max(row["n"] for name, row in records if name == key) for key, _ in records}
    assert last == Counter(user(number) for number in range(ROWS))


def test_a_topic_joined_with_a_table(
    spark_kafka: Any, broker: Any, sales: str, no_broadcast: None, tmp_path: Path
) -> None:
    prices = spark_kafka.createDataFrame(
        [(f"u{n}", n) for n in range(9)] + [("hot", 7)], "user string, price long"
    )
    ours = join(read(spark_kafka, broker, sales), prices, "user", "left", workers=3)
    found = run_to_end(ours, "append", "priced", tmp_path)
    wanted = read(spark_kafka, broker, sales, streaming=False).join(prices, "user", "left")
    assert ours.columns == wanted.columns
    assert rows_of(found) == rows_of(wanted.collect())


@pytest.mark.faults
@in_make_faults
def test_two_topics_joined(
    spark_kafka: Any, broker: Any, sales: str, visits: str, no_broadcast: None, tmp_path: Path
) -> None:
    """By time and user, rows without a match included."""
    found = []
    for name in ("ours", "plain"):
        left = read(spark_kafka, broker, sales).withWatermark("ts", "5 seconds")
        right = read(spark_kafka, broker, visits).select("user", F.col("ts").alias("at"))
        right = right.withWatermark("at", "5 seconds")
        near = F.expr("at between ts - interval 9 seconds and ts")
        if name == "ours":
            joined = join(
                left,
                right,
                left["user"] == right["user"],
                "left",
                condition=near,
                control=str(tmp_path / "control"),
            )
        else:
            joined = left.join(right, (left["user"] == right["user"]) & near, "left")
        rows = run_to_end(joined.toDF(*NAMES), "append", f"near_{name}", tmp_path / name)
        found.append(rows_of(rows))
    assert found[0] == found[1]
    assert any(text.count("None") for text in found[0])
    assert len(found[0]) > ROWS / 2
