"""Samples of a topic, and what `evenflow advise` makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from evenflow.cli import main
from evenflow.errors import EvenflowError
from evenflow.kafka import KafkaAddress
from evenflow.kafka.topic import newest_offsets, partitions_of, sample
from topics.test_avro import CLICK, ROW, encoded, written


@pytest.fixture(scope="session")  # as the broker: tests of a module may run apart
def visits(broker: Any) -> str:
    """A topic whose record key is hot: half of the records have one key."""
    topic = broker.create("visits", 4)
    keys = [b"hot" if number % 2 else f"k{number}".encode() for number in range(2000)]
    values = [json.dumps({"page": number % 10, "user": key.decode()}) for number, key in enumerate(keys)]
    broker.produce(
        topic, [*((key, value.encode()) for key, value in zip(keys, values, strict=True)), (None, b"?")]
    )
    return str(topic)


def test_a_sample_has_the_same_share_of_every_partition(broker: Any, visits: str) -> None:
    address = KafkaAddress.parse(broker.address(visits))
    everything = sample(address)
    assert everything.rows.num_rows == 2001
    assert sum(everything.per_partition) == 2001
    assert everything.undecodable == 1
    assert everything.rows.column_names == ["key", "partition", "timestamp", "page", "user"]
    part = sample(address, 200)
    assert 200 <= part.rows.num_rows <= 204
    starts = json.loads(newest_offsets(address, 200))[visits]
    assert sum(everything.per_partition) - sum(starts.values()) == part.rows.num_rows


def test_advice_names_the_partitions_and_the_partitioner(broker: Any, visits: str) -> None:
    command = ["advise", broker.address(visits), "--key", "user", "--workers", "4"]
    text = CliRunner().invoke(main, command).output
    assert "Records per partition of the topic" in text
    assert "evenflow.kafka.partitioner(partitions=4)" in text
    found = json.loads(CliRunner().invoke(main, [*command, "--json"]).stdout)
    assert found["topic"]["max_over_mean"] > 2
    assert found["topic"]["with_partitioner"] < 1.1
    assert found["stream"]["messages"] == 2001


def test_records_are_in_the_order_of_their_times(broker: Any) -> None:
    topic = broker.create("timed", 2)
    producer = Producer({"bootstrap.servers": broker.servers})
    for number in range(100):  # even times in one partition, odd ones in the other
        producer.produce(topic, b"{}", partition=number % 2, timestamp=1_760_000_000_000 + number)
    producer.flush()
    rows = sample(KafkaAddress.parse(broker.address(topic))).rows
    assert rows["partition"].to_pylist() == [0, 1] * 50


def test_avro_records_are_sampled_by_their_schema(broker: Any, tmp_path: Path) -> None:
    topic = broker.create("avro-visits", 1)
    broker.produce(topic, [(b"k", encoded(CLICK, ROW)), (b"k", b"not avro")])
    address = broker.address(topic, value=written(tmp_path, CLICK))
    found = sample(KafkaAddress.parse(address))
    assert found.undecodable == 1
    assert found.rows.column("user").to_pylist() == ["a", None]
    text = CliRunner().invoke(main, ["advise", address, "--key", "user", "--workers", "4"]).output
    assert "1 of 2 records are not Avro records of" in text.replace("\n", " ")


def test_no_broker_and_no_topic_are_one_sentence(broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EvenflowError, match=r"has no topic 'visitz'; did you mean 'visits'"):
        partitions_of(KafkaAddress.parse(broker.address("visitz")))
    monkeypatch.setattr("evenflow.kafka.topic.TIMEOUT", 1.0)
    with pytest.raises(EvenflowError, match=r"no Kafka broker answers at 127.0.0.1:1 within 1 seconds"):
        partitions_of(KafkaAddress.parse("kafka://127.0.0.1:1/visits"))
