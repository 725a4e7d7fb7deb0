"""State migration of one-owner schemes when a worker joins: n -> n + 1 workers, from 1 to 16, Zipf z = 1.

The partitioning functions are those of `stateful`: an ownership with the true frequencies that grows one
worker at a time, as in `functions` 5.1 (Fig. 6). ``uniform`` is a hash modulo n. Bytes are those of the state
rows that change owner, for two kinds of state: ``window`` has the key's rows of a window (bytes grow with the
key's frequency, the paper's default), ``fixed`` has two numbers per key, like most aggregates. Relative
migration is the bytes moved divided by one worker's share of all bytes (Eq. 10, 12).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

import evenflow as ef
from evenflow.bench.measure import Progress, Row, silent
from evenflow.bench.results import Limit, judged, target_table
from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array
from evenflow.owners import Ownership
from evenflow.owners.frequencies import MOST
from evenflow.plan import bucket_of
from evenflow.report.tables import Table
from evenflow.streams.sampling import zipf_weights

KEYS = 10**6
WINDOW = 10**7  # rows in the windows of all keys
Z = 1.0
MOST_WORKERS = 16
SEEDS = 5
KEY_BYTES = 8
NUMBER_BYTES = 8
UNIFORM = "uniform"
LIMIT = Limit("at most", 1.3)
SCHEMES = {
    "consistent-hash": ef.scheme("consistent-hash"),
    "scan": ef.scheme("explicit", algorithm="scan"),
    "redist": ef.scheme("explicit", algorithm="redist"),
    "readj": ef.scheme("explicit", algorithm="readj"),
    "fill": ef.scheme("fill", split=False),
}


def run(quick: bool = False, progress: Progress = silent) -> list[Row]:
    """Measure every scheme at every step; ``quick`` uses a tenth of the keys and one seed."""
    keys, seeds = (KEYS // 10, 1) if quick else (KEYS, SEEDS)
    found: list[Row] = []
    names = [UNIFORM, *SCHEMES]
    for seed in range(seeds):
        for index, name in enumerate(names):
            progress(seed * len(names) + index, seeds * len(names), f"migration, {name}")
            found += steps(name, keys, seed)
    same = ["part", "scheme", "state", "from", "to"]
    means = pd.DataFrame(found).groupby(same, sort=False, as_index=False).mean()
    rows: list[Row] = means.to_dict("records")  # type: ignore[assignment]
    return rows


def steps(name: str, distinct: int, seed: int, most: int = MOST_WORKERS) -> Iterator[Row]:
    """Grow a scheme from one worker; yield a row per step and kind of state."""
    keys: UInt64Array = ef.hash_keys(np.arange(distinct, dtype=np.int64) + seed * 10**9)
    heat = np.asarray(zipf_weights(distinct, Z), np.float64)
    heat = heat / heat.sum()
    rows = np.ceil(heat * WINDOW * distinct / KEYS)
    sizes = {
        "window": KEY_BYTES + NUMBER_BYTES * rows,
        "fixed": np.full(distinct, float(KEY_BYTES + 2 * NUMBER_BYTES)),
    }
    before: Int32Array | None = None
    for workers, where in enumerate(grown(name, keys, heat, seed, most), 1):
        if before is not None:
            for state, size in sizes.items():
                yield moved(name, state, size, before, where, workers, heat)
        before = where


def moved(
    name: str,
    state: str,
    size: Float64Array,
    before: Int32Array,
    after: Int32Array,
    workers: int,
    heat: Float64Array,
) -> Row:
    """Return the row of one step."""
    whole, gone = float(size.sum()), float(size[before != after].sum())
    return {
        "part": "migration",
        "scheme": name,
        "state": state,
        "from": workers - 1,
        "to": workers,
        "relative_migration": gone / (whole / workers),
        "bytes": gone,
        "all_bytes": whole,
        "max_over_mean": float(np.bincount(after, heat, workers).max()) * workers,
    }


def grown(
    name: str, keys: UInt64Array, heat: Float64Array, seed: int, most: int = MOST_WORKERS
) -> Iterator[Int32Array]:
    """Yield the owner of every key for 1, 2, ... workers, each function derived from the previous one."""
    if name == UNIFORM:
        for workers in range(1, most + 1):
            yield (keys % np.uint64(workers)).astype(np.int32)
        return
    own = Ownership.start(SCHEMES[name], 1, seed=seed, keep=0.0)
    bucket_by_size: dict[int, Int64Array] = {}
    for workers in range(1, most + 1):
        own.frequencies.add(keys[:MOST], heat[:MOST] * WINDOW, float(WINDOW), None)
        own.rescale(workers)
        size = own.plan.buckets.size
        if size not in bucket_by_size:
            bucket_by_size[size] = bucket_of(keys, size)
        where = own.plan.buckets[bucket_by_size[size]]
        hot = own.plan.route(keys[:MOST], np.zeros(min(MOST, keys.size)))  # only these have own entries
        where[: hot.size] = hot
        yield where


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return relative migration by number of workers, one table per kind of state."""
    found = []
    table = pd.DataFrame(rows)
    for state, part in table.groupby("state", sort=False):
        wide = part.pivot_table("relative_migration", "to", "scheme", sort=False).sort_index()
        last = part[part["to"] == MOST_WORKERS].set_index("scheme")["max_over_mean"]
        lines = [
            (f"{to - 1} -> {to}", *row) for to, row in zip(wide.index, wide.values.tolist(), strict=True)
        ]
        lines.append(("mean", *wide.mean().tolist()))
        lines.append((f"max/mean rows at {MOST_WORKERS}", *last[wide.columns].tolist()))
        title = (
            f"Relative migration, {state} state (functions Fig. 6: redist about 1.15, scan and readj rising)"
        )
        found.append(Table(title, ("workers", *wide.columns), lines))
    means = {state: mean_migration(rows, "redist", str(state)) for state in table["state"].unique()}
    lines = [(f"mean relative migration of redist, {state} state", mean) for state, mean in means.items()]
    return [*found, target_table(judged(name, mean, LIMIT) for name, mean in lines)]


def mean_migration(rows: Sequence[Row], name: str, state: str | None = None) -> float:
    """Return the mean relative migration of a scheme over all steps."""
    return statistics.fmean(
        row["relative_migration"]
        for row in rows
        if row["part"] == "migration" and row["scheme"] == name and state in (None, row["state"])
    )
