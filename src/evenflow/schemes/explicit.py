"""Explicit mapping on top of a consistent hash (`functions` 4; Gedik, 2014): hot keys have chosen homes.

``worker = map[key] if key in map else ring(key)``. The map contains the keys of frequency delta or more,
found by lossy counting over the last ``window`` messages (4.1). A new map is made from the old function and
the current frequencies by scan, redist or readj (4.2), such that balance is good and little state migrates.

Costs, delta and metrics are defined in :mod:`evenflow.schemes.cost_model`, the algorithms in
:mod:`evenflow.schemes.key_placement`, the counters in :mod:`evenflow.sketches.lossy_counting`.

readj's gains are differences to the utility of the best readjustment so far, as Algorithm 4 is printed;
``readj-round`` takes them from the placement before the round, as the text describes them.

Not specified by the paper, and chosen here: epsilon of the counters is 0.1 delta, so keys from 0.9 delta are
tracked, and window = domain (|D|). A new map is made when the number of workers changes (``rescale``), on
demand (``rebuild``), and by the router itself: every ``every`` messages (default: a tenth of the window) it
checks the balance, assuming that untracked keys are even. If a resource is out of tolerance, it makes a new
map and adopts it if Eq. 13 improves, b' (1 + m) < b, or b / b' - 1 > m, where the left side is summed over
all checks since the current map was adopted: imbalance is paid at every check, migration once. (Without the
sum, with ten workers, 10^6 keys and Zipf 1, a map was hardly ever adopted. In five runs a first map of scan
or redist lowered b by 9 to 20 percent and moved 0.3 to 0.5 of a worker's state; one of readj lowered it by 12
to 28 percent and moved 1.0 to 2.1.)

Every message is counted while it is routed; ``counting=False`` only looks keys up. With several sources each
would make its own map and a key would have several owners, so routers do not rebuild by themselves; their
coordinator does (:mod:`evenflow.schemes.one_map`). The ring has more buckets than the paper's 100, which only
affects speed. It is determined by the seed and the number of workers, so it is not part of the saved state.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from evenflow.errors import EvenflowError, nearest
from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, inlined, kernel
from evenflow.keys import GOLDEN, mix
from evenflow.plan import Plan
from evenflow.plan.counted import Counted
from evenflow.plan.one_owner import one_owner_plan
from evenflow.ring import Ring, build_ring, ring_lookup
from evenflow.schemes.base import Router, RouterPlace, Scheme, as_hashes, check
from evenflow.schemes.consistent_hash import check_replicas
from evenflow.schemes.coordination import Coordinator
from evenflow.schemes.cost_model import Costs, Imbalance, Migration, resource, weigh
from evenflow.schemes.explicit_plans import ExplicitPlans
from evenflow.schemes.key_placement import ALGORITHMS, UTILITIES, place
from evenflow.schemes.owner_plans import OwnerPlans
from evenflow.schemes.registry import register
from evenflow.sketches.lossy_counting import (
    LossyCounters,
    add_up,
    advance,
    bucket_room,
    count_key,
    counts_of,
    covered,
    new_lossy_counters,
    open_bucket,
    top_lossy,
    with_epsilon,
)
from evenflow.sketches.table import KeyTable, new_table, table_find, table_insert

_MEMO = 2**14
_SLACK = 0.1  # epsilon of the counters, as a fraction of delta

# indices of ExplicitState.tallies
_MAPPED = 0
_SINCE = 1  # messages since the last check of the balance
_REBUILDS = 2


@register
@dataclass(frozen=True)
class Explicit(Scheme):
    """Map hot keys one by one and the rest by a ring: one owner per key, as balanced as that allows.

    Parameters
    ----------
    algorithm
        How hot keys are placed: "scan", "redist", "readj" as printed, or "readj-round" (4.2; see
        :mod:`evenflow.schemes.key_placement`).
    resources
        Cost of a key in state, computation and communication, one letter each: C (constant), L (linear) or Q
        (quadratic).
    alpha
        Allowed max / min load, for all resources or for each.
    sigma
        The part of this tolerance that untracked keys may use; a lower value tracks more keys.
    utility
        How placements are compared: "A", "APM", "APLM", "ATM" or "ATLM" (4.3).
    domain
        Expected number of distinct keys (|D|).
    window
        Number of recent messages over which frequencies are counted. None: domain.
    counters
        Number of counters that take turns in emulating the window.
    every
        Messages between two checks of the balance. None: window / 10; 0: never.
    counting
        Whether messages are counted; False only looks keys up.
    replicas
        Number of points of a worker on the ring.

    Examples
    --------
    >>> router = Explicit(domain=1000, every=0).router(workers=4)
    >>> keys = np.repeat(np.arange(100, dtype=np.uint64), np.arange(100))
    >>> before = router.route(keys)
    >>> moved = router.rebuild()
    >>> len(router.mapping), router.metrics().overall < 1
    (16, True)

    References
    ----------
    Gedik, *Partitioning Functions for Stateful Data Parallelism in Stream Processing* (The VLDB Journal,
    2014), section 4.
    """

    algorithm: str = "redist"
    resources: str = "LCL"
    alpha: float | tuple[float, float, float] = 1.2
    sigma: float = 0.1
    utility: str = "APM"
    domain: int = 10**6
    window: int | None = None
    counters: int = 3
    every: int | None = None
    counting: bool = True
    replicas: int = 1000

    name = "explicit"
    aliases = ("gedik",)
    paper = "functions 4"
    summary = "hot keys on chosen workers, the rest on a ring: one worker per key, remapped as loads change"
    splits_keys = False
    plannable = True
    counts_keys = True
    rescales = True
    learns = True

    def __post_init__(self) -> None:
        _one_of("algorithm", self.algorithm, ALGORITHMS)
        _one_of("utility", self.utility, UTILITIES)
        if not isinstance(self.resources, str) or not re.fullmatch("[CLQ]{3}", self.resources):
            raise EvenflowError(
                f"resources is {self.resources!r}; pass three letters for state, computation and "
                "communication, each C (constant), L (linear) or Q (quadratic), as in 'LCL'."
            )
        if isinstance(self.alpha, list | tuple):
            object.__setattr__(self, "alpha", tuple(self.alpha))  # JSON turns tuples into lists
            if len(self.alphas) != 3:
                raise EvenflowError(f"alpha is {self.alpha!r}; pass one number, or one per resource.")
        for alpha in self.alphas:
            check("alpha", alpha, alpha > 1, "the allowed max / min load must be above 1")
        check("sigma", self.sigma, 0 < self.sigma <= 1, "it must be above 0 and at most 1")
        _whole("domain", self.domain, 1, "use the expected number of distinct keys, 1 or more")
        if self.window is not None:
            _whole("window", self.window, 1, "use a whole number of messages, 1 or more, or None for domain")
        _whole("counters", self.counters, 2, "use at least 2 counters")
        if self.every is not None:
            _whole("every", self.every, 0, "use a whole number of messages, or 0 for never")
        check_replicas(self.replicas)

    @property
    def alphas(self) -> tuple[float, float, float]:
        """The allowed max / min load of each resource."""
        return self.alpha if isinstance(self.alpha, tuple) else (self.alpha, self.alpha, self.alpha)

    @property
    def costs(self) -> Costs:
        """What a key costs its owner."""
        return Costs(self.resources, self.alphas, self.sigma, self.domain)

    @property
    def counted_window(self) -> int:
        """Number of recent messages over which frequencies are counted."""
        return self.domain if self.window is None else self.window

    @property
    def look_every(self) -> int:
        """Messages of a source between two checks of the balance; 0: never."""
        return max(1, self.counted_window // 10) if self.every is None else self.every

    def epsilon(self, workers: int) -> float:
        """Return the error of the counted frequencies."""
        return _SLACK * self.costs.delta(workers)

    def new_router(self, place: RouterPlace) -> ExplicitRouter:
        """Return a router with an empty map."""
        return ExplicitRouter(self, place)

    def new_plan(self, workers: int, counted: Counted, *, seed: int, **options: Any) -> Plan:
        """Map the counted keys explicitly, and the buckets by the ring."""
        router = ExplicitRouter(self, RouterPlace(workers, seed, source=0, sources=1))
        buckets = router.route(np.arange(self.plan_buckets(workers), dtype=np.uint64))
        if not counted.keys.size:
            return one_owner_plan(workers, buckets, counted)
        router.rebuild(counted.keys, counted.counts, max(counted.total, float(counted.counts.sum())))
        keys = np.array(list(router.mapping), np.uint64)
        owners = np.array(list(router.mapping.values()), np.int32)
        order = np.argsort(counted.keys)
        rows = counted.counts[order[np.searchsorted(counted.keys[order], keys)]] if keys.size else np.zeros(0)
        return one_owner_plan(workers, buckets, counted, Counted(keys, rows), owners)

    def owner_plans(self, seed: int) -> OwnerPlans:
        """Return the planner for keyed state."""
        return ExplicitPlans(self, seed)

    def coordinator(self, routers: Sequence[Router]) -> Coordinator:
        """Return the coordinator that gives all sources one map, if they count."""
        if not self.counting or len(routers) < 2:
            return Coordinator(routers)
        from evenflow.schemes.one_map import OneMap

        return OneMap(self, routers)

    def contenders(self, keys: int, messages: int) -> list[Scheme]:
        """Return this scheme with the actual number of keys, counting over a tenth of the messages."""
        return [replace(self, domain=keys, window=max(1000, messages // 10))]


def _one_of(name: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise EvenflowError(f"{name} is {value!r}; {nearest(str(value), known)}")


def _whole(name: str, value: Any, lowest: int, rule: str) -> None:
    check(name, value, isinstance(value, int) and value >= lowest, rule)


class ExplicitState(NamedTuple):
    """The map (as a table, and as lists by frequency), the counters, the messages sent."""

    loads: Int64Array
    table: KeyTable  # key -> worker; only a prefix is used, so that a small map stays in the CPU cache
    keys: UInt64Array
    homes: Int32Array
    frequencies: Float64Array
    tallies: Int64Array
    missed: Float64Array  # [balance missed by not adopting better maps, in the unit of m]
    counters: LossyCounters


class Memo(NamedTuple):
    """Workers of recent keys, each in the slot of its hash; only for speed, not part of the state."""

    keys: UInt64Array
    workers: Int32Array  # -1 in a free slot


class NewMap(NamedTuple):
    """A candidate map, with all keys (tracked before or after) whose worker it may change."""

    keys: UInt64Array
    frequencies: Float64Array
    old: Int32Array
    homes: Int32Array
    all_frequencies: Float64Array
    all_old: Int32Array
    all_new: Int32Array


class ExplicitRouter(Router):
    """An explicit map and a ring at one source."""

    scheme: Explicit

    def __init__(self, scheme: Explicit, place: RouterPlace):
        super().__init__(scheme, place)
        epsilon, window = scheme.epsilon(place.workers), scheme.counted_window
        self.state = _empty_state(
            scheme,
            place.workers,
            new_lossy_counters(epsilon, window, scheme.counters)
            if scheme.counting
            else new_lossy_counters(0.5, 2, 2),
        )
        self.ring = build_ring(place.workers, place.salt, scheme.replicas)
        self._given: tuple[UInt64Array, Float64Array] | None = None
        self._memo = Memo(np.zeros(_MEMO, np.uint64), np.full(_MEMO, -1, np.int32))

    @property
    def mapping(self) -> dict[int, int]:
        """Return the worker of every key that is mapped explicitly, most frequent first."""
        count = self.state.tallies[_MAPPED]
        return dict(zip(self.state.keys[:count].tolist(), self.state.homes[:count].tolist(), strict=True))

    @property
    def rebuilds(self) -> int:
        """Number of maps adopted."""
        return int(self.state.tallies[_REBUILDS])

    @property
    def every(self) -> int:
        """Messages between two checks of the balance by this router; 0: never."""
        if not self.scheme.counting or self.place.sources > 1:
            return 0
        return self.scheme.look_every

    def lookup(self, keys: Any) -> Int32Array:
        """Return the worker of every key, without changing the router."""
        return _look_up(as_hashes(keys), self._table, self.ring, self.place.salt)

    def counted(self) -> tuple[UInt64Array, Int64Array, int]:
        """Return keys and their counts, most frequent first, and the number of messages counted."""
        keys, counts, _ = top_lossy(self.state.counters)
        return keys, counts, covered(self.state.counters)

    def metrics(self, keys: Any = None, frequencies: Any = None) -> Imbalance:
        """Return the balance for all keys and their ``frequencies``, or for the counted keys."""
        costs = self.scheme.costs
        if keys is not None:
            hashed, shares = _shares(keys, frequencies)
            return costs.imbalance(shares, self.lookup(hashed), self.workers)
        hashed, shares = self._tracked(*self._known())
        return costs.imbalance(shares, self.lookup(hashed), self.workers, costs.tail(shares))

    def migration(self, before: Int32Array, after: Int32Array, frequencies: Any) -> Migration:
        """Return the state that moves when ``lookup`` of all keys changes from ``before`` to ``after``."""
        return self.scheme.costs.migration(np.asarray(frequencies, np.float64), before, after, self.workers)

    def rebuild(self, keys: Any = None, frequencies: Any = None, total: float | None = None) -> Migration:
        """Make and adopt a new map from the counted or the given frequencies; return what moves.

        ``frequencies`` are counts or shares of ``keys``, out of ``total`` (default: their sum).
        """
        known = self._known() if keys is None else _shares(keys, frequencies, total)
        new_map = self._new_map(*known, self._table, self.ring)
        self._adopt(new_map)
        return self._moves(new_map)

    def _learn(self, others: Sequence[ExplicitRouter], share: float) -> None:
        """Take over the map that the others share, or a new one made from it and all their counts."""
        shared = copy.deepcopy(others[0].state)
        self.state = shared._replace(loads=self.state.loads, counters=self.state.counters)
        keys, counts = add_up([other.counted()[:2] for other in others])
        if keys.size:
            self.rebuild(keys, counts, sum(other.counted()[2] for other in others))

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        state, every, done = self.state, self.every, 0
        while done < keys.size:
            stop = min(keys.size, done + every - int(state.tallies[_SINCE])) if every else keys.size
            function = (self._memo, self._table, self.ring, self.place.salt)
            if self.scheme.counting:
                _route_and_count(keys[done:stop], out[done:stop], state.loads, state.counters, *function)
            else:
                _route_only(keys[done:stop], out[done:stop], state.loads, *function)
            if every:
                state.tallies[_SINCE] += stop - done
                if state.tallies[_SINCE] == every:
                    state.tallies[_SINCE] = 0
                    self._check_balance()
            done = stop

    def _check_balance(self) -> None:
        """Adopt a new map if a resource is out of tolerance and waiting has cost as much as migrating."""
        costs = self.scheme.costs
        known = self._known()
        keys, frequencies = self._tracked(*known)
        tail = costs.tail(frequencies)
        now = costs.imbalance(frequencies, self.lookup(keys), self.workers, tail)
        if max(now.relative) <= 1:
            self.state.missed[0] = 0.0
            return
        new_map = self._new_map(*known, self._table, self.ring)
        after = costs.imbalance(frequencies, new_map.homes, self.workers, tail)
        moved = self._moves(new_map).relative
        self.state.missed[0], adopt = weigh(float(self.state.missed[0]), now, after, moved)
        if adopt:
            self._adopt(new_map)

    def rescale(
        self, workers: int, keys: Any = None, frequencies: Any = None, total: float | None = None
    ) -> None:
        """Change the number of workers and make a new map from the counted or the given frequencies."""
        self._given = None if keys is None else _shares(keys, frequencies, total)
        super().rescale(workers)

    def _rescale(self, before: int) -> None:
        old, ring, table = self.state, self.ring, self._table
        known = self._known() if self._given is None else self._given
        counters = old.counters
        if self.scheme.counting:
            window = self.scheme.counted_window
            counters = with_epsilon(counters, self.scheme.epsilon(self.workers), window)
        self.ring = build_ring(self.workers, self.place.salt, self.scheme.replicas)
        new_map = self._new_map(*known, table, ring)
        self.state = _empty_state(self.scheme, self.workers, counters)
        self.state.tallies[:] = old.tallies
        stay = min(before, self.workers)
        self.state.loads[:stay] = old.loads[:stay]
        self._adopt(new_map)

    @property
    def _table(self) -> KeyTable:
        return _prefix(self.state.table, int(self.state.tallies[_MAPPED]))

    def _known(self) -> tuple[UInt64Array, Float64Array]:
        """Return keys that are or may be mapped, and their frequencies: as counted, else as given."""
        state, messages = self.state, covered(self.state.counters)
        mapped = state.keys[: state.tallies[_MAPPED]]
        if messages == 0:
            return mapped, state.frequencies[: mapped.size]
        # slightly below the final threshold, so that rounding loses no key
        least = 0.99 * (1 - _SLACK) * self.scheme.costs.delta(self.workers)
        keys, counts, _ = top_lossy(state.counters, least)
        others = np.setdiff1d(mapped, keys)
        counts = np.concatenate([counts, counts_of(state.counters, others)])
        return np.concatenate([keys, others]), counts / messages

    def _tracked(self, keys: UInt64Array, frequencies: Float64Array) -> tuple[UInt64Array, Float64Array]:
        """Return the keys to track, most frequent first, and their frequencies."""
        slack = self.scheme.epsilon(self.workers)
        chosen = self.scheme.costs.tracked(frequencies, self.workers, slack)
        order = chosen[np.lexsort((keys[chosen], -frequencies[chosen]))]
        return keys[order], frequencies[order]

    def _new_map(self, known: UInt64Array, shares: Float64Array, table: KeyTable, ring: Ring) -> NewMap:
        """Place the tracked keys; ``table`` and ``ring`` are the current function."""
        costs, salt = self.scheme.costs, self.place.salt
        keys, frequencies = self._tracked(known, shares)
        mapped = self.state.keys[: self.state.tallies[_MAPPED]]
        gone = np.setdiff1d(mapped, keys)
        gone_frequencies = _pick(known, shares, gone)
        old, gone_old = _look_up(keys, table, ring, salt), _look_up(gone, table, ring, salt)
        nothing = new_table(0)
        on_ring, gone_new = _look_up(keys, nothing, self.ring, salt), _look_up(gone, nothing, self.ring, salt)
        gone_costs = resource(costs.resources[0], gone_frequencies)
        all_frequencies = np.concatenate([frequencies, gone_frequencies])
        homes = place(
            self.scheme.algorithm,
            self.scheme.utility,
            costs,
            self.workers,
            frequencies,
            old,
            on_ring,
            moved=math.fsum(gone_costs[gone_old != gone_new]),
            ideal=math.fsum(resource(costs.resources[0], all_frequencies)) / self.workers,
        )
        return NewMap(
            keys,
            frequencies,
            old,
            homes,
            all_frequencies,
            np.concatenate([old, gone_old]),
            np.concatenate([homes, gone_new]),
        )

    def _moves(self, new_map: NewMap) -> Migration:
        costs = self.scheme.costs
        tail = costs.tail(new_map.all_frequencies)
        return costs.migration(new_map.all_frequencies, new_map.all_old, new_map.all_new, self.workers, tail)

    def _adopt(self, new_map: NewMap) -> None:
        state, count = self.state, new_map.keys.size
        state.keys[:count] = new_map.keys
        state.homes[:count] = new_map.homes
        state.frequencies[:count] = new_map.frequencies
        state.tallies[_MAPPED] = count
        state.tallies[_REBUILDS] += 1
        state.missed[0] = 0.0
        state.table.slots[:] = -1
        self._memo.workers[:] = -1
        _fill_table(self._table, new_map.keys, new_map.homes)


def _empty_state(scheme: Explicit, workers: int, counters: LossyCounters) -> ExplicitState:
    delta = scheme.costs.delta(workers)
    most = math.floor(1 / (delta * (1 - _SLACK))) + 1
    return ExplicitState(
        loads=np.zeros(workers, np.int64),
        table=new_table(most),
        keys=np.zeros(most, np.uint64),
        homes=np.zeros(most, np.int32),
        frequencies=np.zeros(most),
        tallies=np.zeros(3, np.int64),
        missed=np.zeros(1),
        counters=counters,
    )


def _prefix(table: KeyTable, count: int) -> KeyTable:
    """Return the prefix of ``table`` that is large enough for ``count`` keys."""
    size = 16
    while size < 4 * count:
        size *= 2
    return KeyTable(table.keys[:size], table.slots[:size])


def _shares(keys: Any, frequencies: Any, total: float | None = None) -> tuple[UInt64Array, Float64Array]:
    """Return hashes, and frequencies as fractions of ``total``."""
    hashed = as_hashes(keys)
    counts = np.asarray([] if frequencies is None else frequencies, np.float64)
    if counts.shape != hashed.shape:
        raise EvenflowError(f"frequencies has {counts.size} values for {hashed.size} keys; pass one per key.")
    if not np.isfinite(counts).all() or (counts < 0).any():
        raise EvenflowError("frequencies has negative or non-finite values; pass counts or shares.")
    in_order = np.sort(hashed)
    if (in_order[1:] == in_order[:-1]).any():
        raise EvenflowError("keys contains a key twice; sum its frequencies and pass it once.")
    listed = math.fsum(counts)
    whole = listed if total is None else total
    if whole <= 0 or whole < listed * (1 - 1e-9):
        raise EvenflowError(
            f"total is {whole!r}; it must be above 0 and at least the sum of the frequencies."
        )
    return hashed, counts / whole


def _pick(keys: UInt64Array, frequencies: Float64Array, wanted: UInt64Array) -> Float64Array:
    """Return the frequencies of the ``wanted`` keys, which are sorted; 0 for those not among ``keys``."""
    found = np.zeros(wanted.size)
    if wanted.size:
        where = np.minimum(np.searchsorted(wanted, keys), wanted.size - 1)
        same = wanted[where] == keys
        found[where[same]] = frequencies[same]
    return found


def _look_up(keys: UInt64Array, table: KeyTable, ring: Ring, salt: np.uint64) -> Int32Array:
    out = np.empty(keys.size, np.int32)
    _lookup(keys, out, table, ring, salt)
    return out


@inlined
def _worker_of(key: np.uint64, table: KeyTable, ring: Ring, salt: np.uint64) -> int:
    worker = table_find(table, key)
    return worker if worker >= 0 else ring_lookup(ring, mix(key ^ salt))


@kernel
def _lookup(keys: UInt64Array, out: Int32Array, table: KeyTable, ring: Ring, salt: np.uint64) -> None:
    for i in range(keys.size):
        out[i] = _worker_of(keys[i], table, ring, salt)


@inlined
def _remembered(key: np.uint64, memo: Memo, table: KeyTable, ring: Ring, salt: np.uint64) -> int:
    slot = np.int64((key * GOLDEN) >> np.uint64(40)) & (_MEMO - 1)
    worker = memo.workers[slot]
    if worker < 0 or memo.keys[slot] != key:
        worker = _worker_of(key, table, ring, salt)
        memo.keys[slot] = key
        memo.workers[slot] = worker
    return worker


@kernel
def _route_only(
    keys: UInt64Array,
    out: Int32Array,
    loads: Int64Array,
    memo: Memo,
    table: KeyTable,
    ring: Ring,
    salt: np.uint64,
) -> None:
    for i in range(keys.size):
        worker = _remembered(keys[i], memo, table, ring, salt)
        loads[worker] += 1
        out[i] = worker


@kernel
def _route_and_count(
    keys: UInt64Array,
    out: Int32Array,
    loads: Int64Array,
    counters: LossyCounters,
    memo: Memo,
    table: KeyTable,
    ring: Ring,
    salt: np.uint64,
) -> None:
    done = 0
    while done < keys.size:
        stop = min(keys.size, done + bucket_room(counters))
        bucket = open_bucket(counters)
        for i in range(done, stop):
            count_key(counters, keys[i], bucket)
            worker = _remembered(keys[i], memo, table, ring, salt)
            loads[worker] += 1
            out[i] = worker
        advance(counters, stop - done)
        done = stop


@kernel
def _fill_table(table: KeyTable, keys: UInt64Array, workers: Int32Array) -> None:
    for i in range(keys.size):
        table_insert(table, keys[i], workers[i])
