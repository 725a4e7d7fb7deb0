"""The partitioner of producers: laws, both clients, and partitions of a real broker."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evenflow import scheme
from evenflow.errors import EvenflowError
from evenflow.kafka import Partitioner, partitioner
from evenflow.keys import hash_keys

HOT = [b"hot" if number % 2 else f"k{number % 97}".encode() for number in range(4000)]


@pytest.mark.parametrize("name", ["fill", "key", "w-choices", "shuffle"])
def test_it_routes_as_its_scheme_does(name: str) -> None:
    expected = scheme(name).router(12, 3).route(hash_keys(HOT))
    assert np.array_equal(partitioner(name, partitions=12, seed=3).route(HOT), expected)
    one_by_one = partitioner(name, partitions=12, seed=3)
    assert [one_by_one(key) for key in HOT[:300]] == expected[:300].tolist()


def test_a_hot_key_is_spread_and_the_others_stay() -> None:
    spread = np.bincount(partitioner(partitions=8).route(HOT), minlength=8)
    by_key = np.bincount(partitioner("key", partitions=8).route(HOT), minlength=8)
    assert spread.max() < 1.1 * spread.mean()
    assert by_key.max() > 3 * by_key.mean()


def test_text_is_its_bytes_and_no_key_goes_round() -> None:
    choose = Partitioner(5, "key")
    assert choose("user") == choose(b"user")
    assert sorted(choose(None) for _ in range(10)) == sorted([*range(5), *range(5)])
    assert choose.route([]).tolist() == []
    with pytest.raises(EvenflowError, match="a key is 7; route takes bytes or text"):
        choose.route([7])  # type: ignore[list-item]


def test_both_clients_of_a_real_broker_use_it(broker: Any) -> None:
    from confluent_kafka import Producer
    from kafka import KafkaProducer

    choose = Partitioner(4)
    producer = Producer({"bootstrap.servers": broker.servers})
    topic = broker.create("spread", 4)
    for key in HOT[:400]:
        producer.produce(topic, b"", key, partition=choose(key))
    assert producer.flush(60) == 0
    other = broker.create("spread-too", 4)
    sender = KafkaProducer(bootstrap_servers=broker.servers, partitioner=Partitioner(4).for_kafka_python())
    for key in HOT[:400]:
        sender.send(other, b"", key)
    sender.flush(60)
    sender.close()
    placed = [
        sorted((record.partition(), record.key()) for record in broker.consume(name))
        for name in (topic, other)
    ]
    assert (
        placed[0]
        == placed[1]
        == sorted(zip(Partitioner(4).route(HOT[:400]).tolist(), HOT[:400], strict=True))
    )


def test_a_topic_of_another_size_is_refused(broker: Any) -> None:
    from kafka import KafkaProducer

    topic = broker.create("smaller", 3)
    sender = KafkaProducer(bootstrap_servers=broker.servers, partitioner=Partitioner(4).for_kafka_python())
    sentence = (
        "topic 'smaller' has 3 partitions, and the partitioner was made for 4; make one with partitions=3"
    )
    with pytest.raises(EvenflowError, match=sentence):
        sender.send(topic, b"", b"key")
    sender.close()
    with pytest.raises(EvenflowError, match=sentence):  # with confluent-kafka, before producing
        Partitioner(4).check(
            topic, len(broker.admin().list_topics(topic, timeout=30).topics[topic].partitions)
        )
