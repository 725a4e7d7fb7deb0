"""Write the results of micro-batches to a topic, exactly once for readers of committed records.

A batch is written by a fixed number of writers, each in one Kafka transaction. The transaction also commits
the batch's number as an offset of the query's consumer group, so a writer that is asked for the same batch
again finds that it is done: records and mark appear together or not at all. A record's writer depends on its
key only, and records of a writer are sorted, so a replay gives every record the same number.

Every record has the headers ``evenflow-query``, ``evenflow-batch`` and ``evenflow-seq``, which are the same
in a replay. Readers of uncommitted records can drop duplicates by them (:func:`evenflow.spark.deduplicated`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenflow.errors import EvenflowError
from evenflow.extras import require
from evenflow.kafka.address import KafkaAddress
from evenflow.kafka.topic import TIMEOUT, client, partitions_of
from evenflow.spark.routing.key_columns import quoted
from evenflow.spark.task import current_worker

HEADERS = ("evenflow-query", "evenflow-batch", "evenflow-seq")
_TRANSACTION = 60.0  # seconds that a transaction may take
_WRITERS = "writers="


@dataclass(frozen=True)
class KafkaSink:
    """A sink for ``stateful(...).start(sink)`` and for ``foreachBatch``.

    Parameters
    ----------
    address
        ``kafka://HOST:PORT/TOPIC``.
    query
        A name of the query that stays the same when it is restarted; no two queries may share it.
    key
        The column that is the record's key; None writes records without keys.
    value
        The column that is the record's value, text or binary; None writes all columns as JSON.

    Examples
    --------
    >>> sink = KafkaSink("kafka://localhost:9092/totals", query="totals", key="user_id")
    >>> counts.writeStream.foreachBatch(sink).outputMode("update").start()  # doctest: +SKIP
    """

    address: str = field(repr=False)  # may hold secrets
    query: str
    key: str | None = None
    value: str | None = None

    def __post_init__(self) -> None:
        require("confluent_kafka", "kafka", "KafkaSink")
        KafkaAddress.parse_sink(self.address)
        if not self.query:
            raise EvenflowError("query is empty; give the query a name that it keeps when it is restarted.")

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write a batch, unless it has been written already."""
        to = KafkaAddress.parse(self.address)
        writers = _writers(to, self.query, batch)
        records = frame.select(
            F.lit(None).cast("binary").alias("key") if self.key is None else _bytes(self.key).alias("key"),
            _json(frame).alias("value") if self.value is None else _bytes(self.value).alias("value"),
        )
        placed = records.repartition(writers, "key" if self.key is not None else "value")
        placed = placed.sortWithinPartitions("key", "value")
        query = self.query

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            written = _write(to, query, batch, current_worker(), writers, batches)
            yield pa.RecordBatch.from_pydict({"written": pa.array([written], pa.int64())})

        placed.mapInArrow(write, "written long").collect()


def _bytes(name: str) -> Column:
    return F.col(quoted(name)).cast("string").cast("binary")


def _json(frame: DataFrame) -> Column:
    columns = [F.col(quoted(name)) for name in frame.columns]
    return F.to_json(F.struct(*columns), {"ignoreNullFields": "false"}).cast("binary")


def _writers(to: KafkaAddress, query: str, batch: int) -> int:
    """Return the number of writers: the topic's partitions, or as many as began this batch before."""
    partitions = partitions_of(to)
    for mark in _marks(to, query, partitions):
        if mark.offset > batch + 1:
            raise EvenflowError(
                f"{to.name} has batch {mark.offset - 1} of query {query!r}, and Spark asks for batch "
                f"{batch}; the checkpoint is older than the topic, or new: restore it, or give the query "
                "another name."
            )
        if mark.offset == batch + 1:
            return int((mark.metadata or "").removeprefix(_WRITERS))
    return len(partitions)


def _marks(to: KafkaAddress, query: str, partitions: list[int]) -> list[Any]:
    """Return the query's marks; a broker that has yet to find the group's coordinator is asked again."""
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    passing = {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
    }
    places = [TopicPartition(to.topic, partition) for partition in partitions]
    until = time.monotonic() + _TRANSACTION
    with closing(client(to, **_group(query))) as consumer:
        while True:
            try:
                return list(consumer.committed(places, timeout=_TRANSACTION))
            except KafkaException as error:
                if error.args[0].code() not in passing or time.monotonic() > until:
                    raise
                time.sleep(0.1)


def _group(query: str) -> dict[str, str]:
    return {"group.id": f"evenflow-{query}", "isolation.level": "read_committed"}


def _write(
    to: KafkaAddress, query: str, batch: int, writer: int, writers: int, batches: Iterator[pa.RecordBatch]
) -> int:
    """Write the records of one writer in one transaction; return how many, 0 if they are there already."""
    from confluent_kafka import KafkaException, Producer, TopicPartition

    settings = {
        "transactional.id": f"evenflow-{query}-{writer}",
        "transaction.timeout.ms": int(_TRANSACTION * 1000),
        "log_level": 0,
    }
    filled = (records for records in batches if records.num_rows)
    first = next(filled, None)
    if first is None:
        return 0  # so it was in every attempt
    producer = Producer(to.client_options() | settings)
    try:
        producer.init_transactions(_TRANSACTION)  # ends what an earlier attempt left open, and shuts it out
        if _marks(to, query, [writer])[0].offset > batch:
            return 0
        producer.begin_transaction()
        written = 0
        for records in chain([first], filled):
            for key, value in zip(records.column(0).to_pylist(), records.column(1).to_pylist(), strict=True):
                numbers = zip(HEADERS, (query, str(batch), f"{writer}-{written}"), strict=True)
                _produce(producer, to.topic, key, value, dict(numbers))
                written += 1
        mark = TopicPartition(to.topic, writer, batch + 1, metadata=f"{_WRITERS}{writers}")
        with closing(client(to, **_group(query))) as consumer:
            group = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction([mark], group, _TRANSACTION)
        producer.commit_transaction(_TRANSACTION)
        return written
    except KafkaException as error:
        raise EvenflowError(
            f"writer {writer} could not write batch {batch} to {to.name} ({error.args[0].str()}); nothing of "
            "its part was committed, and the query goes on from this batch when restarted."
        ) from error


def _produce(producer: Any, topic: str, key: Any, value: Any, headers: dict[str, str]) -> None:
    while True:
        try:
            producer.produce(topic, value, key, headers=headers)
        except BufferError:  # the queue is full
            producer.poll(TIMEOUT)
        else:
            producer.poll(0)
            return
