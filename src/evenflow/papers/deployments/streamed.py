"""One configuration as a stream, scheme by scheme: highest stable rate, latency at shares of it, memory.

Every scheme gets a query of its own (:mod:`.flow`), several at a time (:mod:`.lanes`), and goes through this
protocol:

1. Warm-up: when all queries run, three windows at the rate that the workers could serve in all, with messages
   that cost nothing. The faster of the last two is the *empty run*. If one takes more than 15 percent of the
   interval, all begin again with a longer one, up to ``ATTEMPTS`` times in all.
2. Warm-up: two windows with work right after them, below the predicted capacity (:mod:`.prediction`). They
   give a first guess.
3. Search, with some rates at a time: a rate is stable if a micro-batch is done before the next is due. Then
   no message waits for more than one batch, and latency does not grow.
4. Latency: a window each at 0.5 and 0.8 of the capacity, two at 0.95, one at 0.95 of key grouping's, where
   all schemes get messages at the same rate. All of their messages count.

In 3 and 4, what took longer than the paces so far explain gets another chance, in 3 one and in 4 up to two: a
stall is not the rate. A rate that was late is measured anew as a whole, and the new messages count, whatever
they say; a rate that is too high is late again. ``again`` says how many windows were.

What is late then was not a stall: the keys of a stream that drifts are now and then harder to serve than
those of the search. The capacity is lowered to what the slowest micro-batch could have, and 4 begins again
with it.

If the workers' speeds change while the query runs, a phase with other speeds follows: six windows in
which reports arrive, at a rate that is low enough for the slowest worker, then 3 and 4 again, at 0.95
only.

Loads, StdDev and (key, worker) pairs are those of the first messages of the stream, as many for each
scheme as the slowest one has served before speeds changed. ``machine_load`` is the load average before a
query.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import evenflow as ef
from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int64Array
from evenflow.papers.deployments.capacity import highest_stable
from evenflow.papers.deployments.cluster import Cluster, Messages
from evenflow.papers.deployments.flow import Batch, Flow, Timing
from evenflow.papers.deployments.lanes import (
    EMPTY_WINDOWS,
    Lanes,
    active_session,
    first_interval,
    flow_kind,
    longer_interval,
    remember,
    room,
    stop_queries,
)
from evenflow.papers.deployments.prediction import predicted_rates
from evenflow.papers.deployments.serving import Served
from evenflow.papers.experiment import Row
from evenflow.schemes.base import Scheme

LOADS = (0.5, 0.8, 0.95)  # of the capacity that was found
WINDOWS = (1, 1, 2)  # at each of them; one at key grouping's rate
FIRST = 0.7  # of the predicted capacity, for the first guess
CHANCES = 2  # of a rate to be in time, if a micro-batch took longer than its messages explain
AGAIN = 2  # times that a rate at which latency is measured is measured anew, at most, for the same reason
LOWERED = 2  # times that a capacity is lowered, at most, if messages come that are too hard for it
LATE = 0.05  # of an interval, by which messages at a rate are late
STALL = 1.04  # times what they explain
ADAPTING = 6  # windows after speeds changed
ATTEMPTS = 4  # to find an interval that is long enough

Subject = tuple[str, str, dict[str, Any]]  # label, scheme, parameters
Common = Callable[[int], float | None]  # a rate for all subjects, by the number of the phase


def streamed(
    stream: str, workers: int, sources: int, service: float, interval: float, subjects: list[Subject],
    messages: int | None = None, phases: dict[str, list[float]] | None = None, master: str | None = None,
) -> list[Row]:  # fmt: skip
    """Deploy every subject on one stream; a row for each phase and rate at which latency was measured.

    The stream repeats; of a long one, ``messages`` are taken. ``phases`` are the workers' speeds,
    by what the phase is called; without any, all are 1.
    """
    return deployed(
        Messages.of(stream, messages), Cluster(workers, sources, service), interval, subjects, phases
    )


def deployed(
    messages: Messages, cluster: Cluster, interval: float, subjects: list[Subject],
    phases: dict[str, list[float]] | None = None,
) -> list[Row]:  # fmt: skip
    """Deploy every subject on these messages, key grouping first; ``interval`` is the least one."""
    spark = active_session()
    count = max(1, min(room(spark, cluster), len(subjects)))
    speeds = phases or {"": [1.0] * cluster.workers}
    length = first_interval(spark, messages, cluster, interval, count)
    for attempt in range(1, ATTEMPTS + 1):
        trials = [Trial(cluster, messages, length, speeds, *subject) for subject in subjects]
        try:
            _run_all(spark, trials, count, last=attempt == ATTEMPTS)
            break
        except ShortIntervalError as short:
            length = short.needed
    remember(cluster, max(trial.empty_seconds for trial in trials))
    same = min(trial.phases[0].end for trial in trials)
    rows = [row | {"attempts": attempt} for trial in trials for row in trial.rows(same)]
    keys = {row.get("phase"): row for row in rows if row["scheme"] == "key"}
    return [row | _relative(row, keys[row.get("phase")]) for row in rows] if keys else rows


def _run_all(spark: Any, trials: list[Trial], count: int, last: bool) -> None:
    """Run all trials, key grouping first; with the ``last`` attempt the interval stays."""
    for trial in trials:  # not beside queries, which share the cores
        trial.predict()
    trials.sort(key=lambda trial: trial.scheme.name != "key")
    shares = trials[0].scheme.name == "key"
    lanes = Lanes(len(trials), count, len(trials[0].speeds), shares, stop=partial(stop_queries, spark))

    def run(number: int, lane: int) -> None:
        trial = trials[number]

        def together(value: float = 0.0) -> float:
            return lanes.largest(number, value)

        timing = Timing(trial.interval, lane, lanes.count)
        stays = last or number >= lanes.count  # it began later than the others
        trial.run(spark, timing, lanes.told, lanes.teller(number), together, stays)

    lanes.run(run)


class ShortIntervalError(EvenflowError):
    """A micro-batch without work takes too much of an interval; ``needed`` is a longer one."""

    def __init__(self, needed: float):
        super().__init__(f"an interval should have {needed:.2f} s")
        self.needed = needed


def _relative(row: Row, key: Row) -> Row:
    """Return the throughput relative to key grouping's, measured and predicted."""
    return {
        "of_key": row["throughput"] / key["throughput"],
        "predicted_of_key": row["predicted_throughput"] / key["predicted_throughput"],
    }


@dataclass(frozen=True)
class Level:
    """Windows at one rate, a share of the own capacity or of key grouping's: first message and end."""

    load: float
    of: str
    rate: float
    first: int
    end: int
    windows: int = 1
    again: bool = False  # measured anew, since it was late although the paces explain that it is in time


@dataclass(frozen=True)
class Phase:
    """What was found at some speeds of the workers; ``end`` is the number of messages up to then."""

    name: str
    capacity: float  # messages per second
    predicted: float
    levels: list[Level]
    end: int
    lowered: int = 0  # times that the capacity was, since messages that came later were harder


@dataclass
class Trial:
    """One subject in one configuration."""

    cluster: Cluster
    messages: Messages
    interval: float
    speeds: dict[str, list[float]]
    label: str
    name: str
    parameters: dict[str, Any]
    empty: Level = field(init=False)
    empty_seconds: float = field(init=False)
    machine_load: float = 0.0
    least: float = 0.0  # seconds of a message in a window, in the fastest one at these speeds
    predicted: list[float] = field(default_factory=list)  # by phase
    phases: list[Phase] = field(default_factory=list)
    served: Served = field(init=False)

    @property
    def scheme(self) -> Scheme:
        """The scheme; ``name`` may be an alias."""
        return ef.scheme(self.name, **self.parameters)

    def predict(self) -> None:
        """Find what its throughput should be without an engine."""
        self.predicted = predicted_rates(
            self.scheme, self.messages, self.cluster, self.interval, list(self.speeds.values())
        )

    def run(
        self, spark: Any, timing: Timing, common: Common, found: Callable[[int, float], object],
        together: Callable[..., float] = lambda value=0.0: value, last: bool = True,
    ) -> None:  # fmt: skip
        """Go through the protocol in a query of its own; ``found`` is told the capacity of each phase.

        ``together`` returns when the other trials are there, with the largest of their values.
        """
        cluster, self.machine_load = self.cluster, os.getloadavg()[0]
        self.interval = timing.interval
        with tempfile.TemporaryDirectory(prefix="evenflow-stream-", ignore_cleanup_errors=True) as folder:
            flow = flow_kind(spark)(spark, Path(folder), self.messages.keys, self.scheme, cluster.workers,
                                    cluster.sources, timing, cluster.seed)  # fmt: skip
            try:
                together()
                for number, (name, speeds) in enumerate(self.speeds.items()):
                    cost = 1 / replace(cluster, speeds=tuple(speeds)).capacity
                    warm = 2 * [self._window(FIRST * self.predicted[number])]
                    if not number:
                        self._empty(flow, cost, warm, together, last)
                    else:
                        flow.serve(cost)
                        adapting = ADAPTING * [self._window(FIRST * min(speeds) * self.predicted[number])]
                        self.least = min(map(self._pace, flow.run(*adapting, *warm)))
                    capacity = self._capacity(flow)
                    found(number, capacity)
                    shares = LOADS[-1:] if number else LOADS
                    self.phases.append(self._phase(flow, number, name, capacity, shares, common(number)))
                self.served = flow.served()
            finally:
                flow.stop()

    def _empty(
        self, flow: Flow, cost: Float64Array, warm: list[int], together: Callable[..., float], last: bool
    ) -> None:
        """Measure micro-batches without work, beside those of the other trials, and the first with work."""
        whole = self._window(float(self.cluster.capacity.sum()))
        end = flow.sent + EMPTY_WINDOWS * whole
        flow.serve(cost, after=EMPTY_WINDOWS * whole)
        batches = flow.run(*EMPTY_WINDOWS * [whole], *warm)
        empty = [batch for batch in batches if batch.end <= end]
        self.empty_seconds = min((batch.seconds for batch in empty[1:]), default=self.interval)
        self.empty = Level(0.0, "own", whole / self.interval, whole, end, EMPTY_WINDOWS - 1)
        longer = longer_interval(self.interval, together(self.empty_seconds))
        if longer is not None and not last:
            raise ShortIntervalError(longer)
        if self.empty_seconds >= self.interval:
            raise EvenflowError(
                f"a micro-batch without work takes {self.empty_seconds:.1f} s of an interval of "
                f"{self.interval:g} s; run this on a machine with less other work, or more cores."
            )
        worked = [batch for batch in batches if batch.end - batch.messages >= end] or flow.run(*warm)
        self.least = min(map(self._pace, worked))

    def _capacity(self, flow: Flow) -> float:
        """Return the highest stable rate."""
        interval = self.interval

        def stable(*rates: float) -> list[bool]:
            found = [False for _ in rates]
            trying = list(range(len(rates)))
            for _ in range(CHANCES):
                windows = [self._window(rates[number]) for number in trying]
                ends = flow.sent + np.cumsum(windows)
                done = {batch.end: batch for batch in flow.run(*windows)}
                stalls = []
                for number, size, end in zip(trying, windows, ends.tolist(), strict=True):
                    batch = done.get(end)
                    alone = batch if batch is not None and batch.messages == size else None
                    found[number] = alone is not None and alone.seconds <= interval
                    if alone is None or alone.seconds > self._explained(size):
                        stalls.append(number)
                for batch in done.values():
                    self.least = min(self.least, self._pace(batch))
                best = max((number for number, one in enumerate(found) if one), default=-1)
                trying = [number for number in stalls if number > best]
                if not trying:
                    break
            return found

        return highest_stable(stable, (interval - self.empty_seconds) / max(self.least * interval, 1e-9))

    def _pace(self, batch: Batch) -> float:
        """Return the seconds of a message in a micro-batch."""
        return (batch.seconds - self.empty_seconds) / batch.messages

    def _explained(self, messages: int) -> float:
        """Return the seconds that a micro-batch may take, by the paces so far."""
        return self.empty_seconds + STALL * self.least * messages

    def _phase(
        self, flow: Flow, number: int, name: str, capacity: float, shares: Sequence[float],
        shared: float | None,
    ) -> Phase:  # fmt: skip
        """Measure latency at shares of a capacity; of a lower one if messages that came later were harder."""

        def rates(capacity: float) -> list[tuple[float, str, float]]:
            return [(load, "own", load * capacity) for load in shares]

        same = [] if shared is None or self.scheme.name == "key" else [(LOADS[-1], "KG", LOADS[-1] * shared)]
        levels = self._levels(flow, [*rates(capacity), *same])
        own, same_rate = levels[: len(shares)], levels[len(shares) :]
        if self.scheme.name == "key":
            same_rate = [replace(own[-1], of="KG")]
        lowered = 0
        while lowered < LOWERED and (pace := self._slowest_late_pace(flow, own)):
            capacity = min(capacity, (self.interval - self.empty_seconds) / (pace * self.interval))
            own = self._levels(flow, rates(capacity))
            lowered += 1
        return Phase(name, capacity, self.predicted[number], [*own, *same_rate], flow.sent, lowered)

    def _slowest_late_pace(self, flow: Flow, levels: list[Level]) -> float:
        """Return the seconds of a message in the slowest late micro-batch of these rates; 0 if none is."""
        late = [batch for level in levels for batch in self._batches(flow, level)
                if batch.late > LATE * self.interval]  # fmt: skip
        return max(map(self._pace, late), default=0.0)

    @staticmethod
    def _batches(flow: Flow, level: Level) -> list[Batch]:
        """Return the micro-batches that have messages of a rate."""
        return [
            batch
            for batch in flow.batches
            if batch.end > level.first and batch.end - batch.messages < level.end
        ]

    def _levels(self, flow: Flow, rates: list[tuple[float, str, float]]) -> list[Level]:
        """Let messages come at some rates, and again at those that a stall made late."""
        levels = self._at_rates(flow, rates)
        for _ in range(AGAIN):
            late = [number for number, level in enumerate(levels) if self._late_by_a_stall(flow, level)]
            if not late:
                break
            for number, level in zip(late, self._at_rates(flow, [rates[n] for n in late]), strict=True):
                levels[number] = replace(level, again=True)
        return levels

    def _at_rates(self, flow: Flow, rates: list[tuple[float, str, float]]) -> list[Level]:
        """Let messages come at some rates: share of a capacity, whose, messages per second."""
        sent = flow.sent
        levels = []
        for load, of, rate in rates:
            windows = WINDOWS[LOADS.index(load)] if of == "own" else 1
            end = sent + windows * self._window(rate)
            levels.append(Level(load, of, rate, sent, end, windows))
            sent = end
        flow.run(*(self._window(level.rate) for level in levels for _ in range(level.windows)))
        return levels

    def _late_by_a_stall(self, flow: Flow, level: Level) -> bool:
        """Whether a micro-batch of a rate was late, although the paces explain that all are in time."""
        late = any(batch.late > 0 for batch in self._batches(flow, level))
        return late and self._explained(self._window(level.rate)) <= self.interval

    def rows(self, same: int) -> list[Row]:
        """Return a row for each phase and rate; loads and pairs are those of the first ``same`` messages."""
        floor = self._latency(self._of(self.empty))
        row: Row = {
            "label": self.label,
            "scheme": self.scheme.name,
            "workers": self.cluster.workers,
            "sources": self.cluster.sources,
            "service": self.cluster.service,
            "machine_load": self.machine_load,
            "empty_seconds": self.empty_seconds,
            "empty_share": self.empty_seconds / self.interval,
            "interval": self.interval,
            "floor_mean": floor["latency_mean"],
            "floor_p99": floor["latency_p99"],
        }
        balance = self._balance(self.served.where(self.served.numbers < same))
        found = []
        for number, phase in enumerate(self.phases):
            own = {
                "throughput": phase.capacity,
                "elapsed": self.messages.messages / phase.capacity,
                "predicted_throughput": phase.predicted,
                "lowered": phase.lowered,
            }
            named = {"phase": phase.name} if phase.name else {}
            costs = {} if number else {"messages": same, **balance}
            found += [row | named | own | self._at(level, floor) | costs for level in phase.levels]
        return found

    def _balance(self, served: Served) -> Row:
        """Return the loads of the workers and the (key, worker) pairs."""
        pairs = np.unique(np.stack([served.keys, served.workers]), axis=1).shape[1]
        keys = np.unique(served.keys).size
        loads: Int64Array = np.bincount(served.workers, minlength=self.cluster.workers)
        return {
            "keys": keys,
            "pairs": pairs,
            "memory": pairs / keys,
            "max_over_mean": float(loads.max() / loads.mean()),
            "standard_deviation": float(np.std(100 * loads / loads.sum())),
        }

    def _at(self, level: Level, floor: dict[str, float]) -> Row:
        """Return the latencies at a rate, and what of them is above those of the empty run.

        Late is by which share of an interval its last messages were served after the next batch was due:
        if at all, latency grows.
        """
        served = self._of(level)
        latency = self._latency(served)
        between = self.interval * level.windows / (level.end - level.first)  # two messages
        due = served.created.max() + between / 2 + self.interval
        return {
            "load": level.load,
            "of": level.of,
            "rate": level.rate,
            "late": max(0.0, float(served.finished.max() - due) / self.interval),
            "again": level.windows if level.again else 0,
            **latency,
            "above_p99": latency["latency_p99"] - floor["latency_p99"],
            "above_worker": latency["latency_worker"] - floor["latency_worker"],
        }

    def _of(self, level: Level) -> Served:
        """Return the messages of a level."""
        return self.served.where((self.served.numbers >= level.first) & (self.served.numbers < level.end))

    def _latency(self, served: Served) -> dict[str, float]:
        found = served.latencies
        p50, p95, p99 = np.quantile(found, (0.5, 0.95, 0.99))
        counts = np.bincount(served.workers)
        sums = np.bincount(served.workers, found)
        return {
            "latency_mean": float(found.mean()),
            "latency_p50": float(p50),
            "latency_p95": float(p95),
            "latency_p99": float(p99),
            "latency_worker": float((sums[counts > 0] / counts[counts > 0]).max()),
        }

    def _window(self, rate: float) -> int:
        """Return how many messages come in a window at a rate."""
        return max(1, round(rate * self.interval))
