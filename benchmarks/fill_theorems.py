"""Fill's theorems against measurement: balance, the longest wait, the fewest homes of Zipf streams."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import evenflow as ef
from benchmarks.fill_latency import memory
from benchmarks.fill_variants import Arrays, Variant, watched
from evenflow.bench.measure import Progress, Row, silent
from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int32Array, kernel
from evenflow.report.tables import Table
from evenflow.schemes.fill import LIGHT, LIGHT_KEY, LIGHTEST, LONGEST, PRICE
from evenflow.schemes.fill_homes import AHEAD

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
    hashes = ef.hash_keys(np.arange(keys))
    out = ef.scheme("fill", queue=queue).router(workers).route(hashes[ids])
    same, seen = watched(Variant(queue=queue), ids, hashes, workers)
    if not np.array_equal(out, same):
        raise EvenflowError(
            "the ablation of fill decides otherwise than fill; compare benchmarks/fill_variants.py."
        )
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
        "opened by waits": int(seen.opened[0]),
        "most": most_homes(seen.share, workers, min(queue, 12.0), float(seen.longest[0]), distinct(seen)),
        "most, before": most_homes(shares, workers, min(queue, 12.0), 8 * min(queue, 12.0), distinct(seen)),
    }


def distinct(seen: Arrays) -> float:
    """Return the number of distinct keys that fill estimates."""
    cells = seen.counts.size
    return float(cells * np.log((cells + 1.0) / (cells - seen.opened[2] + 1.0)))


def most_homes(shares: Float64Array, workers: int, queue: float, longest: float, keys: float) -> int:
    """Return theorem 5's bound of the homes that waits open, for rows that wait ``longest`` at most."""
    bound = np.inf
    for opened in np.linspace(max(0.0, (longest / queue - 1) / PRICE), LONGEST / PRICE, 200) * keys:
        stretch = min(LONGEST, 1 + PRICE * opened / keys)
        part = workers * shares * (longest / (queue * stretch)) ** 2
        hot = part / min(LIGHT, max(LIGHTEST, LIGHT_KEY * workers / keys))
        if queue * stretch >= longest * (1 - 1e-9):
            bound = min(bound, opened + AHEAD + np.minimum(workers - 1, np.ceil(hot) - 1).clip(0).sum())
    return int(bound)


@kernel
def _longest(workers: Int32Array, free: Float64Array, rate: float) -> float:
    """Return the longest wait, in services, of workers that serve ``rate`` times their share."""
    longest = 0.0
    for i in range(workers.size):
        now = rate * (i + 1) / free.size
        longest = max(longest, free[workers[i]] - now)
        free[workers[i]] = max(free[workers[i]], now) + 1.0
    return longest


def run(quick: bool = False, progress: Progress = silent) -> list[Row]:
    """Return one row per stream; ``quick`` uses a tenth of the messages."""
    messages = 10**5 if quick else 10**6
    cases = [(z, workers, 5.0) for z in (0.6, 1.0, 1.4, 2.0) for workers in (10, 50, 100)]
    cases += [(1.0, 50, 1.0), (1.0, 50, 20.0)]
    rows = []
    for step, (z, workers, queue) in enumerate(cases):
        progress(step, len(cases), f"Zipf {z}, {workers} workers, queue {queue:g}")
        rows.append(check(z, 10**4, workers, messages, queue))
    return rows


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return the measured values beside their bounds."""
    return [
        Table(
            "Fill's theorems against measurement",
            tuple(rows[0]),
            [
                tuple(f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row.values())
                for row in rows
            ],
            "The wait is that of workers that serve 1 + 3/4 epsilon times their share.",
        )
    ]
