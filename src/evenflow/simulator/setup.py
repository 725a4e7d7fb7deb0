"""The configuration of a simulation, and what is derived from it and its stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.errors import EvenflowError
from evenflow.kernels import BoolArray
from evenflow.schemes import Scheme
from evenflow.schemes.cost_model import Costs
from evenflow.schemes.spelling import as_scheme
from evenflow.simulator.events import Aggregation, Capacities, Event, Rescale, check_events
from evenflow.simulator.migration import as_costs
from evenflow.simulator.prescan import Survey, survey
from evenflow.simulator.queueing import RATE, Queueing, Queues
from evenflow.simulator.source_assignment import Feed
from evenflow.spec import check, check_count
from evenflow.streams import Stream, open_stream

Head = float | npt.NDArray[Any] | Sequence[int] | None
_HEAD = "use a share of the stream above 0 and up to 1, or key ids"


@dataclass(frozen=True)
class Configuration:
    """The arguments of one simulation; see :func:`evenflow.simulator.simulate`."""

    scheme: Scheme | str
    stream: Stream | str
    workers: int = 100
    sources: int = 5
    seed: int = 0
    feed: str | Feed = "shuffle"
    queueing: Queueing | None = None
    events: Sequence[Event] = ()
    marks: int = 100
    head: Head = None
    aggregation: Aggregation | None = None
    resources: str | Costs | None = None


class SimulationSetup:
    """A validated configuration, with its names resolved and its stream surveyed."""

    def __init__(self, given: Configuration):
        self.scheme = as_scheme(given.scheme)
        self.scheme.router(given.workers, given.seed, sources=given.sources)  # checks these three
        self.workers, self.sources, self.seed = int(given.workers), int(given.sources), int(given.seed)
        self.feed = Feed.parse(given.feed)
        self.costs = as_costs(given.resources, self.scheme)
        self.aggregation = given.aggregation
        self.queueing = given.queueing
        self.stream = given.stream if isinstance(given.stream, Stream) else open_stream(given.stream)
        self.most_keys = self.stream.keys_upper_bound()
        by_share = isinstance(given.head, float | int)
        self.found = _survey(self.stream, by_share, self.queueing)
        self.marks = _marks(given.marks, self.found.messages)
        self.head = _head(given.head, self.found)
        self.events = check_events(given.events, self.found.messages, self.workers)
        rescales = [event.workers for event in self.events if isinstance(event, Rescale)]
        self.most_workers = max([self.workers, *rescales])
        if rescales:
            self.scheme.router(self.workers, self.seed).rescale(rescales[0])  # raises an error if it cannot
        self.work = 1.0  # mean work of a message
        self.scale = 1.0  # of the capacities as given
        if self.queueing is not None:
            self._measure(self.queueing)
        elif any(isinstance(event, Capacities) or event.capacities is not None for event in self.events):
            raise EvenflowError("events change capacities without queues; pass queueing=Queueing(...).")

    def _measure(self, queueing: Queueing) -> None:
        self.work = queueing.mean_work(self.found.counts)
        capacities = queueing.capacities(self.workers)
        if queueing.load is not None:
            rate = queueing.rate or RATE
            if queueing.rate is None and self.found.seconds is not None:
                if not self.found.seconds > 0:
                    raise EvenflowError(
                        f"all messages of {self.stream.name} have the same time; pass a rate such as 1000."
                    )
                rate = self.found.messages / self.found.seconds
            self.scale = rate * self.work / (queueing.load * float(capacities.sum()))
        if not queueing.warm_up < self.found.messages:
            raise EvenflowError(
                f"warm_up is {queueing.warm_up}, but the stream has {self.found.messages} messages; "
                "use fewer."
            )

    def new_routers(self) -> list[Any]:
        """Return a router for every source."""
        return [
            self.scheme.router(self.workers, self.seed, source=source, sources=self.sources)
            for source in range(self.sources)
        ]

    def new_queues(self) -> Queues | None:
        """Return empty queues for the largest number of workers in the run."""
        if self.queueing is None:
            return None
        capacities = np.ones(self.most_workers)
        capacities[: self.workers] = self.queueing.capacities(self.workers)
        capacities *= self.scale
        signals = self.scheme.needs_reports and self.scheme.busy_signals is not None
        return Queues(self.queueing, self.workers, capacities, self.sources, self.seed, signals)


def _survey(stream: Stream, by_share: bool, queueing: Queueing | None) -> Survey:
    by_key = queueing is not None and queueing.key_cost is not None
    timed = False
    if queueing is not None and queueing.rate is None and queueing.load is not None:
        first = next(iter(stream.chunks(1)), None)
        timed = first is not None and first.times is not None
    return survey(stream, by_share or by_key, timed)


def _marks(marks: int, messages: int) -> list[int]:
    """Return the message counts at which to record metrics: every 1 / marks of the stream."""
    check_count("marks", marks, 1, "use at least one mark")
    return sorted({k * messages // marks for k in range(1, marks + 1)} - {0})


def _head(head: Head, found: Survey) -> BoolArray | None:
    """Return whether each key id is in the head."""
    if head is None:
        return None
    if isinstance(head, float | int):
        check("head", head, 0 < head <= 1, _HEAD)
        assert found.counts is not None
        marked: BoolArray = found.counts >= head * found.messages
        return marked
    ids = np.asarray(head)
    whole = ids.ndim == 1 and ids.dtype.kind in "iu"
    check("head", head, whole and (not ids.size or ids.min() >= 0), _HEAD)
    marked = np.zeros(int(ids.max()) + 1 if ids.size else 0, np.bool_)
    marked[ids] = True
    return marked
