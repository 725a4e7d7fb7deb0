"""One setting, all its schemes in turn: rows with throughput, latency, memory, and what was predicted.

Before the first setting of a cluster size everything is run once to warm up. A scheme that the simulator
predicts to take k times the ideal (key grouping, mostly) gets every k-th message only, as the row's ``share``
says: all runs last about as long, and what the engine takes by itself weighs the same in each. An empty run,
the same pipeline with messages that cost nothing, tells how much that is.
"""

from __future__ import annotations

from typing import Any

import evenflow as ef
from evenflow.papers.deployments.finished import Run, median_of
from evenflow.papers.deployments.harness import Cluster, Harness, harness_on, predicted_seconds
from evenflow.papers.deployments.informed import Informed
from evenflow.papers.deployments.messages import Messages
from evenflow.papers.deployments.session import current
from evenflow.papers.experiment import Row
from evenflow.schemes.base import Scheme

ROUNDS = 3
GRACE_SHARE = 3  # a batch of the grace period has one of so many messages
WARM = 0.3  # seconds every worker is busy when warming up: they are there at the same time
_WARMED: set[int] = set()  # cluster sizes of this process

Subject = tuple[str, str, dict[str, Any]]  # label, scheme, parameters


def deployed(
    stream: str,
    messages: int | None,
    workers: int,
    sources: int,
    service: float,
    subjects: list[Subject],
    speeds: list[float] | None = None,
    grace: int = 0,
    rounds: int = ROUNDS,
    master: str | None = None,
) -> list[Row]:
    """Deploy every subject on one stream; a row for each, medians of ``rounds`` runs in turn.

    ``grace``: batches before measuring, in which schemes that hear their workers do.
    """
    cluster = Cluster(workers, sources, service, tuple(speeds or ()))
    whole = Messages.of(stream, messages)
    with harness_on(current()) as harness:
        _warm_up(harness, cluster)
        trials = [_Trial(harness, cluster, whole, grace, *subject) for subject in subjects]
        empty = _empty_run(harness, cluster, whole)
        for _ in range(rounds):
            for trial in trials:
                trial.run()
    rows = [trial.row() | {"empty_seconds": empty} for trial in trials]
    return [row | _beside_key(row, rows) for row in rows]


class _Trial:
    """One subject in one setting."""

    def __init__(
        self,
        harness: Harness,
        cluster: Cluster,
        whole: Messages,
        grace: int,
        label: str,
        name: str,
        parameters: dict[str, Any],
    ):
        self.harness, self.cluster, self.label = harness, cluster, label
        self.name = ef.scheme(name).name  # name may be an alias
        self.scheme = self._after_grace(name, parameters, whole, grace)
        self.thinned = self._thinning(whole)
        if self.thinned > 1 and "rate" in parameters:  # its clock runs as with all messages
            self.scheme = ef.scheme(name, **parameters | {"rate": parameters["rate"] / self.thinned})
        self.messages = whole.thinned(self.thinned)
        self.predicted = predicted_seconds(self.scheme, self.messages, cluster)
        self.runs: list[Run] = []

    def _after_grace(self, name: str, parameters: dict[str, Any], whole: Messages, grace: int) -> Scheme:
        scheme = ef.scheme(name, **parameters)
        if not grace or not scheme.needs_reports:
            return scheme
        informed = Informed(name, tuple(parameters.items()))
        batch = whole.thinned(GRACE_SHARE)
        for _ in range(grace):
            informed = informed.after(self.harness.run(informed, batch, self.cluster))
        return informed

    def _thinning(self, whole: Messages) -> int:
        ideal = self.cluster.ideal_seconds(whole.messages)
        return max(1, round(predicted_seconds(self.scheme, whole, self.cluster) / ideal))

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


def _beside_key(row: Row, rows: list[Row]) -> Row:
    """Return how many times key grouping's throughput, measured and predicted, where that is known."""
    key = next((one for one in rows if one["scheme"] == "key"), None)
    if key is None:
        return {}
    return {
        "of_key": row["throughput"] / key["throughput"],
        "predicted_of_key": row["predicted_throughput"] / key["predicted_throughput"],
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


def _empty_run(harness: Harness, cluster: Cluster, whole: Messages) -> float:
    """Return the seconds of the pipeline itself, with messages that cost nothing."""
    idle = Cluster(cluster.workers, cluster.sources, 1e-9)
    return harness.run(ef.scheme("shuffle"), whole, idle).seconds
