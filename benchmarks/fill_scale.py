"""Fill with up to 10^4 workers: time per message, memory and imbalance, with keys drawn in chunks.

Keys follow a Zipf law with z = 0.8 by inversion of its integral, so that nothing grows with their number.
Memory is counted exactly for one key in 128, chosen by hash; homes beyond the first are the router's count.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import evenflow as ef
from evenflow.bench.measure import Progress, Row, silent
from evenflow.kernels import Int32Array, Int64Array, UInt64Array
from evenflow.report.tables import Table
from evenflow.schemes.fill import OPENED, FillRouter

CHUNK = 10**6
SKEW = 0.8
WATCHED = 128  # the pairs of one key in so many are counted
WORKERS = (10, 100, 1000, 10_000)


def run(
    quick: bool = False,
    rows: int = 10**7,
    keys: int = 10**8,
    workers: Sequence[int] = WORKERS,
    progress: Progress = silent,
) -> list[Row]:
    """Measure one router for each number of workers; ``quick`` routes a tenth of the rows."""
    rows = rows // 10 if quick else rows
    return [measure(rows, keys, n, progress) for n in workers]


def chunks(rows: int, keys: int) -> Iterator[UInt64Array]:
    """Yield key hashes, a million at a time."""
    rng = np.random.default_rng(1)
    for start in range(0, rows, CHUNK):
        ranks = (keys * rng.random(min(CHUNK, rows - start)) ** (1 / (1 - SKEW))).astype(np.uint64)
        yield ef.hash_keys(ranks.astype(np.int64))


def measure(rows: int, keys: int, workers: int, progress: Progress = silent) -> Row:
    """Route a stream with one router, chunk by chunk."""
    router = ef.scheme("fill").router(workers)
    assert isinstance(router, FillRouter)
    ef.scheme("fill").router(workers).route(next(chunks(1, keys)))  # compile
    pairs = Pairs(workers)
    spent = 0.0
    for number, part in enumerate(chunks(rows, keys)):
        progress(number * CHUNK, rows, f"{workers} workers")
        before = time.thread_time()
        out = router.route(part)
        spent += time.thread_time() - before
        pairs.add(part, out)
    return {
        "workers": workers,
        "rows": rows,
        "keys": keys,
        "nanoseconds_per_row": 1e9 * spent / rows,
        "router_megabytes": len(router.to_bytes()) / 1e6,
        "max_over_mean": float(router.loads.max() * workers / rows),
        "bound": 1.02 + workers / rows,
        "memory": pairs.memory(),
        "further_homes": int(router.state.totals[OPENED]),
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


class Pairs:
    """The distinct (key, worker) pairs of some of the keys."""

    def __init__(self, workers: int):
        self._workers = np.uint64(workers)
        self._known: UInt64Array = np.zeros(0, np.uint64)
        self._latest: list[UInt64Array] = []

    def add(self, keys: UInt64Array, workers: Int32Array) -> None:
        """Add a chunk of a stream."""
        watched = keys % np.uint64(WATCHED) == 0
        some = (keys[watched] // np.uint64(WATCHED)) & np.uint64(2**48 - 1)  # room for 2^16 workers
        self._latest.append(np.unique(some * self._workers + workers[watched].astype(np.uint64)))
        if len(self._latest) == 100:
            self._known = self._distinct()

    def _distinct(self) -> UInt64Array:
        known: UInt64Array = np.unique(np.concatenate([self._known, *self._latest]))
        self._latest = []
        return known

    def memory(self) -> float:
        """Return the pairs per key."""
        self._known = self._distinct()
        seen: Int64Array = np.unique(self._known // self._workers)
        return float(self._known.size / max(1, seen.size))


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return the growth with the number of workers."""
    columns = {
        "workers": "workers",
        "rows": "rows",
        "ns per row": "nanoseconds_per_row",
        "router, MB": "router_megabytes",
        "max/mean": "max_over_mean",
        "bound": "bound",
        "memory": "memory",
        "homes beyond the first": "further_homes",
        "peak of the process, MB": "peak_megabytes",
    }
    return [
        Table(
            "Fill by number of workers",
            tuple(columns),
            [
                tuple(
                    f"{row[column]:.4f}" if column in ("max_over_mean", "bound", "memory") else row[column]
                    for column in columns.values()
                )
                for row in rows
            ],
            f"Zipf {SKEW}, {rows[0]['keys']:,} keys; memory of one key in {WATCHED}; CPU time of routing.",
        )
    ]


def figure(rows: Sequence[Row], path: Path) -> None:
    """Draw time per row, memory and imbalance against the number of workers."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(10, 2.8), layout="constrained")
    panels = drawing.subplots(1, 3)
    workers = [row["workers"] for row in rows]
    for panel, (name, title) in zip(
        panels,
        {
            "nanoseconds_per_row": "nanoseconds per row",
            "memory": "memory: (key, worker) pairs per key",
            "max_over_mean": "max/mean, and its bound",
        }.items(),
        strict=True,
    ):
        panel.plot(workers, [row[name] for row in rows], "k.-")
        panel.set(xscale="log", xlabel="workers", title=title, yscale="log" if "nano" in name else "linear")
        panel.title.set_fontsize(9)
    panels[2].plot(workers, [row["bound"] for row in rows], color="grey", linestyle=":")
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=90)
