"""Fill with up to 10^4 workers: time per message, memory and imbalance, with keys drawn in chunks.

Keys follow a Zipf law with z = 0.8 by inversion of its integral, so that nothing grows with their number; the
homes beyond a key's first are counted by the router.

Example: `python -m benchmarks.fill_scale --rows 1e7 --keys 1e8`
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator, Sequence

import numpy as np

import evenflow as ef
from evenflow.bench.measure import Row
from evenflow.kernels import UInt64Array
from evenflow.schemes.fill import OPENED, FillRouter

CHUNK = 10**6
SKEW = 0.8


def chunks(rows: int, keys: int) -> Iterator[UInt64Array]:
    """Yield key hashes, a million at a time."""
    rng = np.random.default_rng(1)
    for start in range(0, rows, CHUNK):
        ranks = (keys * rng.random(min(CHUNK, rows - start)) ** (1 / (1 - SKEW))).astype(np.uint64)
        yield ef.hash_keys(ranks.astype(np.int64))


def grow(rows: int, keys: int, workers: Sequence[int]) -> Iterator[Row]:
    """Measure one router for each number of workers."""
    for n in workers:
        router = ef.scheme("fill").router(n)
        assert isinstance(router, FillRouter)
        spent = 0.0
        for part in chunks(rows, keys):
            before = time.thread_time()
            router.route(part)
            spent += time.thread_time() - before
        yield {
            "workers": n,
            "rows": rows,
            "nanoseconds per row": 1e9 * spent / rows,
            "router, MB": len(router.to_bytes()) / 1e6,
            "max/mean": float(router.loads.max() * n / rows),
            "bound": 1.02 + n / rows,
            "homes beyond the first": int(router.state.counts[OPENED]),
            "peak of the process, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--keys", type=float, default=1e8)
    parser.add_argument("--workers", type=int, nargs="+", default=[10, 100, 1000, 10_000])
    given = parser.parse_args()
    for row in grow(int(given.rows), int(given.keys), given.workers):
        print(row, flush=True)  # noqa: T201
