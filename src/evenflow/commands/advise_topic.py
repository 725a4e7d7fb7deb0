"""``evenflow advise kafka://...``: a sample of a topic, and how even its partitions are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.commands.terminal import notify
from evenflow.errors import EvenflowError
from evenflow.kafka import KafkaAddress, partitioner
from evenflow.kafka.topic import TopicSample, sample

_MOST = 16  # partitions shown


def read_topic(address: str, rows: int | None) -> TopicSample:
    """Return the newest records of a topic; undecodable ones are counted, not dropped silently."""
    to = KafkaAddress.parse(address)
    found = sample(to, rows)
    if not found.rows.num_rows:
        raise EvenflowError(f"{to.name} has no records; produce some, or name another topic.")
    if found.undecodable:
        what = f"Avro records of {to.value}" if to.is_avro else "JSON objects"
        notify(
            f"advise: {found.undecodable:,} of {found.rows.num_rows:,} records are not {what}; they "
            "count with empty fields. Use ?value=text to read values as they are."
        )
    return found


def topic_facts(topic: TopicSample) -> dict[str, Any]:
    """Return how even the partitions are, and how even a partitioner with `fill` would make them."""
    mean = max(1.0, sum(topic.per_partition) / len(topic.per_partition))
    keys = pc.drop_null(topic.rows.column("key").combine_chunks())
    facts: dict[str, Any] = {
        "partitions": len(topic.per_partition),
        "records": topic.per_partition,
        "max_over_mean": max(topic.per_partition) / mean,
        "with_partitioner": None,  # records have no keys of their own
        "undecodable": topic.undecodable,
    }
    if len(keys) and pa.types.is_string(keys.type):
        placed = partitioner(partitions=len(topic.per_partition)).route(keys.to_pylist())
        fullest = max(int((placed == partition).sum()) for partition in range(len(topic.per_partition)))
        facts["with_partitioner"] = fullest * len(topic.per_partition) / len(keys)
    return facts


def topic_table(facts: dict[str, Any]) -> Any:
    """Return the records of each partition as a table, with what a partitioner would change."""
    from evenflow.report.tables import Table

    mean = max(1.0, sum(facts["records"]) / facts["partitions"])
    shown = sorted(enumerate(facts["records"]), key=lambda part: -part[1])[:_MOST]
    note = f"The fullest partition has {facts['max_over_mean']:.2f} times the mean."
    if facts["with_partitioner"] is not None and facts["max_over_mean"] > 1.1:
        note += (
            f" Producers with evenflow.kafka.partitioner(partitions={facts['partitions']}) would make it "
            f"{facts['with_partitioner']:.2f}; a hot key is then in several partitions."
        )
    rows = [(partition, records, records / mean) for partition, records in shown]
    return Table("Records per partition of the topic", ("partition", "records", "records / mean"), rows, note)
