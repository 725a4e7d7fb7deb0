"""Feedback from the workers to the sources, and when it arrives; only with queueing.

There are two kinds, depending on what a scheme with ``needs_reports`` declares:

* With ``busy_signals`` (CG, `heterogeneous` 5.3), each worker chooses its signal (busy, idle, none) every
  ``slot x workers`` messages, by its utilisation since its last sure signal or, after ``patience`` slots
  without one, since it began to measure anew. It is sent with acknowledgements: a source receives it once
  that worker has finished one of its messages since then. Sources read their acknowledgements every
  ``acknowledge_every`` messages. A signal that was not sent by the next slot is replaced by the next one.
* Otherwise all sources get the workers' backlogs, measured seconds per message and capacities every
  ``report_interval`` seconds, and use of it what their scheme uses: FISH (`evolving` 4.2) samples the seconds
  and infers the backlogs.

Both are delayed by ``feedback_delay`` seconds. What is due at time t happens before the first message that
arrives at t or later.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from evenflow.kernels import Int64Array
from evenflow.schemes.base import BusySignals, Router, Scheme, WorkerReport
from evenflow.schemes.consistent import signals
from evenflow.schemes.coordination import NEVER
from evenflow.simulator.queueing import Queues

READS_PER_SLOT = 10


class Feedback(Protocol):
    """Feedback to the sources; ``before`` is called when ``next_message`` or ``next_time`` is reached."""

    @property
    def next_message(self) -> int:
        """The message before which something is due."""

    @property
    def next_time(self) -> float:
        """The time at which something is due."""

    def before(self, message: int, now: float) -> None:
        """Do what is due before ``message``, which arrives at ``now``."""

    def rescaled(self, workers: int) -> None:
        """Change the number of workers."""


class _Mail:
    """Reports in transit: a heap by time of arrival, then by order of sending."""

    def __init__(self, routers: Sequence[Router], delay: float):
        self.routers = routers
        self.delay = delay
        self._heap: list[tuple[float, int, int, WorkerReport]] = []
        self._sent = 0

    def send(self, source: int, report: WorkerReport) -> None:
        heapq.heappush(self._heap, (report.time + self.delay, self._sent, source, report))
        self._sent += 1

    @property
    def next_time(self) -> float:
        return self._heap[0][0] if self._heap else float("inf")

    def deliver(self, now: float) -> None:
        while self._heap and self._heap[0][0] <= now:
            _, _, source, report = heapq.heappop(self._heap)
            self.routers[source].report(_for(report, self.routers[source].workers))


def _for(report: WorkerReport, workers: int) -> WorkerReport:
    """Adapt a report sent before a rescale to ``workers`` workers; nothing is known of new ones."""
    sizes = {len(v) for v in (report.backlog, report.signal) if v is not None}
    if sizes <= {workers}:
        return report
    if report.signal is None:
        return WorkerReport(time=report.time)  # the next report covers all of them
    signal = np.zeros(workers, np.int8)
    stay = min(workers, report.signal.size)
    signal[:stay] = report.signal[:stay]
    return WorkerReport(time=report.time, signal=signal)


class Reports:
    """Backlogs and speeds, sent periodically to every source."""

    next_message = NEVER

    def __init__(self, scheme: Scheme, routers: Sequence[Router], queues: Queues, work: float):
        self.interval = float(scheme.report_interval)
        self.queues = queues
        self.work = work
        self.workers = routers[0].workers
        self.mail = _Mail(routers, queues.queueing.feedback_delay)
        self._made = 0  # periods reported so far
        self._before = (queues.state.work.copy(), queues.state.arrived.copy())
        self._work = np.full(
            queues.state.work.size, work
        )  # work of a message, as last measured by each worker

    @property
    def next_time(self) -> float:
        """The time at which the next report is made or arrives."""
        return min((self._made + 1) * self.interval, self.mail.next_time)

    def before(self, message: int, now: float) -> None:
        """Make the report that is due, if any; after a long gap only the latest."""
        if (self._made + 1) * self.interval <= now:
            self._made = max(self._made + 1, int(now / self.interval) - 1)
            while (self._made + 1) * self.interval <= now:
                self._made += 1
            self._report(self._made * self.interval)
        self.mail.deliver(now)

    def _report(self, time: float) -> None:
        self.queues.settle(time)
        state = self.queues.state
        work, arrived = state.work - self._before[0], state.arrived - self._before[1]
        self._before = (state.work.copy(), state.arrived.copy())
        served = arrived > 0
        self._work[served] = work[served] / arrived[served]
        n = self.workers
        for source in range(len(self.mail.routers)):
            self.mail.send(
                source,
                WorkerReport(
                    time=time,
                    backlog=state.length[:n].astype(np.float64),
                    seconds_per_message=(self._work / state.capacity)[:n],
                    capacity=state.capacity[:n] / self.work,
                ),
            )

    def rescaled(self, workers: int) -> None:
        """Report on ``workers`` workers from now on."""
        self._work[self.workers : workers] = self.work
        self.workers = workers


class Signals:
    """Busy and idle signals per slot, sent with acknowledgements."""

    def __init__(self, rule: BusySignals, routers: Sequence[Router], queues: Queues, work: float):
        self.rule = rule
        self.queues = queues
        self.work = work
        self.mail = _Mail(routers, queues.queueing.feedback_delay)
        self._slot_began = 0
        size = queues.state.capacity.size
        self._since = np.zeros(size)  # by worker: when it began to measure
        self._slots = np.zeros(size, np.int64)  # that have ended since then
        self._arrived = np.zeros(size, np.int64)  # messages up to then
        self._backlog = np.zeros(size, np.int64)  # waiting then
        self._decided_at = 0.0
        self.workers = 0
        self._pending = np.zeros(
            (len(routers), queues.state.capacity.size), np.int8
        )  # signals not yet received
        self._read_at = 0
        self.rescaled(routers[0].workers)

    def rescaled(self, workers: int) -> None:
        """Take signals of ``workers`` workers from now on; those that join begin to measure."""
        self._measure_anew(np.arange(self.workers, workers), self.queues.now)
        self.workers = workers
        self._pending[:, workers:] = 0
        self._slot = int(self.rule.slot) * workers
        self._every = self.queues.queueing.acknowledge_every or max(1, self._slot // READS_PER_SLOT)

    @property
    def next_message(self) -> int:
        """The message before which a slot ends or acknowledgements are read."""
        waiting = self._pending.any()
        return min(self._slot_began + self._slot, self._read_at + self._every if waiting else NEVER)

    @property
    def next_time(self) -> float:
        """The time at which a delayed signal arrives."""
        return self.mail.next_time

    def before(self, message: int, now: float) -> None:
        """Read acknowledgements, then end the slot if it is over."""
        slot_ends = message >= self._slot_began + self._slot
        if slot_ends or (self._pending.any() and message >= self._read_at + self._every):
            self.queues.settle(now)
            self._read(message, now)
        if slot_ends:
            self._decide(message, now)
        self.mail.deliver(now)

    def _read(self, message: int, now: float) -> None:
        self._read_at = message
        sources = len(self.mail.routers)
        finished = self.queues.state.acknowledged.reshape(-1, sources).T
        sent = np.where(finished > self._decided_at, self._pending, np.int8(0))
        for source in np.flatnonzero(sent.any(axis=1)):
            self.mail.send(int(source), WorkerReport(time=now, signal=sent[source, : self.workers].copy()))
        self._pending[sent != 0] = 0

    def _decide(self, message: int, now: float) -> None:
        state, n, rule = self.queues.state, self.workers, self.rule
        signal = signals(
            (state.arrived - self._arrived)[:n].astype(np.float64),
            self._backlog[:n].astype(np.float64),
            state.capacity[:n] / self.work,
            now - self._since[:n],
            rule.idle,
            rule.busy,
            rule.certainty,
        )
        self._pending[:, :n] = signal
        self._slots[:n] += 1
        sure = np.abs(signal) == 1
        self._measure_anew(np.flatnonzero(sure | (self._slots[:n] >= rule.patience)), now)
        self._slot_began = message
        self._decided_at = now
        self._read_at = message

    def _measure_anew(self, workers: Int64Array, now: float) -> None:
        state = self.queues.state
        self._since[workers] = now
        self._slots[workers] = 0
        self._arrived[workers] = state.arrived[workers]
        self._backlog[workers] = state.length[workers]


def feedback_for(
    scheme: Scheme, routers: Sequence[Router], queues: Queues | None, work: float
) -> Feedback | None:
    """Return the feedback for ``routers``, or None if the scheme uses none or there are no queues."""
    if queues is None or not scheme.needs_reports:
        return None
    if scheme.busy_signals is not None:
        return Signals(scheme.busy_signals, routers, queues, work)
    return Reports(scheme, routers, queues, work)
