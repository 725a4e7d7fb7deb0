"""From topic to topic, as `dynamic` runs: spouts read Kafka, the aggregator's results go back to it.

A stream is a topic with one partition per source. A streaming query reads it to its end; its results, one
record per key, are committed to another topic in transactions. The clock runs until they are. They are then
read back from there, and every key must have its count.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kafka.address import KafkaAddress
from evenflow.kafka.topic import TIMEOUT, sample
from evenflow.papers.deployments.cluster import Cluster, Messages
from evenflow.papers.deployments.harness import Answer, Harness, aggregated, partial_states
from evenflow.papers.deployments.measure import deployed
from evenflow.papers.deployments.work import Serve
from evenflow.papers.experiment import Row
from evenflow.schemes.base import Scheme

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AGGREGATORS = 4  # partitions of a topic of results


def deployed_on_topics(**point: Any) -> list[Row]:
    """Deploy every subject on one stream, as `deployed` does, in a session that names a broker."""
    return deployed(**point)


@dataclass
class TopicHarness(Harness):
    """Streams and results are topics of a broker; they are deleted in the end."""

    servers: str = ""

    def __post_init__(self) -> None:
        from confluent_kafka.admin import AdminClient

        self._admin: Any = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        self.created: list[str] = []

    def write(self, messages: Messages, sources: int) -> str:
        """Produce a stream; partition j has the messages whose number is j modulo ``sources``."""
        from confluent_kafka import Producer

        topic = self._create(sources)
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 50})
        keys = [str(number + 1) for number in messages.ids.tolist()]
        for number, key in enumerate(keys):
            while True:
                try:
                    producer.produce(topic, None, key, partition=number % sources)
                    break
                except BufferError:  # the queue is full
                    producer.poll(TIMEOUT)
            producer.poll(0)
        if left := producer.flush(60):
            raise EvenflowError(f"the broker at {self.servers} did not take {left} messages within a minute.")
        return topic

    def answer(self, stream: str, scheme: Scheme, cluster: Cluster, serve: Serve) -> Answer:
        """Run the query from a topic to a new one; read its answer from there."""
        from pyspark.sql import functions as F

        from evenflow.spark.kafka.sink import KafkaSink
        from evenflow.spark.kafka.source import load

        results = KafkaAddress(self.servers, self._create(AGGREGATORS))
        sink = KafkaSink(results.name, query=results.topic, key="k")

        def write(partials: DataFrame, batch: int) -> None:
            sink(aggregated(partials), batch)

        records = load(self.spark, KafkaAddress(self.servers, stream), streaming=True)
        frame = records.select(F.col("key").cast("string").cast("long").alias("k"))
        writer = partial_states(frame, scheme, cluster, serve).writeStream.foreachBatch(write)
        writer = writer.option("checkpointLocation", str(self.folder / results.topic))
        submitted, start = time.time(), time.perf_counter()
        writer.trigger(availableNow=True).start().awaitTermination()
        seconds = time.perf_counter() - start
        found = sample(results).rows
        keys = found.column("k").to_numpy()
        if np.unique(keys).size != keys.size:
            raise EvenflowError(f"{results.name} has {keys.size} results for {np.unique(keys).size} keys.")
        messages, pairs = (int(found.column(name).to_numpy().sum()) for name in ("n", "pairs"))
        return Answer(submitted, seconds, keys.size, messages, pairs)

    def close(self) -> None:
        """Delete the topics."""
        if self.created:
            for deleted in self._admin.delete_topics(self.created).values():
                deleted.result(TIMEOUT)

    def _create(self, partitions: int) -> str:
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

        name = f"evenflow-{uuid4().hex}"
        self._admin.create_topics([NewTopic(name, partitions)])[name].result(TIMEOUT)
        self.created.append(name)
        return name
