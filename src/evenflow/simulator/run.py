"""Runs one stream through one scheme: sources, workers and aggregator.

The stream is read in chunks and cut wherever something happens: a mark, the end of an aggregation period, a
change of workers or capacities, feedback. Between two cuts every source routes its own messages (sources are
independent, and the messages of a source stay in order), and metrics are updated. The result therefore does
not depend on the chunks.

At message t, the order is: marks and periods after t messages; then, before the next message, events,
feedback, and joint decisions of the sources.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int32Array, UInt64Array
from evenflow.schemes import Scheme
from evenflow.schemes.cost_model import Costs
from evenflow.simulator.events import Aggregation, Capacities, Event, Rescale
from evenflow.simulator.feedback import feedback_for
from evenflow.simulator.observer import Observer
from evenflow.simulator.queueing import Arrivals, Queueing, parse_capacities
from evenflow.simulator.result import Result
from evenflow.simulator.setup import Configuration, Head, SimulationSetup
from evenflow.simulator.source_assignment import Dealer, Feed, Part
from evenflow.streams.base import CHUNK, Stream

SEGMENT = 1 << 17  # messages routed at once; their arrays fit the CPU cache
Progress = Callable[[int, int], None]


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
    """Send a stream through a scheme and measure it; equal arguments give bit-identical results.

    Parameters
    ----------
    scheme
        A scheme, or its name as on the command line, such as "d-choices:epsilon=1e-3".
    stream
        A stream, or its name as on the command line, such as "zipf:z=1.4,messages=1e6".
    workers
        Number of workers.
    sources
        Number of sources, each with its own router.
    seed
        Seed of the scheme, the feed and the queues.
    feed
        How messages are distributed to the sources: "shuffle", "key" or "skewed:exponent".
    queueing
        Arrival and service of messages; without it only loads are measured.
    events
        Changes of the workers or their capacities (`Rescale`, `Capacities`).
    marks
        Number of equidistant points at which metrics are recorded.
    head
        Splits loads into head and tail: a share of the stream from which a key is head (the stream is then
        read twice), or the ids of the head's keys.
    aggregation
        Periodic merging of partial results.
    resources
        For schemes with one owner per key, the cost functions of state, computation and communication
        (`functions` 3), such as "LCL".
    chunk
        Messages read at once; only affects speed.
    progress
        Called as ``progress(messages, total)`` after every chunk.

    Returns
    -------
    Result
        One row of metrics, and tables over time and by worker.

    Examples
    --------
    >>> result = simulate("shuffle", "zipf:z=1.4,keys=100,messages=1000,seed=1", workers=4, sources=1)
    >>> result.loads.tolist(), result.row()["imbalance"]
    ([250, 250, 250, 250], 0.0)
    """
    given = Configuration(
        scheme, stream, workers, sources, seed, feed, queueing, events, marks, head, aggregation, resources
    )
    return Simulation(SimulationSetup(given)).run(chunk, progress)


class Simulation:
    """One run: the routers, and everything that changes during the stream."""

    def __init__(self, setup: SimulationSetup):
        self.setup = setup
        self.scheme = setup.scheme
        self.routers = setup.new_routers()
        self.seconds = 0.0
        self._start()

    def _start(self) -> None:
        """Initialise everything except the routers."""
        setup = self.setup
        self.dealer = Dealer(setup.feed, setup.sources, setup.seed, max(SEGMENT, 4 * setup.sources))
        self.arrivals = Arrivals(setup.queueing, setup.seed)
        self.queues = setup.new_queues()
        self.observer = Observer(setup, self.queues)
        self.coordinator = self.scheme.coordinator(self.routers)
        self.feedback = feedback_for(self.scheme, self.routers, self.queues, setup.work)
        self.message = 0
        self.workers = setup.workers
        self.next_event = 0
        self.next_mark = 0
        self.destinations = np.empty(self.dealer.size, np.int32)
        self.source_of = np.empty(self.dealer.size, np.int32)

    def run(self, chunk_size: int = CHUNK, progress: Progress | None = None) -> Result:
        """Run the whole stream and return the result."""
        stream, messages = self.setup.stream, self.setup.found.messages
        for chunk in stream.chunks(chunk_size):
            if self.message + chunk.ids.size > messages:
                break
            hashes = stream.hashes
            if self.message == 0 and chunk.ids.size:
                self._compile(chunk.ids[:1], chunk.times, hashes)
            times = self.arrivals.times(self.message, chunk.ids.size, chunk.times)
            began = time.perf_counter()
            self._chunk(chunk.ids, times, hashes)
            self.seconds += time.perf_counter() - began
            if progress is not None:
                progress(self.message, messages)
        if self.message != messages:
            raise EvenflowError(
                f"the stream {stream.name} does not have its declared {messages} messages; "
                "do not change it while it is read."
            )
        return self._result()

    def _compile(self, ids: Int32Array, times: Float64Array | None, hashes: UInt64Array) -> None:
        """Run one message through a separate router, so that compilation is not measured."""
        kept = self.routers
        setup = self.setup
        self.routers = [self.scheme.router(setup.workers, setup.seed)] * setup.sources
        self._chunk(ids, self.arrivals.times(0, 1, None if times is None else times[:1]), hashes)
        self.observer.mark(1, 0.0, self.routers)
        self.routers = kept
        self._start()

    def _chunk(self, ids: Int32Array, times: Float64Array | None, hashes: UInt64Array) -> None:
        self.observer.make_room(hashes.size)
        start = 0
        while start < ids.size:
            self._before(float(times[start]) if times is not None else 0.0)
            stop = start + self._next_cut(ids.size - start, None if times is None else times[start:])
            self._segment(ids[start:stop], None if times is None else times[start:stop], hashes)
            self.message += stop - start
            self._after(float(times[stop - 1]) if times is not None else 0.0)
            start = stop

    def _next_cut(self, left: int, times: Float64Array | None) -> int:
        """Return the number of messages until something is due."""
        setup = self.setup
        cuts = [self.message + min(left, self.dealer.size), setup.marks[self.next_mark]]
        cuts.append(self.coordinator.next_message)
        if self.next_event < len(setup.events):
            cuts.append(setup.events[self.next_event].at)
        if setup.aggregation is not None:
            every = setup.aggregation.every
            cuts.append((self.message // every + 1) * every)
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
        parts = self.dealer.deal(self.message, ids, times if self.scheme.needs_time else None, hashes)
        destinations = self.destinations[: ids.size]
        for router, part in zip(self.routers, parts, strict=True):
            if part.keys.size:
                workers = router.route(part.keys, part.times)
                self._check(workers, part.keys.size)
                self.observer.count(part.ids, workers)
                if self.observer.in_order:
                    destinations[part.positions] = workers
        if self.observer.owners is not None:
            self.observer.owners.follow(ids, destinations)
        if self.queues is not None and times is not None:
            self.queues.serve(self.message, times, ids, destinations, self._sources_of(parts))

    def _check(self, workers: Int32Array, count: int) -> None:
        """Raise an error if a scheme returned invalid workers, on which the kernels rely."""
        if workers.size != count or workers.min() < 0 or workers.max() >= self.workers:
            raise EvenflowError(
                f"{self.scheme.name} did not return a worker from 0 to {self.workers - 1} for every message; "
                "fix its _route()."
            )

    def _sources_of(self, parts: list[Part]) -> Int32Array | None:
        """Return each message's source, if acknowledgements are needed."""
        if self.queues is None or not self.queues.state.acknowledged.size:
            return None
        result = self.source_of[: sum(part.keys.size for part in parts)]
        for source, part in enumerate(parts):
            result[part.positions] = source
        return result

    def _before(self, now: float) -> None:
        """Do what is due before the next message, which arrives at ``now``."""
        events = self.setup.events
        while self.next_event < len(events) and events[self.next_event].at == self.message:
            self._apply(events[self.next_event], now)
            self.next_event += 1
        if self.feedback is not None and (
            self.feedback.next_message <= self.message or self.feedback.next_time <= now
        ):
            self.feedback.before(self.message, now)
        if self.coordinator.next_message <= self.message:
            self.coordinator.before(self.message)

    def _apply(self, event: Event, now: float) -> None:
        capacity = self._capacity_after(event)
        if isinstance(event, Rescale):
            self.coordinator.rescale(event.workers)
            self.observer.rescaled(event.workers, self.routers, self.message, self.setup.stream.hashes)
            self.workers = event.workers
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
            capacity[:workers] = self.setup.scale * parse_capacities(event.capacities, workers)
        else:
            capacity[self.workers : workers] = self.setup.scale  # new workers
        return capacity

    def _after(self, now: float) -> None:
        """Record what is due after the last message, which arrived at ``now``."""
        setup = self.setup
        if self.message == setup.marks[self.next_mark]:
            self.observer.mark(self.message, now, self.routers)
            self.next_mark = min(self.next_mark + 1, len(setup.marks) - 1)
        last = self.message == setup.found.messages
        if setup.aggregation is not None and (last or self.message % setup.aggregation.every == 0):
            self.observer.close_period(self.message, now)

    def _result(self) -> Result:
        setup = self.setup
        return Result(
            scheme=self.scheme.name,
            parameters=str(self.scheme),
            stream=setup.stream.name,
            workers=setup.workers,
            sources=setup.sources,
            seed=setup.seed,
            feed=str(setup.feed),
            messages=self.message,
            seconds=self.seconds,
            **self.observer.finish(self.message, self.routers),
        )
