"""When was each message finished? From the workers' slices to throughput and latency.

A message's latency is the time from handing in its batch to the end of its service. All messages of a run are
one batch. Inside a slice a worker serves at an even pace, so the i-th of r messages is finished at ``began +
i / r (ended - began)``.

A scheme that overloads a few workers may be run on every ``thinned``-th message only; its throughput is that
of the messages it got. Its latencies are those of the whole stream: a worker begins when it does, and then
takes ``thinned`` times as long for what is before a message.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int64Array


@dataclass(frozen=True)
class Finished:
    """What one worker told: slices as (began, ended, messages, processor seconds), bytes of its states."""

    slices: Float64Array
    state_bytes: int = 0

    @property
    def messages(self) -> int:
        """How many messages it served."""
        return int(self.slices[:, 2].sum())

    @property
    def busy(self) -> float:
        """Seconds it was at work."""
        return float((self.slices[:, 1] - self.slices[:, 0]).sum())

    def times(self) -> Float64Array:
        """Return when each message was finished.

        >>> Finished(np.array([[10.0, 12.0, 2, 0.0], [12.0, 13.0, 1, 0.0]])).times().tolist()
        [11.0, 12.0, 13.0]
        """
        began, ended, rows = self.slices[:, 0], self.slices[:, 1], self.slices[:, 2].astype(np.int64)
        place = np.arange(1, int(rows.sum()) + 1) - np.repeat(np.cumsum(rows) - rows, rows)
        pace = np.repeat((ended - began) / np.maximum(rows, 1), rows)
        times: Float64Array = np.repeat(began, rows) + place * pace
        return times

    def latencies(self, handed_in: float, thinned: int = 1) -> Float64Array:
        """Return the latency of each message, as if no message of the stream had been left out."""
        if not len(self.slices):
            return np.empty(0)
        first = float(self.slices[0, 0])
        found: Float64Array = (first - handed_in) + thinned * (self.times() - first)
        return found


@dataclass(frozen=True)
class Run:
    """One run of a deployment: wall seconds, what each worker told, what the aggregator counted."""

    handed_in: float
    seconds: float
    workers: list[Finished]
    keys: int
    pairs: int
    thinned: int = 1

    @property
    def messages(self) -> int:
        """Messages served."""
        return sum(worker.messages for worker in self.workers)

    @property
    def loads(self) -> Int64Array:
        """Messages of each worker."""
        return np.array([worker.messages for worker in self.workers], np.int64)

    def numbers(self) -> dict[str, float]:
        """Return every number of a run: throughput, latency, memory, balance."""
        each = [worker.latencies(self.handed_in, self.thinned) for worker in self.workers]
        together = np.concatenate(each)
        p50, p95, p99 = np.quantile(together, (0.5, 0.95, 0.99))
        loads = self.loads
        return {
            "seconds": self.seconds,
            "throughput": self.messages / self.seconds,
            "latency_mean": float(together.mean()),
            "latency_p50": float(p50),
            "latency_p95": float(p95),
            "latency_p99": float(p99),
            "latency_worker": max(float(own.mean()) for own in each if own.size),
            "pairs": self.pairs,
            "keys": self.keys,
            "memory": self.pairs / max(1, self.keys),
            "state_bytes": sum(worker.state_bytes for worker in self.workers),
            "max_over_mean": float(loads.max() * loads.size / loads.sum()),
            "standard_deviation": float(np.std(100 * loads / loads.sum())),
        }


def read_finished(folder: Path, workers: int) -> list[Finished]:
    """Return what every worker told in a folder."""
    found = []
    for worker in range(workers):
        path = folder / f"{worker:05d}.npz"
        if not path.exists():
            raise EvenflowError(
                f"worker {worker} told nothing in {folder}; every executor must be able to write there: "
                "choose a folder that all of them share with TMPDIR."
            )
        with np.load(path) as told:
            found.append(Finished(told["slices"], int(told["state_bytes"])))
    return found


def median_of(runs: list[Run]) -> dict[str, float]:
    """Return the median of every number over several runs.

    >>> told = [Finished(np.array([[0.0, 1.0, 4, 0.0]]))]
    >>> median_of([Run(0.0, seconds, told, 1, 1) for seconds in (2.0, 1.0, 4.0)])["throughput"]
    2.0
    """
    numbers = [run.numbers() for run in runs]
    return {name: float(np.median([own[name] for own in numbers])) for name in numbers[0]}
