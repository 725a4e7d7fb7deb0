"""Kafka: addresses of topics, a partitioner for producers, and samples of a topic. Without PySpark.

Names are loaded when they are used: the command line imports only addresses.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from evenflow.kafka.address import KafkaAddress, is_kafka
    from evenflow.kafka.partitioning import Partitioner, partitioner

__all__ = ["KafkaAddress", "Partitioner", "is_kafka", "partitioner"]

if not TYPE_CHECKING:
    __getattr__, __dir__, _ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "address": ["KafkaAddress", "is_kafka"],
            "partitioning": ["Partitioner", "partitioner"],
        },
    )
