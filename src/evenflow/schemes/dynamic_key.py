"""Dynamic Key Grouping (`dynamic` 4, Algorithms 4-6): a key that stays hot gets one more worker at a time.

Candidates are hash, hash + 1, ..., hash + width - 1 (mod n), with an initial width of 2; the least loaded one
takes a row. With L_i = 100 / n and the threshold L_s = L_i + sqrt(L_i), loads in percent of the messages of
this source:

* scale out: after the warm-up, if the key is in the old space (:mod:`evenflow.sketches.generations`) and even
  the least loaded candidate is at or above L_s, the next worker becomes a candidate if it is less loaded than
  that one;
* scale down: if the width is above 2 and at least two candidates are below L_s, the last one is dropped.

Not specified by the paper, and chosen here:

* The width is at most floor(100 / L_s) + 1, which gives Table 1's 5, 8, 14, 30 and 51.
* A load is a worker's share of all messages of this source so far, a float: whole percents tie at n = 100.
* A key's width is reconsidered at most once per 60 s, the Key Item's "last check". Read literally, Algorithm
  4 calls itself after a scale-down and could go from n to 2 in one message. The time of the check is stored
  in the key's item; only old keys and keys wider than 2 are checked, and an item that was never checked is
  checked at once.
* ``expected_keys`` is 100, as in the paper's experiments, whatever the number of keys of the stream: it is
  the size of the three spaces after a cycle (between two cycles the baby space may hold 100 times its size).
* Widths above 2 are stored in a map of their own, as in the paper, which here holds ``expected_keys`` keys;
  when it is full, the least recently seen key is evicted and has width 2 again.
* The paper assumes a fixed number of machines, and hash + i (mod n) would move most keys if it changed: a
  router cannot rescale.
* Ties go to the first candidate. The clock is that of the messages: no thread, no wall clock.

Loads count the whole stream, so a worker that is added to a key late takes nearly all of its rows until it
has caught up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, inlined, kernel
from evenflow.keys import candidate
from evenflow.schemes.base import Router, RouterPlace, Scheme, check
from evenflow.schemes.registry import register
from evenflow.sketches.generations import (
    OLD,
    START,
    KeySpace,
    merged_spaces,
    new_key_space,
    note_key,
    run_cycles,
    used_items,
)
from evenflow.sketches.table import KeyTable, new_table, table_find, table_insert, table_remove


@register
@dataclass(frozen=True)
class DynamicKey(Scheme):
    """Give every key two candidates, and keys that stay hot as many more as the workers' loads require.

    Parameters
    ----------
    expected_keys
        Number of keys that the spaces keep after a cycle: 10 percent old, 40 teenage, 50 baby. Also the most
        keys with more than two candidates. The stream may have any number of keys.
    baby_limit
        Most keys in the baby space between two cycles, more than its size. None: 100 times its size.
    teenage_cycle
        Seconds between two promotions to the teenage space.
    old_cycle
        Seconds between two promotions to the old space.
    warm_up
        Seconds before any key gets more candidates.
    check_every
        Seconds between two checks of a key's number of candidates.
    rate
        Messages per second of the logical clock, used when messages have no times.

    Examples
    --------
    >>> DynamicKey().router(workers=10).route(np.array([1, 1, 1, 1], np.uint64)).tolist()
    [6, 7, 6, 7]

    References
    ----------
    Dalabasmaz and Can, *Dynamic Key Grouping* (DKG), section 4.
    """

    expected_keys: int = 100
    baby_limit: int | None = None
    teenage_cycle: float = 15.0
    old_cycle: float = 60.0
    warm_up: float = 15.0
    check_every: float = 60.0
    rate: float = 1e4

    name = "dynamic-key"
    aliases = ("dkg",)
    paper = "dynamic 4"
    summary = "keys that stay hot get one more candidate at a time, the rest have two"
    needs_load = True
    needs_time = True
    learns = True
    forgets = True

    def __post_init__(self) -> None:
        rule = "use a whole number from 10 to 10**6"
        good = isinstance(self.expected_keys, int) and 10 <= self.expected_keys <= 10**6
        check("expected_keys", self.expected_keys, good, rule)
        if self.baby_limit is not None:
            good = isinstance(self.baby_limit, int) and self.baby_limit >= 1
            check("baby_limit", self.baby_limit, good, "use a whole number of keys, 1 or more")
        check("teenage_cycle", self.teenage_cycle, self.teenage_cycle > 0, "use a number of seconds above 0")
        check("old_cycle", self.old_cycle, self.old_cycle > 0, "use a number of seconds above 0")
        check("warm_up", self.warm_up, self.warm_up >= 0, "use a number of seconds, 0 or more")
        check("check_every", self.check_every, self.check_every >= 0, "use a number of seconds, 0 or more")
        check("rate", self.rate, self.rate > 0, "use a number of messages per second above 0")

    @property
    def clock_rate(self) -> float:
        """Messages per second of the logical clock, used when messages have no times."""
        return self.rate

    def new_router(self, place: RouterPlace) -> DynamicKeyRouter:
        """Return a router for Dynamic Key Grouping."""
        return DynamicKeyRouter(self, place)


def threshold_for(workers: int) -> float:
    """Return L_s, the load in percent from which a key is scaled out.

    >>> [round(threshold_for(n), 2) for n in (5, 10, 20, 50, 100)]
    [24.47, 13.16, 7.24, 3.41, 2.0]
    """
    ideal = 100 / workers
    return ideal + math.sqrt(ideal)


def width_limit_for(workers: int) -> int:
    """Return the largest number of workers of a key.

    >>> [width_limit_for(n) for n in (5, 10, 20, 50, 100)]
    [5, 8, 14, 30, 51]
    """
    return math.floor(100 / threshold_for(workers)) + 1


class Wide(NamedTuple):
    """The bounded map of keys wider than 2."""

    table: KeyTable
    keys: UInt64Array
    widths: Int32Array  # 0: free
    seen: Float64Array  # when the key was last seen


class DynamicKeyState(NamedTuple):
    """Messages sent to each worker, the key space and the wide keys."""

    loads: Int64Array
    space: KeySpace
    checked: Float64Array  # of each item: when its width was last reconsidered
    wide_at: Int32Array  # of each item: its key's index in ``wide``, or -1
    wide: Wide
    totals: Int64Array  # [messages, wide keys]


class DynamicKeyRouter(Router):
    """Dynamic Key Grouping at one source."""

    scheme: DynamicKey
    state: DynamicKeyState

    def __init__(self, scheme: DynamicKey, place: RouterPlace):
        super().__init__(scheme, place)
        space = new_key_space(scheme.expected_keys, scheme.baby_limit)
        items, most = space.keys.size, scheme.expected_keys
        self.state = DynamicKeyState(
            loads=np.zeros(place.workers, np.int64),
            space=space,
            checked=np.zeros(items),
            wide_at=np.full(items, -1, np.int32),
            wide=Wide(new_table(most), np.zeros(most, np.uint64), np.zeros(most, np.int32), np.zeros(most)),
            totals=np.zeros(2, np.int64),
        )
        self._rules = Rules(
            teenage_cycle=float(scheme.teenage_cycle),
            old_cycle=float(scheme.old_cycle),
            warm_up=float(scheme.warm_up),
            check_every=float(scheme.check_every),
            threshold=threshold_for(place.workers),
            limit=width_limit_for(place.workers),
        )

    @property
    def widths(self) -> dict[int, int]:
        """The number of workers of every key that has more than 2."""
        used = np.flatnonzero(self.state.wide.widths)
        pairs = zip(self.state.wide.keys[used], self.state.wide.widths[used], strict=True)
        return {int(key): int(width) for key, width in pairs}

    def _learn(self, others: Sequence[DynamicKeyRouter], share: float) -> None:
        """Join the key spaces; of the widths that sources gave a key, the last decided ones count.

        A source has decided a key's width if it checked it since it began. The widest of these is taken, or
        of all if no source did. Loads are taken over in full, since the rule is about shares of the whole
        stream.
        """
        self._carry(others, share, math.inf)
        state = self.state
        merged_spaces([other.state.space for other in others], state.space, share)
        decided: dict[int, tuple[bool, int]] = {}
        seen: dict[int, float] = {}
        wide = sorted({key for other in others for key in other.widths})
        for other in others:
            widths = other.widths
            checked = other._checked(np.array(wide, np.uint64)).tolist()
            for key, time in zip(wide, checked, strict=True):
                fresh = time >= other.began and other.routed > 0
                if key in widths or fresh:
                    decided[key] = max(decided.get(key, (False, 0)), (fresh, widths.get(key, 2)))
            times = zip(other._wide(other.state.wide.keys), other._wide(other.state.wide.seen), strict=True)
            for key, time in times:
                seen[key] = max(seen.get(key, -math.inf), time)
        kept = sorted((-seen[key], key) for key in wide if decided[key][1] > 2)[: state.wide.keys.size]
        keys = np.array([key for _, key in kept], np.uint64)
        widths_kept = np.array([decided[key][1] for _, key in kept], np.int32)
        _load_widths(state, keys, widths_kept, np.array([-time for time, _ in kept], np.float64))
        items = np.flatnonzero(used_items(state.space))
        items = items[np.argsort(state.space.keys[items])]
        held = state.space.keys[items]
        state.checked[items] = np.max([other._checked(held) for other in others], axis=0)
        state.totals[0] = state.loads.sum()

    def _checked(self, keys: UInt64Array) -> Float64Array:
        """Return when the width of each of ``keys``, which are sorted, was last reconsidered, or -inf."""
        checked = np.full(keys.size, -np.inf)
        items = np.flatnonzero(used_items(self.state.space))
        at = np.searchsorted(keys, self.state.space.keys[items])
        found = np.flatnonzero(at < keys.size)
        found = found[keys[at[found]] == self.state.space.keys[items[found]]]
        checked[at[found]] = self.state.checked[items[found]]
        return checked

    def _wide(self, values: Any) -> list[Any]:
        """Return ``values`` of the entries of the map of wide keys that are in use."""
        used: list[Any] = values[np.flatnonzero(self.state.wide.widths)].tolist()
        return used

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        _route(keys, times, out, self.state, self._rules, self.place.salt)


@kernel
def _load_widths(state: DynamicKeyState, keys: UInt64Array, widths: Int32Array, seen: Float64Array) -> None:
    wide = state.wide
    for at in range(keys.size):
        wide.keys[at] = keys[at]
        wide.widths[at] = widths[at]
        wide.seen[at] = seen[at]
        table_insert(wide.table, keys[at], at)
        item = table_find(state.space.table, keys[at])
        if item >= 0:
            state.wide_at[item] = at
    state.totals[1] = keys.size


class Rules(NamedTuple):
    """The parameters as numbers, for the kernel."""

    teenage_cycle: float
    old_cycle: float
    warm_up: float
    check_every: float
    threshold: float
    limit: int


@kernel
def _route(
    keys: UInt64Array,
    times: Float64Array,
    out: Int32Array,
    state: DynamicKeyState,
    rules: Rules,
    salt: np.uint64,
) -> None:
    loads, space, wide = state.loads, state.space, state.wide
    n = loads.size
    for i in range(keys.size):
        key, now = keys[i], times[i]
        run_cycles(space, now, rules.teenage_cycle, rules.old_cycle)
        item, born = note_key(space, key)
        if born:
            state.checked[item] = -np.inf
            state.wide_at[item] = table_find(wide.table, key) if state.totals[1] > 0 else -1
        at = state.wide_at[item]
        width = min(n, 2)
        if at >= 0:
            width = wide.widths[at]
            wide.seen[at] = now
        home = candidate(key, 0, salt, n)
        worker = _least_loaded(loads, home, width)
        if (
            (at >= 0 or space.space[item] == OLD)
            and now - space.times[START] > rules.warm_up
            and now - state.checked[item] >= rules.check_every
        ):
            state.checked[item] = now
            worker = _reconsider(state, rules, item, key, now, home, width, worker)
        loads[worker] += 1
        state.totals[0] += 1
        out[i] = worker


@inlined
def _least_loaded(loads: Int64Array, home: int, width: int) -> int:
    """Return the first of the least loaded workers home, home + 1, ..., home + width - 1 (mod n)."""
    worker = home
    best = home
    for _ in range(1, width):
        worker = worker + 1 if worker + 1 < loads.size else 0
        best = worker if loads[worker] < loads[best] else best
    return best


@kernel
def _reconsider(
    state: DynamicKeyState,
    rules: Rules,
    item: int,
    key: np.uint64,
    now: float,
    home: int,
    width: int,
    worker: int,
) -> int:
    """Widen or narrow a key by one worker if the loads require it; return the worker for its message."""
    loads = state.loads
    n = loads.size
    below = 0
    for step in range(width):
        below += _percent(state, (home + step) % n) < rules.threshold
    if state.space.space[item] == OLD and _percent(state, worker) >= rules.threshold:
        further = (home + width) % n
        if width < rules.limit and loads[further] < loads[worker]:
            _set_width(state, item, key, width + 1, now)
            return further
    elif width > 2 and below >= 2:
        _set_width(state, item, key, width - 1, now)
        return _least_loaded(loads, home, width - 1)
    return worker


@inlined
def _percent(state: DynamicKeyState, worker: int) -> float:
    return 100.0 * state.loads[worker] / max(1, state.totals[0])


@inlined
def _set_width(state: DynamicKeyState, item: int, key: np.uint64, width: int, now: float) -> None:
    wide = state.wide
    at = state.wide_at[item]
    if width <= 2:
        table_remove(wide.table, key)
        wide.widths[at] = 0
        state.wide_at[item] = -1
        state.totals[1] -= 1
        return
    if at < 0:
        at = 0
        for other in range(wide.widths.size):  # a free entry, else the least recently seen key
            if wide.widths[at] > 0 and (wide.widths[other] == 0 or wide.seen[other] < wide.seen[at]):
                at = other
        if wide.widths[at] > 0:
            loser = table_find(state.space.table, wide.keys[at])
            if loser >= 0:
                state.wide_at[loser] = -1
            table_remove(wide.table, wide.keys[at])
            state.totals[1] -= 1
        wide.keys[at] = key
        table_insert(wide.table, key, at)
        state.wide_at[item] = at
        state.totals[1] += 1
    wide.widths[at] = width
    wide.seen[at] = now
