"""Latencies of finished messages: exact for few messages, then a histogram of fixed size.

Up to ``limit`` messages every latency is kept (a 32-bit float and the worker's number), and quantiles are
those of the sample, rank ceil(q m). Beyond, latencies are binned by the exponent and the first seven fraction
bits of the 32-bit float, so a quantile is off by at most 1/256 of its value, between 2^-40 and 2^24 seconds.
Means are exact in both cases.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.kernels import Float64Array, Int32Array, Int64Array, kernel

Float32Array = npt.NDArray[np.float32]

LIMIT = 5_000_000
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_FRACTION = 7
_SHIFT = 23 - _FRACTION
_LOWEST = (127 - 40) << _FRACTION  # the bin of 2^-40
_BINS = 64 << _FRACTION


class LatencyLog(NamedTuple):
    """Written by kernels: latency and worker of finished messages, and [their number]."""

    latency: Float32Array
    worker: Int32Array
    used: Int64Array


class Latencies:
    """Collects latencies by worker in bounded memory."""

    def __init__(self, workers: int, limit: int = LIMIT):
        self.workers = workers
        self.limit = limit
        self.log = _new_log(0)
        self.histogram: Int64Array | None = None

    def make_room(self, count: int) -> LatencyLog:
        """Return the log with room for ``count`` more messages."""
        used = int(self.log.used[0])
        if used + count > self.log.latency.size:
            if used > self.limit or (self.histogram is not None and used):
                self._to_histogram()
                used = 0
            if used + count > self.log.latency.size:
                kept = self.limit + self.limit // 16  # at once: pages that are not written to take no memory
                larger = _new_log(max(used + count, 3 * self.log.latency.size // 2, kept, 1 << 16))
                larger.latency[:used] = self.log.latency[:used]
                larger.worker[:used] = self.log.worker[:used]
                larger.used[0] = used
                self.log = larger
        return self.log

    def _to_histogram(self) -> None:
        if self.histogram is None:
            self.histogram = np.zeros((self.workers, _BINS), np.int64)
        used = int(self.log.used[0])
        bins = (self.log.latency[:used].view(np.int32) >> _SHIFT) - _LOWEST
        np.clip(bins, 0, _BINS - 1, out=bins)
        np.add.at(self.histogram, (self.log.worker[:used], bins), 1)
        self.log.used[0] = 0

    def quantiles(self) -> tuple[dict[str, float], dict[str, Float64Array]]:
        """Return the quantiles of all messages and of each worker's, NaN if there are none."""
        if self.histogram is not None or self.log.used[0] > self.limit:
            self._to_histogram()
            assert self.histogram is not None
            counts = self.histogram
            return _of_histogram(counts.sum(axis=0)[None])[0], _columns([*_of_histogram(counts)])
        used = int(self.log.used[0])
        latency, worker = self.log.latency[:used], self.log.worker[:used]
        ends = np.cumsum(np.bincount(worker, minlength=self.workers))
        by_worker = np.empty_like(latency)
        _group(latency, worker, ends.copy(), by_worker)
        parts = [_of_sample(part) for part in np.split(by_worker, ends[:-1])]
        return _of_sample(latency), _columns(parts)


def _new_log(size: int) -> LatencyLog:
    return LatencyLog(np.empty(size, np.float32), np.empty(size, np.int32), np.zeros(1, np.int64))


@kernel
def _group(latency: Float32Array, worker: Int32Array, ends: Int64Array, out: Float32Array) -> None:
    """Write the latencies to ``out`` by worker; the latencies of worker w are before ``ends[w]``."""
    for i in range(latency.size):
        ends[worker[i]] -= 1
        out[ends[worker[i]]] = latency[i]


def _rank(q: float, count: int) -> int:
    return max(0, int(np.ceil(q * count)) - 1)


def _of_sample(latency: Float32Array) -> dict[str, float]:
    if not latency.size:
        return dict.fromkeys(QUANTILES, float("nan"))
    ranks = [_rank(q, latency.size) for q in QUANTILES.values()]
    placed = np.partition(latency, ranks)  # several times faster than to sort all
    return {name: float(placed[rank]) for name, rank in zip(QUANTILES, ranks, strict=True)}


def _of_histogram(counts: Int64Array) -> list[dict[str, float]]:
    bits = (np.arange(_BINS, dtype=np.int32) + _LOWEST) << _SHIFT
    middle = (bits | (1 << (_SHIFT - 1))).view(np.float32)
    rows = []
    for row in counts:
        below = np.cumsum(row)
        bins = [int(np.searchsorted(below, _rank(q, int(below[-1])), "right")) for q in QUANTILES.values()]
        values = [float(middle[found]) if below[-1] else float("nan") for found in bins]
        rows.append(dict(zip(QUANTILES, values, strict=True)))
    return rows


def _columns(rows: list[dict[str, float]]) -> dict[str, Any]:
    return {name: np.array([row[name] for row in rows]) for name in QUANTILES}
