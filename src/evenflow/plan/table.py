"""A plan compiled to a table that all back ends share: numpy here, SQL and joins in ``evenflow.spark``.

**Is the key hot?** A perfect hash (hash and displace): ``slot = ((h >>> 32) + shift[h & mask]) & mask``, with
shifts chosen such that every hot key has its own slot; a key is hot if its slot holds its hash. Keys that no
shift can separate, because their hashes have equal bits in both halves, are listed in ``unslotted`` and
compared one by one.

**Which of its homes?** Alias method (Walker): a key with m homes has m equal cells, each shared by at most
two of its homes. A number u in [0, 1) selects the cell ``floor(u m)``, and the fraction of u m selects one of
the two homes by comparison with the cell's cut. Homes thus get exactly the parts that the plan gives them.

**Which bucket?** ``(h >>> 32) * B >> 32``; a bucket has one home.

Keep imports light: Python workers import this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evenflow.errors import EvenflowError

if TYPE_CHECKING:
    import numpy.typing as npt

    from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array
    from evenflow.plan.plan import Plan

    Hashes = (
        npt.NDArray[np.uint64] | npt.NDArray[np.int64]
    )  # the same 64 bits: Spark has only signed integers

UPPER = 32  # bits of a hash below those that select its bucket, and its slot within a group
_LARGEST_GROUP = 32  # most keys with the same lower bits; random hashes have a handful
_MOST_ROUNDS = 256  # trials per group; with half of the slots free, a pair needs two or three
_STRIDE = 0x9E3779B1  # odd, so that the trials of a group visit every slot


@dataclass(frozen=True, eq=False)
class PlanTable:
    """The arrays of a compiled plan, with hot keys in the order of the plan.

    >>> from evenflow.plan import make_plan
    >>> plan = make_plan(2, np.array([7, 8], np.uint64), np.array([60, 10]), total=100)
    >>> plan.table.find(np.array([8, 9, 7], np.uint64))
    array([ 1, -1,  0], dtype=int32)
    >>> plan.table.route(np.array([7, 7, 8], np.uint64), np.array([0.0, 0.9, 0.5]))
    array([0, 1, 1], dtype=int32)
    """

    workers: int
    buckets: Int32Array  # home of each bucket
    keys: UInt64Array  # hash of each hot key
    shifts: Int32Array  # of each group of hashes with the same lower bits
    slots: Int32Array  # the index of the hot key in each slot; -1 in a free slot
    unslotted: Int32Array  # indices of the hot keys without a slot
    starts: Int64Array  # hot key i has the cells starts[i] to starts[i + 1]
    below: Int32Array  # of each cell: the home below its cut
    cut: Float64Array
    above: Int32Array  # of each cell: the home above its cut

    @staticmethod
    def of(plan: Plan) -> PlanTable:
        """Compile a plan."""
        return PlanTable(
            plan.workers, plan.buckets, plan.keys, *perfect_slots(plan.keys), plan.starts, *alias_cells(plan)
        )

    @property
    def mask(self) -> int:
        """The mask of the lower bits that select a group, or a slot."""
        return self.slots.size - 1

    @property
    def splits(self) -> bool:
        """Whether any key has several homes."""
        return bool((np.diff(self.starts) > 1).any())

    @property
    def first_homes(self) -> Int32Array:
        """The home of each hot key for a draw of 0; its only home if the plan does not split it."""
        first = self.starts[:-1]
        return np.where(self.cut[first] > 0, self.below[first], self.above[first])

    def find(self, hashes: Hashes) -> Int32Array:
        """Return the index of the hot key with each hash, or -1."""
        hashes = hashes.view(np.uint64)
        if not self.keys.size:
            return np.full(hashes.size, -1, np.int32)
        group = (hashes & np.uint64(self.mask)).astype(np.int64)
        upper = (hashes >> np.uint64(UPPER)).astype(np.int64)
        key = self.slots[(upper + self.shifts[group]) & self.mask]
        key = np.where((key >= 0) & (self.keys[key] == hashes), key, np.int32(-1))
        if self.unslotted.size:
            listed = self.keys[self.unslotted]
            order = np.argsort(listed)
            at = np.minimum(np.searchsorted(listed[order], hashes), listed.size - 1)
            key = np.where(listed[order][at] == hashes, self.unslotted[order][at], key)
        return key

    def bucket_homes(self, hashes: Hashes) -> Int32Array:
        """Return the home of the bucket that each hash falls into."""
        return self.buckets[bucket_of(hashes, self.buckets.size)]

    def route(self, hashes: Hashes, draws: Float64Array | None = None) -> Int32Array:
        """Return the worker of every row, from its key's hash and a draw in [0, 1).

        Without draws, as with draws of 0, all rows of a key go to one worker.
        """
        workers = self.bucket_homes(hashes)
        key = self.find(hashes)
        hot = np.flatnonzero(key >= 0)
        key = key[hot]
        if draws is None:
            workers[hot] = self.first_homes[key]
            return workers
        wide = draws[hot] * np.diff(self.starts)[key]
        cell = wide.astype(np.int64)
        rest, cell = wide - cell, cell + self.starts[key]
        workers[hot] = np.where(rest < self.cut[cell], self.below[cell], self.above[cell])
        return workers


def bucket_of(hashes: Hashes, buckets: int) -> Int64Array:
    """Return the bucket of every hash: its upper 32 bits, scaled.

    >>> bucket_of(np.array([0, 2**63, 2**64 - 1], np.uint64), 10)
    array([0, 5, 9])
    """
    return ((hashes.view(np.uint64) >> np.uint64(UPPER)) * np.uint64(buckets) >> np.uint64(32)).astype(
        np.int64
    )


def check_draws(draws: Any, rows: int) -> Float64Array:
    """Return draws as an array; raise an error unless they are one number in [0, 1) per row."""
    numbers: Float64Array = np.asarray(draws, np.float64)
    if numbers.shape != (rows,):
        raise EvenflowError(f"there are {rows} hashes but {numbers.size} draws; pass one draw per hash.")
    outside = ~((numbers >= 0) & (numbers < 1))
    if outside.any():
        raise EvenflowError(f"a draw is {numbers[outside][0]}; draws must be at least 0 and below 1.")
    return numbers


class Slots(NamedTuple):
    """Hot keys in a perfect hash; see `PlanTable`."""

    shifts: Int32Array
    slots: Int32Array
    unslotted: Int32Array


def perfect_slots(keys: UInt64Array) -> Slots:
    """Return a perfect hash of the distinct ``keys``, with two to four times as many slots as keys.

    Groups of several keys are placed first, larger before smaller ones. In every round, all groups of a size
    that are not yet placed try a shift; among those whose slots are free, each slot goes to one group, and a
    group that got all its slots is placed. Half of the slots are free, so a constant fraction succeeds in
    every round, and the time is linear in the number of keys. Keys alone in their group then take any free
    slot.

    >>> found = perfect_slots(np.array([3, 5 << 32 | 3, 9], np.uint64))
    >>> found.slots.size, sorted(found.slots.tolist()), found.unslotted.tolist()
    (8, [-1, -1, -1, -1, -1, 0, 1, 2], [])
    """
    size = 1 << max(1, 2 * keys.size - 1).bit_length()
    mask = size - 1
    group = (keys & np.uint64(mask)).astype(np.int64)
    upper = ((keys >> np.uint64(UPPER)) & np.uint64(mask)).astype(np.int64)
    shifts, slots = np.zeros(size, np.int32), np.full(size, -1, np.int32)
    order = np.lexsort((upper, group))
    # no shift separates keys that are equal in both halves: all but the first get no slot
    repeated = np.append(False, (np.diff(group[order]) == 0) & (np.diff(upper[order]) == 0))[: keys.size]
    order = order[~repeated]
    sizes = np.bincount(group[order], minlength=size)
    by_size = order[np.argsort(sizes[group[order]], kind="stable")]  # groups of equal size are now adjacent
    for members in range(_LARGEST_GROUP, 1, -1):
        numbers = by_size[slice(*np.searchsorted(sizes[group[by_size]], [members, members + 1]))]
        if numbers.size:
            _displace(numbers.reshape(-1, members), group, upper, shifts, slots)
    alone = by_size[: np.searchsorted(sizes[group[by_size]], 1, side="right")]
    free = np.flatnonzero(slots < 0)[: alone.size]
    slots[free] = alone
    shifts[group[alone]] = (free - upper[alone]) & mask
    slotted = np.zeros(keys.size, np.bool_)
    slotted[slots[slots >= 0]] = True
    return Slots(shifts, slots, np.flatnonzero(~slotted).astype(np.int32))


def _displace(
    numbers: Int64Array, group: Int64Array, upper: Int64Array, shifts: Int32Array, slots: Int32Array
) -> None:
    """Find shifts for groups of one size; each row of ``numbers`` has the keys of a group."""
    mask = slots.size - 1
    for attempt in range(_MOST_ROUNDS):
        if not numbers.size:
            return
        groups = group[numbers[:, 0]]
        shift = (groups * 31 + attempt * _STRIDE) & mask
        wanted = (upper[numbers] + shift[:, np.newaxis]) & mask
        free = np.flatnonzero((slots[wanted] < 0).all(axis=1))
        slots[wanted[free]] = numbers[free]  # if two groups want a slot, the later one gets it
        won = (slots[wanted[free]] == numbers[free]).all(axis=1)
        lost = wanted[free[~won]]
        slots[lost[slots[lost] == numbers[free[~won]]]] = -1
        shifts[groups[free[won]]] = shift[free[won]]
        numbers = np.delete(numbers, free[won], axis=0)


class Cells(NamedTuple):
    """The homes of hot keys for the alias method; see `PlanTable`."""

    below: Int32Array
    cut: Float64Array
    above: Int32Array


def alias_cells(plan: Plan) -> Cells:
    """Return the cells of every hot key's homes."""
    above, cut = plan.homes.copy(), np.ones(plan.homes.size)
    for key in np.flatnonzero(np.diff(plan.starts) > 1):
        cells = slice(plan.starts[key], plan.starts[key + 1])
        _alias(plan.parts[cells], plan.homes[cells], cut[cells], above[cells])
    return Cells(plan.homes, cut, above)


def _alias(parts: Float64Array, homes: Int32Array, cut: Float64Array, above: Int32Array) -> None:
    """Fill ``cut`` and ``above``: underfull cells take the rest from overfull ones."""
    full = parts / parts.sum() * parts.size
    small, large = list(np.flatnonzero(full < 1)), list(np.flatnonzero(full >= 1))
    while small and large:
        poor, rich = small.pop(), large[-1]
        cut[poor], above[poor] = full[poor], homes[rich]
        full[rich] -= 1 - full[poor]
        if full[rich] < 1:
            small.append(large.pop())
