"""A plan: an immutable, printable answer to "who goes where", made before the rows are seen.

Every key's hash falls into one of B buckets, ``(hash >> 32) * B >> 32``; a bucket has one home. Hot keys
stand apart, each with its own homes and the part of its rows that each home gets. A plan is data: it explains
itself, tells what changed since the one before, and is JSON. An engine turns it into a table look-up.

Only where a key's homes are several does a row need more than its key: a number in [0, 1) drawn for it by its
engine picks the home. Homes of a key are laid end to end by their parts, and the number falls into one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array
from evenflow.plan.bin_packing import pour, settle, targets

BUCKETS_PER_WORKER = 64
VERSION = 1


@dataclass(frozen=True, eq=False)
class Plan:
    """Homes of buckets and of hot keys (hottest first), and what each worker is expected to carry.

    >>> plan = make_plan(2, np.array([7, 8], np.uint64), np.array([60, 10]), total=100)
    >>> [(int(key), plan.homes_of(int(key))) for key in plan.keys]
    [(7, [0, 1]), (8, [1])]
    >>> plan.max_over_mean
    1.0
    """

    workers: int
    buckets: Int32Array
    keys: UInt64Array
    weights: Float64Array  # share of all rows that each hot key brings
    starts: Int64Array
    homes: Int32Array
    parts: Float64Array
    expected: Float64Array  # share of all rows that each worker is expected to carry

    @property
    def max_over_mean(self) -> float:
        """What the fullest worker is expected to carry, relative to the mean."""
        return round(float(self.expected.max()) * self.workers, 9)

    @property
    def splits(self) -> int:
        """Number of homes that keys have beyond their first."""
        return int(self.homes.size - self.keys.size)

    def homes_of(self, key: int) -> list[int]:
        """Return the homes of a key hash, in order."""
        found = np.flatnonzero(self.keys == np.uint64(key))
        if found.size:
            return self.homes[self.starts[found[0]] : self.starts[found[0] + 1]].tolist()
        return [int(self.buckets[bucket_of(np.array([key], np.uint64), self.buckets.size)[0]])]

    def route(self, hashes: UInt64Array, draws: Float64Array) -> Int32Array:
        """Return the worker of every row from its key's hash and the number drawn for it."""
        workers = self.buckets[bucket_of(hashes, self.buckets.size)]
        if self.keys.size:
            order = np.argsort(self.keys)
            at = np.minimum(np.searchsorted(self.keys[order], hashes), self.keys.size - 1)
            key = order[at]
            hot = np.flatnonzero(self.keys[key] == hashes)
            ends = np.cumsum(self.parts)
            begun = np.concatenate([[0.0], ends])[self.starts[key[hot]]]
            place = np.searchsorted(ends, begun + draws[hot], side="right")
            place = np.clip(place, self.starts[key[hot]], self.starts[key[hot] + 1] - 1)
            workers[hot] = self.homes[place]
        return workers

    def explain(self, previous: Plan | None = None, top: int = 10) -> str:
        """Say in a few lines what the plan does, and what it changed since ``previous``."""
        several = int((np.diff(self.starts) > 1).sum())
        lines = [
            f"{self.workers} workers, fullest expected at {self.max_over_mean:.3f} of the mean",
            f"{self.keys.size} hot keys bring {self.weights.sum():.1%} of the rows; {several} of them have "
            f"several homes, {self.splits} homes more than keys",
            f"all other keys: {self.buckets.size} buckets, one home each",
        ]
        for i in range(min(top, self.keys.size)):
            homes = self.homes[self.starts[i] : self.starts[i + 1]].tolist()
            shown = ", ".join(map(str, homes[:8])) + (f", ... {len(homes)} in all" if len(homes) > 8 else "")
            lines.append(f"  key {int(self.keys[i]):016x} {self.weights[i]:7.2%} -> {shown}")
        if previous is not None:
            lines.append(self.changes(previous))
        return "\n".join(lines)

    def changes(self, previous: Plan) -> str:
        """Say what changed since ``previous`` in one line."""
        before = {int(key): set(previous.homes_of(int(key))) for key in previous.keys}
        now = {int(key): set(self.homes_of(int(key))) for key in self.keys}
        opened = sum(len(homes - before.get(key, set(previous.homes_of(key)))) for key, homes in now.items())
        moved = (
            int((self.buckets != previous.buckets).sum())
            if self.buckets.size == previous.buckets.size
            else self.buckets.size
        )
        return (
            f"since the last plan: {len(now.keys() - before.keys())} keys became hot, "
            f"{len(before.keys() - now.keys())} cooled, {opened} homes opened, {moved} buckets moved, "
            f"{previous.workers} -> {self.workers} workers"
        )

    def to_json(self) -> str:
        """Return the plan as JSON; hashes are decimal strings, since JSON readers round large numbers."""
        return json.dumps(
            {
                "version": VERSION,
                "workers": self.workers,
                "buckets": self.buckets.tolist(),
                "expected": self.expected.tolist(),
                "hot": [
                    {
                        "key": str(int(self.keys[i])),
                        "weight": float(self.weights[i]),
                        "homes": self.homes[self.starts[i] : self.starts[i + 1]].tolist(),
                        "parts": self.parts[self.starts[i] : self.starts[i + 1]].tolist(),
                    }
                    for i in range(self.keys.size)
                ],
            }
        )

    @staticmethod
    def from_json(text: str) -> Plan:
        """Read a plan; anything that is not one is refused with a sentence."""
        try:
            content: dict[str, Any] = json.loads(text)
            if content["version"] != VERSION:
                raise EvenflowError(
                    f"this plan has version {content['version']}, evenflow reads {VERSION}; make a new one."
                )
            hot = content["hot"]
            plan = Plan(
                workers=int(content["workers"]),
                buckets=np.array(content["buckets"], np.int32),
                keys=np.array([int(key["key"]) for key in hot], np.uint64),
                weights=np.array([key["weight"] for key in hot], np.float64),
                starts=np.concatenate(
                    [[0], np.cumsum([len(key["homes"]) for key in hot], dtype=np.int64)]
                ).astype(np.int64),
                homes=np.array([home for key in hot for home in key["homes"]], np.int32),
                parts=np.array([part for key in hot for part in key["parts"]], np.float64),
                expected=np.array(content["expected"], np.float64),
            )
        except EvenflowError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise EvenflowError(
                f"this is not a plan of evenflow ({error}); pass what to_json() returned."
            ) from error
        everywhere = np.concatenate([plan.buckets, plan.homes])
        if (
            plan.workers < 1
            or not plan.buckets.size
            or everywhere.min() < 0
            or everywhere.max() >= plan.workers
        ):
            raise EvenflowError(f"this plan names workers outside 0 to {plan.workers - 1}; make a new one.")
        return plan


def bucket_of(hashes: UInt64Array, buckets: int) -> Int64Array:
    """Return the bucket of every hash: its upper 32 bits, scaled."""
    return (((hashes >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)).astype(np.int64)


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
    """Plan homes from the counts of the keys that stand out.

    ``total`` is the number of rows in all; those of no named key are taken as spread evenly over the buckets,
    unless ``bucket_counts`` (rows per bucket, named keys included) says otherwise. ``shares``: the workers'
    capacities. ``split=False``: every key has one home. ``previous``: homes to keep where they still fit.
    ``move_buckets=False``: only the named keys are placed, buckets stay.
    """
    if workers < 1:
        raise EvenflowError(f"workers is {workers}; a plan needs at least one worker.")
    hashes, weights = _hottest_first(np.asarray(keys, np.uint64), np.asarray(counts, np.float64))
    share = np.ones(workers) if shares is None else np.asarray(shares, np.float64)
    if share.shape != (workers,) or not np.isfinite(share).all() or (share <= 0).any():
        raise EvenflowError(
            f"shares has {share.size} values for {workers} workers; pass one positive number each."
        )
    size = previous.buckets.size if previous is not None else BUCKETS_PER_WORKER * workers
    if bucket_counts is not None:
        size = len(bucket_counts)
    buckets = _first_homes(size, workers, previous)
    lives = bucket_of(hashes, size)
    tail = _tail_weights(size, weights, lives, total, bucket_counts)
    scale = 1 / max(1e-300, weights.sum() + tail.sum())
    if split:
        poured = pour(
            weights,
            lives.astype(np.int32),
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
    homes = np.array(
        [
            previous.homes_of(int(k))[0] if previous else buckets[b]
            for k, b in zip(hashes, lives, strict=True)
        ],
        np.int32,
    )
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
    anew: bool,
    target: Float64Array | None = None,
) -> Int32Array:
    """Settle units where they are; where that leaves a worker too full, place them anew, heaviest first.

    Settling moves no unit that is larger than what its worker is over, so two giants may stay together; anew,
    every unit goes to the emptiest worker. If there was a plan before, a tenth must be gained by it.
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
    return packed if gain > (0 if anew else 0.1 * mean) else settled


def _hottest_first(keys: UInt64Array, counts: Float64Array) -> tuple[UInt64Array, Float64Array]:
    """Join equal hashes and order by count, then by hash."""
    if keys.shape != counts.shape:
        raise EvenflowError(f"there are {keys.size} keys and {counts.size} counts; pass one count per key.")
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
    size: int, weights: Float64Array, lives: Int64Array, total: float | None, bucket_counts: Any
) -> Float64Array:
    if bucket_counts is not None:
        tail = np.asarray(bucket_counts, np.float64) - np.bincount(lives, weights, size)
        return np.maximum(tail, 0.0)
    rest = max(0.0, (total if total is not None else weights.sum()) - weights.sum())
    return np.full(size, rest / size)


def _homes_before(
    hashes: UInt64Array, workers: int, previous: Plan | None
) -> tuple[Int64Array, Int32Array] | None:
    if previous is None:
        return None
    homes = [[home for home in previous.homes_of(int(key)) if home < workers] for key in hashes]
    starts = np.concatenate([[0], np.cumsum([len(some) for some in homes], dtype=np.int64)]).astype(np.int64)
    return starts, np.array([home for some in homes for home in some], np.int32)
