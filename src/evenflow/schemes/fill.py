"""Fill: shuffle grouping's balance at nearly key grouping's memory. evenflow's own scheme, and its default.

The papers give every tail key two homes and every head key d homes or all n, before it is known whether they
are needed. Fill gives a key another home only when all its homes are full, remembers that home, and makes the
keys with the most rows give way first.

Terms: ``x`` is the average load per worker so far; a worker's level is its load divided by its capacity share
(shares average 1), so a worker with its fair load is at level x. The slack is ``epsilon * min(x, horizon)``.

1. **Home.** A key's first home is the home of its bucket (64 buckets per worker; initially the worker that
   key grouping would choose). Further homes are kept in a bounded table.
2. **Routing.** The homes of a key form a ring with a pointer. Starting at the pointer, the first home at or
   below ``x + min(4, slack / 2)`` takes the row, so that a home is filled before the next one is used; if
   there is none, the lowest home takes it.
3. **Limit.** A worker takes a row only while its level is at most ``x + slack``. If every home of the key is
   above that, the key gets a new home: the lowest worker of all. Hence max <= (1 + epsilon) mean + 1 at all
   times.
4. **Hot keys give way first.** A key that brings more than a tenth of a worker's share to each of its homes
   is limited to three quarters of the slack: another home for it moves more rows than one for any other key.
5. **New keys are free to place.** A key that was never seen has no state yet, so it is limited to half of the
   slack: placing it elsewhere costs a table entry but no replica.
6. **Start.** During the first 100 messages per worker chance outweighs skew; the slack is widened by ``3
   sqrt(x) (1 - x / 100)``, which is gone when the guarantee begins.

Key frequencies are read from an array of 256 counters per worker with one hash (never too low; a counter of 0
proves that the key is new). The counters are halved every ``horizon`` messages per worker, so that keys that
have cooled are forgotten. All memory is bounded by the number of workers: when the table is full, the least
recently used of eight consecutive entries is evicted, and its key falls back to its bucket's home.

Several sources decide independently, so each would open its own homes for the same key. With ``sources > 1``
a new home is therefore the lower of the key's next two hashes, which the sources share, and rule 5 is off.
``merged`` combines what several sources learned.

Capacities are set by ``report(WorkerReport(capacity=...))`` or, measured, by ``seconds_per_message``. After a
change of capacity or of the number of workers all levels restart at 0, so that no worker has to make up for
the past at once. ``rescale`` moves only the buckets of leaving workers, or as many as a new worker must
carry; when workers join, buckets and counters are split in half in place, so that there are always enough.

``split=False`` keeps every key on one worker (:mod:`evenflow.schemes.fill_owner`). For engines that need a
table, :func:`evenflow.plan.bin_packing.pour` makes a plan in advance from counted keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, inlined, kernel
from evenflow.keys import GOLDEN, mix, to_range
from evenflow.plan import Plan, make_plan
from evenflow.plan.build import BUCKETS_PER_WORKER
from evenflow.plan.counted import Counted
from evenflow.schemes.base import Router, RouterPlace, Scheme, WorkerReport, check
from evenflow.schemes.coordination import Coordinator
from evenflow.schemes.owner_plans import OwnerPlans
from evenflow.schemes.registry import register
from evenflow.sketches.table import KeyTable, new_table, table_find, table_insert, table_remove

CELLS = 256  # counters per worker
BUCKETS = 64  # buckets per worker; a bucket is CELLS / BUCKETS counters wide
ENTRIES = 64  # table entries per worker
SETTLED = 100.0  # messages per worker from which the guarantee holds
EARLY = 3.0  # width of the initial slack, in standard deviations of a worker's load
HOT = 0.1  # of a worker's share per home: such a key gives way first
HOT_SLACK = 0.75
NEW_SLACK = 0.5
TURN = 4.0  # rows above the average up to which a home is filled before the next one is used
CERTAIN = 4  # messages before a key can be called hot
REACH = 2  # number of hashes from which several sources choose a new home
CAPACITY_CHANGE = 0.05  # smaller changes of a worker's share are noise


@register
@dataclass(frozen=True)
class Fill(Scheme):
    """Open a home only when a key's homes are full: max <= (1 + epsilon) mean + 1 after 100 n messages.

    evenflow's own scheme, and its default.

    Parameters
    ----------
    epsilon
        How far a worker may exceed the average, as a fraction of it.
    split
        Whether a key may have several workers.
    horizon
        Messages per worker after which the slack stops growing.

    Examples
    --------
    >>> router = Fill(epsilon=0.1).router(workers=4)
    >>> _ = router.route(np.zeros(4000, np.uint64))
    >>> bool(router.loads.max() <= 1.1 * 1000 + 1)
    True
    """

    epsilon: float = 0.02
    split: bool = True
    horizon: int = 10_000

    name = "fill"
    paper = "evenflow's own"
    summary = "a new home for a key only when its homes are full; hot keys give way first"
    needs_load = True
    needs_reports = True
    plannable = True
    counts_keys = True
    rescales = True
    learns = True
    one_owner_with = "split=False"

    def __post_init__(self) -> None:
        check(
            "epsilon",
            self.epsilon,
            0 < self.epsilon <= 10,
            "choose a tolerance above 0 and at most 10, such as 0.02",
        )
        check("horizon", self.horizon, self.horizon >= 100, "use at least 100 messages per worker")

    def new_router(self, place: RouterPlace) -> Router:
        """Return a router for fill."""
        if self.split:
            return FillRouter(self, place)
        from evenflow.schemes.fill_owner import OwnerRouter

        return OwnerRouter(self, place)

    @property
    def one_owner(self) -> bool:
        """Whether every key has one worker at a time."""
        return not self.split

    def new_plan(
        self,
        workers: int,
        counted: Counted,
        *,
        split: bool,
        seed: int,
        previous: Plan | None,
        move_buckets: bool,
    ) -> Plan:
        """Pour the counted keys; the plan uses half of epsilon and leaves the other half to chance.

        Counts may come from a sample, and the rows of a key with several homes are drawn at random.
        """
        return make_plan(
            workers,
            counted.keys,
            counted.counts,
            counted.total or 1.0,
            counted.buckets,
            split=split and self.split,
            tolerance=self.epsilon / 2,
            previous=previous,
            move_buckets=move_buckets,
        )

    def plan_buckets(self, workers: int) -> int:
        """Return the number of buckets of a plan."""
        return BUCKETS_PER_WORKER * workers

    def owner_plans(self, seed: int) -> OwnerPlans:
        """Return the planner for keyed state, if keys are not split."""
        if self.split:
            return super().owner_plans(seed)  # raises an error
        from evenflow.schemes.fill_owner import FillPlans

        return FillPlans(self, seed)

    def coordinator(self, routers: Sequence[Router]) -> Coordinator:
        """Return the coordinator that ends the epochs of all sources at once, if keys have one owner."""
        if self.split or len(routers) < 2:
            return Coordinator(routers)
        from evenflow.schemes.fill_owner import OneOwner

        return OneOwner(routers)

    def contenders(self, keys: int, messages: int) -> list[Scheme]:
        """Return this scheme with and without splitting."""
        return [self, replace(self, split=False)]


class Homes(NamedTuple):
    """Keys with homes of their own: entries in a table, each with a ring of workers."""

    table: KeyTable
    keys: UInt64Array
    current: Int32Array  # an entry's current node in its ring; -1 for a free entry
    size: Int32Array  # number of homes of an entry; of a free entry: the next free one
    used: Int64Array  # message at which an entry was last used
    worker: Int32Array  # of a node in a ring
    after: Int32Array  # the next node in the ring, or in the list of free nodes
    free: Int32Array  # [first free node, or -1; first free entry, or -1; next entry to consider for reuse]


class FillState(NamedTuple):
    """Everything that a fill router remembers."""

    loads: Int64Array
    levels: Float64Array
    weights: Float64Array  # 1 / capacity share: what a row adds to a worker's level
    cells: Int32Array
    buckets: Int32Array
    counts: Int64Array  # [messages, messages since the levels were reset, messages in the cells]
    homes: Homes


MESSAGES, SINCE, COUNTED = 0, 1, 2


def new_homes(workers: int, entries: int | None = None) -> Homes:
    """Return an empty table of homes for ``workers`` workers."""
    entries = entries or max(4096, ENTRIES * workers)
    nodes = 2 * entries + workers
    return Homes(
        table=new_table(entries),
        keys=np.zeros(entries, np.uint64),
        current=np.full(entries, -1, np.int32),
        size=_chain(entries),
        used=np.zeros(entries, np.int64),
        worker=np.zeros(nodes, np.int32),
        after=_chain(nodes),
        free=np.zeros(3, np.int32),
    )


def _chain(length: int) -> Int32Array:
    """Return a linked list of free numbers: each points to the next, the last to -1."""
    chain = np.arange(1, length + 1, dtype=np.int32)
    chain[-1] = -1
    return chain


class FillRouter(Router):
    """Fill at one source, splitting keys when their homes overflow."""

    scheme: Fill
    state: FillState

    def __init__(self, scheme: Fill, place: RouterPlace):
        super().__init__(scheme, place)
        n = place.workers
        self.state = FillState(
            loads=np.zeros(n, np.int64),
            levels=np.zeros(n),
            weights=np.ones(n),
            cells=np.zeros(CELLS * n, np.int32),
            buckets=np.repeat(np.arange(n, dtype=np.int32), BUCKETS),
            counts=np.zeros(3, np.int64),
            homes=new_homes(n),
        )

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        alone = self.place.sources == 1
        _route(keys, out, self.state, self.place.salt, self.scheme.epsilon, self.scheme.horizon, alone)

    def report(self, report: WorkerReport) -> None:
        """Follow the workers' capacities; small changes are ignored as noise."""
        shares = capacity_shares(report, self.workers)
        if shares is not None and np.abs(shares * self.state.weights - 1).max() > CAPACITY_CHANGE:
            self.state.weights[:] = 1 / shares
            self._reset_levels()

    def _rescale(self, before: int) -> None:
        n = self.workers
        if n > before:
            self._make_room()
        state = self.state
        weights = np.ones(n)
        weights[: min(n, before)] = state.weights[:n]
        self.state = state._replace(
            loads=state.loads[:n].copy() if n < before else np.pad(state.loads, (0, n - before)),
            levels=np.zeros(n),
            weights=weights,
            buckets=rescaled_buckets(state.buckets, self.bucket_weights(), before, n, 1 / weights),
        )
        if n < before:
            _forget_workers(self.state.homes, n)
        self._reset_levels()

    def _make_room(self) -> None:
        """Split buckets and counters in half, in place, until there are enough for all workers."""
        state = self.state
        cells, buckets, homes = state.cells, state.buckets, state.homes
        while buckets.size < BUCKETS * self.workers:
            cells, buckets = np.repeat((cells + 1) // 2, 2), np.repeat(buckets, 2)
        wider = new_homes(self.workers)
        if wider.keys.size > homes.keys.size:
            _join_homes(wider, homes, state.counts[MESSAGES])
            homes = wider
        self.state = state._replace(cells=cells, buckets=buckets, homes=homes)
        state.counts[COUNTED] = cells.sum()

    def _reset_levels(self) -> None:
        self.state.levels[:] = 0
        self.state.counts[SINCE] = 0

    def bucket_weights(self) -> Float64Array:
        """Return the recent messages of each bucket."""
        cells = self.state.cells.astype(np.float64)
        return cells.reshape(self.state.buckets.size, -1).sum(axis=1)

    def first_homes(self, keys: UInt64Array) -> Int32Array:
        """Return the current home of each key's bucket."""
        homes = np.empty(keys.size, np.int32)
        _first_homes(keys, self.state.buckets, self.place.salt, homes)
        return homes

    def homes(self) -> dict[int, list[int]]:
        """Return the homes of every key that has homes of its own, by key hash."""
        table = self.state.homes
        found: dict[int, list[int]] = {}
        for entry in np.flatnonzero(table.current >= 0):
            node = first = int(table.current[entry])
            workers = []
            while True:
                workers.append(int(table.worker[node]))
                node = int(table.after[node])
                if node == first:
                    break
            found[int(table.keys[entry])] = sorted(workers)
        return found

    @staticmethod
    def merged(routers: Sequence[FillRouter]) -> FillRouter:
        """Combine several sources' routers: loads and counters are added, homes of equal keys are united."""
        if not routers:
            raise EvenflowError("there are no routers to merge; pass at least one.")
        first = routers[0]
        if any(r.scheme != first.scheme or r.workers != first.workers for r in routers):
            raise EvenflowError(
                "the routers differ in scheme or number of workers; merge routers of the same kind."
            )
        joined = FillRouter.from_bytes(first.to_bytes())
        for other in routers[1:]:
            state = other.state
            joined.routed += other.routed
            joined.state.loads[:] += state.loads
            joined.state.levels[:] += state.levels
            joined.state.cells[:] += state.cells
            joined.state.counts[:] += state.counts
            _join_homes(joined.state.homes, state.homes, joined.state.counts[MESSAGES])
        return joined

    def _learn(self, others: Sequence[FillRouter], share: float) -> None:
        joined = FillRouter.merged(others).state
        cells = np.ceil(joined.cells * share).astype(np.int32)
        joined.homes.used[:] -= joined.counts[MESSAGES]
        self.state = joined._replace(
            loads=self.state.loads,
            levels=self.state.levels,
            cells=cells,
            counts=np.array([0, 0, cells.sum()], np.int64),
        )


def capacity_shares(report: WorkerReport, workers: int) -> Float64Array | None:
    """Return each worker's share of the reported capacity (1 on average), or None."""
    capacity = report.capacity
    if capacity is None and report.seconds_per_message is not None:
        seconds = np.asarray(report.seconds_per_message, np.float64)
        capacity = 1 / np.where(seconds > 0, seconds, np.nan)
    if capacity is None:
        return None
    shares = np.array(capacity, np.float64)
    if shares.shape != (workers,):
        raise EvenflowError(
            f"the report has {shares.size} values for {workers} workers; pass one per worker."
        )
    known = np.isfinite(shares) & (shares > 0)
    if not known.any():
        return None
    shares[~known] = shares[known].mean()
    return shares / shares.mean()


def rescaled_buckets(
    buckets: Int32Array, weights: Float64Array, before: int, workers: int, shares: Float64Array
) -> Int32Array:
    """Give buckets to new workers, or those of leaving workers to the others; move no other bucket."""
    homes = buckets.copy()
    total = float(weights.sum()) + homes.size  # a bucket weighs at least one message: keys may still come
    weight = weights + 1.0
    target = shares / shares.sum() * total
    carried = np.bincount(homes, weight, max(before, workers))
    if workers < before:
        for bucket in sorted(np.flatnonzero(homes >= workers), key=lambda b: -weight[b]):
            room = int(np.argmax(target - carried[:workers]))
            homes[bucket] = room
            carried[room] += weight[bucket]
        return homes
    for joined in range(before, workers):
        for bucket in np.argsort(-weight, kind="stable"):
            home = homes[bucket]
            fits = carried[home] - weight[bucket] >= target[home] - weight[bucket] / 2
            if (
                home < before
                and fits
                and carried[joined] + weight[bucket] <= target[joined] + weight[bucket] / 2
            ):
                homes[bucket] = joined
                carried[home] -= weight[bucket]
                carried[joined] += weight[bucket]
    return homes


@inlined
def _release(homes: Homes, entry: int) -> None:
    """Forget an entry and return its nodes to the free list."""
    table_remove(homes.table, homes.keys[entry])
    node = homes.current[entry]
    for _ in range(homes.size[entry]):
        following = homes.after[node]
        homes.after[node] = homes.free[0]
        homes.free[0] = node
        node = following
    homes.current[entry] = -1
    homes.size[entry] = homes.free[1]
    homes.free[1] = entry


@inlined
def _evict(homes: Homes, keep: int) -> None:
    """Forget the least recently used of the next eight entries, except ``keep``."""
    entries = homes.keys.size
    oldest = -1
    entry = homes.free[2]
    looked = 0
    while looked < 8 or oldest < 0:
        if (
            homes.current[entry] >= 0
            and entry != keep
            and (oldest < 0 or homes.used[entry] < homes.used[oldest])
        ):
            oldest = entry
        entry += 1
        if entry == entries:
            entry = 0
        looked += 1
    homes.free[2] = entry
    _release(homes, oldest)


@inlined
def _add_home(homes: Homes, entry: int, worker: int) -> None:
    """Add ``worker`` to the entry's ring and point at it."""
    if homes.free[0] < 0:
        _evict(homes, entry)
    node = homes.free[0]
    homes.free[0] = homes.after[node]
    homes.worker[node] = worker
    current = homes.current[entry]
    if current < 0:
        homes.after[node] = node
    else:
        homes.after[node] = homes.after[current]
        homes.after[current] = node
    homes.current[entry] = node
    homes.size[entry] += 1


@inlined
def _new_entry(homes: Homes, key: np.uint64) -> int:
    """Return a new entry for ``key``, without homes."""
    if homes.free[1] < 0:
        _evict(homes, -1)
    entry = homes.free[1]
    homes.free[1] = homes.size[entry]
    homes.size[entry] = 0
    homes.keys[entry] = key
    table_insert(homes.table, key, entry)
    return entry


@inlined
def _home_in_turn(homes: Homes, entry: int, levels: Float64Array, enough: float) -> int:
    """Return the first home from the pointer at or below ``enough``, or the lowest; point at it."""
    node = homes.current[entry]
    lowest = node
    for _ in range(homes.size[entry]):
        if levels[homes.worker[node]] <= enough:
            lowest = node
            break
        if levels[homes.worker[node]] < levels[homes.worker[lowest]]:
            lowest = node
        node = homes.after[node]
    homes.current[entry] = lowest
    return homes.worker[lowest]


@inlined
def _lowest_worker(levels: Float64Array) -> int:
    lowest = 0
    for worker in range(1, levels.size):
        if levels[worker] < levels[lowest]:
            lowest = worker
    return lowest


@inlined
def _lowest_hash(levels: Float64Array, hashed: np.uint64, limit: float) -> int:
    """Return the lowest of the key's next hashes, or of all workers if those are full."""
    lowest = -1
    for index in range(1, REACH + 1):
        worker = to_range(mix(hashed + np.uint64(index) * GOLDEN), levels.size)
        if lowest < 0 or levels[worker] < levels[lowest]:
            lowest = worker
    if levels[lowest] > limit:
        return _lowest_worker(levels)
    return lowest


@inlined
def _slack(average: float, epsilon: float, horizon: int) -> float:
    slack = epsilon * min(average, float(horizon))
    if average < SETTLED:
        slack += EARLY * np.sqrt(average) * (1 - average / SETTLED)
    return slack


@kernel
def _route(
    keys: UInt64Array,
    out: Int32Array,
    state: FillState,
    salt: np.uint64,
    epsilon: float,
    horizon: int,
    alone: bool,
) -> None:
    levels = state.levels
    homes = state.homes
    cells = state.cells
    n = levels.size
    width = cells.size // state.buckets.size
    messages, since, counted = state.counts[MESSAGES], state.counts[SINCE], state.counts[COUNTED]
    for i in range(keys.size):
        key = keys[i]
        hashed = mix(key ^ salt)
        cell = to_range(hashed, cells.size)
        seen = cells[cell]
        cells[cell] = seen + 1
        messages += 1
        since += 1
        counted += 1
        average = since / n
        slack = _slack(average, epsilon, horizon)

        entry = table_find(homes.table, key)
        if entry < 0:
            worker = np.int64(state.buckets[cell // width])
            opened = 1
        else:
            worker = np.int64(_home_in_turn(homes, entry, levels, average + min(TURN, NEW_SLACK * slack)))
            opened = homes.size[entry]
            homes.used[entry] = messages

        if levels[worker] > average + NEW_SLACK * slack and opened < n:
            new = alone and seen == 0
            hot = seen >= CERTAIN and (seen + 1.0) * n > HOT * counted * opened
            limit = average + slack * (NEW_SLACK if new else HOT_SLACK if hot else 1.0)
            if levels[worker] > limit:
                other = _lowest_worker(levels) if alone else _lowest_hash(levels, hashed, average + slack)
                if levels[other] < levels[worker]:
                    if entry < 0:
                        entry = _new_entry(homes, key)
                        homes.used[entry] = messages
                        if not new:
                            _add_home(homes, entry, int(worker))
                    _add_home(homes, entry, other)
                    worker = np.int64(other)

        levels[worker] += state.weights[worker]
        state.loads[worker] += 1
        out[i] = worker
        if counted >= 2 * horizon * n:
            counted = _halve(cells)
    state.counts[MESSAGES], state.counts[SINCE], state.counts[COUNTED] = messages, since, counted


@inlined
def _halve(cells: Int32Array) -> int:
    """Halve all counters, keeping 1 as 1 (a seen key stays seen), and return their sum."""
    total = 0
    for cell in range(cells.size):
        cells[cell] = (cells[cell] + 1) // 2
        total += cells[cell]
    return total


@kernel
def _first_homes(keys: UInt64Array, buckets: Int32Array, salt: np.uint64, out: Int32Array) -> None:
    for i in range(keys.size):
        out[i] = buckets[to_range(mix(keys[i] ^ salt), buckets.size)]


@kernel
def _forget_workers(homes: Homes, workers: int) -> None:
    """Remove workers numbered ``workers`` or higher from every ring, and entries without homes."""
    for entry in range(homes.keys.size):
        if homes.current[entry] < 0:
            continue
        before = homes.current[entry]
        while homes.after[before] != homes.current[entry]:
            before = homes.after[before]
        node = homes.current[entry]
        left = homes.size[entry]
        for _ in range(homes.size[entry]):
            following = homes.after[node]
            if homes.worker[node] >= workers and left > 1:
                homes.after[before] = following
                homes.after[node] = homes.free[0]
                homes.free[0] = node
                left -= 1
            else:
                before = node
            node = following
        homes.size[entry] = left
        homes.current[entry] = before
        if homes.worker[before] >= workers:
            _release(homes, entry)


@kernel
def _join_homes(homes: Homes, others: Homes, now: int) -> None:
    """Add the homes of another source's table."""
    for entry in range(others.keys.size):
        if others.current[entry] < 0:
            continue
        node = others.current[entry]
        mine = table_find(homes.table, others.keys[entry])
        if mine < 0:
            mine = _new_entry(homes, others.keys[entry])
        homes.used[mine] = now
        for _ in range(others.size[entry]):
            there = False
            at = homes.current[mine]
            for _ in range(homes.size[mine]):
                if homes.worker[at] == others.worker[node]:
                    there = True
                at = homes.after[at]
            if not there:
                _add_home(homes, mine, others.worker[node])
            node = others.after[node]
