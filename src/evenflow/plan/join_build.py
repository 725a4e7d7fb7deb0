"""Makes plans for joins: a grid for every hot key, its cells and the buckets packed onto the workers.

A worker's load is what it reads and what it writes: left rows + right rows + joined rows. A key with l and r
rows has l * r joined rows, so a key that is warm on both sides may be the hottest of all.

A key that is too large for a worker gets the grid with the fewest copied rows whose cells fit. Cells are
equal, so a key of 1.5 shares on few workers may not pack well; if the plan is uneven, cells are halved.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.plan.bin_packing import settle
from evenflow.plan.build import BUCKETS_PER_WORKER
from evenflow.plan.counted import HOT_DIVISOR, Counted
from evenflow.plan.join_plan import JoinPlan
from evenflow.plan.table import bucket_of

if TYPE_CHECKING:
    from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array

_CELL_SIZES = (1.0, 0.5, 0.25, 0.125)  # of a worker's share, tried in order
_EVEN = 1.03  # expected maximum over mean at which no smaller cells are tried
_TOLERANCE = 0.01

KINDS = ("inner", "left", "right", "full", "left_semi", "left_anti")
COPIES_LEFT = {"inner", "right"}  # kinds of joins in which a copied left row needs no second look
COPIES_RIGHT = {"inner", "left", "left_semi", "left_anti"}
NO_PRODUCT = {"left_semi", "left_anti"}


class _Sides(NamedTuple):
    """Hot keys with their rows on both sides, and their joined rows."""

    keys: UInt64Array
    left: Float64Array
    right: Float64Array
    joined: Float64Array

    @property
    def loads(self) -> Float64Array:
        return self.left + self.right + self.joined

    def some(self, which: Any) -> _Sides:
        return _Sides(*(values[which] for values in self))


def make_join_plan(workers: int, left: Counted, right: Counted, how: str = "inner") -> JoinPlan:
    """Make a plan for a join from the counts of both sides.

    Parameters
    ----------
    workers
        Number of workers.
    left, right
        Rows of the frequent keys of each side, of all keys, and of each bucket. A key that only one side
        lists is taken to have one row on the other.
    how
        Kind of the join: inner, left, right, full, left_semi or left_anti. A side whose unmatched rows are
        wanted is copied only if nothing else balances the key.

    Returns
    -------
    JoinPlan
        The home of every bucket and the grid of every hot key.
    """
    if workers < 1:
        raise EvenflowError(f"workers is {workers}; a plan needs at least one worker.")
    sides = _sides(left, right, how)
    size = next(
        (found.size for found in (left.buckets, right.buckets) if found is not None),
        BUCKETS_PER_WORKER * workers,
    )
    tail = _tail(sides, left, right, size, how)
    share = (sides.loads.sum() + tail.sum()) / workers
    hot = sides.loads * HOT_DIVISOR >= share
    key_buckets = bucket_of(sides.keys, size)
    tail += np.bincount(key_buckets[~hot], sides.loads[~hot], size)
    sides = sides.some(hot)
    order = np.lexsort((sides.keys, -sides.loads))
    sides = sides.some(order)
    plans = []
    for cell_size in _CELL_SIZES:
        plans.append(_packed(workers, sides, tail, how, cell_size))
        if plans[-1][0].max_over_mean <= _EVEN:
            break
    return min(plans, key=lambda found: found[1])[0]


def _sides(left: Counted, right: Counted, how: str) -> _Sides:
    keys = np.union1d(left.keys, right.keys)
    rows = []
    for side in (left, right):
        found = np.ones(keys.size)
        found[np.searchsorted(keys, side.keys)] = np.maximum(1.0, side.counts)
        rows.append(found)
    joined = np.zeros(keys.size) if how in NO_PRODUCT else rows[0] * rows[1]
    return _Sides(keys, rows[0], rows[1], joined)


def _tail(sides: _Sides, left: Counted, right: Counted, size: int, how: str) -> Float64Array:
    """Return the load of each bucket without the listed keys.

    How the rows of a bucket pair up is unknown: it is taken to join as many rows as its larger side has.
    """
    buckets = bucket_of(sides.keys, size)
    rows = []
    for side, listed in ((left, sides.left), (right, sides.right)):
        if side.buckets is not None:
            rest = side.buckets - np.bincount(buckets, listed, size)
        else:
            rest = np.full(size, (side.total - side.counts.sum()) / size)
        rows.append(np.maximum(rest, 0.0))
    joined = np.zeros(size) if how in NO_PRODUCT else np.maximum(rows[0], rows[1])
    return np.asarray(rows[0] + rows[1] + joined, np.float64)


def _packed(
    workers: int, sides: _Sides, tail: Float64Array, how: str, cell_size: float
) -> tuple[JoinPlan, float]:
    """Return a plan with cells of at most ``cell_size`` shares, and its highest load in rows."""
    share = (sides.loads.sum() + tail.sum()) / workers
    for _ in range(2):  # copies add to the share
        pieces = _grids(workers, sides, share * cell_size, how)
        r, c = pieces
        cells = sides.left / r + sides.right / c + sides.joined / (r * c)
        share = float((cells * r * c).sum() + tail.sum()) / workers
    carried = np.zeros(workers)
    homes = _place_cells(cells, r * c, carried)
    buckets = (np.arange(tail.size, dtype=np.int64) * workers // tail.size).astype(np.int32)
    room = np.maximum(share - carried, 0.0)
    if (np.bincount(buckets, tail, workers) > room * (1 + _TOLERANCE)).any():
        buckets = settle(tail, np.full(tail.size, -1, np.int32), np.ones(workers), _TOLERANCE, room)
    carried += np.bincount(buckets, tail, workers)
    total = max(1e-300, carried.sum())
    plan = JoinPlan(
        workers, buckets, sides.keys, sides.loads / total, sides.left, sides.right, r.astype(np.int32),
        c.astype(np.int32), homes, carried / total,
    )  # fmt: skip
    return plan, float(carried.max())


def _grids(workers: int, sides: _Sides, most: float, how: str) -> tuple[Float64Array, Float64Array]:
    """Return the rows and columns of every key's grid, whose cells hold at most ``most`` if possible."""
    r, c = np.ones(sides.keys.size), np.ones(sides.keys.size)
    for key in np.flatnonzero(sides.loads > most):
        r[key], c[key] = _grid(
            workers, float(sides.left[key]), float(sides.right[key]), float(sides.joined[key]), most, how
        )
    return r, c


def _grid(workers: int, left: float, right: float, joined: float, most: float, how: str) -> tuple[int, int]:
    line = np.arange(1, workers + 1, dtype=np.int64)
    ones = np.ones(workers, np.int64)
    along_left = (line, ones) if how in COPIES_RIGHT or how == "full" else (ones, ones)
    along_right = (ones, line) if how in COPIES_LEFT or how == "full" else (ones, ones)
    lines = np.concatenate([along_left, along_right], axis=1)
    if how != "inner":  # prefer to divide along one side only
        found = _fewest_copies(lines[0], lines[1], left, right, joined, most)
        if found is not None:
            return found
    columns = np.minimum(workers // line, np.maximum(1, _columns_needed(line, left, right, joined, most)))
    all_r, all_c = np.concatenate([lines[0], line]), np.concatenate([lines[1], columns])
    found = _fewest_copies(all_r, all_c, left, right, joined, most)
    if found is not None:
        return found
    cell = left / all_r + right / all_c + joined / (all_r * all_c)
    least = int(np.argmin(cell))
    return int(all_r[least]), int(all_c[least])


def _columns_needed(r: Int64Array, left: float, right: float, joined: float, most: float) -> Int64Array:
    """Return how many columns a grid of ``r`` rows needs for its cells to hold ``most``; many if none do."""
    room = most - left / r
    needed = np.ceil((right + joined / r) / np.where(room > 0, room, 1e-300))
    return np.minimum(needed, 2**31 - 1).astype(np.int64)


def _fewest_copies(
    r: Int64Array, c: Int64Array, left: float, right: float, joined: float, most: float
) -> tuple[int, int] | None:
    """Return the grid with the fewest copied rows among those whose cells hold at most ``most``, or None."""
    fits = left / r + right / c + joined / (r * c) <= most
    if not fits.any():
        return None
    copies = np.where(fits, left * (c - 1) + right * (r - 1), np.inf)
    best = int(np.argmin(copies))
    return int(r[best]), int(c[best])


def _place_cells(cells: Float64Array, counts: Float64Array, carried: Float64Array) -> Int32Array:
    """Return the workers of all cells, key by key, and add them to ``carried``.

    Keys are placed in the order of their cells' size, each on the emptiest workers, one cell per worker.
    """
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    homes = np.zeros(int(starts[-1]), np.int32)
    heap = [(0.0, worker) for worker in range(carried.size)]
    for key in np.argsort(-cells, kind="stable").tolist():
        chosen = [heapq.heappop(heap) for _ in range(int(counts[key]))]
        for cell, (load, worker) in enumerate(chosen, int(starts[key])):
            homes[cell] = worker
            heapq.heappush(heap, (load + float(cells[key]), worker))
    for load, worker in heap:
        carried[worker] = load
    return homes
