"""FIFO queues at the workers (`heterogeneous` 3): when each message starts and finishes.

``start = max(arrival, free[w])``, ``finish = start + work / capacity[w]``, latency = finish - arrival, in
stream order. A worker's queue at time t holds the messages with finish > t, including the one being served.
When a capacity changes at time t, the rest of the queue takes old / new times as long: a worker is busy
without a gap until its queue is empty, so ``finish' = t + (finish - t) old / new`` is exact. A worker that
leaves gets no more messages and finishes those it has.

Not specified by the paper: the unit of capacity. Here it is work per second, where a message's work is
``cost`` (1 by default) times the factor of its key. With ``load``, capacities are relative, and are scaled
such that all messages need that share of what all workers together can do; for equal workers this is the
utilisation under shuffle grouping.

Memory: one entry (28 bytes) per message waiting at the same time; latencies as in
:mod:`evenflow.simulator.latency`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int32Array, Int64Array, inlined, kernel
from evenflow.simulator.latency import Latencies, LatencyLog
from evenflow.spec import check, check_count, is_number
from evenflow.streams.sampling import bits, draw_salt, unit

CapacitySpec = str | Path | Sequence[float] | Float64Array | None

RATE = 1e4  # messages per second if neither the stream nor the caller defines it
_ARRIVALS, _SERVICE = 21, 22  # uses of the seed
_SPELLING = (
    "write '3x5,7x1' (three of 5, seven of 1), or pass a list of numbers or the name of a file of numbers"
)


@dataclass(frozen=True)
class Queueing:
    """Queues at the workers: how fast messages arrive, and how fast workers serve them.

    Parameters
    ----------
    rate
        Messages per second. None: the stream's own times, or 10^4 if it has none.
    arrivals
        With a rate, "regular" or "poisson".
    capacity
        Capacities of the workers: ``"3x5,7x1"`` (three of 5, seven of 1), numbers, or a file of numbers.
        None: equal.
    load
        Utilisation to which capacities are scaled. None: capacities are work per second.
    cost
        Work of a message.
    service
        Distribution of the work: "constant", or "exponential" with that mean.
    key_cost
        Factor of the work by key id.
    warm_up
        Number of initial messages left out of the latencies.
    feedback_delay
        Seconds until a worker's report reaches the sources.
    acknowledge_every
        Messages of the stream between two reads of the acknowledgements that carry signals. None: ten reads
        per slot of the scheme.

    Examples
    --------
    >>> Queueing(capacity="2x5,1").capacities(3).tolist()
    [5.0, 5.0, 1.0]
    """

    rate: float | None = None
    arrivals: str = "regular"
    capacity: CapacitySpec = None
    load: float | None = 0.8
    cost: float = 1.0
    service: str = "constant"
    key_cost: Float64Array | Sequence[float] | None = None
    warm_up: int = 0
    feedback_delay: float = 0.0
    acknowledge_every: int | None = None

    def __post_init__(self) -> None:
        _positive("rate", self.rate, "messages per second above 0, or None for the stream's times")
        _positive(
            "load",
            self.load,
            "a share of the workers' capacity above 0, or None to leave capacities unscaled",
        )
        _positive("cost", self.cost, "a number above 0")
        known = self.arrivals in {"regular", "poisson"}
        check("arrivals", self.arrivals, known, "use 'regular' or 'poisson'")
        if self.arrivals == "poisson" and self.rate is None:
            raise EvenflowError(
                "arrivals is 'poisson' without a rate; pass rate=1000 for 1000 messages per second."
            )
        known = self.service in {"constant", "exponential"}
        check("service", self.service, known, "use 'constant' or 'exponential'")
        check_count("warm_up", self.warm_up, 0, "use a number of messages, 0 or more")
        delay = self.feedback_delay
        check("feedback_delay", delay, 0 <= delay < math.inf, "use a number of seconds, 0 or more")
        if self.acknowledge_every is not None:
            rule = "use a number of messages, 1 or more"
            check_count("acknowledge_every", self.acknowledge_every, 1, rule)
        if self.key_cost is not None:
            factors = np.asarray(self.key_cost, np.float64)
            if factors.ndim != 1 or not (np.isfinite(factors).all() and (factors > 0).all()):
                raise EvenflowError(
                    "key_cost has a value that is not above 0; pass one positive factor per key id."
                )

    def capacities(self, workers: int) -> Float64Array:
        """Return the unscaled capacity of each of ``workers`` workers."""
        return parse_capacities(self.capacity, workers)

    def mean_work(self, counts: Int64Array | None) -> float:
        """Return the mean work of a message; with ``key_cost``, ``counts`` by key id are required."""
        if self.key_cost is None or counts is None:
            return self.cost
        return float(self.cost * (counts @ self.key_factors(counts.size)[: counts.size]) / counts.sum())

    def key_factors(self, keys: int) -> Float64Array:
        """Return the factors by key id; raise an error if there are too few."""
        factors = np.asarray(self.key_cost, np.float64)
        if factors.size < keys:
            raise EvenflowError(
                f"key_cost has {factors.size} values but the stream has {keys} keys; pass one per key id."
            )
        return factors


def _positive(name: str, value: Any, meaning: str) -> None:
    if value is not None or "None" not in meaning:
        check(name, value, is_number(value) and 0 < value < math.inf, f"use {meaning}")


def parse_capacities(spec: CapacitySpec, workers: int, name: str = "capacity") -> Float64Array:
    """Return one capacity per worker, from ``'3x5,7x1'``, numbers, a file of numbers, or None (all 1).

    >>> parse_capacities("1x5,2x1", 3).tolist()
    [5.0, 1.0, 1.0]
    """
    if spec is None:
        return np.ones(workers)
    if isinstance(spec, str | Path):
        values = _read_capacities(str(spec), name)
    else:
        try:
            values = [float(value) for value in spec]
        except (TypeError, ValueError):
            raise EvenflowError(f"{name} is {spec!r}; {_SPELLING}.") from None
    if len(values) != workers:
        raise EvenflowError(
            f"{name} has {len(values)} values for {workers} workers; pass one per worker ({_SPELLING})."
        )
    result = np.array(values, np.float64)
    if not (np.isfinite(result).all() and (result > 0).all()):
        raise EvenflowError(
            f"{name} has the value {result[~(result > 0)][:1]}; capacities must be finite and above 0."
        )
    return result


def _read_capacities(text: str, name: str) -> list[float]:
    if Path(text).is_file():
        content = Path(text).read_text()
        try:
            numbers = (
                json.loads(content) if content.lstrip().startswith("[") else re.split(r"[\s,;]+", content)
            )
            return [float(number) for number in numbers if number != ""]
        except (ValueError, TypeError):
            raise EvenflowError(
                f"the file {text!r} is not a list of capacities; write one number per worker, "
                "on separate lines or separated by commas."
            ) from None
    values: list[float] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(?:(\d+)\s*[x*]\s*)?([0-9.]+(?:[eE][-+]?\d+)?)\s*", part)
        try:
            values += [float(found[2])] * int(found[1] or 1) if found else [float("x")]
        except ValueError:
            raise EvenflowError(f"{name} is {text!r}; {_SPELLING}.") from None
    return values


class Arrivals:
    """The arrival times of messages, in seconds since the first one."""

    def __init__(self, queueing: Queueing | None, seed: int):
        self.queueing = queueing
        self._salt = draw_salt(seed, _ARRIVALS)
        self._origin: float | None = None
        self._last = np.zeros(1)

    def times(self, first: int, count: int, given: Float64Array | None) -> Float64Array | None:
        """Return the times of messages ``first`` to ``first + count``, or None without a clock."""
        rate = self.queueing.rate if self.queueing is not None else None
        if rate is None and given is not None:
            if self._origin is None and given.size:
                self._origin = float(given[0])
            return given - (self._origin or 0.0)
        if self.queueing is None:
            return None
        result = np.empty(count)
        if self.queueing.arrivals == "poisson":
            _poisson(first, self._salt, 1.0 / (rate or RATE), self._last, result)
        else:
            np.divide(np.arange(first, first + count, dtype=np.float64), rate or RATE, out=result)
        return result


@kernel
def _poisson(first: int, salt: np.uint64, gap: float, last: Float64Array, out: Float64Array) -> None:
    time = last[0]
    for i in range(out.size):
        time -= math.log(1.0 - unit(bits(salt, first + i))) * gap
        out[i] = time
    last[0] = time


@kernel
def _exponential(first: int, salt: np.uint64, out: Float64Array) -> None:
    for i in range(out.size):
        out[i] *= -math.log(1.0 - unit(bits(salt, first + i)))


class QueueState(NamedTuple):
    """By worker; times in seconds since the first message."""

    capacity: Float64Array
    free: Float64Array  # when its queue will be empty
    busy: Float64Array  # seconds of service, including those still to come
    work: Float64Array
    length: Int64Array
    head: Int32Array  # entries of its waiting messages, -1: none
    tail: Int32Array
    arrived: Int64Array
    finished: Int64Array
    latency: Float64Array  # summed over finished messages
    measured: Int64Array  # the same two without the warm-up
    measured_latency: Float64Array
    acknowledged: Float64Array  # by worker and source: finish of the last message; empty if unused


class Waiting(NamedTuple):
    """The entries of waiting messages, in linked lists; ``free`` is [first unused entry]."""

    arrival: Float64Array
    finish: Float64Array
    source: Int32Array  # ~source while warming up
    next: Int32Array
    free: Int32Array


class Queues:
    """The workers' queues of one run."""

    def __init__(
        self,
        queueing: Queueing,
        workers: int,
        capacity: Float64Array,
        sources: int,
        seed: int,
        acknowledge: bool = False,
    ):
        n = capacity.size  # the largest number of workers in the run
        self.workers = workers
        self.queueing = queueing
        self.sources = sources
        self.now = 0.0
        self.state = QueueState(
            capacity=capacity.copy(),
            free=np.zeros(n),
            busy=np.zeros(n),
            work=np.zeros(n),
            length=np.zeros(n, np.int64),
            head=np.full(n, -1, np.int32),
            tail=np.full(n, -1, np.int32),
            arrived=np.zeros(n, np.int64),
            finished=np.zeros(n, np.int64),
            latency=np.zeros(n),
            measured=np.zeros(n, np.int64),
            measured_latency=np.zeros(n),
            acknowledged=np.full(n * sources if acknowledge else 0, -1.0),
        )
        self.waiting = _new_waiting(0)
        self.latencies = Latencies(n)
        self.joined = np.zeros(n)
        self.left = np.full(n, np.inf)
        self._salt = draw_salt(seed, _SERVICE)
        self._offered = np.zeros(n)  # capacity x time up to _offered_at
        self._offered_at = 0.0
        self._no_source = np.zeros(0, np.int32)
        self._factors = np.zeros(0) if queueing.key_cost is None else queueing.key_factors(0)

    def serve(
        self,
        first: int,
        times: Float64Array,
        ids: Int32Array,
        workers: Int32Array,
        sources: Int32Array | None = None,
    ) -> None:
        """Enqueue messages ``first``, ... at ``workers``; acknowledgements go to their ``sources``."""
        self._make_room(times.size)
        log = self.latencies.make_room(int(self.state.length.sum()) + times.size)
        owners = self._no_source if sources is None else sources
        _serve(
            times,
            self._work(first, ids),
            workers,
            owners,
            self.queueing.warm_up - first,
            self.sources,
            self.state,
            self.waiting,
            log,
        )
        self.now = float(times[-1])

    def _work(self, first: int, ids: Int32Array) -> Float64Array:
        work = np.full(ids.size, float(self.queueing.cost))
        if self.queueing.service == "exponential":
            _exponential(first, self._salt, work)
        if self.queueing.key_cost is not None:
            work *= self._factors[ids]
        return work

    def settle(self, now: float) -> None:
        """Finish the messages that are done by ``now``."""
        log = self.latencies.make_room(int(self.state.length.sum()))
        _settle(now, self.sources, self.state, self.waiting, log)
        self.now = max(self.now, now) if math.isfinite(now) else self.now

    def change(self, workers: int, capacity: Float64Array, now: float) -> None:
        """Change the workers and capacities; waiting messages are served at the new speed."""
        self.settle(now)
        self._offered = self.offered(now)
        self._offered_at = now
        self.joined[self.workers : workers] = now
        self.left[self.workers : workers] = np.inf
        self.left[workers : self.workers] = now
        self.workers = workers
        _change_capacity(now, capacity, self.state, self.waiting)

    def offered(self, now: float) -> Float64Array:
        """Return the work that each worker could have done by ``now``, while it was part of the cluster."""
        result = self._offered.copy()
        result[: self.workers] += self.state.capacity[: self.workers] * (now - self._offered_at)
        return result

    def busy_until(self, now: float) -> Float64Array:
        """Return the busy seconds of each worker by ``now``."""
        result: Float64Array = self.state.busy - np.maximum(self.state.free - now, 0.0)
        return result

    def utilisation(self) -> Float64Array:
        """Return the busy share of each worker, from when it joined until all messages are finished."""
        until = np.minimum(np.maximum(self.left, self.state.free), self.makespan)
        with np.errstate(invalid="ignore", divide="ignore"):
            result: Float64Array = self.state.busy / (until - self.joined)
        return result

    @property
    def makespan(self) -> float:
        """The time at which all messages that have arrived are finished."""
        return float(self.state.free.max())

    def _make_room(self, count: int) -> None:
        held = self.waiting.next.size
        needed = int(self.state.length.sum()) + count
        if needed > held:
            larger = _new_waiting(max(needed, 2 * held))
            larger.arrival[:held] = self.waiting.arrival
            larger.finish[:held] = self.waiting.finish
            larger.source[:held] = self.waiting.source
            larger.next[:held] = self.waiting.next
            larger.next[-1] = self.waiting.free[0]  # the old free list after the new entries
            larger.free[0] = held
            self.waiting = larger


def _new_waiting(size: int) -> Waiting:
    following = np.arange(1, size + 1, dtype=np.int32)
    following[-1:] = -1
    return Waiting(
        np.empty(size),
        np.empty(size),
        np.empty(size, np.int32),
        following,
        np.array([0 if size else -1], np.int32),
    )


@inlined
def _finish(worker: int, now: float, sources: int, q: QueueState, waiting: Waiting, log: LatencyLog) -> None:
    """Remove the messages that ``worker`` has finished by ``now`` from its queue."""
    entry = q.head[worker]
    while entry >= 0 and waiting.finish[entry] <= now:
        latency = waiting.finish[entry] - waiting.arrival[entry]
        source = waiting.source[entry]
        if source >= 0:
            q.measured[worker] += 1
            q.measured_latency[worker] += latency
            log.latency[log.used[0]] = latency
            log.worker[log.used[0]] = worker
            log.used[0] += 1
        else:
            source = ~source
        if q.acknowledged.size:
            q.acknowledged[worker * sources + source] = waiting.finish[entry]
        q.finished[worker] += 1
        q.latency[worker] += latency
        q.length[worker] -= 1
        following = waiting.next[entry]
        waiting.next[entry] = waiting.free[0]
        waiting.free[0] = entry
        entry = following
    q.head[worker] = entry
    if entry < 0:
        q.tail[worker] = -1


@kernel
def _serve(
    times: Float64Array,
    work: Float64Array,
    workers: Int32Array,
    source_of: Int32Array,
    warming: int,
    sources: int,
    q: QueueState,
    waiting: Waiting,
    log: LatencyLog,
) -> None:
    for i in range(times.size):
        now = times[i]
        worker = workers[i]
        _finish(worker, now, sources, q, waiting, log)
        service = work[i] / q.capacity[worker]
        finish = max(now, q.free[worker]) + service
        q.free[worker] = finish
        q.busy[worker] += service
        q.work[worker] += work[i]
        q.arrived[worker] += 1
        q.length[worker] += 1
        entry = waiting.free[0]
        waiting.free[0] = waiting.next[entry]
        waiting.arrival[entry] = now
        waiting.finish[entry] = finish
        source = source_of[i] if source_of.size else 0
        waiting.source[entry] = source if i >= warming else ~source
        waiting.next[entry] = -1
        if q.tail[worker] < 0:
            q.head[worker] = entry
        else:
            waiting.next[q.tail[worker]] = entry
        q.tail[worker] = entry


@kernel
def _settle(now: float, sources: int, q: QueueState, waiting: Waiting, log: LatencyLog) -> None:
    for worker in range(q.head.size):
        _finish(worker, now, sources, q, waiting, log)


@kernel
def _change_capacity(now: float, capacity: Float64Array, q: QueueState, waiting: Waiting) -> None:
    for worker in range(q.head.size):
        ratio = q.capacity[worker] / capacity[worker]
        q.capacity[worker] = capacity[worker]
        if ratio != 1.0 and q.free[worker] > now:
            free = now + (q.free[worker] - now) * ratio
            q.busy[worker] += free - q.free[worker]
            q.free[worker] = free
            entry = q.head[worker]
            while entry >= 0:
                waiting.finish[entry] = now + (waiting.finish[entry] - now) * ratio
                entry = waiting.next[entry]
