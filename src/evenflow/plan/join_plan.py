"""A plan for a join: which workers the rows of both sides go to.

The rows of a hot key form a grid. Its left rows are divided into ``r`` pieces, its right rows into ``c``, and
cell (i, j) is a worker that gets left piece i and right piece j. A left row is thus copied to the ``c`` cells
of its piece and a right row to ``r`` cells, and every pair of rows meets in exactly one cell. A key that is
hot on the left only has ``c = 1``: its left rows are divided, its few right rows copied. All other keys have
one cell, which the engine's own hash chooses.

A plan that does not fit the rows costs balance, never rows: a pair meets in one cell whatever was counted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evenflow.plan.homes import Homes
from evenflow.plan.json_fields import (
    array,
    check_distinct,
    check_version,
    field,
    hash_in,
    homes_in,
    parsed,
    refused,
    shares_in,
    whole,
    worker_fields,
)
from evenflow.plan.table import Slots, perfect_slots

if TYPE_CHECKING:
    from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array

VERSION = 1


class SidePieces(NamedTuple):
    """Where the hot keys' rows of one side go.

    Piece p of key k is copied to the ``copies[k]`` workers from ``homes[starts[k] + p * copies[k]]`` on.
    """

    pieces: Int32Array
    copies: Int32Array
    starts: Int64Array
    homes: Int32Array


@dataclass(frozen=True, eq=False)
class JoinPlan(Homes):
    """The grids of hot keys, hottest first, with the expected load of each worker.

    Parameters
    ----------
    workers
        Number of workers.
    keys
        Hash of each hot key.
    weights
        Share of the whole load, rows in and rows out, of each hot key.
    left_rows, right_rows
        Rows of each hot key, as counted.
    left_pieces, right_pieces
        Rows and columns of each hot key's grid.
    homes
        Workers of the cells of all grids, key by key and row by row; those of a key are different.
    expected
        Share of the whole load that each worker is expected to get.
    totals
        Rows of the left and of the right, as counted.

    Examples
    --------
    >>> from evenflow.plan import make_join_plan
    >>> from evenflow.plan.counted import Counted
    >>> hot = np.array([7], np.uint64)
    >>> plan = make_join_plan(4, Counted(hot, np.array([1000.0]), 1200.0), Counted(hot, np.ones(1), 100.0))
    >>> plan.left_pieces.tolist(), plan.right_pieces.tolist(), sorted(plan.homes.tolist())
    ([4], [1], [0, 1, 2, 3])
    """

    workers: int
    keys: UInt64Array
    weights: Float64Array
    left_rows: Float64Array
    right_rows: Float64Array
    left_pieces: Int32Array
    right_pieces: Int32Array
    homes: Int32Array
    expected: Float64Array
    totals: tuple[float, float]

    @cached_property
    def starts(self) -> Int64Array:
        """Hot key i has the cells ``starts[i]`` to ``starts[i + 1]``."""
        cells = self.left_pieces.astype(np.int64) * self.right_pieces
        return np.concatenate([[0], np.cumsum(cells)]).astype(np.int64)

    @cached_property
    def slots(self) -> Slots:
        """The perfect hash of the hot keys; see `evenflow.plan.PlanTable`."""
        return perfect_slots(self.keys)

    @property
    def left(self) -> SidePieces:
        """Where left rows go."""
        return SidePieces(self.left_pieces, self.right_pieces, self.starts[:-1], self.homes)

    @property
    def right(self) -> SidePieces:
        """Where right rows go."""
        homes = self.homes.copy()
        for key in np.flatnonzero((self.left_pieces > 1) & (self.right_pieces > 1)):
            cells = slice(self.starts[key], self.starts[key + 1])
            homes[cells] = self.homes[cells].reshape(self.left_pieces[key], self.right_pieces[key]).T.ravel()
        return SidePieces(self.right_pieces, self.left_pieces, self.starts[:-1], homes)

    def homes_of(self, key: int) -> list[int]:
        """Return the workers of a hot key's cells; of other keys, none."""
        [found] = np.nonzero(self.keys == np.uint64(key))
        return (
            [] if not found.size else self.homes[self.starts[found[0]] : self.starts[found[0] + 1]].tolist()
        )

    def without_copies(self, *, left: bool = False, right: bool = False) -> JoinPlan:
        """Return the plan with the first row or column of each grid that copies rows of these sides."""
        homes = []
        for key in range(self.keys.size):
            cells = self.homes[self.starts[key] : self.starts[key + 1]]
            grid = cells.reshape(self.left_pieces[key], self.right_pieces[key])
            homes.append(grid[: 1 if right else None, : 1 if left else None].ravel())
        pieces = [
            np.ones_like(of_side) if copied else of_side
            for of_side, copied in ((self.left_pieces, right), (self.right_pieces, left))
        ]
        return replace(
            self,
            left_pieces=pieces[0],
            right_pieces=pieces[1],
            homes=np.concatenate([self.homes[:0], *homes]),
        )

    @property
    def copied_rows(self) -> float:
        """Expected number of rows that are copied, beside the first one of each."""
        return sum(self._copies)

    @property
    def _copies(self) -> tuple[float, float]:
        """Rows copied of the left and of the right."""
        return (
            float(self.left_rows @ (self.right_pieces - 1)),
            float(self.right_rows @ (self.left_pieces - 1)),
        )

    def explain(self, top: int = 10, labels: Mapping[int, str] | None = None) -> str:
        """Describe the plan as text.

        Parameters
        ----------
        top
            Number of hot keys to list.
        labels
            Names of keys, by their hashes; other keys are shown by their hash.
        """
        lines = [
            f"{self.workers} workers; expected maximum load {self.max_over_mean:.3f} times the mean",
            f"{self.keys.size} hot keys (split: {int((np.diff(self.starts) > 1).sum())}); copies of "
            + " and of ".join(
                f"{copied:.0f} {side} rows ({copied / max(1.0, total):.1%} more than {total:.0f})"
                for copied, side, total in zip(self._copies, ("left", "right"), self.totals, strict=True)
            ),
        ]
        for i in range(min(top, self.keys.size)):
            key = (labels or {}).get(int(self.keys[i]), f"{int(self.keys[i]):016x}")
            lines.append(
                f"  key {key} {self.weights[i]:7.2%} of the load: "
                f"{self.left_rows[i]:.0f} left rows in {self.left_pieces[i]} pieces, "
                f"{self.right_rows[i]:.0f} right rows in {self.right_pieces[i]}"
            )
        return "\n".join(lines)

    def to_json(self) -> str:
        """Return the plan as JSON, to be read again with `from_json`.

        Examples
        --------
        >>> from evenflow.plan import make_join_plan
        >>> from evenflow.plan.counted import Counted
        >>> hot = np.array([7], np.uint64)
        >>> counted = Counted(hot, np.array([1000.0]), 1200.0)
        >>> plan = make_join_plan(2, counted, counted)
        >>> JoinPlan.from_json(plan.to_json()).homes.tolist() == plan.homes.tolist()
        True
        """
        hot = [
            {
                "key": str(self.keys[i]),
                "weight": float(self.weights[i]),
                "rows": [float(self.left_rows[i]), float(self.right_rows[i])],
                "pieces": [int(self.left_pieces[i]), int(self.right_pieces[i])],
                "homes": self.homes[self.starts[i] : self.starts[i + 1]].tolist(),
            }
            for i in range(self.keys.size)
        ]
        content = {
            "version": VERSION,
            "kind": "join",
            "workers": self.workers,
            "expected": self.expected.tolist(),
            "rows": [float(total) for total in self.totals],
            "hot": hot,
        }
        return json.dumps(content)

    @staticmethod
    def from_json(text: str) -> JoinPlan:
        """Read a plan from the result of `to_json`.

        Raises
        ------
        EvenflowError
            If the text is not a valid plan for a join.
        """
        content = parsed(text)
        if field(content, "kind", "the plan") != "join":
            raise refused(f"kind is {content['kind']!r}, not 'join'")
        check_version(content, VERSION)
        workers, expected = worker_fields(content)
        totals = shares_in(field(content, "rows", "the plan"), "rows")
        if len(totals) != 2:
            raise refused(f"rows are {totals}, not the rows of the left and of the right")
        hot = [_hot_key(entry, workers) for entry in array(field(content, "hot", "the plan"), "hot")]
        keys = np.array([key for key, *_ in hot], np.uint64)
        check_distinct(keys)
        weights = np.array([weight for _, weight, _, _, _ in hot], np.float64)
        rows = np.array([rows for _, _, rows, _, _ in hot], np.float64).reshape(-1, 2)
        pieces = np.array([pieces for *_, pieces, _ in hot], np.int32).reshape(-1, 2)
        homes = np.array([home for *_, homes in hot for home in homes], np.int32)
        return JoinPlan(
            workers, keys, weights, rows[:, 0].copy(), rows[:, 1].copy(), pieces[:, 0].copy(),
            pieces[:, 1].copy(), homes, expected, (totals[0], totals[1]),
        )  # fmt: skip


def _hot_key(entry: Any, workers: int) -> tuple[int, float, list[float], list[int], list[int]]:
    """Return the hash, the weight, the rows and pieces of both sides, and the homes of a hot key."""
    key = hash_in(entry)
    of = f"key {key}"
    [weight] = shares_in([field(entry, "weight", of)], f"weight of {of}")
    rows = shares_in(field(entry, "rows", of), f"rows of {of}")
    pieces = whole(array(field(entry, "pieces", of), f"pieces of {of}"), f"pieces of {of}")
    if len(rows) != 2 or len(pieces) != 2 or min(pieces) < 1:
        raise refused(f"rows of {of} are {rows} and its pieces {pieces}, not two numbers each, from 1 on")
    homes = homes_in(field(entry, "homes", of), f"homes of {of}", workers)
    if len(homes) != pieces[0] * pieces[1]:
        raise refused(f"{of} has {len(homes)} homes for {pieces[0]} x {pieces[1]} cells")
    if len(set(homes)) < len(homes):
        raise refused(f"homes of {of} list a worker twice, which would join its rows twice")
    return key, weight, rows, pieces, homes
