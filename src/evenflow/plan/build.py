"""Makes plans from key counts by packing hot keys and buckets onto the workers."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array
from evenflow.plan.bin_packing import pour, settle, targets
from evenflow.plan.plan import Plan
from evenflow.plan.table import bucket_of

BUCKETS_PER_WORKER = 64


def make_plan(
    workers: int,
    keys: UInt64Array,
    counts: Any,
    total: float | None = None,
    bucket_counts: Any = None,
    *,
    shares: Any = None,
    split: bool = True,
    tolerance: float = 0.02,
    previous: Plan | None = None,
    move_buckets: bool = True,
) -> Plan:
    """Make a plan from the counts of the hot keys.

    Parameters
    ----------
    workers
        Number of workers.
    keys
        Hashes of the hot keys.
    counts
        Rows of each hot key.
    total
        Number of all rows. Default: those of the hot keys.
    bucket_counts
        Rows of each bucket, including hot keys. Default: all other rows are spread evenly over the buckets.
    shares
        The workers' capacities. Default: equal.
    split
        Whether a key may have several homes.
    tolerance
        How far a worker may exceed its share before homes change, as a fraction of it.
    previous
        An earlier plan, whose homes are kept where they still fit.
    move_buckets
        Whether buckets may move; False places only the hot keys.

    Returns
    -------
    Plan
        The home of every bucket and the homes of every hot key.

    Examples
    --------
    >>> plan = make_plan(2, np.array([7, 8], np.uint64), np.array([60, 10]), total=100)
    >>> plan.homes_of(7), plan.homes_of(8)
    ([0, 1], [1])
    >>> make_plan(2, np.array([7, 8], np.uint64), np.array([60, 10]), total=100, split=False).homes_of(7)
    [0]
    """
    if workers < 1:
        raise EvenflowError(f"workers is {workers}; a plan needs at least one worker.")
    hashes, weights = _hottest_first(np.asarray(keys, np.uint64), np.asarray(counts, np.float64))
    share = np.ones(workers) if shares is None else np.asarray(shares, np.float64)
    if share.shape != (workers,) or not np.isfinite(share).all() or (share <= 0).any():
        raise EvenflowError(f"shares is {shares!r}; pass one positive number for each of {workers} workers.")
    size = previous.buckets.size if previous is not None else BUCKETS_PER_WORKER * workers
    if bucket_counts is not None:
        size = len(bucket_counts)
    buckets = _first_homes(size, workers, previous)
    key_buckets = bucket_of(hashes, size)
    tail = _tail_weights(size, weights, key_buckets, total, bucket_counts)
    scale = 1 / max(1e-300, weights.sum() + tail.sum())
    if split:
        poured = pour(
            weights,
            key_buckets.astype(np.int32),
            tail,
            buckets,
            share,
            tolerance,
            _homes_before(hashes, workers, previous),
            move_buckets,
        )
        return Plan(
            workers, poured.buckets, hashes, weights * scale, poured.starts, poured.homes, poured.parts,
            poured.carried * scale,
        )  # fmt: skip
    homes = buckets[key_buckets]
    if previous is not None:
        starts, old_homes = previous.homes_of_each(hashes)
        homes = old_homes[starts[:-1]]
    if move_buckets:
        both = np.concatenate([homes, buckets])
        owners = _one_home_each(np.concatenate([weights, tail]), both, share, tolerance, previous is None)
        homes, buckets = owners[: hashes.size], owners[hashes.size :]
    else:
        room = targets(share, float(weights.sum() + tail.sum())) - np.bincount(buckets, tail, workers)
        homes = _one_home_each(weights, homes, share, tolerance, previous is None, room)
    carried = np.bincount(homes, weights, workers) + np.bincount(buckets, tail, workers)
    return Plan(
        workers, buckets, hashes, weights * scale, np.arange(hashes.size + 1, dtype=np.int64), homes,
        np.ones(hashes.size), carried * scale,
    )  # fmt: skip


def _one_home_each(
    weights: Float64Array,
    owners: Int32Array,
    share: Float64Array,
    tolerance: float,
    is_first: bool,
    target: Float64Array | None = None,
) -> Int32Array:
    """Settle units from their current owners; if that leaves a worker too full, place all, heaviest first.

    Settling moves no unit that is larger than its worker's excess, so two large units may stay together;
    placing all units gives each to the emptiest worker. If there was an earlier plan, that must gain a tenth.
    """
    wanted = targets(share, float(weights.sum())) if target is None else target

    def fullest(homes: Int32Array) -> float:
        return float((np.bincount(homes, weights, share.size) - wanted).max())

    settled = settle(weights, owners, share, tolerance, target)
    mean = float(wanted.mean())
    if fullest(settled) <= tolerance * mean:
        return settled
    packed = settle(weights, np.full(weights.size, -1, np.int32), share, tolerance, target)
    gain = fullest(settled) - fullest(packed)
    return packed if gain > (0 if is_first else 0.1 * mean) else settled


def _hottest_first(keys: UInt64Array, counts: Float64Array) -> tuple[UInt64Array, Float64Array]:
    """Merge equal hashes and sort by decreasing count, then by hash."""
    if keys.shape != counts.shape:
        raise EvenflowError(f"there are {keys.size} keys but {counts.size} counts; pass one count per key.")
    unique, where = np.unique(keys, return_inverse=True)
    weights = np.bincount(where, counts, unique.size) if unique.size else np.zeros(0)
    order = np.lexsort((unique, -weights))
    return unique[order], weights[order].astype(np.float64)


def _first_homes(size: int, workers: int, previous: Plan | None) -> Int32Array:
    spread: Int32Array = (np.arange(size, dtype=np.int64) * workers // size).astype(np.int32)
    if previous is None or previous.buckets.size != size:
        return spread
    return np.where(previous.buckets < workers, previous.buckets, spread).astype(np.int32)


def _tail_weights(
    size: int, weights: Float64Array, key_buckets: Int64Array, total: float | None, bucket_counts: Any
) -> Float64Array:
    if bucket_counts is not None:
        tail = np.asarray(bucket_counts, np.float64) - np.bincount(key_buckets, weights, size)
        return np.maximum(tail, 0.0)
    rest = max(0.0, (total if total is not None else weights.sum()) - weights.sum())
    return np.full(size, rest / size)


def _homes_before(
    hashes: UInt64Array, workers: int, previous: Plan | None
) -> tuple[Int64Array, Int32Array] | None:
    if previous is None:
        return None
    starts, homes = previous.homes_of_each(hashes)
    remaining = homes < workers  # the other workers have left
    counts = np.add.reduceat(remaining, starts[:-1]) if hashes.size else np.zeros(0)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), homes[remaining]
