"""What can happen while a stream flows: workers come and go, capacities change, partial results merge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evenflow.errors import EvenflowError
from evenflow.simulator.queueing import CapacitySpec, parse_capacities
from evenflow.spec import check, check_count


@dataclass(frozen=True)
class Rescale:
    """Before message ``at``, go on with ``workers`` workers: the last ones leave, new ones join at the end.

    ``capacities`` (with queueing) are those of all workers from then on; None: who stays keeps its own, who
    joins gets 1, on the scale of the first ones.
    """

    at: int
    workers: int
    capacities: CapacitySpec = None


@dataclass(frozen=True)
class Capacities:
    """Before message ``at``, change the workers' capacities, on the scale of the first ones."""

    at: int
    capacities: CapacitySpec


@dataclass(frozen=True)
class Aggregation:
    """Every ``every`` messages each worker sends a partial result of every key it touched to one aggregator.

    ``cost``: seconds the aggregator needs per partial result. It serves them in order, one period's after the
    other's; its lag is the time from the end of a period until its partials are merged (with queueing).
    """

    every: int
    cost: float = 0.0

    def __post_init__(self) -> None:
        check_count("every", self.every, 1, "aggregation needs at least one message per period")
        check("cost", self.cost, 0 <= self.cost < math.inf, "it is seconds per partial result, 0 or more")


Event = Rescale | Capacities


def check_events(events: Sequence[Event], messages: int, workers: int) -> list[Event]:
    """Return the events in order, refusing what lies outside of the stream or does not fit the workers."""
    for event in events:
        if not isinstance(event, Rescale | Capacities):
            raise EvenflowError(f"events has {event!r}; an event is a Rescale or a Capacities.")
        check_count(
            "at", event.at, 1, "an event comes before a message, numbered from 0, and not before the first"
        )
        if event.at >= messages:
            raise EvenflowError(
                f"{type(event).__name__} is at message {event.at}, but the stream has {messages} messages; "
                f"choose a point below {messages}."
            )
        if isinstance(event, Rescale):
            check_count("workers", event.workers, 1, "a stream needs at least one worker")
    in_order = sorted(events, key=lambda event: event.at)
    for event in in_order:
        workers = event.workers if isinstance(event, Rescale) else workers
        parse_capacities(event.capacities, workers, "capacities")
    return in_order
