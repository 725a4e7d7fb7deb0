"""Fill: shuffle grouping's balance, at nearly key grouping's memory, with short queues. evenflow's default.

The papers give every tail key two homes and every head key d homes or all n, before it is known whether they
are needed. Fill gives a key another home only when rows would wait too long at the homes it has, remembers
that home, and lets the keys with the most rows give way first.

Terms: ``x`` is the average number of rows per worker so far. Fill pretends that every worker serves a little
more than its share, ``1 + 3/4 epsilon`` rows while x grows by 1, and calls what is left of the rows it sent
there the worker's wait, in rows of an average worker. A key's part is its share of the recent rows relative
to a worker's share, divided by the number of its homes.

1. **Home.** A key's first home is the home of its bucket (1024 buckets per worker, one for each counter;
   initially the worker that key grouping would choose). Further homes are kept in a bounded table.
2. **Routing.** The homes of a key form groups of four. Of the group at a pointer, the home that is free first
   takes the row, and the pointer moves on to the next group.
3. **Limit.** If the wait there is above the key's limit, 16 homes are looked at instead of four. If the wait
   is still above it, the key gets another home: the worker that is free first, if that is two rows earlier.
4. **Hot keys give way first.** The limit is ``queue`` rows, and ``queue sqrt(hot / part)`` for a key with a
   part above ``hot``: another home for it moves more rows, and its homes balance the workers for all keys.
   ``hot`` is 1/240 or, if that is less, half the part of the average key, which is n per distinct key, but at
   least 1/1000 (several sources: 1/160): where keys are many, all are small, and yet some have far more rows
   than most. At least 1.5 rows may wait, or ``queue``. A ``queue`` above 12 is used as far as half of the
   slack (rule 7) permits.
5. **Memory has its price.** The limit is stretched by ``1 + 25 e``, at most 8, where e is the number of homes
   that keys got beyond their first, per distinct key: the more memory was spent, the longer rows wait before
   more is. It is computed every 64 messages, with the number of distinct keys, which is estimated from the
   counters that are still 0. The longest wait that comes by chance grows with the logarithm of the rows:
   after 8192 rows per worker, and each time these have doubled, the price rises by an eighth of 25.
6. **A burst opens homes at once.** A majority vote finds the key that has most of the rows waiting at a
   worker, and its lead over all others. A key that leads by more than 9/10 of ``queue`` fills the queue by
   itself: it gets another home, whatever its limit.
7. **Balance.** No worker takes a row while its load, divided by its share of the capacity, is above
   ``x + slack``, where the slack is ``epsilon x``. Hence max <= (1 + epsilon) mean + 1 at all times. A new
   key gets another home at half of the slack, a key with a part above a tenth at three quarters. In the first
   100 messages per worker, where chance outweighs skew, the slack is ``3 sqrt(x) (1 - x / 100)`` wider.
8. **New keys are free to place.** A key that was never seen has no state yet, so its limit is 3/10 of
   ``queue``, never stretched, and it moves with its bucket: no other key of the bucket was seen either.
   This costs neither a replica nor an entry of the table.

Recent rows are counted in an array of 1024 counters per worker with one hash (never too low; a counter of 0
proves that the key is new). They are halved every 500 messages per worker (with s sources 500 / sqrt(s)), so
that keys that have cooled are forgotten. All memory is bounded by the number of workers:
when the table is full, the least recently used of eight consecutive entries is evicted, and its key falls
back to its bucket's home.

Several sources decide independently, and what waits at one of them is partly chance: each would open its own
homes. With ``sources > 1`` all therefore open the same homes, early and by a rule that chance hardly touches.

9. **Homes in advance.** A key whose part with one home, times its luck, is at or above a threshold has at
   least ``1 + ceil(3/2 part)`` homes; with d homes it gets its hash number d or, if that is a home, the next
   worker. Luck is one of 1, 2, 4 and 8, by a hash of the key's counter, so that of nearly equal keys all
   sources choose the same. The threshold is the highest at which these keys have at least as many rows as one
   standard deviation of what the others bring to a worker, so that their homes can even it out. It comes from
   the counters before they are halved, and after 64, 128, 256, ... messages, from one per worker on.

A key with d homes whose rows wait (rule 3) gets the first of its hashes number d, d + 1, ..., d + 7 where the
wait is within its limit. Rule 8 is off, limits are stretched by ``1 + 110 e``, at most 16, and in rule 7 a
source's bound is ``12 + sqrt(x)`` rows wider. ``merged`` combines what several sources learned, and with
``exchange`` sources tell each other their homes (:mod:`evenflow.schemes.fill_exchange`).

Capacities are set by ``report(WorkerReport(capacity=...))`` or, measured, by ``seconds_per_message``. After a
change of capacity or of the number of workers a worker's load restarts at the rows that still wait there: the
reported backlog or, without one, what fill believes. So no worker has to make up for the past, and one with a
long queue gets no rows until the others have as much to do. Between changes, a reported backlog shortens a
wait that is more than ``queue`` rows above it.
``rescale`` moves only the buckets of leaving workers, or as many as a new worker must carry; when workers
join, buckets and counters are split in half in place, so that there are always enough.

``split=False`` keeps every key on one worker (:mod:`evenflow.schemes.fill_owner`). For engines that need a
table, :func:`evenflow.plan.bin_packing.pour` makes a plan in advance from counted keys.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, inlined, kernel, prefetch
from evenflow.keys import GOLDEN, mix, to_range
from evenflow.plan import Plan, make_plan
from evenflow.plan.build import BUCKETS_PER_WORKER
from evenflow.plan.counted import Counted
from evenflow.schemes.base import CARRIED, Router, RouterPlace, Scheme, WorkerReport, check
from evenflow.schemes.coordination import Coordinator
from evenflow.schemes.fill_homes import (
    AHEAD,
    GROUP,
    NEVER,
    Homes,
    adopt_homes,
    first_of,
    first_of_more,
    forget_workers,
    further_homes,
    further_pairs,
    homes_in,
    is_home,
    join_homes,
    new_homes,
    open_home,
)
from evenflow.schemes.owner_plans import OwnerPlans
from evenflow.schemes.registry import register
from evenflow.sketches.table import first_cell, table_find

CELLS = 1024  # counters per worker, and buckets: a bucket is the keys of one counter
RECENT = 500  # messages per worker after which the counters are halved
SETTLED = 100.0  # messages per worker from which the guarantee holds
EARLY = 3.0  # width of the initial slack, in standard deviations of a worker's load
DRAIN = 0.75  # of epsilon: how much faster than its share a worker is assumed to serve
ALWAYS = 12.0  # rows that may wait even while the slack is small
LIGHT = 1 / 240  # part of a worker's share from which a key gives way before others
LIGHT_KEY = 0.5  # the same relative to the average key's, if that is less
LIGHTEST = 1 / 1000  # but not less than this
SHARED_LIGHT = 1 / 160  # the same with several sources, whatever the average key's
NEW_PATIENCE = 0.3  # of a key without state
NEW_SLACK = 0.5
HOT = 0.1  # part of a worker's share: such a key also gives way to balance first
HOT_SLACK = 0.75
PRICE = 25.0  # how much a home per key stretches the limits
SHARED_PRICE = 110.0  # the same with several sources, each of which opens homes on its own
AGED = 8192  # rows per worker from which the price rises each time they double
AGEING = 1 / 8  # by how much
LONGEST = 8.0  # limits are stretched at most so far
SHARED_LONGEST = 16.0  # the same with several sources
BURST = 0.9  # of the queue: rows by which a key leads in a worker's queue that it fills by itself
GAIN = 2.0  # rows that a new home must be free earlier
LEAST = 1.5  # rows, at most the queue, that may wait whatever a key's part
CERTAIN = 10  # messages before a key's share is believed
SHARED_CERTAIN = 4  # the same with several sources, each of which sees few rows
SPAN = 64  # workers that are skipped at once in a search for the one that is free first
REACH = 8  # number of hashes from which several sources choose a new home
NEED = 1.0  # rows of keys with homes in advance, in standard deviations of what the others bring to a worker
SPREAD = 1.5  # homes in advance, for each worker that the key would fill
LUCKS = 4  # 1, 2, 4, 8
STEPS = 4 * 64  # of thresholds: four from one power of two to the next
ROW = 2**20  # units of a row, in levels and waits
CAPACITY_CHANGE = 0.05  # smaller changes of a worker's share are noise


@register
@dataclass(frozen=True)
class Fill(Scheme):
    """Open a home only when rows would wait at a key's homes; hot keys give way first.

    evenflow's own scheme, and its default: max <= (1 + epsilon) mean + 1 after 100 n messages.

    Parameters
    ----------
    epsilon
        How far a worker may exceed the average, as a fraction of it.
    split
        Whether a key may have several workers.
    horizon
        Messages per worker that decisions look back at, at most.
    queue
        Rows that may wait at a worker before other homes are opened, while homes are few: a small number
        makes queues short, a large one saves memory.
    exchange
        Messages per worker after which sources tell each other which homes they opened, where several run
        in one process; 0 means never.

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
    queue: float = 5.0
    exchange: int = 0

    name = "fill"
    paper = "evenflow's own"
    summary = "a new home for a key only when rows would wait at its homes; hot keys give way first"
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
        check("queue", self.queue, 0 < self.queue < 1e9, "use a number of rows above 0, such as 5")
        check("exchange", self.exchange, self.exchange >= 0, "use messages per worker, or 0 for never")

    @property
    def report_interval(self) -> float:
        """Seconds between two reports from the workers: a queue that builds up meanwhile is short."""
        return 0.25

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
        """Return what ends the epochs of all sources at once, if keys have one owner, or shares homes."""
        if len(routers) < 2 or (self.split and not self.exchange):
            return Coordinator(routers)
        if self.split:
            from evenflow.schemes.fill_exchange import HomeExchange

            return HomeExchange(routers, self.exchange)
        from evenflow.schemes.fill_owner import OneOwner

        return OneOwner(routers)

    def contenders(self, keys: int, messages: int) -> list[Scheme]:
        """Return this scheme with and without splitting."""
        return [self, replace(self, split=False)]


class FillState(NamedTuple):
    """Everything that a fill router remembers.

    Levels, waits, weights and leads are whole numbers of units, of which a row has ROW: processors compare
    and select whole numbers several times faster than floating point.
    """

    loads: Int64Array
    levels: Int64Array  # loads relative to capacity shares, since these changed
    free: Int64Array  # when the rows sent to a worker will have been served, on the clock of _now
    weights: Int64Array  # 1 / capacity share: what a row adds to a worker's level and wait
    cells: Int32Array
    buckets: Int32Array
    totals: Int64Array  # by MESSAGES, SINCE, COUNTED, OPENED, FILLED, FRESH, STRETCH, DISTINCT
    threshold: Float64Array  # part times luck from which a key has homes in advance; infinite: none has
    leader: UInt64Array  # the key that has the majority of the rows waiting at a worker, if one has
    lead: Int64Array  # by how many rows, weighted as waits
    homes: Homes


class Ahead(NamedTuple):
    """Scratch space of a call: what the next messages will need, and what a search for a worker may skip."""

    rows: Int64Array  # SEEN of the first message, then of the others, then ENTRY of the first and so on
    earliest: Int64Array  # by span of workers: a time before which none of them is free
    rows_by_step: Int64Array  # of keys whose share, times their luck, is at a step of thresholds


def _new_scratch(workers: int) -> Ahead:
    return Ahead(
        np.empty(FIELDS * AHEAD, np.int64),
        np.full(-(-workers // SPAN), -1),
        np.empty(2 * STEPS, np.int64),
    )


SEEN = 0 * AHEAD  # recent rows of a message's key before it
ENTRY = 1 * AHEAD  # of the key in the table of homes, or one past the last
TURN = 2 * AHEAD  # the group of its homes whose turn it is
SIZE = 3 * AHEAD  # number of its homes
NOW = 4 * AHEAD  # the clock
LIMIT = 5 * AHEAD  # a wait above which the key leaves
HIGH = 6 * AHEAD  # a level above which it does
LEADS = 7 * AHEAD  # a lead above which it does
HIGHEST = 8 * AHEAD  # a level above which no worker takes a row
HASH = 9 * AHEAD  # of the key, with the salt
FIELDS = 10

MESSAGES = 0
SINCE = 1  # messages since the levels were reset
COUNTED = 2  # messages in the cells
OPENED = 3  # homes beyond a key's first
FILLED = 4  # cells that are not 0
FRESH = 5  # messages since the cells were halved
STRETCH = 6  # how much longer rows wait, in units
DISTINCT = 7  # keys, estimated


class FillRouter(Router):
    """Fill at one source, splitting keys when their homes overflow."""

    scheme: Fill
    state: FillState

    def __init__(self, scheme: Fill, place: RouterPlace):
        super().__init__(scheme, place)
        n = place.workers
        self.state = FillState(
            loads=np.zeros(n, np.int64),
            levels=np.zeros(n, np.int64),
            free=np.zeros(n, np.int64),
            weights=np.full(n, ROW),
            cells=np.zeros(CELLS * n, np.int32),
            buckets=np.repeat(np.arange(n, dtype=np.int32), CELLS),
            totals=np.zeros(8, np.int64),
            threshold=np.full(1, np.inf),
            leader=np.zeros(n, np.uint64),
            lead=np.zeros(n, np.int64),
            homes=new_homes(n),
        )

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        scheme, sources = self.scheme, self.place.sources
        recent = min(RECENT, scheme.horizon) / np.sqrt(sources)
        price, longest = (PRICE, LONGEST) if sources == 1 else (SHARED_PRICE, SHARED_LONGEST)
        _route(
            keys,
            out,
            self.state,
            _new_scratch(self.workers),
            self.place.salt,
            scheme.epsilon,
            scheme.queue,
            recent,
            price,
            longest,
            sources == 1,
        )

    def report(self, report: WorkerReport) -> None:
        """Follow the workers' capacities; small changes are ignored as noise. Rows that wait still count."""
        shares = capacity_shares(report, self.workers)
        weights, waits = self.state.weights, self._waits()
        told = None
        if report.backlog is not None:
            told = np.asarray(report.backlog, np.float64) / self.place.sources
        if shares is not None and np.abs(shares * weights / ROW - 1).max() > CAPACITY_CHANGE:
            waiting = waits / weights if told is None else told
            weights[:] = np.rint(ROW / shares)
            self._restart(np.rint(waiting * weights).astype(np.int64))
        elif told is not None:
            most = np.rint(told * weights).astype(np.int64) + _units(self.scheme.queue)
            self.state.free[:] += np.minimum(most - waits, 0)

    def waits(self) -> Float64Array:
        """Return how long a row would wait at each worker, in rows of an average one."""
        return self._waits() / ROW

    def _waits(self) -> Int64Array:
        now = _now(self.state.totals[SINCE] / self.state.free.size, self.scheme.epsilon)
        result: Int64Array = np.maximum(self.state.free - now, 0)
        return result

    def _rescale(self, before: int) -> None:
        n = self.workers
        if n > before:
            self._make_room()
        state = self.state
        weights = np.full(n, ROW)
        weights[: min(n, before)] = state.weights[:n]
        waits = np.zeros(n, np.int64)
        waits[: min(n, before)] = self._waits()[:n]
        self.state = state._replace(
            loads=state.loads[:n].copy() if n < before else np.pad(state.loads, (0, n - before)),
            levels=np.zeros(n, np.int64),
            free=np.zeros(n, np.int64),
            weights=weights,
            leader=np.zeros(n, np.uint64),
            lead=np.zeros(n, np.int64),
            buckets=rescaled_buckets(state.buckets, self._rows_to_move(), before, n, ROW / weights),
        )
        if n < before:
            forget_workers(self.state.homes, n, np.empty(before, np.int32))
        self._restart(waits)

    def _make_room(self) -> None:
        """Split buckets and counters in half, in place, until there are enough for all workers."""
        state = self.state
        cells, buckets, homes = state.cells, state.buckets, state.homes
        while buckets.size < CELLS * self.workers:
            cells, buckets = np.repeat((cells + 1) // 2, 2), np.repeat(buckets, 2)
        wider = new_homes(self.workers)
        if wider.keys.size > homes.keys.size:
            join_homes(wider, homes, state.totals[MESSAGES], np.empty(self.workers, np.int32))
            homes = wider
        self.state = state._replace(cells=cells, buckets=buckets, homes=homes)
        state.totals[COUNTED], state.totals[FILLED] = cells.sum(), np.count_nonzero(cells)

    def _restart(self, waits: Int64Array) -> None:
        """Forget the loads, but not what waits: each worker starts with the rows that it still has to do."""
        since = round(float((waits / self.state.weights).sum()))
        self.state.totals[SINCE] = since
        self.state.levels[:] = waits
        self.state.free[:] = waits + _now(since / self.workers, self.scheme.epsilon)
        self.state.lead[:] = 0

    def bucket_weights(self) -> Float64Array:
        """Return the recent messages of each bucket."""
        cells = self.state.cells.astype(np.float64)
        return cells.reshape(self.state.buckets.size, -1).sum(axis=1)

    def _rows_to_move(self) -> Float64Array:
        """Return the recent messages that move with a bucket: not those of keys with homes of their own."""
        rows = self.bucket_weights()
        _leave_out(rows, self.state.homes, self.place.salt)
        return rows

    def first_homes(self, keys: UInt64Array) -> Int32Array:
        """Return the current home of each key's bucket."""
        homes = np.empty(keys.size, np.int32)
        _first_homes(keys, self.state.buckets, self.place.salt, homes)
        return homes

    def homes(self) -> dict[int, list[int]]:
        """Return the homes of every key that has homes of its own, by key hash."""
        table = self.state.homes
        workers = np.empty(self.workers, np.int32)
        found: dict[int, list[int]] = {}
        for entry in np.flatnonzero(table.turn[:-1] >= 0).tolist():
            count = homes_in(table, entry, workers)
            found[int(table.keys[entry])] = sorted(workers[:count].tolist())
        return found

    def further_homes(self) -> tuple[UInt64Array, Int32Array]:
        """Return keys and homes, without the homes of the keys' buckets: one pair for each home."""
        homes = self.state.homes
        keys = np.empty(homes.workers.size, np.uint64)
        workers = np.empty(homes.workers.size + self.workers, np.int32)
        count = further_pairs(homes, self.state.buckets, self.place.salt, keys, workers)
        return keys[:count], workers[:count]

    def adopt(self, keys: UInt64Array, workers: Int32Array) -> None:
        """Add homes that other sources opened; those of this source are kept as they are."""
        state = self.state
        adopt_homes(state.homes, keys, workers, state.buckets, self.place.salt, state.totals[MESSAGES])
        state.totals[OPENED] = further_homes(state.homes)

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
        joined = copy.deepcopy(first)
        waits = np.sum([router._waits() for router in routers], axis=0)
        room = np.empty(joined.workers, np.int32)
        for other in routers[1:]:
            state = other.state
            joined.routed += other.routed
            joined.state.loads[:] += state.loads
            joined.state.levels[:] += state.levels
            unseen = joined.bucket_weights() == 0
            joined.state.buckets[unseen] = state.buckets[unseen]
            joined.state.cells[:] += state.cells
            joined.state.totals[:STRETCH] += state.totals[:STRETCH]
            join_homes(joined.state.homes, state.homes, joined.state.totals[MESSAGES], room)
        if len(routers) > 1:
            joined.state.totals[OPENED] = further_homes(joined.state.homes)
            joined.state.totals[FILLED] = np.count_nonzero(joined.state.cells)
            joined.state.lead[:] = 0
        joined.state.free[:] = waits + _now(joined.state.totals[SINCE] / joined.workers, first.scheme.epsilon)
        return joined

    def _learn(self, others: Sequence[FillRouter], share: float) -> None:
        merged = FillRouter.merged(others)
        joined, waits = merged.state, merged._waits()
        cells = np.ceil(joined.cells * share).astype(np.int32)
        joined.homes.used[:] -= joined.totals[MESSAGES]
        done = max(0.0, float(joined.totals[SINCE] - (waits / joined.weights).sum()))
        carried = share * min(1.0, CARRIED * self.workers / max(1.0, share * done))
        since = round(carried * done)
        self.state = joined._replace(
            loads=self.state.loads,
            levels=(np.maximum(joined.levels - waits, 0) * carried).astype(np.int64),  # without what waited:
            free=np.full(self.workers, _now(since / self.workers, self.scheme.epsilon)),  # it is done by now
            cells=cells,
            totals=np.array(
                [0, since, cells.sum(), joined.totals[OPENED], np.count_nonzero(cells), 0, 0, 0], np.int64
            ),
            lead=np.zeros(self.workers, np.int64),
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
    carried = np.bincount(homes, weight, max(before, workers)).astype(np.float64)
    if workers < before:
        leaving = np.flatnonzero(homes >= workers)
        _give_away(homes, weight, leaving[np.argsort(-weight[leaving], kind="stable")], carried, target)
        return homes
    _give_to_joined(homes, weight, np.argsort(-weight, kind="stable"), carried, target, before)
    return homes


@kernel
def _give_away(
    homes: Int32Array, weight: Float64Array, heaviest_first: Int64Array, carried: Float64Array,
    target: Float64Array,
) -> None:  # fmt: skip
    """Give each bucket of a leaving worker to the one with the most room."""
    for bucket in heaviest_first:
        most = 0
        for worker in range(target.size):
            if target[worker] - carried[worker] > target[most] - carried[most]:
                most = worker
        homes[bucket] = most
        carried[most] += weight[bucket]


@kernel
def _give_to_joined(
    homes: Int32Array, weight: Float64Array, heaviest_first: Int64Array, carried: Float64Array,
    target: Float64Array, before: int,
) -> None:  # fmt: skip
    """Fill new workers one by one with the heaviest buckets that their homes can spare."""
    first = 0  # those before it have moved
    for joined in range(before, target.size):
        while first < homes.size and homes[heaviest_first[first]] >= before:
            first += 1
        for bucket in heaviest_first[first:]:
            if carried[joined] >= target[joined]:
                break
            home, half = homes[bucket], weight[bucket] / 2
            spared = carried[home] - weight[bucket] >= target[home] - half
            if home < before and spared and carried[joined] + weight[bucket] <= target[joined] + half:
                homes[bucket] = joined
                carried[home] -= weight[bucket]
                carried[joined] += weight[bucket]


@inlined
def _first_free(free: Int64Array, levels: Int64Array, before: int, highest: int, earliest: Int64Array) -> int:
    """Return the first worker to be free of those that may take a row, or -1 if none is ``before`` a time.

    ``earliest`` has a time before which no worker of a span is free: workers are never free earlier than
    they were, so that what was true once remains true, and most spans need not be looked at again.
    """
    if earliest[0] < 0:
        for span in range(earliest.size):
            earliest[span] = _lowest(free, span)
    while True:
        span, at = 0, NEVER
        for other in range(earliest.size):
            at = min(at, earliest[other])
        if at > before:
            return -1
        while earliest[span] > at:
            span += 1
        earliest[span] = _lowest(free, span)
        if earliest[span] == at:
            break
    first = span * SPAN
    while free[first] > at:
        first += 1
    if levels[first] <= highest:
        return first
    at = NEVER
    for worker in range(free.size):
        if levels[worker] <= highest and free[worker] < at:
            first, at = worker, free[worker]
    return first


@inlined
def _lowest(free: Int64Array, span: int) -> int:
    lowest, first = NEVER, np.uint64(span * SPAN)
    for place in range(min(SPAN, free.size - span * SPAN)):
        lowest = min(lowest, free[first + np.uint64(place)])
    return lowest


@inlined
def _next_hash(
    free: Int64Array,
    levels: Int64Array,
    hashed: np.uint64,
    opened: int,
    enough: int,
    before: int,
    highest: int,
    earliest: Int64Array,
) -> int:
    """Return the first of the key's next hashes that has room, or of all workers the first to be free."""
    for index in range(opened, opened + REACH):
        worker = to_range(mix(hashed + np.uint64(index) * GOLDEN), free.size)
        if free[worker] <= enough and levels[worker] <= highest:
            return worker
    return _first_free(free, levels, before, highest, earliest)


@inlined
def _luck(cell: int) -> int:
    """Return by what a key's share is multiplied, so that all sources prefer the same of equal keys."""
    return np.int64(1) << to_range(mix(np.uint64(cell)), LUCKS)  # type: ignore[return-value]


@inlined
def _wanted(state: FillState, ahead: Ahead, i: int, hashed: np.uint64, counted: int) -> int:
    """Return how many homes a row's key has in advance."""
    n, rows = state.levels.size, ahead.rows[SEEN + i] + 1
    part = rows * float(n) / counted
    luck = _luck(to_range(hashed, state.cells.size))
    few = rows < 2 or part * luck < state.threshold[0]
    return 1 if few else min(n, 1 + int(np.ceil(SPREAD * part)))


@inlined
def _next_home(state: FillState, ahead: Ahead, i: int, hashed: np.uint64) -> int:
    """Return a key's next hash or, if that is a home of it, the first worker after it that is none."""
    homes, entry, n = state.homes, ahead.rows[ENTRY + i], state.levels.size
    worker = to_range(mix(hashed + np.uint64(ahead.rows[SIZE + i]) * GOLDEN), n)
    only = homes.workers[GROUP * ahead.rows[TURN + i]]  # home of a key without an entry
    while worker == only if entry == homes.keys.size else is_home(homes, entry, worker):
        worker = worker + 1 if worker + 1 < n else 0
    return worker


@inlined
def _threshold(cells: Int32Array, counted: int, n: int, rows_by_step: Int64Array) -> float:
    """Return the highest part, times luck, from which keys have enough rows to even out those of the others.

    What is below it brings n sum(c (c - 1)) / counted^2 of variance to a worker's share: rows that come by
    chance, which are evened out by those of other sources, are not counted.
    """
    rows_by_step[:] = 0
    square = 0
    for cell in range(cells.size):
        rows = int(cells[cell])
        if rows > 0:
            step = _step(rows * _luck(cell))
            rows_by_step[step] += rows
            rows_by_step[STEPS + step] += rows * (rows - 1)
            square += rows * (rows - 1)
    above = 0
    for step in range(STEPS - 1, 7, -1):
        above += rows_by_step[step]
        square -= rows_by_step[STEPS + step]
        if above > 0 and above >= NEED * np.sqrt(float(square) * n):
            least = float((4 + step % 4) * 2 ** (step // 4 - 2)) / 4
            return least * n / counted
    return np.inf


@inlined
def _step(value: int) -> int:
    """Return the number of a step of thresholds: four from one power of two to the next."""
    value *= 4
    power = 0
    while value >> (power + 1):
        power += 1
    return 4 * power + ((value >> (power - 2)) & 3)


@inlined
def _now(average: float, epsilon: float) -> int:
    """Return the clock by which workers serve: a little faster than rows arrive."""
    return _units((1 + DRAIN * epsilon) * average)


@inlined
def _units(rows: float) -> int:
    """Return rows in units of ROW, rounded down."""
    return np.int64(rows * ROW)  # type: ignore[return-value]


@inlined
def _distinct(filled: int, cells: int) -> int:
    """Return how many keys there were, estimated from the counters that are still 0."""
    keys = cells * np.log((cells + 1.0) / (cells - filled + 1.0))
    return np.int64(max(1.0, keys))  # type: ignore[return-value]


@inlined
def _queue_up(state: FillState, worker: np.uint64, free: int, key: np.uint64, now: int) -> None:
    """Add a row to a worker's load and queue, and count it in the vote for the key that leads there."""
    weight, leader = state.weights[worker], state.leader[worker]
    state.levels[worker] += weight
    state.loads[worker] += 1
    state.free[worker] = max(free, now) + weight
    lead = state.lead[worker] + (weight if leader == key else -weight)
    changes = (free <= now) | (lead < 0)
    state.lead[worker] = weight if changes else lead
    state.leader[worker] = key if changes else leader


@kernel
def _route(
    keys: UInt64Array,
    out: Int32Array,
    state: FillState,
    ahead: Ahead,
    salt: np.uint64,
    epsilon: float,
    queue: float,
    recent: float,
    price: float,
    longest: float,
    alone: bool,
) -> None:
    levels, free, homes, cells = state.levels, state.free, state.homes, state.cells
    n = levels.size
    messages, since, counted = state.totals[MESSAGES], state.totals[SINCE], state.totals[COUNTED]
    further, filled, fresh = state.totals[OPENED], state.totals[FILLED], state.totals[FRESH]
    start = 0
    while start < keys.size:
        if messages % AHEAD == 0:
            distinct = _distinct(filled, cells.size)
            state.totals[DISTINCT] = distinct
            ageing = 1.0 + AGEING * _digits(messages // (AGED * n))
            state.totals[STRETCH] = _units(min(longest, 1.0 + price * ageing * further / distinct))
            blocks = messages // AHEAD
            if not alone and messages >= n and blocks & (blocks - 1) == 0:
                state.threshold[0] = _threshold(cells, counted, n, ahead.rows_by_step)
        until_halved = max(1, int(np.ceil(recent * n - fresh)))
        end = min(start + AHEAD - messages % AHEAD, start + until_halved, keys.size)
        block, taken = keys[start:end], out[start:end]
        filled += _look_ahead(state, block, salt, ahead)
        _limits(state, ahead, 0, block.size, since, counted, epsilon, queue, alone)
        for i in range(end - start):
            key = block[i]
            now = ahead.rows[NOW + i]
            if not alone:
                hashed = mix(key ^ salt)
                if ahead.rows[SIZE + i] < _wanted(state, ahead, i, hashed, counted + i + 1):
                    other = _next_home(state, ahead, i, hashed)
                    evicts = homes.free[0] < 0 or homes.free[1] < 0
                    entry, home = ahead.rows[ENTRY + i], int(homes.workers[GROUP * ahead.rows[TURN + i]])
                    entry = open_home(homes, entry, key, home, other, messages + i + 1)
                    further += 1
                    first = _correct(state, block, i, salt, ahead, entry, evicts)
                    _limits(state, ahead, first, block.size, since, counted, epsilon, queue, alone)
            homes.used[np.uint64(ahead.rows[ENTRY + i])] = messages + i + 1
            group = ahead.rows[TURN + i]
            worker, at = first_of(homes, group, free)
            if _leaves(state, ahead, i, worker, at - now, key):
                opened, highest = ahead.rows[SIZE + i], ahead.rows[HIGHEST + i]
                leaves = True
                if opened > GROUP:
                    worker, at = first_of_more(homes, group, opened, free, levels, highest)
                    leaves = _leaves(state, ahead, i, worker, at - now, key)
                if leaves:
                    before = NEVER if levels[worker] > highest else at - int(GAIN * ROW)
                    if alone:
                        other = _first_free(free, levels, before, highest, ahead.earliest)
                    else:
                        hashed, enough = mix(key ^ salt), now + ahead.rows[LIMIT + i]
                        other = _next_hash(
                            free, levels, hashed, opened, enough, before, highest, ahead.earliest
                        )
                    if other >= 0 and free[other] <= before:
                        entry = ahead.rows[ENTRY + i]
                        if alone and ahead.rows[SEEN + i] == 0 and entry == homes.keys.size:
                            _move_bucket(state, ahead, i, block.size, other)
                        elif entry == homes.keys.size or not is_home(homes, entry, other):
                            evicts = homes.free[0] < 0 or homes.free[1] < 0
                            entry = open_home(homes, entry, key, int(worker), other, messages + i + 1)
                            further += 1
                            first = _correct(state, block, i + 1, salt, ahead, entry, evicts)
                            _limits(state, ahead, first, block.size, since, counted, epsilon, queue, alone)
                        worker = np.uint64(other)
                        at = free[worker]
            _queue_up(state, worker, at, key, now)
            taken[i] = worker
        messages += block.size
        since += block.size
        counted += block.size
        fresh += block.size
        if fresh >= recent * n:
            if not alone:
                state.threshold[0] = _threshold(cells, counted, n, ahead.rows_by_step)
            counted, fresh = _halve(cells), 0
        start = end
    state.totals[MESSAGES], state.totals[SINCE], state.totals[COUNTED] = messages, since, counted
    state.totals[OPENED], state.totals[FILLED], state.totals[FRESH] = further, filled, fresh


@inlined
def _limits(
    state: FillState, ahead: Ahead, start: int, size: int, since: int, counted: int, epsilon: float,
    queue: float, alone: bool,
) -> None:  # fmt: skip
    """Compute the limits of a block's rows, several at once."""
    n = state.levels.size
    stretch = state.totals[STRETCH] / ROW
    light = min(LIGHT, max(LIGHTEST, LIGHT_KEY * n / state.totals[DISTINCT])) if alone else SHARED_LIGHT
    certain = CERTAIN if alone else SHARED_CERTAIN
    for i in range(start, size):
        average = (since + i + 1) / n
        slack = epsilon * average + (0.0 if alone else ALWAYS + np.sqrt(average))
        slack += EARLY * np.sqrt(average) * max(0.0, 1 - average / SETTLED)
        new = alone & (ahead.rows[SEEN + i] == 0)
        share = (counted + i + 1) * float(ahead.rows[SIZE + i])  # of a key with part 1
        weight = (ahead.rows[SEEN + i] + 1.0) * n if ahead.rows[SEEN + i] >= certain else 0.0
        patience = stretch * np.sqrt(light * share / max(weight, light * share))
        most = min(queue, max(ALWAYS, 0.5 * slack))
        ahead.rows[NOW + i] = _now(average, epsilon)
        ahead.rows[LIMIT + i] = _units(most * NEW_PATIENCE if new else max(most * patience, min(most, LEAST)))
        ahead.rows[HIGH + i] = _units(
            average + slack * (NEW_SLACK if new else HOT_SLACK if weight > HOT * share else 1.0)
        )
        ahead.rows[LEADS + i] = _units(BURST * most)
        ahead.rows[HIGHEST + i] = _units(average + slack)


@inlined
def _leaves(state: FillState, ahead: Ahead, i: int, worker: np.uint64, wait: int, key: np.uint64) -> bool:
    """Return whether a row should not go to the home that was found for it."""
    bursts = (state.leader[worker] == key) & (min(state.lead[worker], wait) > ahead.rows[LEADS + i])
    return (wait > ahead.rows[LIMIT + i]) | bursts | (state.levels[worker] > ahead.rows[HIGH + i])


@inlined
def _look_ahead(state: FillState, keys: UInt64Array, salt: np.uint64, ahead: Ahead) -> int:
    """Count the next messages and look up their keys, so that cache misses overlap; return the new keys.

    Counters, buckets and cells of the table are fetched for all of them first: a miss is rare enough that a
    processor, which looks some 300 instructions ahead, would wait for one after the other.
    """
    cells, buckets, homes = state.cells, state.buckets, state.homes
    slots = homes.table.slots
    new = 0
    for i in range(keys.size):
        hashed = mix(keys[i] ^ salt)
        ahead.rows[HASH + i] = np.int64(hashed)
        prefetch(cells, np.uint64(to_range(hashed, cells.size)))
        prefetch(buckets, np.uint64(to_range(hashed, buckets.size)))
        prefetch(slots, np.uint64(first_cell(keys[i], slots.size - 1)))
    for i in range(keys.size):
        hashed = np.uint64(ahead.rows[HASH + i])
        cell = np.uint64(to_range(hashed, cells.size))
        seen = cells[cell]
        cells[cell] = seen + 1
        new += seen == 0
        ahead.rows[SEEN + i] = seen
        home = buckets[np.uint64(to_range(hashed, buckets.size))]
        entry = table_find(homes.table, keys[i])
        _note(homes, ahead, i, entry if entry >= 0 else homes.keys.size, home)
    return new


@inlined
def _note(homes: Homes, ahead: Ahead, i: int, entry: int, home: int) -> None:
    """Note which homes a row is to look at; the next row of its key looks at the next group.

    A key without an entry has a group of its own for as long, so that no branch is mispredicted.
    """
    alone = np.uint64(homes.after.size - AHEAD + i)
    for place in range(GROUP):
        homes.workers[GROUP * alone + np.uint64(place)] = home
    homes.turn[homes.keys.size] = alone
    group = homes.turn[np.uint64(entry)]
    homes.turn[np.uint64(entry)] = homes.after[np.uint64(group)]
    ahead.rows[ENTRY + i] = entry
    ahead.rows[TURN + i] = group
    ahead.rows[SIZE + i] = homes.size[np.uint64(entry)]


@inlined
def _correct(
    state: FillState, keys: UInt64Array, start: int, salt: np.uint64, ahead: Ahead, changed: int, evicts: bool
) -> int:
    """Look up again the keys whose entry was changed or, if any was evicted, was given to another key.

    Return the first row of such a key.
    """
    homes = state.homes
    key = homes.keys[changed]
    corrected, met, comes = keys.size, False, evicts
    for i in range(keys.size - start):
        comes |= keys[np.uint64(start) + np.uint64(i)] == key
    if not comes:
        return corrected
    for i in range(start, keys.size):
        entry = ahead.rows[ENTRY + i]
        if keys[i] == key:
            if entry == changed and not met:
                homes.turn[changed] = ahead.rows[TURN + i]  # as it was before these rows were looked up
            met = True
            _note(homes, ahead, i, changed, 0)
            corrected = min(corrected, i)
        elif evicts and entry < homes.keys.size and (homes.turn[entry] < 0 or homes.keys[entry] != keys[i]):
            home = state.buckets[to_range(mix(keys[i] ^ salt), state.buckets.size)]
            _note(homes, ahead, i, homes.keys.size, home)
            corrected = min(corrected, i)
    return corrected


@inlined
def _move_bucket(state: FillState, ahead: Ahead, i: int, size: int, worker: int) -> None:
    """Give the bucket of a row to another worker, also for the rows after it that are looked up already."""
    buckets, homes = state.buckets, state.homes
    bucket = to_range(np.uint64(ahead.rows[HASH + i]), buckets.size)
    buckets[bucket] = worker
    for other in range(i + 1, size):
        same = to_range(np.uint64(ahead.rows[HASH + other]), buckets.size) == bucket
        if same and ahead.rows[ENTRY + other] == homes.keys.size:
            for place in range(GROUP):
                homes.workers[GROUP * ahead.rows[TURN + other] + place] = worker


@inlined
def _digits(value: int) -> int:
    """Return the number of binary digits."""
    digits = 0
    while value >> digits:
        digits += 1
    return digits


@inlined
def _halve(cells: Int32Array) -> int:
    """Halve all counters, keeping 1 as 1 (a seen key stays seen), and return their sum."""
    total = 0
    for cell in range(cells.size):
        count = cells[np.uint64(cell)]
        cells[np.uint64(cell)] = count - (count >> 1)  # in 32 bits: more counters at once
        total += cells[np.uint64(cell)]
    return total


@kernel
def _leave_out(rows: Float64Array, homes: Homes, salt: np.uint64) -> None:
    for entry in range(homes.keys.size):
        if homes.turn[entry] >= 0:
            rows[to_range(mix(homes.keys[entry] ^ salt), rows.size)] = 0.0


@kernel
def _first_homes(keys: UInt64Array, buckets: Int32Array, salt: np.uint64, out: Int32Array) -> None:
    for i in range(keys.size):
        out[i] = buckets[to_range(mix(keys[i] ^ salt), buckets.size)]
