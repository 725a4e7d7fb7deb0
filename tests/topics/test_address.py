"""Addresses of topics: what they mean, and what is wrong with a wrong one."""

from __future__ import annotations

import pytest

from evenflow.errors import EvenflowError
from evenflow.kafka import KafkaAddress, is_kafka


def test_every_part_has_its_place() -> None:
    text = "kafka://a:9092,b:9093/clicks?startingOffsets=latest&value=json&schema=user%20string"
    address = KafkaAddress.parse(f"{text}&client.security.protocol=SSL")
    assert (address.servers, address.topic, address.value) == ("a:9092,b:9093", "clicks", "json")
    assert address.schema == "user string"
    client = {"bootstrap.servers": "a:9092,b:9093", "security.protocol": "SSL"}
    assert address.client_options() == client
    spark = {f"kafka.{name}": value for name, value in client.items()}
    assert address.spark_options() == {"startingOffsets": "latest", **spark}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("kafka://localhost:9092", "is not a topic; write kafka://HOST:9092/TOPIC"),
        ("kafka:///clicks", "is not a topic"),
        ("kafka:/localhost:9092/clicks", "is not a topic; write kafka://HOST:9092/TOPIC"),
        ("kafka:localhost:9092/clicks", "is not a topic"),
        ("kafka://localhost:9092/a/b", "is not a topic"),
        ("kafka://localhost/clicks", "'localhost' is not a broker; write HOST:PORT"),
        ("kafka://a:9092,b/clicks", "'b' is not a broker"),
        ("kafka://me:secret@a:9092/clicks", "client.sasl.username"),
        ("kafka://a:9092/clicks?value=jsn", "value is 'jsn'; did you mean 'json'"),
        ("kafka://a:9092/clicks?startingOffset=latest", "no option 'startingOffset'; did you mean"),
        ("kafka://a:9092/clicks?value=text&schema=a int", "omit one of them"),
        ("kafka://a:9092/clicks?value=a.avsc&schema=a int", "omit one of them"),
        (
            "kafka://a:9092/clicks?value=avro",
            "choose one of SCHEMA.avsc, binary, json, text",
        ),
        ("kafka://a:9092/clicks?skip=5", "skip is '5'; it is the number of bytes before an Avro record"),
        ("kafka://a:9092/clicks?value=a.avsc&skip=five", "skip is 'five'"),
    ],
)
def test_a_wrong_address_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(EvenflowError) as error:
        KafkaAddress.parse(text)
    assert sentence in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("option", ["value=text", "schema=a int", "startingOffsets=latest"])
def test_how_to_read_is_not_for_a_sink(option: str) -> None:
    assert KafkaAddress.parse_sink("kafka://a:9092/totals?client.acks=all").topic == "totals"
    with pytest.raises(
        EvenflowError, match=f"^{option.partition('=')[0]} says how records are read, but kafka://a"
    ):
        KafkaAddress.parse_sink(f"kafka://a:9092/totals?{option}")


def test_secrets_are_not_shown() -> None:
    address = KafkaAddress.parse("kafka://a:9092/clicks?client.sasl.password=hunter2")
    assert "hunter2" not in repr(address) + address.name
    with pytest.raises(EvenflowError) as error:
        KafkaAddress.parse("kafka://a/clicks?client.sasl.password=hunter2")
    assert "hunter2" not in str(error.value)


def test_only_topics_are_topics() -> None:
    assert is_kafka("kafka://a:9092/t")
    assert is_kafka("KAFKA://a:9092/t")
    assert not is_kafka("kafka.csv")
