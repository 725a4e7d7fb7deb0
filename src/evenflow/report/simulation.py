"""Simulation results as tables: balance and memory and, if measured, queues, migration and merging."""

from __future__ import annotations

from collections.abc import Sequence

from evenflow.report.tables import Cell, Table
from evenflow.simulator import Result

_BALANCE = {
    "imbalance": "imbalance",
    "imbalance_mean": "mean over time",
    "max_over_mean": "max/mean",
    "replicas": "replicas",
    "memory": "memory",
    "head_keys": "head keys",
    "head_share": "head share",
    "speed": "M messages/s",
}
_NOTE = (
    "Imbalance: (max - mean load) / messages, at the end and averaged over the stream. Replicas: distinct "
    "(key, worker) pairs; memory: replicas / keys. Messages/s is the speed of the simulation."
)
_ALWAYS = ("imbalance", "imbalance_mean")  # shown even if 0
_QUEUES = {
    "latency_mean": "mean",
    "latency_worst_mean": "worst worker's mean",
    "latency_p50": "p50",
    "latency_p95": "p95",
    "latency_p99": "p99",
    "throughput": "messages/s",
    "makespan": "makespan (s)",
    "utilisation": "utilisation",
    "queue_max": "longest queue",
    "imbalance_utilisation": "utilisation imbalance",
}
_MOVES = {
    "keys_moved": "keys moved",
    "state_moved": "state moved",
    "balance": "balance b",
}
_MERGES = {
    "partials": "partial results",
    "partials_per_period": "per period",
    "aggregator_utilisation": "aggregator utilisation",
    "aggregator_lag": "longest lag (s)",
}


def tables(results: Sequence[Result], labels: Sequence[str]) -> list[Table]:
    """Return the main results; the JSON output has all of them."""
    first = results[0]
    size = f"{first.messages:,} messages, {first.numbers['keys']:,} keys, {_count(first.sources, 'source')}"
    title = f"{size}: {first.stream}"
    found = [
        _table(title, results, labels, _BALANCE, _NOTE),
        _table("Queues: latency in seconds", results, labels, _QUEUES),
        _table("Migration, in keys and messages", results, labels, _MOVES),
        _table("Merging partial results", results, labels, _MERGES),
    ]
    return [table for table in found if len(table.columns) > 2]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _table(
    title: str, results: Sequence[Result], labels: Sequence[str], wanted: dict[str, str], note: str = ""
) -> Table:
    """Return a table of the ``wanted`` numbers, without empty columns and rows."""
    numbers = [result.numbers | {"speed": result.row()["messages_per_second"] / 1e6} for result in results]
    names = [name for name in wanted if any(own.get(name) for own in numbers) or name in _ALWAYS]
    rows: list[tuple[Cell, ...]] = [
        (label, result.workers, *(own.get(name) for name in names))
        for result, label, own in zip(results, labels, numbers, strict=True)
        if any(name in own for name in names)
    ]
    return Table(title, ["scheme", "workers", *(wanted[name] for name in names)], rows, note)
