"""Fill's theorems against measurement: balance, the longest wait, the fewest homes of Zipf streams.

Example: `python -m benchmarks.fill_theorems`
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import evenflow as ef
from benchmarks.fill_latency import memory
from evenflow.bench.measure import Row
from evenflow.kernels import Float64Array, Int32Array, kernel

EPSILON = 0.02


def zipf_shares(z: float, keys: int) -> Float64Array:
    """Return the shares of the keys, hottest first."""
    weights: Float64Array = np.arange(1, keys + 1, dtype=np.float64) ** -z
    shares: Float64Array = weights / weights.sum()
    return shares


def fewest_homes(shares: Float64Array, workers: int) -> int:
    """Return the homes beyond the first that every scheme with max <= (1 + epsilon) mean needs."""
    return int((np.ceil(np.round(workers * shares / (1 + EPSILON), 9)) - 1).clip(0).sum())


def check(z: float, keys: int, workers: int, rows: int, queue: float) -> Row:
    """Route one stream and compare."""
    shares = zipf_shares(z, keys)
    ids = np.random.default_rng(1).choice(keys, rows, p=shares).astype(np.int32)
    out = ef.scheme("fill", queue=queue).router(workers).route(ef.hash_keys(np.arange(keys))[ids])
    loads = np.bincount(out, minlength=workers)
    return {
        "z": z,
        "keys": keys,
        "workers": workers,
        "queue": queue,
        "max/mean": float(loads.max() * workers / rows),
        "bound of max/mean": 1 + EPSILON + workers / rows,
        "longest wait, rows": float(_longest(out, np.zeros(workers), 1 + 0.75 * EPSILON)),
        "bound of the wait": 8 * queue + 2,
        "homes beyond the first": round((memory(ids, out, workers) - 1) * np.unique(ids).size),
        "fewest of any even scheme": fewest_homes(shares, workers),
    }


@kernel
def _longest(workers: Int32Array, free: Float64Array, rate: float) -> float:
    """Return the longest wait, in services, of workers that serve ``rate`` times their share."""
    longest = 0.0
    for i in range(workers.size):
        now = rate * (i + 1) / free.size
        longest = max(longest, free[workers[i]] - now)
        free[workers[i]] = max(free[workers[i]], now) + 1.0
    return longest


def run() -> Iterator[Row]:
    """Yield one row per stream."""
    for z in (0.6, 1.0, 1.4, 2.0):
        for workers in (10, 50, 100):
            yield check(z, 10**4, workers, 10**6, 5.0)
    for queue in (1.0, 20.0):
        yield check(1.0, 10**4, 50, 10**6, queue)


if __name__ == "__main__":
    for row in run():
        cells = (f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values())
        print("| " + " | ".join(cells) + " |", flush=True)  # noqa: T201
