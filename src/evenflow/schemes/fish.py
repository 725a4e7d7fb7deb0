"""FISH (`evolving`, Algorithms 1-3): recent hot keys get more candidates; the one free soonest takes the row.

1. Count keys over epochs with decay (:mod:`evenflow.sketches.epochs`): f_k is the count of key k relative to
   the decayed total, which is taken as at least one epoch.
2. ``d = max(d_min, n / 2^floor(log2(f_top / f_k)), M_k)`` candidates for a key with f_k > theta, where M_k is
   the most it has had so far; 2 candidates for any other key.
3. ``worker = argmin (C_w + N_w) P_w`` over the candidates: C_w messages were left when the backlog was last
   estimated, N_w have been sent since, and each takes P_w seconds. Every T seconds the messages served are
   subtracted.

Not specified by the paper, and chosen here:

* M_k is stored in the key's counter and is dropped with it. n / 2^i is rounded down. A key that is no
  longer hot has its first 2 candidates again, as in Algorithm 2.
* The paper calls f_k a frequency and does not say of what. Counts are collected per epoch of N_epoch
  messages, so f_k is a share of N_epoch messages or, once decayed epochs add to them, of the decayed total N:
  ``f_k = c_k / max(N, N_epoch)``. Just after an epoch N is only alpha / (1 - alpha) of an epoch (250 of 1000
  messages). Divided by that, one message exceeds theta = 1/(4n) as soon as n > 62, and cold keys become hot
  when they are first seen. For the same reason a hot key has a count of at least two messages, whatever theta
  and N_epoch are: a key that replaces another in K starts with its count plus one.
* ``d_min = min(n, max(2, ceil(n F_H / |H|)))``, where F_H is the share of the hot keys and |H| their number
  at the end of the previous epoch, and 2 until then: the paper only says that it follows from the sum of
  their shares.
* Candidates are the first d distinct values of ring(hash(key, i)) (:mod:`evenflow.schemes.candidate_cache`).
  Ties go to the first; with d = n, to the first from the source's own offset.
* As printed, Algorithm 3 counts a message twice, in C_w by line 18 and in N_w by line 7. Here it is counted
  once. Every T seconds ``C_w = max(0, C_w + N_w - served)`` and N_w = 0; served is the time since the last
  estimate divided by P_w. Only whole messages are served, and the fraction is kept for the next estimate:
  workers of equal speed that were sent equally many messages then tie, and rounding decides nothing.
* Workers report the mean seconds per message that they measured, which is the paper's periodic sampling of
  P_w, and nothing else that is used: C_w is inferred (Eq. 1). With s sources each owns 1/s of a worker, so
  P_w is s times the reported time.
* A variant that the paper rejects as too much communication is ``assignment="reported"``: 1/s of a reported
  backlog replaces C_w and N_w, from the time of the report or of the last message, whichever is later. It is
  kept to a millionth (2^-20) of a message. It shows what the inference loses.
* Until workers report, P_w is ``seconds_per_message``, by default workers / rate: they just keep up. A worker
  that joins has no backlog and the mean P_w of the others.
* ``capacity`` (K_max) defaults to max(1000, 10 n), or 2/theta if that is more: with fewer than 1/theta
  counters every counter is above theta and every key looks hot. For up to 100 workers it is the paper's 1000.

Every part can be switched off (Fig. 14-17): ``epochs=False`` counts over the whole stream; ``choices`` gives
hot keys "d-choices" (`choices` Prop. 4.1, solved at the end of every epoch) or "w-choices" (all workers)
instead of "chk"; ``assignment="counts"`` takes the candidate that was sent the fewest messages;
``ring=False`` takes ``hash(key, i) mod n`` (section 5), which moves nearly all keys when n changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.errors import EvenflowError, nearest
from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, inlined, kernel
from evenflow.ring import Ring, build_ring
from evenflow.schemes.base import Router, RouterPlace, Scheme, WorkerReport, check, flatten
from evenflow.schemes.candidate_cache import (
    WAVE,
    CandidateCache,
    find_list,
    find_pair,
    least_waiting,
    less_waiting_of_pair,
    new_candidate_cache,
)
from evenflow.schemes.choices_solver import solve_choices
from evenflow.schemes.head import counters_for
from evenflow.schemes.registry import register
from evenflow.sketches.epochs import (
    ENTRIES,
    HIGHEST,
    TOTAL,
    EpochCounters,
    close_epoch,
    count_in_epoch,
    epoch_is_over,
    merged_epochs,
    new_epoch_counters,
    unordered_sum,
)

CHOICES = ("chk", "d-choices", "w-choices")
ASSIGNMENTS = ("inferred", "reported", "counts")
ESTIMATED, LATEST = 0, 1  # in FishState.clock
FEWEST = 2.0  # messages of a hot key
GRAINS = 2.0**20  # per message: the unit of a reported backlog, so that sums with it are exact


@register
@dataclass(frozen=True)
class Fish(Scheme):
    """Give recent hot keys up to n candidates, of which the least backlogged takes the row.

    Follows changes of the hot keys and of the workers' speeds. What waits at a worker is inferred from what
    was sent there and from its speed, not reported.

    Parameters
    ----------
    decay
        Factor applied to counts at the end of an epoch (alpha).
    epoch
        Messages per epoch (N_epoch).
    capacity
        Number of counters (K_max). None: max(1000, 10 n), or 2 / theta if that is more.
    theta
        Share above which a key is hot. None: 1 / (4 n).
    least_choices
        Fewest candidates of a hot key (d_min). None: derived from the hot keys' share.
    interval
        Seconds between two estimates of the backlog (T).
    seconds_per_message
        Service time assumed until workers report. None: derived from the rate.
    rate
        Messages per second of the logical clock, used when messages have no times.
    replicas
        Number of points of a worker on the ring.
    epsilon
        Imbalance for which d is solved, with choices="d-choices".
    epochs
        Whether counts decay; False counts from the start of the stream.
    choices
        How hot keys get candidates: "chk", "d-choices" or "w-choices".
    assignment
        Which candidate takes a row: by "inferred" or "reported" backlog the one free soonest, by "counts" the
        one sent least.
    ring
        Whether candidates come from a ring; False: hash mod n.

    Examples
    --------
    >>> router = Fish().router(workers=10)
    >>> router.route(np.array([1, 1, 1, 1], np.uint64)).tolist()
    [6, 8, 6, 8]

    References
    ----------
    Huang, *Efficient Time-Evolving Stream Processing at Scale* (FISH), sections 4 and 5.
    """

    decay: float = 0.2
    epoch: int = 1000
    capacity: int | None = None
    theta: float | None = None
    least_choices: int | None = None
    interval: float = 10.0
    seconds_per_message: float | None = None
    rate: float = 1e4
    replicas: int = 100
    epsilon: float = 1e-4
    epochs: bool = True
    choices: str = "chk"
    assignment: str = "inferred"
    ring: bool = True

    name = "fish"
    paper = "evolving 4-5"
    summary = "recent hot keys have many candidates; the least backlogged one takes the row"
    needs_load = True
    needs_time = True
    needs_reports = True
    rescales = True
    learns = True
    forgets = True

    def __post_init__(self) -> None:
        check("decay", self.decay, 0 <= self.decay <= 1, "it is a factor from 0 (forget) to 1 (keep)")
        _check_whole("epoch", self.epoch, 1, "use a whole number of messages, 1 or more")
        if self.capacity is not None:
            _check_whole("capacity", self.capacity, 1, "use a whole number of counters, 1 or more")
        if self.theta is not None:
            check(
                "theta",
                self.theta,
                0 < self.theta <= 1,
                "it is the share above which a key is hot, above 0 and at most 1",
            )
        if self.least_choices is not None:
            _check_whole("least_choices", self.least_choices, 2, "a hot key needs at least 2 candidates")
        check("interval", self.interval, self.interval > 0, "use a number of seconds above 0")
        if self.seconds_per_message is not None:
            rule = "use seconds above 0, or leave it out to assume that workers just keep up"
            check("seconds_per_message", self.seconds_per_message, 0 < self.seconds_per_message < 1e9, rule)
        check("rate", self.rate, self.rate > 0, "use a number of messages per second above 0")
        _check_whole("replicas", self.replicas, 1, "a worker needs at least one point on the ring")
        check(
            "epsilon",
            self.epsilon,
            0 < self.epsilon < 1,
            "the allowed imbalance is a share above 0 and below 1, such as 1e-4",
        )
        for name, value, known in (
            ("choices", self.choices, CHOICES),
            ("assignment", self.assignment, ASSIGNMENTS),
        ):
            if value not in known:
                raise EvenflowError(f"{name} is {value!r}; {nearest(str(value), known)}")

    @property
    def clock_rate(self) -> float:
        """Messages per second of the logical clock, used when messages have no times."""
        return self.rate

    @property
    def report_interval(self) -> float:
        """Seconds between two reports from the workers."""
        return self.interval

    def new_router(self, place: RouterPlace) -> FishRouter:
        """Return a router for FISH."""
        return FishRouter(self, place)

    def theta_for(self, workers: int) -> float:
        """Return the share above which a key is hot: the paper's 1/(4n) by default."""
        return 1 / (4 * workers) if self.theta is None else float(self.theta)


def _check_whole(name: str, value: int, lowest: int, rule: str) -> None:
    check(name, value, isinstance(value, int) and value >= lowest, rule)


class FishState(NamedTuple):
    """What one source knows: the hot keys, and the messages sent to and waiting at each worker."""

    loads: Int64Array
    sketch: EpochCounters
    widths: Int32Array  # of each counter: M_k, the most candidates its key has had
    least: Int64Array  # [d_min, or d under "d-choices"], at least 2 even with one worker
    queued: Float64Array  # C_w + N_w, or all that was sent under "counts"
    cost: Float64Array  # s P_w, or 1
    waits: Float64Array  # queued times cost
    spare: Float64Array  # fraction of a message served at the last estimate
    clock: Float64Array  # [time of the last estimate of the backlog, time of the last message]


class FishRules(NamedTuple):
    """The parameters as numbers, for the kernel."""

    theta: float
    epoch: int
    decay: float
    interval: float
    chk: bool
    wide: bool  # "w-choices"
    least_choices: int  # 0: by the formula
    epsilon: float
    ringed: bool
    offset: int
    salt: np.uint64


class FishRouter(Router):
    """FISH at one source."""

    scheme: Fish
    state: FishState

    def __init__(self, scheme: Fish, place: RouterPlace):
        super().__init__(scheme, place)
        n = place.workers
        capacity = counters_for(n, scheme.capacity, scheme.theta)
        seconds = scheme.seconds_per_message or n / scheme.rate
        self.state = FishState(
            loads=np.zeros(n, np.int64),
            sketch=new_epoch_counters(capacity),
            widths=np.zeros(capacity, np.int32),
            least=np.array([scheme.least_choices or 2], np.int64),
            queued=np.zeros(n),
            cost=np.full(n, place.sources * seconds if self._estimates else 1.0),
            waits=np.zeros(n),
            spare=np.zeros(n),
            clock=np.zeros(2),
        )
        self._settle()

    @property
    def _estimates(self) -> bool:
        return self.scheme.assignment != "counts"

    def _settle(self) -> None:
        """Build what is derived from scheme and place: ring, cache, parameters of the kernel."""
        scheme, place = self.scheme, self.place
        ringed = scheme.ring and place.workers > 1
        self._ring = build_ring(place.workers if ringed else 1, place.salt, scheme.replicas if ringed else 1)
        self._cache = new_candidate_cache(self.state.widths.size, place.workers)
        self._scratch = np.zeros(self.state.widths.size)
        self._rules = FishRules(
            theta=scheme.theta_for(place.workers),
            epoch=scheme.epoch,
            decay=float(scheme.decay) if scheme.epochs else 1.0,
            interval=float(scheme.interval) if self._estimates else math.inf,
            chk=scheme.choices == "chk",
            wide=scheme.choices == "w-choices",
            least_choices=scheme.least_choices or 0,
            epsilon=float(scheme.epsilon),
            ringed=ringed,
            offset=place.offset,
            salt=place.salt,
        )

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        _route(keys, times, out, self.state, self._cache, self._ring, self._rules, self._scratch)

    def report(self, report: WorkerReport) -> None:
        """Take the seconds per message of each worker; its backlog only with assignment="reported"."""
        backlog = self._per_worker("backlog", report.backlog, 0.0)
        seconds = self._per_worker("seconds_per_message", report.seconds_per_message, 1e-9)
        if not self._estimates:
            return
        state, sources = self.state, self.place.sources
        if seconds is not None:
            state.cost[:] = sources * seconds
        if backlog is not None and self.scheme.assignment == "reported":
            state.queued[:] = np.rint(backlog / sources * GRAINS) / GRAINS
            state.spare[:] = 0.0
            state.clock[ESTIMATED] = max(state.clock[LATEST], report.time)
        if report.arrived is not None:  # a micro-batch has ended: nothing waits
            state.queued[:] = 0.0
            state.spare[:] = 0.0
        state.waits[:] = state.queued * state.cost
        self._cache.ends[WAVE] += 1

    @property
    def heard(self) -> dict[str, list[float]]:
        """The seconds per message of each worker (P_w)."""
        return {"seconds_per_message": (self.state.cost / self.place.sources).tolist()}

    def _per_worker(self, name: str, values: Float64Array | None, lowest: float) -> Float64Array | None:
        if values is None:
            return None
        array = np.asarray(values, np.float64)
        if array.shape != (self.workers,) or not ((array >= lowest) & (array < 1e15)).all():
            each = f"each of {self.workers} workers"
            raise EvenflowError(f"{name} is {values!r}; report a number of {lowest:g} or more for {each}.")
        return array

    def _learn(self, others: Sequence[FishRouter], share: float) -> None:
        """Add up counts and backlogs; a key keeps the most candidates, a worker the mean of its P_w."""
        states, own = [other.state for other in others], self.state
        sketch = merged_epochs([state.sketch for state in states], own.widths.size, share)
        entries = int(sketch.ends[ENTRIES])
        queued, cost = own.queued, own.cost  # under "counts", messages that were sent are no backlog
        if self._estimates:
            seconds = unordered_sum([other.state.cost / other.place.sources for other in others])
            cost = self.place.sources * seconds / len(states)
            queued = np.rint(share * unordered_sum([state.queued for state in states]) * GRAINS) / GRAINS
        self.state = own._replace(
            sketch=sketch,
            widths=_widest(sketch.keys[:entries], states, own.widths.size),
            least=np.max([state.least for state in states], axis=0),
            queued=queued,
            cost=cost,
            waits=queued * cost,
            spare=unordered_sum([state.spare for state in states]) / len(states),
            clock=np.max([state.clock for state in states], axis=0),
        )
        self._settle()

    def _rescale(self, before: int) -> None:
        state, n = self.state, self.workers
        mean = math.fsum(state.cost.tolist()) / before
        self.state = state._replace(
            loads=_resized(state.loads, n, 0),
            queued=_resized(state.queued, n, 0),
            cost=_resized(state.cost, n, mean),
            waits=_resized(state.waits, n, 0),
            spare=_resized(state.spare, n, 0),
        )
        self._settle()

    @property
    def theta(self) -> float:
        """The share above which a key is hot."""
        return self._rules.theta

    @property
    def head(self) -> tuple[UInt64Array, Int64Array]:
        """The keys that are hot now and their decayed counts, rounded, most frequent first."""
        sketch = self.state.sketch
        used = int(sketch.ends[ENTRIES])
        counts = sketch.counts[:used]
        least = self.theta * max(float(sketch.sums[TOTAL]), float(self.scheme.epoch))
        hot = np.flatnonzero((counts > least) & (counts >= FEWEST))
        hot = hot[np.lexsort((sketch.keys[hot], -counts[hot]))]
        return sketch.keys[hot], np.rint(counts[hot]).astype(np.int64)

    @property
    def widths(self) -> dict[int, int]:
        """The most candidates that every counted key has had (M_k), if more than 2."""
        wide = np.flatnonzero(self.state.widths[: self.state.sketch.ends[ENTRIES]] > 2)
        pairs = zip(self.state.sketch.keys[wide], self.state.widths[wide], strict=True)
        return {int(key): int(width) for key, width in pairs}

    @property
    def nbytes(self) -> int:
        """Bytes held in arrays, including ring and cache."""
        extra = (*flatten(self._cache), *flatten(self._ring), ("scratch", self._scratch))
        return super().nbytes + sum(array.nbytes for _, array in extra)


def _widest(keys: UInt64Array, states: Sequence[FishState], size: int) -> Int32Array:
    """Return the most candidates that each of ``keys`` has had at any source, padded with 0."""
    widths = np.zeros(size, np.int32)
    order = np.argsort(keys)
    for state in states:
        known = state.sketch.keys[: state.sketch.ends[ENTRIES]]
        at = np.searchsorted(keys, known, sorter=order)
        entry = order[np.minimum(at, keys.size - 1)] if keys.size else np.zeros(0, np.int64)
        found = keys[entry] == known[: entry.size]
        np.maximum.at(widths, entry[found], state.widths[: known.size][found])
    return widths


def _resized(array: npt.NDArray[Any], size: int, fill: float) -> npt.NDArray[Any]:
    """Return the first ``size`` values, padded with ``fill``."""
    wider = np.full(size, fill, array.dtype)
    wider[: array.size] = array[:size]
    return wider


@kernel
def _route(
    keys: UInt64Array,
    times: Float64Array,
    out: Int32Array,
    state: FishState,
    cache: CandidateCache,
    ring: Ring,
    rules: FishRules,
    scratch: Float64Array,
) -> None:
    sketch, waits = state.sketch, state.waits
    offset, salt, ringed = rules.offset, rules.salt, rules.ringed
    for i in range(keys.size):
        if times[i] - state.clock[ESTIMATED] > rules.interval:
            _estimate_backlog(state, cache, times[i])
        if epoch_is_over(sketch, rules.epoch):
            _measure_head(state, rules, scratch)
            close_epoch(sketch, rules.decay)
        counter, fresh = count_in_epoch(sketch, keys[i])
        entry = np.uint64(counter)
        if fresh:
            state.widths[entry] = 0
        if fresh or cache.reach[entry] == 0.0:
            find_pair(cache, entry, keys[i], salt, ring, ringed)
        d = _choices(state, cache, entry, rules)
        if d > 2:
            entry = find_list(cache, entry, keys[i], d, offset, salt, ring, ringed)
            worker = least_waiting(cache, entry, waits)
        else:
            worker = less_waiting_of_pair(cache, entry, waits)
        queued = state.queued[worker] + 1.0
        state.queued[worker] = queued
        waits[worker] = queued * state.cost[worker]
        state.loads[worker] += 1
        out[i] = worker
    state.clock[LATEST] = times[keys.size - 1]


@inlined
def _total(sketch: EpochCounters, rules: FishRules) -> float:
    """Return the number of messages of which a count is a share: the decayed total, at least one epoch."""
    return max(sketch.sums[TOTAL], float(rules.epoch))


@inlined
def _is_hot(count: float, total: float, theta: float) -> bool:
    """Return whether a key with this count is hot (Algorithm 2, line 1)."""
    return count > theta * total and count >= FEWEST


@inlined
def _choices(state: FishState, cache: CandidateCache, entry: np.uint64, rules: FishRules) -> int:
    """Return the number of candidates for the key of ``entry``, which has just been counted (Algorithm 2)."""
    n = state.loads.size
    count = state.sketch.counts[entry]
    if not _is_hot(count, _total(state.sketch, rules), rules.theta):
        return min(n, 2)
    least = min(n, state.least[0])
    if rules.wide:
        return n
    if not rules.chk:
        return least
    highest = state.sketch.sums[HIGHEST]
    width = state.widths[entry]
    if width < least or count * cache.reach[entry] > highest:
        d = n
        while d > least and 2.0 * count <= highest:  # d is halved floor(log2(f_top / f_k)) times
            count *= 2.0
            d >>= 1
        width = max(width, d, least)
        state.widths[entry] = width
        cache.reach[entry] = 1.0
        while n > width:
            n >>= 1
            cache.reach[entry] *= 2.0
    return min(state.loads.size, width)


@inlined
def _estimate_backlog(state: FishState, cache: CandidateCache, now: float) -> None:
    """Estimate the messages still waiting at each worker (Algorithm 3, lines 4-10)."""
    elapsed = now - state.clock[ESTIMATED]
    state.clock[ESTIMATED] = now
    for worker in range(state.queued.size):
        cost = state.cost[worker]
        served = state.spare[worker] + elapsed / cost
        whole = math.floor(served)
        left = state.queued[worker] - whole
        state.spare[worker] = served - whole if left > 0.0 else 0.0
        state.queued[worker] = max(0.0, left)
        state.waits[worker] = state.queued[worker] * cost
    cache.ends[WAVE] += 1


@kernel
def _measure_head(state: FishState, rules: FishRules, scratch: Float64Array) -> None:
    """Set d_min, or d with "d-choices", from the hot keys at the end of an epoch."""
    sketch = state.sketch
    n = state.loads.size
    if rules.least_choices > 0 or rules.wide:
        return
    total = _total(sketch, rules)
    size = 0
    messages = 0.0
    for entry in range(sketch.ends[ENTRIES]):
        count = sketch.counts[entry]
        if _is_hot(count, total, rules.theta):
            messages += count
            scratch[size] = count
            size += 1
    if not rules.chk:
        _sort_falling(scratch, size)
        messages = 0.0
        for h in range(size):
            messages += scratch[h]
            scratch[h] = messages / total
        state.least[0] = max(2, solve_choices(scratch, size, n, rules.epsilon, True))
    elif size > 0:
        state.least[0] = max(2, math.ceil(n * (messages / total) / size))
    else:
        state.least[0] = 2


@inlined
def _sort_falling(values: Float64Array, size: int) -> None:
    """Sort in place, largest first (Shell sort: short, and needs no memory)."""
    gap = size // 2
    while gap > 0:
        for i in range(gap, size):
            value = values[i]
            index = i
            while index >= gap and values[index - gap] < value:
                values[index] = values[index - gap]
                index -= gap
            values[index] = value
        gap //= 2
