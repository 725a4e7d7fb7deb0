"""Topics in and out, against a real broker: sources, sinks, replays, records that cannot be decoded."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from evenflow.errors import EvenflowError
from evenflow.kafka import KafkaAddress
from evenflow.runner.pipeline import run_app
from evenflow.spark import KafkaSink, balance, deduplicated
from evenflow.spark.kafka.avro_fields import avro_fields
from evenflow.spark.kafka.sink import HEADERS
from evenflow.spark.kafka.source import REFUSE, decode, load, value_fields
from extent import long
from topics.test_avro import CLICK, ROW, encoded, written

pytestmark = pytest.mark.spark
ROWS = 3000


@pytest.fixture(scope="session")  # as the broker: tests of a module may run apart
def clicks(broker: Any) -> str:
    """A topic of JSON records; user 0 has half of them."""
    topic = broker.create("clicks", 3)
    rows = [(f"page-{number % 7}", {"user": user(number), "amount": number / 4}) for number in range(ROWS)]
    broker.produce(topic, [(key.encode(), json.dumps(value).encode()) for key, value in rows])
    return str(topic)


def user(number: int) -> str:
    return "u0" if number % 2 else f"u{number % 50}"


COUNTS = Counter(user(number) for number in range(ROWS))


@pytest.mark.parametrize("mode", ["planned", long("online")])
def test_a_run_reads_a_topic_and_writes_results_to_another(
    spark_kafka: Any, broker: Any, clicks: str, mode: str, tmp_path: Path
) -> None:
    out = broker.create(f"counts-{mode}", 2)
    done = run_app(
        spark_kafka, "count", broker.address(clicks), key=["user"], workers=4, batch=1000, mode=mode,
        sink=broker.address(out), checkpoint=str(tmp_path),
    )  # fmt: skip
    assert done.total == ROWS
    assert done.batches >= 3
    records = broker.consume(out)
    last = {record.key().decode(): json.loads(record.value()) for record in by_batch(records)}
    assert {key: value["rows"] for key, value in last.items()} == COUNTS
    assert len({tuple(value for _, value in record.headers()) for record in records}) == len(records)
    if mode == "planned":  # the first plan is made from the topic itself
        assert done.max_over_mean < 1.2


def by_batch(records: list[Any]) -> list[Any]:
    return sorted(records, key=lambda record: int(dict(record.headers())["evenflow-batch"]))


def test_keys_of_records_are_keys_of_rows(spark_kafka: Any, broker: Any, clicks: str) -> None:
    raw = spark_kafka.read.format("kafka").options(
        **{"kafka.bootstrap.servers": broker.servers, "subscribe": clicks, "startingOffsets": "earliest"}
    )
    even = raw.load().transform(balance("key", workers=5))
    assert even.groupBy(F.spark_partition_id()).count().count() == 5
    done = run_app(spark_kafka, "count", broker.address(clicks, value="text"), key=["key"], at_once=True)
    assert done.total == ROWS


def test_a_run_can_start_at_the_end_of_a_topic(spark_kafka: Any, broker: Any, clicks: str) -> None:
    """Its fields are inferred, and its first plan made, from what the topic has already."""
    source = broker.address(clicks, startingOffsets="latest")
    assert run_app(spark_kafka, "count", source, key=["user"], workers=2).total == 0


def test_a_replayed_batch_is_not_written_twice(spark_kafka: Any, broker: Any) -> None:
    topic = broker.create("replayed", 3)
    sink = KafkaSink(broker.address(topic), "replays", key="name")
    rows = spark_kafka.createDataFrame([(f"n{i % 40}", i) for i in range(200)], "name string, number long")
    sink(rows, 0)
    sink(rows.orderBy(F.rand(7)), 0)
    sink(rows.limit(10), 1)
    written = broker.consume(topic)
    assert len(written) == 210
    assert Counter(json.loads(record.value())["number"] for record in written)[5] == 2
    with pytest.raises(EvenflowError, match=r"has batch 1 of query 'replays', and Spark asks for batch 0"):
        sink(rows, 0)
    KafkaSink(broker.address(topic), "another", key="name")(rows, 0)
    assert len(broker.consume(topic)) == 410


def test_a_kept_topic_column_does_not_lead_results_astray(spark_kafka: Any, broker: Any) -> None:
    """Spark's own writer would send them where the column says."""
    topic, other = broker.create("results", 1), broker.create("results-input", 1)
    rows = spark_kafka.createDataFrame([("a", other)], "key string, topic string")
    KafkaSink(broker.address(topic), "kept-topic", key="key")(rows, 0)
    assert [json.loads(record.value()) for record in broker.consume(topic)] == [{"key": "a", "topic": other}]
    assert broker.consume(other) == []


def test_a_batch_that_some_writers_wrote_is_completed_with_as_many(spark_kafka: Any, broker: Any) -> None:
    """One writer commits, the topic grows, the batch is replayed: nothing is lost, nothing twice."""
    from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

    from evenflow.kafka import KafkaAddress
    from evenflow.spark.kafka.sink import _write

    topic = broker.create("partly", 3)
    rows = spark_kafka.createDataFrame([(str(i), str(i)) for i in range(90)], "key string, value string")
    to, sink = (
        KafkaAddress.parse(broker.address(topic)),
        KafkaSink(broker.address(topic), "partly", "key", "value"),
    )
    placed = rows.select(F.col("key").cast("binary"), F.col("value").cast("binary")).repartition(3, "key")
    part = placed.where(F.spark_partition_id() == 1).sort("key").toArrow()
    assert 0 < _write(to, "partly", 0, 1, 3, iter(part.to_batches())) < 90
    admin = broker.admin()
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(30)
    sink(rows, 0)
    assert sorted(int(record.value()) for record in broker.consume(topic)) == list(range(90))


def test_duplicates_are_dropped_by_headers(spark_kafka: Any, broker: Any) -> None:
    topic = broker.create("doubled", 2)
    headers = [
        {"key": name, "value": value.encode()} for name, value in zip(HEADERS, ("q", "0", "0-0"), strict=True)
    ]
    kinds = "key string, value string, headers array<struct<key: string, value: binary>>"
    rows = [("a", "1", headers), ("a", "1", headers), ("b", "2", None), ("b", "2", None)]
    options = {"kafka.bootstrap.servers": broker.servers, "subscribe": topic, "includeHeaders": "true"}
    spark_kafka.createDataFrame(rows, kinds).write.format("kafka").options(**options, topic=topic).save()
    batch = spark_kafka.read.format("kafka").options(**options).load()
    assert sorted(row.value for row in batch.transform(deduplicated()).collect()) == [b"1", b"2", b"2"]
    stream = spark_kafka.readStream.format("kafka").options(**options, startingOffsets="earliest").load()
    query = stream.transform(deduplicated("1 minute")).writeStream.format("memory").queryName("once")
    query.trigger(availableNow=True).start().awaitTermination()
    assert spark_kafka.table("once").count() == 3
    with pytest.raises(EvenflowError, match="no column 'headers'"):
        deduplicated(spark_kafka.range(3))


def test_records_that_cannot_be_decoded_are_refused_or_kept(
    spark_kafka: Any, broker: Any, tmp_path: Path
) -> None:
    topic = broker.create("poisoned", 1)
    values = [b'{"user": "a"}', b'{"user": "b"}', b"not json", b'{"user": "a"}', b"[1]"]
    broker.produce(topic, [(None, value) for value in values])
    source = broker.address(topic, schema="user string")
    for scheme in ("key", "fill"):  # fill reads the topic for its first plan, too
        with pytest.raises(
            EvenflowError, match=r"the record at offset 2 of partition 0 of kafka://.*/poisoned is not"
        ):
            run_app(spark_kafka, "count", source, key=["user"], workers=2, scheme=scheme)
    aside = str(tmp_path / "bad")
    done = run_app(
        spark_kafka,
        "count",
        source,
        key=["user"],
        workers=2,
        bad_records=aside,
        checkpoint=str(tmp_path / "at"),
    )
    assert done.total == 3
    assert sorted(row.value for row in spark_kafka.read.parquet(aside).collect()) == [b"[1]", b"not json"]


def test_avro_values_are_columns(spark_kafka: Any, broker: Any, tmp_path: Path) -> None:
    topic = broker.create("avro", 2)
    values = [encoded(CLICK, ROW | {"user": user(number)}) for number in range(60)]
    broker.produce(topic, [(b"k", value) for value in values])
    address = KafkaAddress.parse(broker.address(topic, value=written(tmp_path, CLICK)))
    fields = value_fields(spark_kafka, address)
    rows = decode(load(spark_kafka, address, streaming=False), address, fields, REFUSE).rows
    assert rows.columns == ["key", "timestamp", *ROW]
    assert Counter(row.user for row in rows.collect()) == Counter(user(number) for number in range(60))
    found = rows.where("user = 'u2'").collect()[0].asDict(recursive=True)
    expected = ROW | {"user": "u2", "at": ROW["at"].replace(tzinfo=None)}
    assert {name: found[name] for name in ROW} == expected | {"at": found["at"]}
    assert rows.where("at = timestamp '2026-01-02 03:04:05.000678'").count() == 60


def test_records_that_are_not_avro_are_refused_or_kept(spark_kafka: Any, broker: Any, tmp_path: Path) -> None:
    topic = broker.create("poisoned-avro", 1)
    five = b"\0\0\0\0\7"
    values = [five + encoded(CLICK, ROW), five + encoded(CLICK, ROW), b'{"user": "a"}', None]
    broker.produce(topic, [(None, value) for value in values])
    source = broker.address(topic, value=written(tmp_path, CLICK), skip="5")
    sentence = r"offset 2 of partition 0 of kafka://.*/poisoned-avro is not an Avro record of the schema"
    with pytest.raises(EvenflowError, match=sentence):
        run_app(spark_kafka, "count", source, key=["user"], workers=2, scheme="key")
    aside = str(tmp_path / "bad")
    done = run_app(spark_kafka, "count", source, key=["user"], workers=2, scheme="key", bad_records=aside)
    assert done.total == 2
    kept = spark_kafka.read.parquet(aside).orderBy("offset").collect()
    assert [(row.value, row.partition, row.offset) for row in kept] == [(values[2], 0, 2), (None, 0, 3)]


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (["string", "int"], "the Avro field 'page.a' is a union of string and int"),
        ("Click", "the Avro field 'page.a' contains itself"),
    ],
)
def test_avro_types_that_are_no_columns_are_one_sentence(kind: Any, sentence: str) -> None:
    page = {"type": "record", "name": "Page", "fields": [{"name": "a", "type": kind}]}
    with pytest.raises(EvenflowError, match=sentence):
        avro_fields({"type": "record", "name": "Click", "fields": [{"name": "page", "type": page}]})


def test_what_is_wrong_is_one_sentence(spark_kafka: Any, broker: Any, clicks: str) -> None:
    with pytest.raises(EvenflowError, match=r"has no topic 'click'; did you mean 'clicks'"):
        run_app(spark_kafka, "count", broker.address("click"), key=["user"])
    with pytest.raises(EvenflowError, match="has no column 'usr'"):
        run_app(spark_kafka, "count", broker.address(clicks), key=["usr"])
    empty = broker.create("empty")
    with pytest.raises(EvenflowError, match="is empty, so its fields cannot be inferred"):
        run_app(spark_kafka, "count", broker.address(empty), key=["user"])
    with pytest.raises(EvenflowError, match="declare columns as in"):
        run_app(spark_kafka, "count", broker.address(clicks, schema="user strin"), key=["user"])
