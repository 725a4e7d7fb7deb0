"""When was each message finished? From the workers' slices to throughput and latency.

A message's latency is the time from submitting its batch to the end of its service; all messages of a run are
one batch. Within a slice a worker serves at a constant pace, so message i of r is finished at
``began + i / r * (ended - began)``.

A scheme that overloads a few workers may be run on every ``thinned``-th message only; its throughput is that
of the messages it got. Its latencies are those of the whole stream: a worker starts when it does, and then
takes ``thinned`` times as long for everything ahead of a message.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int64Array


@dataclass(frozen=True)
class Finished:
    """What one worker logged: slices as (began, ended, messages, processor seconds), and bytes of state."""

    slices: Float64Array
    state_bytes: int = 0

    @property
    def messages(self) -> int:
        """Number of messages served."""
        return int(self.slices[:, 2].sum())

    @property
    def busy(self) -> float:
        """Seconds spent serving."""
        return float((self.slices[:, 1] - self.slices[:, 0]).sum())

    def times(self) -> Float64Array:
        """Return when each message was finished.

        >>> Finished(np.array([[10.0, 12.0, 2, 0.0], [12.0, 13.0, 1, 0.0]])).times().tolist()
        [11.0, 12.0, 13.0]
        """
        began, ended, rows = self.slices[:, 0], self.slices[:, 1], self.slices[:, 2].astype(np.int64)
        number = np.arange(1, int(rows.sum()) + 1) - np.repeat(np.cumsum(rows) - rows, rows)
        pace = np.repeat((ended - began) / np.maximum(rows, 1), rows)
        times: Float64Array = np.repeat(began, rows) + number * pace
        return times

    def latencies(self, submitted: float, thinned: int = 1) -> Float64Array:
        """Return the latency of each message, as if no message of the stream had been left out."""
        if not len(self.slices):
            return np.empty(0)
        first = float(self.slices[0, 0])
        found: Float64Array = (first - submitted) + thinned * (self.times() - first)
        return found


@dataclass(frozen=True)
class Run:
    """One run of a deployment: wall seconds, what each worker logged, what the aggregator counted."""

    submitted: float
    seconds: float
    workers: list[Finished]
    keys: int
    pairs: int
    thinned: int = 1

    @property
    def loads(self) -> Int64Array:
        """Messages of each worker."""
        return np.array([worker.messages for worker in self.workers], np.int64)

    def numbers(self) -> dict[str, float]:
        """Return every number of a run: throughput, latency, memory, balance."""
        by_worker = [worker.latencies(self.submitted, self.thinned) for worker in self.workers]
        latencies = np.concatenate(by_worker)
        p50, p95, p99 = np.quantile(latencies, (0.5, 0.95, 0.99))
        loads = self.loads
        return {
            "seconds": self.seconds,
            "throughput": int(loads.sum()) / self.seconds,
            "latency_mean": float(latencies.mean()),
            "latency_p50": float(p50),
            "latency_p95": float(p95),
            "latency_p99": float(p99),
            "latency_worker": max(float(own.mean()) for own in by_worker if own.size),
            "pairs": self.pairs,
            "keys": self.keys,
            "memory": self.pairs / max(1, self.keys),
            "state_bytes": sum(worker.state_bytes for worker in self.workers),
            "max_over_mean": float(loads.max() * loads.size / loads.sum()),
            "standard_deviation": float(np.std(100 * loads / loads.sum())),
        }


def read_finished(folder: Path, workers: int) -> list[Finished]:
    """Return what every worker logged in a folder."""
    found = []
    for worker in range(workers):
        path = folder / f"{worker:05d}.npz"
        if not path.exists():
            raise EvenflowError(
                f"worker {worker} left no log in {folder}; every executor must be able to write there: set "
                "TMPDIR to a folder that all of them share."
            )
        with np.load(path) as log:
            found.append(Finished(log["slices"], int(log["state_bytes"])))
    return found


def median_of(runs: list[Run]) -> dict[str, float]:
    """Return the median of every number over several runs."""
    numbers = [run.numbers() for run in runs]
    return {name: float(np.median([own[name] for own in numbers])) for name in numbers[0]}
