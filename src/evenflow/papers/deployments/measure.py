"""One configuration, all its schemes in turn: rows with throughput, latency, memory, and predictions.

Before the first configuration of a cluster size everything is run once to warm up. A scheme that the
simulator predicts to take k times the ideal (key grouping, mostly) gets every k-th message only, as the
row's ``share`` says: all runs last about as long, and the engine's own cost weighs the same in each. An
empty run, the same pipeline with messages that cost nothing, measures that cost.
"""

from __future__ import annotations

from typing import Any

import evenflow as ef
from evenflow.papers.deployments.cluster import Cluster, Messages
from evenflow.papers.deployments.finished import Run, median_of
from evenflow.papers.deployments.harness import Harness, open_harness
from evenflow.papers.experiment import Row
from evenflow.schemes.base import Scheme

ROUNDS = 3
WARM = 0.3  # seconds every worker is busy when warming up: they are there at the same time
_WARMED: set[int] = set()  # cluster sizes of this process

Subject = tuple[str, str, dict[str, Any]]  # label, scheme, parameters


def deployed(
    stream: str, messages: int | None, workers: int, sources: int, service: float, subjects: list[Subject],
    rounds: int = ROUNDS, master: str | None = None,
) -> list[Row]:  # fmt: skip
    """Deploy every subject on one stream; a row for each, medians of ``rounds`` interleaved runs."""
    cluster = Cluster(workers, sources, service)
    whole = Messages.of(stream, messages)
    with open_harness() as harness:
        _warm_up(harness, cluster)
        trials = [_Trial(harness, cluster, whole, *subject) for subject in subjects]
        idle = Cluster(workers, sources, 1e-9)
        empty = harness.run(ef.scheme("shuffle"), whole, idle).seconds
        for _ in range(rounds):
            for trial in trials:
                trial.run()
    rows = [trial.row() | {"empty_seconds": empty} for trial in trials]
    key = next((row for row in rows if row["scheme"] == "key"), None)
    return [row | _relative(row, key) for row in rows] if key else rows


def _relative(row: Row, key: Row) -> Row:
    """Return the throughput relative to key grouping's, measured and predicted."""
    return {
        "of_key": row["throughput"] / key["throughput"],
        "predicted_of_key": row["predicted_throughput"] / key["predicted_throughput"],
    }


class _Trial:
    """One subject in one configuration."""

    def __init__(
        self, harness: Harness, cluster: Cluster, whole: Messages,
        label: str, name: str, parameters: dict[str, Any],
    ):  # fmt: skip
        self.harness, self.cluster, self.label = harness, cluster, label
        self.scheme: Scheme = ef.scheme(name, **parameters)
        self.name = self.scheme.name  # name may be an alias
        ideal = cluster.ideal_seconds(whole.messages)
        self.thinned = max(1, round(cluster.predicted_seconds(self.scheme, whole) / ideal))
        if self.thinned > 1 and "rate" in parameters:  # its clock runs as with all messages
            self.scheme = ef.scheme(name, **parameters | {"rate": parameters["rate"] / self.thinned})
        self.messages = whole.thinned(self.thinned)
        self.predicted = cluster.predicted_seconds(self.scheme, self.messages)
        self.runs: list[Run] = []

    def run(self) -> None:
        """Run once more."""
        self.runs.append(self.harness.run(self.scheme, self.messages, self.cluster, self.thinned))

    def row(self) -> Row:
        """Return the medians, and what was predicted."""
        numbers = median_of(self.runs)
        return {
            "label": self.label,
            "scheme": self.name,
            "workers": self.cluster.workers,
            "sources": self.cluster.sources,
            "messages": self.messages.messages,
            "share": 1 / self.thinned,
            "service": self.cluster.service,
            **numbers,
            "makespan": numbers["seconds"] * self.thinned,
            "predicted_throughput": self.messages.messages / self.predicted,
        }


def _warm_up(harness: Harness, cluster: Cluster) -> None:
    """Start all Python workers at once and let the JVM see the pipeline, once per cluster size."""
    if cluster.workers in _WARMED:
        return
    messages = Messages.of(f"zipf:z=1,keys=1000,messages={cluster.workers * 100},seed=1")
    slow = Cluster(cluster.workers, cluster.sources, WARM / 100)
    for _ in range(1 if _WARMED else 2):
        harness.run(ef.scheme("shuffle"), messages, slow)
    _WARMED.add(cluster.workers)
