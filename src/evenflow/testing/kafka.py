"""A real Kafka broker on loopback for tests: KRaft, one node, a data folder of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evenflow.errors import EvenflowError

_CLUSTER = "evenflowtestsevenflow0"

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}
num.partitions=1
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.retention.check.interval.ms=500
log.segment.delete.delay.ms=0
"""


class Broker:
    """A broker that can be killed and started again on the same data and port.

    Parameters
    ----------
    folder
        An empty or new folder for its data, settings and log.
    jars
        The folder with the jars of Apache Kafka.
    port
        The port that clients use; None takes a free one.
    """

    def __init__(self, folder: Path, jars: Path, port: int | None = None):
        self.folder = folder
        self.jars = jars
        self.port, self.controller = port or _free_port(), _free_port()
        self.process: subprocess.Popen[bytes] | None = None
        data = folder / "data"
        data.mkdir(parents=True)
        (data / "meta.properties").write_text(
            f"version=1\nnode.id=1\ncluster.id={_CLUSTER}\ndirectory.id={_CLUSTER}\n"
        )
        (folder / "server.properties").write_text(
            _PROPERTIES.format(port=self.port, controller=self.controller, folder=data)
        )

    @property
    def servers(self) -> str:
        """The address of the broker."""
        return f"127.0.0.1:{self.port}"

    def address(self, topic: str, **options: str) -> str:
        """Return the address of a topic as evenflow spells it."""
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"kafka://{self.servers}/{topic}" + (f"?{query}" if query else "")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        (self.folder / "log4j2.properties").write_text("rootLogger.level=off\n")
        with (self.folder / "broker.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    "java",
                    *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                    f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
                    *("-cp", f"{self.jars}/*", "kafka.Kafka", str(self.folder / "server.properties")),
                ],
                stdout=log,
                stderr=log,
                env={name: value for name, value in os.environ.items() if name != "JDK_JAVA_OPTIONS"},
            )
        while not self._answers():
            if self.process.poll() is not None:
                raise RuntimeError(f"the broker ended: {(self.folder / 'broker.log').read_text()[-2000:]}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException

        try:
            return bool(self.admin().list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def admin(self) -> Any:
        """Return an administrator of confluent-kafka; its requests end with it."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def create(self, topic: str, partitions: int = 1, **config: str) -> str:
        """Create a topic and return its name."""
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

        new = NewTopic(topic, partitions, 1, config=config)
        admin = self.admin()
        admin.create_topics([new])[topic].result(30)
        return topic

    def produce(self, topic: str, records: Sequence[tuple[bytes | None, bytes | None]]) -> None:
        """Send records of key and value, by Kafka's own partitioner."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 20})
        for key, value in records:
            producer.produce(topic, value, key)
            producer.poll(0)
        assert producer.flush(60) == 0

    def consume(self, topic: str) -> list[Any]:
        """Return all committed records of a topic."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

        partitions = self.admin().list_topics(topic, timeout=30).topics[topic].partitions
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "tests",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        # an offset that is given asks no group's coordinator, which a broker that just started may not have
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        found, open_partitions = [], set(partitions)
        while open_partitions:
            record = consumer.poll(60)
            if record is None:
                raise EvenflowError(f"topic {topic!r} did not end within a minute.")
            error = record.error()
            if error is None:
                found.append(record)
            elif error.code() == KafkaError._PARTITION_EOF:
                open_partitions.discard(record.partition())
        consumer.close()
        return found


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
