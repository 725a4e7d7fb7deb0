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
from evenflow.simulate import Aggregation, Capacities, Queueing, Rescale
from simulate.fakes import ListStream


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
    queue: deque[Job] = field(default_factory=deque)
    since: float = 0.0
    busy: float = 0.0
    finished: list[tuple[float, Job]] = field(default_factory=list)
    acknowledged: dict[int, float] = field(default_factory=dict)

    def work_until(self, now: float) -> None:
        while self.queue:
            job = self.queue[0]
            self.since = max(self.since, job.arrival)
            end = self.since + job.work / self.capacity
            if end > now:
                done = max(0.0, now - self.since)
                job.work -= done * self.capacity
                self.busy += done
                self.since = max(self.since, now)
                return
            self.busy += end - self.since
            self.since = end
            self.finished.append((end, self.queue.popleft()))
            self.acknowledged[job.source] = end


def fitting(report: ef.WorkerReport, n: int) -> ef.WorkerReport:
    """A report sent before a rescale: signals of who is still there, backlogs not at all."""
    if report.signal is not None:
        signal = np.zeros(n, np.int8)
        for w in range(min(n, report.signal.size)):
            signal[w] = report.signal[w]
        return ef.WorkerReport(report.time, signal=signal)
    if report.backlog is not None and report.backlog.size == n:
        return report
    return ef.WorkerReport(report.time)


def slow_simulate(
    scheme: ef.Scheme,
    stream: ListStream,
    workers: int,
    sources: int,
    seed: int,
    queueing: Queueing | None = None,
    events: Sequence[Rescale | Capacities] = (),
    aggregation: Aggregation | None = None,
    head: float | None = None,
) -> dict[str, Any]:
    """Return the simulator's numbers; costs are constant or by key, arrivals regular or the stream's."""
    ids = stream.ids.tolist()
    m = len(ids)
    origin = stream.times[0] if stream.times is not None else 0.0
    rate = 1e4
    if queueing is not None:
        rate = queueing.rate or (m / (stream.times[-1] - origin) if stream.times is not None else 1e4)
    given = stream.times is not None and (queueing is None or queueing.rate is None)
    times = [float(t - origin) if given else i / rate for i, t in enumerate(stream.times if given else ids)]  # type: ignore[arg-type]
    routers = [scheme.router(workers, seed, source=i, sources=sources) for i in range(sources)]
    factor = (
        queueing.key_cost
        if queueing is not None and queueing.key_cost is not None
        else [1.0] * (max(ids) + 1)
    )
    cost = queueing.cost if queueing is not None else 1.0
    mean_work = sum(cost * factor[key] for key in ids) / m
    most = max([workers, *(e.workers for e in events if isinstance(e, Rescale))])
    scale = 1.0
    crew: list[Worker] = []
    if queueing is not None:
        capacities = queueing.capacities(workers).tolist()
        if queueing.load is not None:
            scale = rate * mean_work / (queueing.load * sum(capacities))
        crew = [Worker(scale * c) for c in capacities] + [Worker(scale) for _ in range(most - workers)]
    counts = Counter(ids)
    hot = {key for key, count in counts.items() if head is not None and count >= head * m}
    n = workers
    loads, head_loads, recent = [0] * most, [0] * most, [0] * most
    since_rescale = 0
    pairs: set[tuple[int, int]] = set()
    ever = 0
    touched: set[tuple[int, int]] = set()
    partials: list[int] = []
    imbalances: list[float] = []
    queue_spreads: list[int] = []
    marks = {k * m // 100 for k in range(1, 101)} - {0}
    slot = {"began": 0, "time": 0.0, "decided": -1.0, "read": 0}
    said: dict[tuple[int, int], int] = {}
    arrived, backlog = [0] * most, [0] * most
    mail: list[tuple[float, int, ef.WorkerReport]] = []
    reports = 0
    own_work = [mean_work for _ in crew]
    given_out = [[0.0, 0] for _ in crew]
    for i, key in enumerate(ids):
        now = times[i]
        for event in events:
            if event.at != i:
                continue
            for worker in crew:
                worker.work_until(now)
            if isinstance(event, Rescale):
                for router in routers:
                    router.rescale(event.workers)
                for w in range(n, event.workers):
                    if crew:
                        crew[w].capacity = scale
                        own_work[w] = mean_work
                n = event.workers
                pairs = {pair for pair in pairs if pair[1] < n}
                recent, since_rescale = [0] * most, 0
                said = {pair: signal for pair, signal in said.items() if pair[0] < n}
            if event.capacities is not None:
                for w, capacity in enumerate(event.capacities):
                    crew[w].capacity = scale * capacity  # type: ignore[operator]
        if queueing is not None and hasattr(scheme, "slot"):
            length = scheme.slot * n
            every = queueing.acknowledge_every or max(1, length // 10)
            ends = i >= slot["began"] + length
            if ends or (said and i >= slot["read"] + every):
                for worker in crew:
                    worker.work_until(now)
                for source in range(sources):
                    heard = np.zeros(n, np.int8)
                    for w in range(n):
                        if crew[w].acknowledged.get(source, -1.0) > slot["decided"] and (w, source) in said:
                            heard[w] = said.pop((w, source))
                    if heard.any():
                        mail.append((now, source, ef.WorkerReport(time=now, signal=heard)))
                slot["read"] = i
            if ends:
                says = signals(
                    np.array(arrived[:n], float),
                    np.array(backlog[:n], float),
                    np.array([worker.capacity / mean_work for worker in crew[:n]]),
                    now - slot["time"],
                    scheme.idle,  # type: ignore[attr-defined]
                    scheme.busy,  # type: ignore[attr-defined]
                )
                said = {(w, s): int(says[w]) for w in range(n) for s in range(sources) if says[w]}
                slot = {"began": i, "time": now, "decided": now, "read": i}
                arrived, backlog = [0] * most, [len(worker.queue) for worker in crew]
        if queueing is not None and hasattr(scheme, "interval") and (reports + 1) * scheme.interval <= now:
            while (reports + 1) * scheme.interval <= now:
                reports += 1
            time = reports * scheme.interval
            for w, member in enumerate(crew):
                member.work_until(time)
                own_work[w] = given_out[w][0] / given_out[w][1] if given_out[w][1] else own_work[w]
                given_out[w] = [0.0, 0]
            lengths = np.array([len(member.queue) for member in crew[:n]], float)
            seconds = np.array(
                [work / member.capacity for work, member in zip(own_work, crew, strict=True)][:n]
            )
            for source in range(sources):
                mail.append((time, source, ef.WorkerReport(time, lengths, seconds)))
        delay = queueing.feedback_delay if queueing is not None else 0.0
        for time, source, report in mail:
            if time + delay <= now:
                routers[source].report(fitting(report, n))
        mail = [letter for letter in mail if letter[0] + delay > now]
        source = i % sources
        clock = np.array([now]) if given or queueing is not None else None
        worker = int(routers[source].route(stream._hashes[[key]], clock)[0])
        loads[worker] += 1
        recent[worker] += 1
        since_rescale += 1
        head_loads[worker] += key in hot
        ever += (key, worker) not in pairs
        pairs.add((key, worker))
        touched.add((key, worker))
        if crew:
            crew[worker].work_until(now)
            crew[worker].queue.append(Job(now, cost * factor[key], source, i >= queueing.warm_up))  # type: ignore[union-attr]
            arrived[worker] += 1
            given_out[worker][0] += cost * factor[key]
            given_out[worker][1] += 1
        if i + 1 in marks:
            imbalances.append((max(recent[:n]) - since_rescale / n) / since_rescale)
            for member in crew:
                member.work_until(now)
            if crew:
                lengths = [len(member.queue) for member in crew[:n]]
                queue_spreads.append(max(lengths) - min(lengths))
        if aggregation is not None and ((i + 1) % aggregation.every == 0 or i + 1 == m):
            partials.append(len(touched))
            touched = set()
    for member in crew:
        member.work_until(math.inf)
    done = [(end - job.arrival, job.measured) for member in crew for end, job in member.finished]
    latencies = sorted(latency for latency, measured in done if measured)
    makespan = max((end for member in crew for end, _ in member.finished), default=0.0)
    return {
        "loads": loads,
        "head": head_loads,
        "imbalance_over_time": imbalances,
        "replicas": ever,
        "keys": len(counts),
        "partials": partials,
        "queue_spread": queue_spreads,
        "busy": [member.busy for member in crew],
        "makespan": makespan,
        "latencies": latencies,
        "worker_latency": [
            [end - job.arrival for end, job in member.finished if job.measured] for member in crew
        ],
    }
