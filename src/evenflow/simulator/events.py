"""Events during a simulation: workers join or leave, capacities change, partial results are merged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evenflow.errors import EvenflowError
from evenflow.simulator.queueing import CapacitySpec, parse_capacities
from evenflow.spec import check, check_count


@dataclass(frozen=True)
class Rescale:
    """Change the number of workers: the highest-numbered ones leave, or new ones join at the end.

    Parameters
    ----------
    at
        The message before which the change happens, counted from 0.
    workers
        The new number of workers.
    capacities
        With queueing, the capacities of all workers from then on, on the scale of the initial ones. None:
        workers that stay keep theirs, new workers get 1.

    Examples
    --------
    >>> from evenflow.simulator import simulate
    >>> stream = "zipf:z=1,keys=100,messages=1000,seed=1"
    >>> result = simulate("consistent-hash", stream, workers=4, events=[Rescale(at=500, workers=5)])
    >>> result.rescales["workers"].tolist()
    [5]
    """

    at: int
    workers: int
    capacities: CapacitySpec = None


@dataclass(frozen=True)
class Capacities:
    """Before message ``at``, change the workers' capacities, on the scale of the initial ones."""

    at: int
    capacities: CapacitySpec


@dataclass(frozen=True)
class Aggregation:
    """Every ``every`` messages, each worker sends a partial result per key it received to an aggregator.

    ``cost`` is the aggregator's seconds per partial result. It serves them in order, period by period; with
    queueing, its lag is the time from the end of a period until its partial results are merged.
    """

    every: int
    cost: float = 0.0

    def __post_init__(self) -> None:
        check_count("every", self.every, 1, "use at least one message per period")
        check("cost", self.cost, 0 <= self.cost < math.inf, "use seconds per partial result, 0 or more")


Event = Rescale | Capacities


def check_events(events: Sequence[Event], messages: int, workers: int) -> list[Event]:
    """Return the events in order; raise an error if one is outside the stream or does not fit the workers."""
    for event in events:
        if not isinstance(event, Rescale | Capacities):
            raise EvenflowError(f"events contains {event!r}; pass Rescale and Capacities.")
        check_count("at", event.at, 1, "use the number of a message, 1 or more")
        if event.at >= messages:
            raise EvenflowError(
                f"{type(event).__name__} is at message {event.at}, but the stream has {messages} messages; "
                f"use a number below {messages}."
            )
        if isinstance(event, Rescale):
            check_count("workers", event.workers, 1, "a stream needs at least one worker")
    in_order = sorted(events, key=lambda event: event.at)
    for event in in_order:
        workers = event.workers if isinstance(event, Rescale) else workers
        parse_capacities(event.capacities, workers, "capacities")
    return in_order
