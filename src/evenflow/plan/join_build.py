"""Makes plans for joins: a grid for every hot key, with its cells packed onto the workers.

A worker's load is what it reads and what it writes: left rows + right rows + joined rows. A key with l and r
rows has l * r joined rows, so a key that is warm on both sides may be the hottest of all. All other keys are
spread over the workers by the engine's hash, evenly, and leave each the same room for cells.

A key that is too large for that room gets the grid with the fewest copied rows whose cells fit. Cells are
equal, so a key of 1.5 rooms on few workers may not pack well; if the plan is uneven, cells are halved.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.plan.counted import HOT_DIVISOR, Counted
from evenflow.plan.join_plan import JoinPlan

if TYPE_CHECKING:
    from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array

_CELL_SIZES = (1.0, 0.5, 0.25, 0.125)  # of a worker's share, tried in order
_SMALL = 0.03  # of a worker's load: a cell that needs not be divided further
_EVEN = 1.03  # expected maximum over mean at which no smaller cells are tried

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


def make_join_plan(
    workers: int, left: Counted, right: Counted, how: str = "inner", *, copy_wanted: bool = True
) -> JoinPlan:
    """Make a plan for a join from the counts of both sides.

    Parameters
    ----------
    workers
        Number of workers.
    left, right
        Rows of the frequent keys of each side and of all keys. A key that only one side lists is taken to
        have one row on the other.
    how
        Kind of the join: inner, left, right, full, left_semi or left_anti. A side whose unmatched rows are
        wanted is copied only if nothing else balances the key.
    copy_wanted
        Whether such a side may be copied at all.

    Returns
    -------
    JoinPlan
        The grid of every hot key.
    """
    if workers < 1:
        raise EvenflowError(f"workers is {workers}; a plan needs at least one worker.")
    sides = _sides(left, right, how)
    tail = _tail(left, right, how)
    hot = sides.loads * HOT_DIVISOR * workers >= sides.loads.sum() + tail
    tail += float(sides.loads[~hot].sum())
    sides = sides.some(hot)
    order = np.lexsort((sides.keys, -sides.loads))
    sides = sides.some(order)
    plans = []
    for cell_size in _CELL_SIZES:
        totals = (left.total, right.total)
        plans.append(_packed(workers, sides, tail, how, cell_size, totals, copy_wanted))
        if plans[-1][0].max_over_mean <= _EVEN:
            break
    return min(plans, key=lambda found: found[1])[0]


def unevenness(
    plan: JoinPlan,
    left: Counted,
    right: Counted,
    how: str,
    hashed: Callable[[UInt64Array], Int32Array],
) -> float:
    """Return the highest load over the mean if rows as counted are placed by ``plan``.

    ``hashed`` returns the workers of keys that are not hot in the plan.
    """
    sides = _sides(left, right, how)
    carried = np.full(plan.workers, _tail(left, right, how) / plan.workers)
    known = {int(key): number for number, key in enumerate(plan.keys)}
    homes = hashed(sides.keys)
    for number, key in enumerate(sides.keys.tolist()):
        found = known.get(key)
        if found is None:
            carried[homes[number]] += sides.loads[number]
        else:
            r, c = int(plan.left_pieces[found]), int(plan.right_pieces[found])
            cells = plan.homes[plan.starts[found] : plan.starts[found + 1]]
            carried[cells] += (
                sides.left[number] / r + sides.right[number] / c + sides.joined[number] / (r * c)
            )
    return float(carried.max() * plan.workers / max(1e-300, carried.sum()))


def _sides(left: Counted, right: Counted, how: str) -> _Sides:
    keys = np.union1d(left.keys, right.keys)
    rows = []
    for side in (left, right):
        found = np.ones(keys.size)
        found[np.searchsorted(keys, side.keys)] = np.maximum(1.0, side.counts)
        rows.append(found)
    joined = rows[0] if how in NO_PRODUCT else rows[0] * rows[1]
    return _Sides(keys, rows[0], rows[1], joined)


def _tail(left: Counted, right: Counted, how: str) -> float:
    """Return the load of all keys that are not listed.

    Every key of the side with fewer keys is taken to be on the other side too. If the number of keys is
    unknown, as many rows are joined as the larger side has. A row that an outer join keeps comes out at least
    once.
    """
    rows = [max(0.0, side.total - float(side.counts.sum())) for side in (left, right)]
    if how in NO_PRODUCT:
        return rows[0] + sum(rows)
    if left.distinct is None or right.distinct is None:
        return max(rows) + sum(rows)
    keys = max(side.distinct - side.keys.size for side in (left, right) if side.distinct is not None)
    kept = (rows[0] if how in ("left", "full") else 0.0, rows[1] if how in ("right", "full") else 0.0)
    return max(rows[0] * rows[1] / max(1.0, keys), *kept) + sum(rows)


def _packed(
    workers: int,
    sides: _Sides,
    tail: float,
    how: str,
    cell_size: float,
    totals: tuple[float, float],
    copy_wanted: bool,
) -> tuple[JoinPlan, float]:
    """Return a plan with cells of at most ``cell_size`` of the room, and its highest load in rows."""
    room = float(sides.loads.sum()) / workers
    for _ in range(2):  # copies need room as well
        most = max(room * cell_size, _SMALL * (room + tail / workers))
        r, c = _grids(workers, sides, most, how, copy_wanted)
        cells = sides.left / r + sides.right / c + sides.joined / (r * c)
        room = float((cells * r * c).sum()) / workers
    carried = np.full(workers, tail / workers)
    homes = _place_cells(cells, r * c, carried)
    total = max(1e-300, carried.sum())
    plan = JoinPlan(
        workers, sides.keys, sides.loads / total, sides.left, sides.right, r.astype(np.int32),
        c.astype(np.int32), homes, carried / total, totals,
    )  # fmt: skip
    return plan, float(carried.max())


def _grids(
    workers: int, sides: _Sides, most: float, how: str, copy_wanted: bool
) -> tuple[Float64Array, Float64Array]:
    """Return the rows and columns of every key's grid, whose cells hold at most ``most`` if possible."""
    r, c = np.ones(sides.keys.size), np.ones(sides.keys.size)
    for key in np.flatnonzero(sides.loads > most):
        rows = float(sides.left[key]), float(sides.right[key]), float(sides.joined[key])
        r[key], c[key] = _grid(workers, *rows, most, how, copy_wanted)
    return r, c


def _grid(
    workers: int, left: float, right: float, joined: float, most: float, how: str, copy_wanted: bool = True
) -> tuple[int, int]:
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
    if how != "inner" and not copy_wanted:
        all_r, all_c = (lines[0], lines[1]) if how != "full" else (ones, ones)
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
    heap = [(float(load), worker) for worker, load in enumerate(carried)]
    for key in np.argsort(-cells, kind="stable").tolist():
        chosen = [heapq.heappop(heap) for _ in range(int(counts[key]))]
        for cell, (load, worker) in enumerate(chosen, int(starts[key])):
            homes[cell] = worker
            heapq.heappush(heap, (load + float(cells[key]), worker))
    for load, worker in heap:
        carried[worker] = load
    return homes
