"""Random plans and rows, with the hashes and the draws at which mistakes hide."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from evenflow.kernels import Float64Array, UInt64Array
from evenflow.plan import Plan

EDGES = np.array([0, 1, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 2**32, 2**64 - 1], np.uint64)
LARGEST_DRAW = np.nextafter(1.0, 0.0)
MOST_WORKERS = 10_000


@st.composite
def plans(draw: st.DrawFn, most_keys: int = 400) -> Plan:
    """Any plan that `Plan.from_json` takes: no home is where a planner would have put it."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    workers = draw(st.one_of(st.integers(1, 12), st.integers(1, MOST_WORKERS), st.just(MOST_WORKERS)))
    size = draw(st.sampled_from([workers, 64 * workers, 4096, 1, 77]))
    in_order = draw(st.booleans()) and size % workers == 0
    spread = np.arange(size) * workers // size if in_order else rng.integers(0, workers, size)
    keys = draw(hot_keys(rng, most_keys))
    most_homes = draw(st.sampled_from([1, 2, 5, 100]))
    counts = np.minimum(rng.integers(1, most_homes + 1, keys.size), workers)
    homes = [(rng.integers(0, workers) + np.arange(count) * 7919) % workers for count in counts]
    parts = [_parts(rng, count) for count in counts]
    return Plan(
        workers=workers,
        buckets=spread.astype(np.int32),
        keys=keys,
        weights=rng.random(keys.size) / max(1, keys.size),
        starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        homes=np.concatenate([np.zeros(0), *homes]).astype(np.int32),
        parts=np.concatenate([np.zeros(0), *parts]),
        expected=np.full(workers, 1 / workers),
    )


def hot_keys(rng: np.random.Generator, most: int) -> st.SearchStrategy[UInt64Array]:
    """Hashes as random as they should be, small numbers, and some that only their middle bits tell apart."""

    def keys(count: int, kind: str) -> UInt64Array:
        numbers = np.arange(count, dtype=np.uint64)
        made = {
            "random": rng.integers(0, 2**64, count, np.uint64),
            "edges": np.concatenate([EDGES, rng.integers(0, 2**64, count, np.uint64)]),
            "small": numbers,
            "clashing": numbers << np.uint64(20),
            "crowded": numbers << np.uint64(44),
        }[kind]
        return rng.permutation(np.unique(made))

    return st.builds(
        keys, st.integers(0, most), st.sampled_from(["random", "edges", "small", "clashing", "crowded"])
    )


def _parts(rng: np.random.Generator, count: int) -> Float64Array:
    """Parts that sum to 1: any, all alike, one that takes everything."""
    kind = rng.integers(0, 3)
    if kind == 0:
        return np.full(count, 1 / count)
    if kind == 1:
        return np.eye(count)[rng.integers(0, count)]
    raw = rng.random(count) + 1e-9
    return raw / raw.sum()


def rows_for(plan: Plan, count: int, seed: int) -> tuple[UInt64Array, Float64Array]:
    """Hashes and draws of rows: the plan's keys, keys beside them, strangers, edges."""
    rng = np.random.default_rng(seed)
    pool = np.concatenate([plan.keys, plan.keys ^ np.uint64(1), EDGES, rng.integers(0, 2**64, 50, np.uint64)])
    hashes = np.concatenate([np.repeat(EDGES, 3), rng.choice(pool, count)])
    draws = rng.random(hashes.size)
    # cells begin at multiples of 1 / homes
    homes = rng.integers(1, 101, hashes.size)
    on_cells = rng.integers(0, homes) / homes
    kind = rng.integers(0, 4, hashes.size)
    draws = np.select([kind == 0, kind == 1, kind == 2], [0.0, LARGEST_DRAW, on_cells], draws)
    return hashes, np.minimum(draws, LARGEST_DRAW)
