"""The simulator once more: one message at a time, in plain Python, with sets, deques and a clock."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import evenflow as ef
from evenflow.schemes.consistent import signals
from evenflow.simulator import Aggregation, Capacities, Queueing, Rescale, parse_capacities
from simulator.fakes import ListStream


@dataclass
class Job:
    arrival: float
    work: float
    source: int
    measured: bool


@dataclass
class Worker:
    """Works on the first job of its queue from ``since`` on."""

    capacity: float
    job_work: float  # as last measured
    queue: deque[Job] = field(default_factory=deque)
    since: float = 0.0
    measures: float = 0.0  # its utilisation, since
    slots: int = 0  # since then
    arrived: int = 0  # since then
    backlog: int = 0  # at that time
    given: list[float] = field(default_factory=list)  # work that came since the last report
    latencies: list[float] = field(default_factory=list)
    acknowledged: dict[int, float] = field(default_factory=dict)
    free: float = 0.0

    def measure_anew(self, now: float) -> None:
        self.measures, self.slots, self.arrived, self.backlog = now, 0, 0, len(self.queue)

    def work_until(self, now: float) -> None:
        while self.queue:
            job = self.queue[0]
            self.since = max(self.since, job.arrival)
            end = self.since + job.work / self.capacity
            if end > now:
                job.work -= max(0.0, now - self.since) * self.capacity
                self.since = max(self.since, now)
                return
            self.since = self.free = end
            self.queue.popleft()
            self.acknowledged[job.source] = end
            if job.measured:
                self.latencies.append(end - job.arrival)


class SlowSimulation:
    """Costs are constant or by key, arrivals regular or the stream's; sources take turns."""

    def __init__(
        self,
        scheme: ef.Scheme,
        stream: ListStream,
        workers: int,
        sources: int,
        seed: int,
        queueing: Queueing | None = None,
        events: Sequence[Rescale | Capacities] = (),
        aggregation: Aggregation | None = None,
        head: float | None = None,
    ):
        self.scheme: Any = scheme
        self.stream = stream
        self.ids: list[int] = stream.ids.tolist()
        self.n = workers
        self.sources = sources
        self.queueing = queueing
        self.events = events
        self.aggregation = aggregation
        self.routers = [scheme.router(workers, seed, source=i, sources=sources) for i in range(sources)]
        m = len(self.ids)
        self.counts = Counter(self.ids)
        self.hot = {key for key, count in self.counts.items() if head is not None and count >= head * m}
        most = max([workers, *(e.workers for e in events if isinstance(e, Rescale))])
        self.loads, self.head_loads, self.recent = [0] * most, [0] * most, [0] * most
        self.since_rescale = 0
        self.pairs: set[tuple[int, int]] = set()
        self.ever = 0
        self.touched: set[tuple[int, int]] = set()
        self.partials: list[int] = []
        self.imbalances: list[float] = []
        self.queue_spreads: list[int] = []
        self.crew: list[Worker] = []
        self.times = self._clock()
        if queueing is not None:
            self._hire(queueing, most)
        self.mail: list[tuple[float, int, ef.WorkerReport]] = []
        self.reports = 0
        self.said: dict[tuple[int, int], int] = {}  # (worker, source) -> signal not yet heard
        self.slot_began, self.read_at, self.decided = 0, 0, 0.0
        self.marks = {k * m // 100 for k in range(1, 101)} - {0}

    def _clock(self) -> list[float] | None:
        if self.stream.times is not None and (self.queueing is None or self.queueing.rate is None):
            return [float(time - self.stream.times[0]) for time in self.stream.times]
        if self.queueing is None:
            return None
        return [i / (self.queueing.rate or 1e4) for i in range(len(self.ids))]

    def _hire(self, queueing: Queueing, most: int) -> None:
        factors = [1.0] * (max(self.ids) + 1) if queueing.key_cost is None else queueing.key_cost
        self.work = [queueing.cost * float(factor) for factor in factors]
        self.mean_work = sum(self.work[key] for key in self.ids) / len(self.ids)
        rate = queueing.rate or 1e4
        if queueing.rate is None and self.stream.times is not None:
            rate = len(self.ids) / float(self.stream.times[-1] - self.stream.times[0])
        capacities = queueing.capacities(self.n).tolist()
        self.scale = 1.0
        if queueing.load is not None:
            self.scale = rate * self.mean_work / (queueing.load * sum(capacities))
        capacities += [1.0] * (most - self.n)
        self.crew = [Worker(self.scale * capacity, self.mean_work) for capacity in capacities]

    def run(self) -> SlowSimulation:
        for i, key in enumerate(self.ids):
            now = self.times[i] if self.times is not None else 0.0
            for event in self.events:
                if event.at == i:
                    self.happen(event, now)
            if self.queueing is not None:
                if hasattr(self.scheme, "slot"):
                    self.signal(i, now)
                elif self.scheme.needs_reports:
                    self.report(now)
                self.deliver(now)
            self.send(i, key, now)
            self.look(i + 1, now)
        for worker in self.crew:
            worker.work_until(math.inf)
        return self

    def happen(self, event: Rescale | Capacities, now: float) -> None:
        for worker in self.crew:
            worker.work_until(now)
        if isinstance(event, Rescale):
            for router in self.routers:
                router.rescale(event.workers)
            for worker in self.crew[self.n : event.workers]:
                worker.capacity, worker.job_work = self.scale, self.mean_work
                worker.measure_anew(now)
            self.n = event.workers
            self.pairs = {pair for pair in self.pairs if pair[1] < self.n}
            self.said = {pair: signal for pair, signal in self.said.items() if pair[0] < self.n}
            self.recent, self.since_rescale = [0] * len(self.recent), 0
        if event.capacities is not None:
            for w, capacity in enumerate(parse_capacities(event.capacities, self.n)):
                self.crew[w].capacity = self.scale * float(capacity)

    def signal(self, i: int, now: float) -> None:
        assert self.queueing is not None
        length = self.scheme.slot * self.n
        every = self.queueing.acknowledge_every or max(1, length // 10)
        over = i >= self.slot_began + length
        if over or (self.said and i >= self.read_at + every):
            self.hear(now)
            self.read_at = i
        if over:
            says = signals(
                np.array([float(worker.arrived) for worker in self.crew[: self.n]]),
                np.array([float(worker.backlog) for worker in self.crew[: self.n]]),
                np.array([worker.capacity / self.mean_work for worker in self.crew[: self.n]]),
                np.array([now - worker.measures for worker in self.crew[: self.n]]),
                self.scheme.idle,
                self.scheme.busy,
                self.scheme.certainty,
            )
            self.said = {
                (w, s): int(says[w]) for w in range(self.n) for s in range(self.sources) if says[w] != 0
            }
            self.slot_began, self.read_at, self.decided = i, i, now
            for worker, signal in zip(self.crew, says, strict=False):
                worker.slots += 1
                if abs(signal) == 1 or worker.slots >= self.scheme.patience:
                    worker.measure_anew(now)

    def hear(self, now: float) -> None:
        for worker in self.crew:
            worker.work_until(now)
        for source in range(self.sources):
            heard = np.zeros(self.n, np.int8)
            for w in range(self.n):
                if (w, source) in self.said and self.crew[w].acknowledged.get(source, -1.0) > self.decided:
                    heard[w] = self.said.pop((w, source))
            if heard.any():
                self.mail.append((now, source, ef.WorkerReport(time=now, signal=heard)))

    def report(self, now: float) -> None:
        interval = getattr(self.scheme, "interval", 10.0)
        if (self.reports + 1) * interval > now:
            return
        while (self.reports + 1) * interval <= now:
            self.reports += 1
        time = self.reports * interval
        for worker in self.crew:
            worker.work_until(time)
            if worker.given:
                worker.job_work = sum(worker.given) / len(worker.given)
                worker.given = []
        present = self.crew[: self.n]
        report = ef.WorkerReport(
            time=time,
            backlog=np.array([float(len(worker.queue)) for worker in present]),
            seconds_per_message=np.array([worker.job_work / worker.capacity for worker in present]),
            capacity=np.array([worker.capacity / self.mean_work for worker in present]),
        )
        self.mail += [(time, source, report) for source in range(self.sources)]

    def deliver(self, now: float) -> None:
        assert self.queueing is not None
        delay = self.queueing.feedback_delay
        for time, source, report in self.mail:
            if time + delay <= now:
                self.routers[source].report(self.fitting(report))
        self.mail = [letter for letter in self.mail if letter[0] + delay > now]

    def fitting(self, report: ef.WorkerReport) -> ef.WorkerReport:
        """A report sent before a rescale: signals of who is still there, backlogs not at all."""
        if report.signal is not None:
            signal = np.zeros(self.n, np.int8)
            for w in range(min(self.n, report.signal.size)):
                signal[w] = report.signal[w]
            return ef.WorkerReport(report.time, signal=signal)
        fits = report.backlog is not None and report.backlog.size == self.n
        return report if fits else ef.WorkerReport(report.time)

    def send(self, i: int, key: int, now: float) -> None:
        source = i % self.sources
        clock = np.array([now]) if self.times is not None else None
        worker = int(self.routers[source].route(self.stream._hashes[[key]], clock)[0])
        self.loads[worker] += 1
        self.recent[worker] += 1
        self.since_rescale += 1
        self.head_loads[worker] += key in self.hot
        self.ever += (key, worker) not in self.pairs
        self.pairs.add((key, worker))
        self.touched.add((key, worker))
        if self.queueing is not None:
            there = self.crew[worker]
            there.work_until(now)
            there.queue.append(Job(now, self.work[key], source, i >= self.queueing.warm_up))
            there.arrived += 1
            there.given.append(self.work[key])

    def look(self, messages: int, now: float) -> None:
        if messages in self.marks:
            mean = self.since_rescale / self.n
            self.imbalances.append((max(self.recent[: self.n]) - mean) / self.since_rescale)
            for worker in self.crew:
                worker.work_until(now)
            lengths = [len(worker.queue) for worker in self.crew[: self.n]]
            self.queue_spreads += [max(lengths) - min(lengths)] if lengths else []
        if self.aggregation is not None and (
            messages % self.aggregation.every == 0 or messages == len(self.ids)
        ):
            self.partials.append(len(self.touched))
            self.touched = set()
