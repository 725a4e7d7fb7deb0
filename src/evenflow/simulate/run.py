"""Sources, workers, aggregator: one stream through one scheme.

The stream is read in chunks and cut wherever something happens: a mark, an aggregation period, a change of
workers or capacities, feedback. Between two cuts every source routes its own messages (sources are
independent, a source's stay in order), and what is measured is measured. So nothing depends on how the
stream came in chunks.

Definitions, with t messages so far (`choices` II, `heterogeneous` 3 and 7, `dynamic` Eq. 7-8):

* I(t) = (max load - mean load) / t, at every 1 percent of the stream; ``imbalance`` is the last,
  ``imbalance_mean`` the mean of all. After a rescale loads and t count from there: a newcomer's missing
  past is not an imbalance.
* ``replicas``: distinct (key, worker) pairs ever; ``memory`` = ``distribution_cost`` = replicas / distinct
  keys.
* ``standard_deviation``: of the workers' loads, in percent of all messages.
* with queueing, over the workers: spread = max - min of queue length, of mean latency and of busy share
  since the mark before; ``imbalance_queue`` = max - mean of queue / capacity; ``imbalance_utilisation`` =
  max - mean of work sent so far / work the worker could have done so far.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.errors import EvenflowError
from evenflow.kernels import BoolArray, Float64Array, Int32Array, Int64Array, UInt64Array
from evenflow.schemes import Scheme
from evenflow.schemes import scheme as scheme_named
from evenflow.schemes.partitioning import Costs
from evenflow.simulate.events import Aggregation, Capacities, Event, Rescale, check_events
from evenflow.simulate.feedback import feedback_for, has_slot
from evenflow.simulate.feeds import Dealer, Dealt, Feed
from evenflow.simulate.metrics import (
    Owners,
    Pairs,
    Partials,
    count_marked,
    keys_by_worker,
    put_back,
    put_number,
)
from evenflow.simulate.migration import Migrations, as_costs, has_one_owner
from evenflow.simulate.queueing import RATE, Arrivals, Queueing, Queues, parse_capacities
from evenflow.simulate.result import Result
from evenflow.simulate.survey import Survey, survey
from evenflow.simulate.together import Together
from evenflow.streams.base import CHUNK, Stream

SEGMENT = 1 << 17  # messages routed at once; their arrays fit into a cache
Progress = Callable[[int, int], None]
Head = float | npt.NDArray[Any] | Sequence[int] | None


def simulate(
    scheme: Scheme | str,
    stream: Stream | str,
    workers: int = 100,
    sources: int = 5,
    seed: int = 0,
    *,
    feed: str | Feed = "shuffle",
    queueing: Queueing | None = None,
    events: Sequence[Event] = (),
    marks: int = 100,
    head: Head = None,
    aggregation: Aggregation | None = None,
    resources: str | Costs | None = None,
    chunk: int = CHUNK,
    progress: Progress | None = None,
) -> Result:
    """Send ``stream`` through ``scheme`` and measure; the same arguments give the same result, bit by bit.

    ``head`` splits loads into head and tail: a share of the stream (the stream is read twice to know who is
    above it) or the head's key ids. ``resources``, for schemes with one owner per key, are the cost
    functions of state, computation and communication (`functions` 3), such as "LCL". ``chunk`` affects
    speed alone. ``progress(messages, of)`` is called after every chunk.

    >>> result = simulate("shuffle", "zipf:z=1.4,keys=100,messages=1000,seed=1", workers=4, sources=1)
    >>> result.loads.tolist(), result.row()["imbalance"]
    ([250, 250, 250, 250], 0.0)
    """
    run = _Run(
        scheme, stream, workers, sources, seed, feed, queueing, events, marks, head, aggregation, resources
    )
    return run.run(chunk, progress)


class _Run:
    """The state of one simulation."""

    def __init__(
        self,
        scheme: Scheme | str,
        stream: Stream | str,
        workers: int,
        sources: int,
        seed: int,
        feed: str | Feed,
        queueing: Queueing | None,
        events: Sequence[Event],
        marks: int,
        head: Head,
        aggregation: Aggregation | None,
        resources: str | Costs | None,
    ):
        self.scheme = scheme_named(scheme) if isinstance(scheme, str) else scheme
        if not isinstance(self.scheme, Scheme):
            raise EvenflowError(f"scheme is {scheme!r}; it is a name such as 'partial-key', or a Scheme.")
        self.routers = _routers(self.scheme, workers, sources, seed)
        self.feed = Feed.parse(feed)
        self.costs = as_costs(resources, self.scheme)
        self.stream = _opened(stream)
        self.seed, self.sources, self.start_workers, self.workers = (
            int(seed),
            int(sources),
            int(workers),
            int(workers),
        )
        if isinstance(marks, bool) or not isinstance(marks, int) or marks < 1:
            raise EvenflowError(f"marks is {marks!r}; the stream is looked at least once, at its end.")
        by_share = isinstance(head, float | int)
        if by_share and not 0 < head <= 1:  # type: ignore[operator]
            raise EvenflowError(
                f"head is {head!r}; it is a share of the stream, above 0 up to 1, or key ids."
            )
        self.found = _survey(self.stream, by_share, queueing)
        self.events = check_events(events, self.found.messages, self.start_workers)
        rescales = [event.workers for event in self.events if isinstance(event, Rescale)]
        self.most_workers = max([self.start_workers, *rescales])
        if rescales:
            self.scheme.router(workers, seed).rescale(rescales[0])  # says so if it cannot
        self.queueing = queueing
        self.aggregation = aggregation
        self.marks = sorted({k * self.found.messages // marks for k in range(1, marks + 1)} - {0})
        self.head = _head(head, self.found)
        self.most_keys = self.stream.keys_upper_bound()
        self._prepare()

    def _prepare(self) -> None:
        """Set everything that changes while the stream flows to its start."""
        n = self.most_workers
        self.dealer = Dealer(self.feed, self.sources, self.seed, max(SEGMENT, 4 * self.sources))
        self.pairs = Pairs(n)
        self.head_loads = np.zeros(n, np.int64)
        self.partials = Partials(n, self.aggregation.every) if self.aggregation is not None else None
        can_move = self.scheme.rescales or self.scheme.needs_load or self.costs is not None
        self.owners = Owners() if has_one_owner(self.scheme) and can_move else None
        self.migrations = Migrations(self.pairs, self.owners, self.costs)
        self.arrivals = Arrivals(self.queueing, self.seed)
        self.queues: Queues | None = None
        self.scale = 1.0
        self.work = 1.0
        if self.queueing is not None:
            self._open_queues(self.queueing)
        elif any(isinstance(event, Capacities) or event.capacities is not None for event in self.events):
            raise EvenflowError("events change capacities without queueing; pass queueing=Queueing(...).")
        self.together = Together(self.scheme, self.routers)
        self.feedback = feedback_for(self.scheme, self.routers, self.queues, self.work)
        self.message = 0
        self.next_event = 0
        self.next_mark = 0
        self.loads_before = np.zeros(n, np.int64)  # at the last rescale
        self.messages_before = 0
        self.over_time: dict[str, list[float]] = defaultdict(list)
        self.periods: dict[str, list[float]] = defaultdict(list)
        self.aggregator_free = 0.0
        self.aggregator_busy = 0.0
        self.at_mark = (0.0, np.zeros(n), np.zeros(n, np.int64), np.zeros(n))
        self.destinations = np.empty(self.dealer.size, np.int32)
        self.source_of = np.empty(self.dealer.size, np.int32)
        self.seconds = 0.0

    def _open_queues(self, queueing: Queueing) -> None:
        capacity = queueing.capacities(self.workers)
        self.work = queueing.mean_work(self.found.counts)
        if queueing.load is not None:
            rate = queueing.rate or RATE
            if queueing.rate is None and self.found.seconds is not None:
                if not self.found.seconds > 0:
                    raise EvenflowError(
                        f"all messages of {self.stream.name} have the same time; say rate=1000 or so."
                    )
                rate = self.found.messages / self.found.seconds
            self.scale = rate * self.work / (queueing.load * float(capacity.sum()))
        if not queueing.warm_up < self.found.messages:
            raise EvenflowError(
                f"warm_up is {queueing.warm_up}, but the stream has {self.found.messages} messages; "
                "choose fewer."
            )
        everyone = np.ones(self.most_workers)
        everyone[: self.workers] = capacity
        self.queues = Queues(
            queueing, self.workers, everyone * self.scale, self.sources, self.seed, has_slot(self.scheme)
        )

    def run(self, chunk_size: int, progress: Progress | None) -> Result:
        """Let the stream flow."""
        warm = False
        for chunk in self.stream.chunks(chunk_size):
            hashes = self.stream.hashes
            times = self.arrivals.times(self.message, chunk.ids.size, chunk.times)
            if self.message + chunk.ids.size > self.found.messages:
                break
            if not warm and chunk.ids.size:
                self._compile(chunk.ids[:1], times, hashes)
                warm = True
            began = time.perf_counter()
            self._chunk(chunk.ids, times, hashes)
            self.seconds += time.perf_counter() - began
            if progress is not None:
                progress(self.message, self.found.messages)
        if self.message != self.found.messages:
            raise EvenflowError(
                f"the stream {self.stream.name} has not {self.found.messages} messages as it said; "
                "it must stay the same while it is read."
            )
        return self._result()

    def _compile(self, ids: Int32Array, times: Float64Array | None, hashes: UInt64Array) -> None:
        """Run one message through another router, so that compiling is not in the measured time."""
        kept = self.routers, self.arrivals
        self.routers = [self.scheme.router(self.workers, self.seed, sources=self.sources)] * self.sources
        self._chunk(ids, None if times is None else times[:1], hashes)
        self._mark(0.0)
        self.routers, arrivals = kept
        self._prepare()
        self.arrivals = arrivals

    def _chunk(self, ids: Int32Array, times: Float64Array | None, hashes: UInt64Array) -> None:
        self._make_room(hashes.size)
        place = 0
        while place < ids.size:
            now = float(times[place]) if times is not None else 0.0
            self._before(now)
            stop = place + self._next_cut(ids.size - place, times[place:] if times is not None else None)
            self._segment(ids[place:stop], None if times is None else times[place:stop], hashes)
            self.message += stop - place
            self._after(0.0 if times is None else float(times[stop - 1]))
            place = stop

    def _make_room(self, keys: int) -> None:
        self.pairs.make_room(keys, self.most_keys)
        if self.partials is not None:
            self.partials.make_room(keys, self.most_keys)
        if self.owners is not None:
            self.owners.make_room(keys)
        if self.head is not None and self.head.size < keys:
            self.head = np.concatenate([self.head, np.zeros(keys - self.head.size, np.bool_)])

    def _next_cut(self, left: int, times: Float64Array | None) -> int:
        """Return how many messages flow until something is due."""
        cuts = [self.message + min(left, self.dealer.size), self.marks[self.next_mark]]
        cuts.append(self.together.next_message)
        if self.next_event < len(self.events):
            cuts.append(self.events[self.next_event].at)
        if self.aggregation is not None:
            cuts.append((self.message // self.aggregation.every + 1) * self.aggregation.every)
        due = float("inf")
        if self.feedback is not None:
            cuts.append(self.feedback.next_message)
            due = self.feedback.next_time
        count = min(cuts) - self.message
        if times is not None and due <= times[count - 1]:
            count = int(np.searchsorted(times[:count], due))
        return count

    def _segment(self, ids: Int32Array, times: Float64Array | None, hashes: UInt64Array) -> None:
        """Route and measure messages between two cuts."""
        dealt = self.dealer.deal(self.message, ids, times if self.scheme.needs_time else None, hashes)
        in_order = self.queues is not None or self.owners is not None
        destinations = self.destinations[: ids.size]
        for source in range(self.sources):
            part = slice(int(dealt.starts[source]), int(dealt.starts[source + 1]))
            if part.start == part.stop:
                continue
            workers = self._route(source, dealt, part)
            own = dealt.ids[part]
            self.pairs.count(own, workers)
            if self.head is not None:
                count_marked(own, workers, self.head, self.head_loads)
            if self.partials is not None:
                self.partials.count(own, workers)
            if in_order:
                put_back(workers, dealt.places[part], destinations)
        if self.owners is not None:
            self.owners.follow(ids, destinations)
        if self.queues is not None and times is not None:
            self.queues.serve(self.message, times, ids, destinations, self._sources_of(dealt))

    def _route(self, source: int, dealt: Dealt, part: slice) -> Int32Array:
        router = self.routers[source]
        workers = router.route(dealt.keys[part], dealt.times[part] if dealt.times is not None else None)
        if workers.size != part.stop - part.start or workers.min() < 0 or workers.max() >= self.workers:
            raise EvenflowError(
                f"{self.scheme.name} did not answer every message with a worker from 0 to "
                f"{self.workers - 1}; route() has to."
            )
        return workers

    def _sources_of(self, dealt: Dealt) -> Int32Array | None:
        """Return each message's source, if acknowledgements go back to it."""
        if self.queues is None or not self.queues.state.acknowledged.size:
            return None
        result = self.source_of[: dealt.ids.size]
        for source in range(self.sources):
            put_number(source, dealt.places[dealt.starts[source] : dealt.starts[source + 1]], result)
        return result

    def _before(self, now: float) -> None:
        """Do what is due before the next message, which arrives at ``now``."""
        while self.next_event < len(self.events) and self.events[self.next_event].at == self.message:
            self._happen(self.events[self.next_event], now)
            self.next_event += 1
        if self.feedback is not None and (
            self.feedback.next_message <= self.message or self.feedback.next_time <= now
        ):
            self.feedback.before(self.message, now)
        if self.together.next_message <= self.message:
            self.together.before(self.message)

    def _happen(self, event: Event, now: float) -> None:
        capacity = self._capacity_after(event)
        if isinstance(event, Rescale):
            self.together.rescale(event.workers)
            self.migrations.rescaled(self.workers, self.routers, self.message, self.stream.hashes)
            self.workers = event.workers
            self.loads_before = self.pairs.loads.copy()
            self.messages_before = self.message
        if self.queues is not None and capacity is not None:
            self.queues.change(self.workers, capacity, now)
        if isinstance(event, Rescale) and self.feedback is not None:
            self.feedback.rescaled(event.workers)

    def _capacity_after(self, event: Event) -> Float64Array | None:
        if self.queues is None:
            return None
        capacity = self.queues.state.capacity.copy()
        workers = event.workers if isinstance(event, Rescale) else self.workers
        if event.capacities is not None or isinstance(event, Capacities):
            capacity[:workers] = self.scale * parse_capacities(event.capacities, workers, "capacities")
        else:
            capacity[self.workers : workers] = self.scale  # newcomers
        return capacity

    def _after(self, now: float) -> None:
        """Look at what there is after the last message, which arrived at ``now``."""
        if self.message == self.marks[self.next_mark]:
            self._mark(now)
            self.next_mark = min(self.next_mark + 1, len(self.marks) - 1)
        if self.aggregation is not None and self.partials is not None:
            last = self.message == self.found.messages
            if self.message % self.aggregation.every == 0 or last:
                self._aggregate(self.aggregation, self.partials.close(), now)

    def _current_loads(self) -> tuple[Int64Array, int]:
        loads = (self.pairs.loads - self.loads_before)[: self.workers]
        return loads, self.message - self.messages_before

    def _mark(self, now: float) -> None:
        loads, messages = self._current_loads()
        row: dict[str, float] = {
            "messages": self.message,
            "workers": self.workers,
            "imbalance": (int(loads.max()) - messages / self.workers) / messages if messages else 0.0,
            "max_load": int(loads.max()),
            "keys": self.pairs.keys,
            "replicas": self.pairs.ever,
        }
        choices = [getattr(router, "choices", None) for router in self.routers]
        if isinstance(choices[0], int | float):
            row["choices"] = float(np.mean(choices))  # type: ignore[arg-type]
        if self.queues is not None:
            row |= self._look_at_queues(self.queues, now)
        for name, value in row.items():
            self.over_time[name].append(value)

    def _look_at_queues(self, queues: Queues, now: float) -> dict[str, float]:
        queues.settle(now)
        n = self.workers
        state = queues.state
        then, busy_then, finished_then, latency_then = self.at_mark
        busy = queues.busy_until(now)
        self.at_mark = (now, busy, state.finished.copy(), state.latency.copy())
        finished = (state.finished - finished_then)[:n]
        with np.errstate(invalid="ignore", divide="ignore"):
            latency = ((state.latency - latency_then)[:n] / finished)[finished > 0]
            share = (busy - busy_then)[:n] / (now - then)
            use = (state.work / queues.offered(now))[:n]
        for shares in (share, use):
            shares[~np.isfinite(shares)] = np.nan  # no time has passed yet
        length = state.length[:n]
        per_capacity = length * self.work / state.capacity[:n]
        total = float((state.latency - latency_then)[:n].sum())
        return {
            "time": now,
            "queue_mean": float(length.mean()),
            "queue_max": float(length.max()),
            "queue_spread": float(length.max() - length.min()),
            "latency_mean": total / int(finished.sum()) if finished.sum() else float("nan"),
            "latency_spread": float(latency.max() - latency.min()) if latency.size else float("nan"),
            "utilisation_mean": float(share.mean()),
            "utilisation_spread": float(share.max() - share.min()),
            "imbalance_queue": float(per_capacity.max() - per_capacity.mean()),
            "imbalance_utilisation": float(use.max() - use.mean()),
        }

    def _aggregate(self, aggregation: Aggregation, partials: int, now: float) -> None:
        row: dict[str, float] = {"messages": self.message, "partials": partials}
        if self.queues is not None:
            seconds = partials * aggregation.cost
            self.aggregator_free = max(self.aggregator_free, now) + seconds
            self.aggregator_busy += seconds
            row |= {"time": now, "seconds": seconds, "lag": self.aggregator_free - now}
        for name, value in row.items():
            self.periods[name].append(value)

    def _result(self) -> Result:
        if self.queues is not None:
            self.queues.settle(float("inf"))
            self.quantiles = self.queues.latencies.quantiles()
        return Result(
            scheme=self.scheme.name,
            parameters=str(self.scheme),
            stream=self.stream.name,
            workers=self.start_workers,
            sources=self.sources,
            seed=self.seed,
            feed=str(self.feed),
            messages=self.message,
            numbers=self._numbers(),
            over_time={name: np.array(values) for name, values in self.over_time.items()},
            by_worker=self._by_worker(),
            rescales=self.migrations.columns(),
            periods={name: np.array(values) for name, values in self.periods.items()},
            seconds=self.seconds,
        )

    def _numbers(self) -> dict[str, float]:
        loads, messages = self._current_loads()
        marks = self.over_time["imbalance"]
        memory = self.pairs.ever / self.pairs.keys
        numbers: dict[str, float] = {
            "keys": self.pairs.keys,
            "imbalance": marks[-1],
            "imbalance_mean": float(np.mean(marks)),
            "max_over_mean": int(loads.max()) * self.workers / messages,
            "replicas": self.pairs.ever,
            "memory": memory,
            "standard_deviation": float(np.std(100.0 * loads / messages)),
            "distribution_cost": memory,
            "router_bytes": sum(router.nbytes for router in self.routers),
        }
        if self.head is not None:
            numbers["head_keys"] = int(np.count_nonzero(self.head))
            numbers["head_share"] = int(self.head_loads.sum()) / self.message
        if self.periods:
            numbers["partials"] = int(sum(self.periods["partials"]))
            numbers["partials_per_period"] = float(np.mean(self.periods["partials"]))
        numbers |= self.migrations.numbers() | self.migrations.balance(self.workers)
        if self.queues is not None:
            numbers |= self._queue_numbers(self.queues)
        return numbers

    def _queue_numbers(self, queues: Queues) -> dict[str, float]:
        state = queues.state
        numbers = {
            "latency_mean": float(state.measured_latency.sum() / state.measured.sum()),
            **{f"latency_{name}": value for name, value in self.quantiles[0].items()},
            "throughput": self.message / queues.makespan,
            "makespan": queues.makespan,
            "utilisation": float(np.mean(queues.utilisation()[: self.workers])),
            "queue_max": max(self.over_time["queue_max"]),
            "imbalance_utilisation": self.over_time["imbalance_utilisation"][-1],
        }
        if self.aggregation is not None:
            numbers["aggregator_utilisation"] = self.aggregator_busy / max(
                queues.makespan, self.aggregator_free
            )
            numbers["aggregator_lag"] = max(self.periods["lag"])
        return numbers

    def _by_worker(self) -> dict[str, npt.NDArray[Any]]:
        columns: dict[str, npt.NDArray[Any]] = {
            "worker": np.arange(self.most_workers),
            "messages": self.pairs.loads.copy(),
            "keys": keys_by_worker(self.pairs),
        }
        if self.head is not None:
            columns |= {"head": self.head_loads, "tail": self.pairs.loads - self.head_loads}
        if self.queues is not None:
            state = self.queues.state
            with np.errstate(invalid="ignore"):
                mean = state.measured_latency / state.measured
            columns |= {
                "capacity": state.capacity / self.work,
                "utilisation": self.queues.utilisation(),
                "latency_mean": mean,
                **{f"latency_{name}": values for name, values in self.quantiles[1].items()},
            }
        return columns


def _routers(scheme: Scheme, workers: int, sources: int, seed: int) -> list[Any]:
    first = scheme.router(workers, seed, source=0, sources=sources)
    others = range(1, int(sources))
    return [first, *(scheme.router(workers, seed, source=source, sources=sources) for source in others)]


def _opened(stream: Stream | str) -> Stream:
    if isinstance(stream, Stream):
        return stream
    from evenflow.streams import open_stream

    return open_stream(stream)


def _survey(stream: Stream, by_share: bool, queueing: Queueing | None) -> Survey:
    by_key = queueing is not None and queueing.key_cost is not None
    timed = False
    if queueing is not None and queueing.rate is None and queueing.load is not None:
        first = next(iter(stream.chunks(1)), None)
        timed = first is not None and first.times is not None
    return survey(stream, by_share or by_key, timed)


def _head(head: Head, found: Survey) -> BoolArray | None:
    """Return by key id whether a key is in the head."""
    if head is None:
        return None
    if isinstance(head, float | int):
        assert found.counts is not None
        marked: BoolArray = found.counts >= head * found.messages
        return marked
    ids = np.asarray(head)
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or (ids.size and ids.min() < 0):
        raise EvenflowError(f"head is {head!r}; it is a share of the stream, above 0 up to 1, or key ids.")
    marked = np.zeros(int(ids.max()) + 1 if ids.size else 0, np.bool_)
    marked[ids] = True
    return marked
