"""A skewed topic, produced with Kafka's own partitioner and with evenflow's, read by equal consumers.

A real broker on loopback. The producer sends at 80 percent of what all consumers can take, each consumer owns
one partition and takes at most so many records per second. The lag of a partition is what is left of it when
the producer ends; a topic is read to its end afterwards.
"""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from evenflow.bench.measure import Progress, Row, silent
from evenflow.errors import EvenflowError
from evenflow.kafka import partitioner
from evenflow.report.tables import Table
from evenflow.streams import Zipf
from evenflow.testing.kafka import Broker

JARS = Path(__file__).parents[1] / ".cache" / "kafka"
PARTITIONS = 8
PER_CONSUMER = 400  # records per second
UTILISATION = 0.8
SKEW = 1.4
OWN = "murmur2 of the key (Kafka's own)"
SCHEMES = ("fill", "partial-key", "w-choices")


def run(quick: bool = False, progress: Progress = silent) -> list[Row]:
    """Measure the lag of every partition, one partitioner after the other on the same keys."""
    if not JARS.is_dir():
        raise EvenflowError("the jars of Kafka are not here; run: make setup-kafka")
    seconds = 5 if quick else 30
    rate = PARTITIONS * PER_CONSUMER * UTILISATION
    ids = Zipf(z=SKEW, keys=10_000, messages=int(rate * seconds), seed=1).generate(0, int(rate * seconds)).ids
    keys = [f"user-{number}".encode() for number in ids.tolist()]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder) / "broker", JARS / "broker")
        broker.start()
        try:
            for number, name in enumerate((OWN, *SCHEMES)):
                progress(number, 1 + len(SCHEMES), name)
                rows.append(_measured(broker, f"topic-{number}", name, keys, rate))
        finally:
            broker.kill()
    return rows


def _measured(broker: Broker, topic: str, name: str, keys: list[bytes], rate: float) -> Row:
    broker.create(topic, PARTITIONS)
    chosen = None if name == OWN else partitioner(name, partitions=PARTITIONS).route(keys).tolist()
    read = [0] * PARTITIONS
    done = threading.Event()
    consumers = [
        threading.Thread(target=_consume, args=(broker, topic, at, read, done)) for at in range(PARTITIONS)
    ]
    for consumer in consumers:
        consumer.start()
    began = time.monotonic()
    _produce(broker, topic, keys, chosen, rate)
    took = time.monotonic() - began
    ends = _ends(broker, topic)
    lag = [end - got for end, got in zip(ends, read, strict=True)]
    while sum(read) < len(keys):
        time.sleep(0.05)
    total = time.monotonic() - began
    done.set()
    for consumer in consumers:
        consumer.join()
    return {
        "partitioner": name,
        "records": len(keys),
        "max_over_mean": max(ends) / np.mean(ends),
        "largest_lag": max(lag),
        "median_lag": float(np.median(lag)),
        "time_to_read_all": total / took,
        "lag": lag,
    }


def _produce(broker: Broker, topic: str, keys: list[bytes], chosen: list[int] | None, rate: float) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": broker.servers, "partitioner": "murmur2_random", "linger.ms": 5}
    )
    began = time.monotonic()
    for number, key in enumerate(keys):
        if chosen is None:
            producer.produce(topic, b"x", key)
        else:
            producer.produce(topic, b"x", key, partition=chosen[number])
        if number % 50 == 0:
            producer.poll(0)
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
    producer.flush(60)


def _consume(broker: Broker, topic: str, at: int, read: list[int], done: threading.Event) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer: Any = Consumer(
        {"bootstrap.servers": broker.servers, "group.id": "equal", "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(topic, at, 0)])
    began = time.monotonic()
    while not done.is_set():
        allowed = int((time.monotonic() - began) * PER_CONSUMER) - read[at]
        if allowed < 1:
            time.sleep(0.01)
            continue
        found = consumer.consume(min(allowed, 50), timeout=0.1)
        read[at] += sum(record.error() is None for record in found)
        if not found:  # what was not there cannot be caught up
            began = time.monotonic() - read[at] / PER_CONSUMER
    consumer.close()


def _ends(broker: Broker, topic: str) -> list[int]:
    from confluent_kafka import Consumer, TopicPartition

    consumer: Any = Consumer({"bootstrap.servers": broker.servers, "group.id": "ends"})
    ends = [
        consumer.get_watermark_offsets(TopicPartition(topic, at), timeout=30)[1] for at in range(PARTITIONS)
    ]
    consumer.close()
    return [int(end) for end in ends]


def tables(rows: list[Row]) -> list[Table]:
    """Return the lags as a table."""
    columns = ("partitioner", "max_over_mean", "largest_lag", "median_lag", "time_to_read_all")
    names = (
        "partitioner",
        "fullest partition / mean",
        "largest lag",
        "median lag",
        "time to read all / produce",
    )
    return [
        Table(
            f"A topic of {PARTITIONS} partitions, Zipf {SKEW}, one consumer per partition",
            names,
            [tuple(row[column] for column in columns) for row in rows],
            f"Lag in records when the producer ends; {rows[0]['records']:,} records at "
            f"{UTILISATION:.0%} of what the consumers can take.",
        )
    ]
