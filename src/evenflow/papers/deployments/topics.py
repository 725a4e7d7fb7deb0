"""From topic to topic, as `dynamic` runs: spouts read Kafka, the aggregator's results go back to it.

A stream is a topic with one partition per source. A producer sends every message to it when it is
created; the window of a micro-batch ends a little before its trigger, by when all its messages are there.
The results of a micro-batch, one record per key, are committed to another topic in transactions, and its
time runs until they are. In the end they are read back from there, and must count every message.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kafka.address import KafkaAddress
from evenflow.kafka.topic import TIMEOUT, sample
from evenflow.papers.deployments.flow import Flow, aggregated, counted
from evenflow.papers.deployments.lanes import BROKER
from evenflow.papers.deployments.pace import keys_of
from evenflow.papers.deployments.serving import Served
from evenflow.papers.deployments.streamed import streamed
from evenflow.papers.experiment import Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AGGREGATORS = 4  # partitions of a topic of results
_LOOK = 0.005  # seconds between two messages that are due, at most


def streamed_on_topics(**point: Any) -> list[Row]:
    """Deploy every subject on one stream, as `streamed` does, in a session that names a broker."""
    return streamed(**point)


class TopicFlow(Flow):
    """Stream and results are topics of the session's broker; they are deleted in the end."""

    LAG = 0.2

    def _messages(self, spark: SparkSession) -> DataFrame:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient
        from pyspark.sql import functions as F

        from evenflow.spark.kafka.sink import KafkaSink
        from evenflow.spark.kafka.source import load

        self.servers = str(spark.conf.get(BROKER))
        self._admin: Any = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        self.topic, self.results = self._create(self.sources), self._create(AGGREGATORS)
        address = KafkaAddress(self.servers, self.results)
        self._sink = KafkaSink(address.name, query=self.results, key="k")
        self._producer: Any = Producer({"bootstrap.servers": self.servers, "linger.ms": 5})
        self._ended = threading.Event()
        self._sender = threading.Thread(target=self._send, daemon=True)
        self._sender.start()
        records = load(spark, KafkaAddress(self.servers, self.topic), streaming=True)
        parts = F.split(F.col("value").cast("string"), " ")
        return records.select(
            F.col("key").cast("string").cast("long").alias("k"),
            parts[0].cast("long").alias("number"),
            parts[1].cast("double").alias("created"),
        )

    def _send(self) -> None:
        """Send every message when it is created; partition j gets those whose number is j modulo sources."""
        sent = 0
        while not self._ended.is_set():
            pace, now = self.pace, time.time()
            numbers = np.arange(sent, pace.created_until(now))
            keys, created = keys_of(self.folder, numbers), pace.creation(numbers)
            for number, key, moment in zip(numbers.tolist(), keys.tolist(), created.tolist(), strict=True):
                value = f"{number} {moment!r}"
                self._producer.produce(self.topic, value, str(key), partition=number % self.sources)
                self._producer.poll(0)
            sent += numbers.size
            time.sleep(_LOOK)

    def _answer(self, partials: DataFrame, batch: int) -> None:
        """Commit the aggregator's answer to the topic of results."""
        merged = aggregated(partials).persist()
        try:
            self._sink(merged, batch)
            self._answers[batch] = counted(merged)
        finally:
            merged.unpersist()

    def served(self) -> Served:
        """Return what all workers served, if the results in their topic count it all."""
        results = sample(KafkaAddress(self.servers, self.results))
        messages = int(results.rows.column("n").to_numpy().sum())
        if messages != self.sent:
            raise EvenflowError(f"the results in {self.results} count {messages} of {self.sent} messages.")
        return super().served()

    def stop(self) -> None:
        """Stop the query, and delete the topics."""
        super().stop()
        self._ended.set()
        self._sender.join(TIMEOUT)
        for deleted in self._admin.delete_topics([self.topic, self.results]).values():
            deleted.result(TIMEOUT)

    def _create(self, partitions: int) -> str:
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

        name = f"evenflow-{uuid4().hex}"
        self._admin.create_topics([NewTopic(name, partitions)])[name].result(TIMEOUT)
        return name
