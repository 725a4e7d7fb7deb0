"""What a topic holds: its partitions and their sizes, and a sample of its records."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import pyarrow as pa

from evenflow.errors import EvenflowError, nearest
from evenflow.extras import require
from evenflow.kafka.address import KafkaAddress
from evenflow.kafka.avro import decoder, read_schema

TIMEOUT = 10.0  # seconds that a broker gets to answer
_POLL = 1000  # records


class TopicSample(NamedTuple):
    """Records of a topic as a table, and the number of records in each of its partitions."""

    rows: pa.Table
    per_partition: list[int]
    undecodable: int  # records of the sample whose value is not what the address says


def client(address: KafkaAddress, **settings: Any) -> Any:
    """Return a consumer of confluent-kafka that commits nothing."""
    from confluent_kafka import Consumer

    given = {
        "group.id": "evenflow",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "log_level": 0,
    }
    return Consumer(address.client_options() | given | settings)


def topics_of(address: KafkaAddress) -> dict[str, Any]:
    """Return the topics of a broker by name; one that does not answer is one sentence."""
    require("confluent_kafka", "kafka", address.name)
    from confluent_kafka import KafkaException

    with closing(client(address)) as consumer:
        try:
            found: dict[str, Any] = consumer.list_topics(timeout=TIMEOUT).topics
        except KafkaException as error:
            raise EvenflowError(
                f"no Kafka broker answers at {address.servers} within {TIMEOUT:.0f} seconds "
                f"({error.args[0].str()}); check the address, and that the broker runs."
            ) from error
    return found


def partitions_of(address: KafkaAddress) -> list[int]:
    """Return the partitions of a topic; an unknown topic is one sentence."""
    topics = topics_of(address)
    if address.topic not in topics:
        names = sorted(name for name in topics if not name.startswith("__"))
        known = nearest(address.topic, names) if names else "it has none, create one first."
        raise EvenflowError(f"the broker at {address.servers} has no topic {address.topic!r}; {known}")
    return sorted(topics[address.topic].partitions)


def sample(address: KafkaAddress, rows: int | None = None) -> TopicSample:
    """Read up to ``rows`` of the newest records, the same share of every partition.

    They are in the order of their times, since one partition after the other would look like drift. JSON and
    Avro values become columns, text a column ``value``; the record's own ``key``, ``partition`` and
    ``timestamp`` are columns too, unless the value has fields of these names.
    """
    from confluent_kafka import TopicPartition

    bounds = _bounds(address)
    first = _newest(bounds, rows)
    with closing(client(address, **{"enable.partition.eof": True, "fetch.wait.max.ms": 50})) as consumer:
        consumer.assign([TopicPartition(address.topic, at, offset) for at, offset in first.items()])
        records = list(_until(consumer, {partition: high for partition, (_, high) in bounds.items()}))
    records.sort(key=lambda record: record.timestamp()[1])
    found, wrong = _decoded(address, records)
    return TopicSample(found, [high - low for low, high in bounds.values()], wrong)


def newest_offsets(address: KafkaAddress, rows: int) -> str:
    """Return where the newest ``rows`` records of a topic start, as Spark's option ``startingOffsets``."""
    first = _newest(_bounds(address), rows)
    return json.dumps({address.topic: {str(partition): offset for partition, offset in first.items()}})


def _bounds(address: KafkaAddress) -> dict[int, tuple[int, int]]:
    """Return the first offset of each partition and the one after its last."""
    from confluent_kafka import TopicPartition

    partitions = partitions_of(address)
    with closing(client(address)) as consumer:
        return {
            at: consumer.get_watermark_offsets(TopicPartition(address.topic, at), timeout=TIMEOUT)
            for at in partitions
        }


def _newest(bounds: dict[int, tuple[int, int]], rows: int | None) -> dict[int, int]:
    """Return the offsets from which on every partition has the same share of all records, ``rows`` in all."""
    total = sum(high - low for low, high in bounds.values())
    share = min(1.0, (rows or total) / max(1, total))
    return {at: high - math.ceil((high - low) * share) for at, (low, high) in bounds.items()}


def _until(consumer: Any, ends: dict[int, int]) -> Iterator[Any]:
    """Yield records until every partition has been read up to its end, or the broker falls silent."""
    from confluent_kafka import KafkaError

    left = {partition for partition, end in ends.items() if end}
    heard = time.monotonic()
    while left and time.monotonic() - heard < TIMEOUT:
        for record in consumer.consume(_POLL, timeout=0.5):
            heard = time.monotonic()
            error = record.error()
            if error is None:
                if record.offset() < ends[record.partition()]:
                    yield record
                if record.offset() + 1 >= ends[record.partition()]:
                    left.discard(record.partition())
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(record.partition())


def _decoded(address: KafkaAddress, records: list[Any]) -> tuple[pa.Table, int]:
    own = {
        "key": pa.array([_text(record.key()) for record in records]),
        "partition": pa.array([record.partition() for record in records], pa.int32()),
        "timestamp": pa.array([record.timestamp()[1] for record in records], pa.timestamp("ms")),
    }
    values = [record.value() for record in records]
    if address.value == "text":
        return pa.table({**own, "value": pa.array([_text(value) for value in values])}), 0
    if address.value == "binary":
        return pa.table({**own, "value": pa.array(values, pa.binary())}), 0
    read = decoder(read_schema(address.value), address.skip) if address.is_avro else _object
    objects = [read(value) for value in values]
    names = list(dict.fromkeys(name for found in objects if found is not None for name in found))
    columns = {name: _column([None if row is None else row.get(name) for row in objects]) for name in names}
    return pa.table(own | columns), sum(found is None for found in objects)


def _column(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # types differ from record to record
        return pa.array([None if value is None else json.dumps(value, default=str) for value in values])


def _object(value: bytes | None) -> dict[str, Any] | None:
    try:
        found = json.loads(value or b"")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")
