"""A partitioner for producers: a hot key is spread over partitions on purpose, every other key stays on one.

Kafka's default sends a key to ``murmur2(key) mod partitions``, so the partition of a hot key is the one whose
consumer lags. A partitioner with a scheme of evenflow sends a record where the scheme would route it, with
the partitions as workers. Consumers then find a hot key on several partitions: its order holds only within
each, and its state exists once per partition (``memory`` in the simulator).

Each producer has its own router, as each source of a stream has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.errors import EvenflowError
from evenflow.extras import require
from evenflow.kernels import Int32Array
from evenflow.keys import hash_keys
from evenflow.schemes.base import Scheme
from evenflow.schemes.spelling import as_scheme


class Partitioner:
    """Chooses the partition of every record of one producer.

    Parameters
    ----------
    partitions
        Number of partitions of the topic.
    scheme
        A scheme, or its name with parameters.
    seed
        Seed of the hash functions; the same for all producers of a topic.
    source, sources
        The number of this producer, from 0, and how many there are.

    Examples
    --------
    >>> spread = Partitioner(4)
    >>> int(np.bincount(spread.route([b"hot"] * 1000)).max()) <= 260
    True

    With confluent-kafka: ``producer.produce(topic, value, key, partition=spread(key))``.
    """

    def __init__(
        self,
        partitions: int,
        scheme: str | Scheme = "fill",
        *,
        seed: int = 0,
        source: int = 0,
        sources: int = 1,
    ):
        self.scheme = as_scheme(scheme)
        self.partitions = partitions
        self.router = self.scheme.router(partitions, seed, source=source, sources=sources)
        self._without_key = source % partitions

    def __call__(self, key: bytes | str | None) -> int:
        """Return the partition of the next record; records without a key go to the partitions in turn."""
        if key is None:
            self._without_key = (self._without_key + 1) % self.partitions
            return self._without_key
        return int(self.route([key])[0])

    def route(self, keys: Sequence[bytes | str]) -> Int32Array:
        """Return the partitions of several records, much faster than one by one."""
        if not len(keys):
            return np.zeros(0, np.int32)
        as_bytes = [key.encode() if isinstance(key, str) else key for key in keys]
        if any(not isinstance(key, bytes) for key in as_bytes):
            wrong = next(key for key in as_bytes if not isinstance(key, bytes))
            raise EvenflowError(f"a key is {wrong!r}; route takes bytes or text, without None.")
        return self.router.route(hash_keys(pa.array(as_bytes, pa.binary())))

    def for_kafka_python(self) -> Any:
        """Return this partitioner for ``KafkaProducer(partitioner=...)`` of kafka-python."""
        require("kafka", "kafka", "a partitioner for kafka-python")
        from kafka.partitioner import Partitioner as Interface

        choose = self

        class OfKafkaPython(Interface):  # type: ignore[misc]
            def partition(
                self,
                topic: str,
                key: Any,
                serialized_key: Any,
                value: Any,
                serialized_value: Any,
                cluster: Any,
            ) -> int:
                there = sorted(cluster.partitions_for_topic(topic) or ())
                choose.check(topic, len(there))
                return int(there[choose(serialized_key)])

        return OfKafkaPython()

    def check(self, topic: str, partitions: int) -> None:
        """Refuse a topic with another number of partitions than this partitioner was made for."""
        if partitions != self.partitions:
            raise EvenflowError(
                f"topic {topic!r} has {partitions} partitions, and the partitioner was made for "
                f"{self.partitions}; make one with partitions={partitions}."
            )


def partitioner(
    scheme: str | Scheme = "fill", *, partitions: int, seed: int = 0, source: int = 0, sources: int = 1
) -> Partitioner:
    """Return a `Partitioner` for one producer of a topic with ``partitions`` partitions.

    >>> partitioner("key", partitions=8)(b"user-1")
    0
    """
    return Partitioner(partitions, scheme, seed=seed, source=source, sources=sources)
