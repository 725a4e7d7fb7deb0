"""A consistent-hash ring (Karger et al., STOC 1997; `heterogeneous` 4.2), O(1) lookup (`functions` 5.2).

Every worker has many points, its replicas, on a circle of 64 bits; a key belongs to the owner of the first
point at or after its hash, clockwise. The circle is divided into equal buckets that know their first point,
so a lookup is one multiplication and a short scan. A point depends only on (salt, worker, replica): when a
worker joins, keys move only to it; when a worker leaves, only its keys move.

Differences from the papers: `functions` puts 1000 replicas into 100 buckets with a sorted tree in each. Here
there are two to four buckets per point, so that a scan needs no tree; ``buckets=100`` gives the paper's
number. A worker of weight w has w times the replicas, rounded, and at least one. Coincident points are
ordered by worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, inlined, kernel
from evenflow.keys import GOLDEN, mix, to_range


class Ring(NamedTuple):
    """The arrays of a ring; a position on it is an index into ``points`` and ``owners``."""

    points: UInt64Array  # ascending
    owners: Int32Array
    first: Int32Array  # of each bucket: the first position at or after its start, or points.size


def build_ring(
    workers: int | Sequence[int] | Int32Array | Int64Array,
    salt: np.uint64,
    replicas: int = 1000,
    weights: Sequence[float] | Float64Array | None = None,
    buckets: int | None = None,
) -> Ring:
    """Return the ring of ``workers`` (their number or their ids), each with ``replicas`` points.

    ``weights`` has one value per worker; 1 means ``replicas`` points. ``buckets`` only affects speed.

    >>> small = build_ring(4, np.uint64(7))
    >>> large = build_ring(5, np.uint64(7))
    >>> keys = np.random.default_rng(1).integers(0, 2**64, 10000, np.uint64)
    >>> before, after = ring_owners(small, keys), ring_owners(large, keys)
    >>> set(after[before != after].tolist())  # keys move only to the new worker
    {4}
    """
    ids = np.arange(workers, dtype=np.int32) if isinstance(workers, int) else np.asarray(workers, np.int32)
    if ids.ndim != 1 or ids.size == 0 or np.unique(ids).size != ids.size or ids.min() < 0:
        raise EvenflowError(f"workers is {workers!r}; pass at least one, as distinct ids from 0.")
    if replicas < 1:
        raise EvenflowError(f"replicas is {replicas!r}; a worker needs at least one point on the ring.")
    counts = np.full(ids.size, replicas, np.int64)
    if weights is not None:
        shares = np.asarray(weights, np.float64)
        if shares.shape != ids.shape or not (np.isfinite(shares).all() and (shares > 0).all()):
            raise EvenflowError(f"weights is {weights!r}; pass one positive number per worker ({ids.size}).")
        counts = np.maximum(1, np.rint(replicas * shares)).astype(np.int64)
    owners = np.repeat(ids, counts)
    points = np.empty(owners.size, np.uint64)
    _fill_points(ids, counts, np.uint64(salt), points)
    return _assemble(points, owners, buckets)


def _assemble(points: UInt64Array, owners: Int32Array, buckets: int | None) -> Ring:
    if buckets is None:
        buckets = min(2 << (points.size - 1).bit_length(), 2**31)
    if buckets < 1:
        raise EvenflowError(f"buckets is {buckets!r}; a ring needs at least one bucket.")
    order = np.lexsort((owners, points))
    points, owners = points[order], owners[order]
    bucket_of = ((points >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)
    first = np.searchsorted(bucket_of, np.arange(buckets, dtype=np.uint64)).astype(np.int32)
    return Ring(points, owners, first)


@kernel
def _fill_points(workers: Int32Array, counts: Int64Array, salt: np.uint64, points: UInt64Array) -> None:
    position = 0
    for index in range(workers.size):
        start = mix(salt ^ (np.uint64(workers[index] + 1) * GOLDEN))
        for replica in range(counts[index]):
            points[position] = mix(start + np.uint64(replica + 1) * GOLDEN)
            position += 1


@inlined
def ring_position(ring: Ring, hashed: np.uint64) -> int:
    """Return the position of the first point at or after ``hashed``, clockwise."""
    position = ring.first[to_range(hashed, ring.first.size)]
    size = ring.points.size
    while position < size and ring.points[position] < hashed:
        position += 1
    return position if position < size else 0


@inlined
def ring_next(ring: Ring, position: int) -> int:
    """Return the position after ``position``, clockwise."""
    position += 1
    return position if position < ring.points.size else 0


@inlined
def ring_lookup(ring: Ring, hashed: np.uint64) -> int:
    """Return the worker that owns ``hashed``."""
    return ring.owners[ring_position(ring, hashed)]


def ring_owners(ring: Ring, hashed: UInt64Array) -> Int32Array:
    """Return the worker that owns each hash."""
    out = np.empty(hashed.size, np.int32)
    _look_up_all(ring, np.ascontiguousarray(hashed, np.uint64), out)
    return out


@kernel
def _look_up_all(ring: Ring, hashed: UInt64Array, out: Int32Array) -> None:
    for i in range(hashed.size):
        out[i] = ring_lookup(ring, hashed[i])
