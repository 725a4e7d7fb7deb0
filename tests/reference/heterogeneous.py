"""`heterogeneous` 4.2 and 5: consistent hashing, bounded loads, PoRC, Consistent Grouping."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable
from fractions import Fraction

import evenflow as ef
from reference.base import GOLDEN, MASK, REFERENCES, Reference, mix, reference_for


class PlainRing:
    """All points in one sorted list, found by bisection."""

    def __init__(self, workers: Iterable[int], salt: int, replicas: int, weights: list[float] | None = None):
        ids = list(workers)
        self.points = sorted(
            (mix((mix(salt ^ ((worker + 1) * GOLDEN & MASK)) + (replica + 1) * GOLDEN) & MASK), worker)
            for index, worker in enumerate(ids)
            for replica in range(max(1, round(replicas * weights[index])) if weights else replicas)
        )

    def owners(self, hashed: int) -> list[int]:
        """The owners clockwise from ``hashed`` on, once round."""
        start = bisect.bisect_left(self.points, (hashed, -1))
        return [worker for _, worker in self.points[start:] + self.points[:start]]


@reference_for("consistent-hash")
class ConsistentHashReference(Reference):
    def start(self) -> None:
        self.ring = PlainRing(range(self.n), self.salt, self.scheme.replicas)

    def choose(self, key: int, time: float) -> int:
        return self.ring.owners(mix(key ^ self.salt))[0]

    def rescale(self, workers: int) -> None:
        self.n = workers
        self.loads = (self.loads + [0] * workers)[:workers]
        self.start()


@reference_for("bounded-load")
class BoundedLoadReference(Reference):
    def start(self) -> None:
        self.ring = PlainRing(range(self.n), self.salt, self.scheme.replicas)
        self.filled = [0] * self.n

    def choose(self, key: int, time: float) -> int:
        capacity = math.ceil((1 + self.scheme.epsilon) * (sum(self.filled) + 1) / self.n)
        owners = self.ring.owners(mix(key ^ self.salt))
        worker = next(worker for worker in owners if self.filled[worker] < capacity)
        self.filled[worker] += 1
        return worker

    def rescale(self, workers: int) -> None:
        self.n = workers
        self.loads = (self.loads + [0] * workers)[:workers]
        self.start()


@reference_for("random-choices")
class RandomChoicesReference(Reference):
    def choose(self, key: int, time: float) -> int:
        capacity = math.ceil((1 + self.scheme.epsilon) * (sum(self.loads) + 1) / self.n)
        choices = [self.candidate(key, index) for index in range(4 * self.n)]
        choices += [(choices[0] + step) % self.n for step in range(1, self.n)]
        return next(worker for worker in choices if self.loads[worker] < capacity)


@reference_for("consistent")
class ConsistentGroupingReference(Reference):
    """Queues are workers in the order in which they came; a worker's virtual workers stand as it got them."""

    def __init__(self, scheme: ef.Scheme, workers: int, seed: int, source: int, sources: int):
        self.seed = seed
        super().__init__(scheme, workers, seed, source, sources)

    def start(self) -> None:
        self.idle: dict[int, bool] = {}  # who waits, in this order, and is it sure
        self.busy: dict[int, bool] = {}
        self.heard = 0
        self.said_busy: dict[int, int] = {}
        self.tried: dict[int, int] = {}
        self.virtual = self.scheme.virtual_workers * self.n
        self.has = [[v for v in range(self.virtual) if v % self.n == worker] for worker in range(self.n)]
        allocation = self.scheme.allocation
        bounded = allocation in ("random-choices", "bounded-load")
        inner = ef.scheme(allocation, **({"epsilon": self.scheme.epsilon} if bounded else {}))
        self.inner = REFERENCES[allocation](inner, self.virtual, self.seed, self.source, self.sources)

    def choose(self, key: int, time: float) -> int:
        virtual = self.inner.route_one(key, time)
        return next(worker for worker in range(self.n) if virtual in self.has[worker])

    def report(self, report: ef.WorkerReport) -> None:
        if report.signal is None:
            return
        for worker, signal in enumerate(report.signal.tolist()):
            self.heard += signal != 0
            if signal > 0:
                self.hear_busy(worker, sure=signal == 1)
            elif signal < 0:
                self.hear_idle(worker, sure=signal == -1)

    def first(self, queue: dict[int, bool], sure: bool) -> int | None:
        """Who has waited longest and may be paired: one of the two must be sure."""
        return next((worker for worker, is_sure in queue.items() if sure or is_sure), None)

    def hear_idle(self, worker: int, sure: bool) -> None:
        self.busy.pop(worker, None)
        self.idle[worker] = sure  # a worker that waits keeps its place
        giver = self.first(self.busy, sure)
        if giver is not None:
            del self.busy[giver], self.idle[worker]
            self.move(giver, worker)

    def hear_busy(self, worker: int, sure: bool) -> None:
        self.idle.pop(worker, None)
        self.said_busy[worker] = self.heard
        if len(self.has[worker]) == 1:
            self.busy.pop(worker, None)
            return
        waited = self.busy.get(worker, False)
        self.busy[worker] = sure
        target = self.first(self.idle, sure)
        if target is not None:
            del self.busy[worker], self.idle[target]
            self.move(worker, target)
        elif waited and sure and self.n > 1:
            del self.busy[worker]
            others = [(self.offset + i) % self.n for i in range(self.n)]
            others.remove(worker)
            fresh = [other for other in others if other not in self.said_busy]
            if fresh:
                target = min(fresh, key=lambda other: self.tried.get(other, 0))
            else:
                target = min(others, key=lambda other: self.said_busy[other])
            self.tried[target] = self.heard
            self.move(worker, target)

    def move(self, giver: int, taker: int) -> None:
        self.has[taker].append(self.has[giver].pop())

    def rescale(self, workers: int) -> None:
        before, self.n = self.n, workers
        self.offset = self.source * workers // self.sources
        self.loads = (self.loads + [0] * workers)[:workers]
        if workers > self.virtual:
            self.start()
            return
        had = [len(mine) for mine in self.has]
        given = [0] * workers
        for leaver in range(workers, before):
            while self.has[leaver]:
                heir = max(range(workers), key=lambda worker: Fraction(had[worker], given[worker] + 1))
                given[heir] += 1
                self.move(leaver, heir)
        self.has = (self.has + [[] for _ in range(workers)])[:workers]
        for newcomer in range(before, workers):
            while len(self.has[newcomer]) < self.virtual // workers:
                self.move(max(range(workers), key=lambda worker: len(self.has[worker])), newcomer)
        self.idle = {worker: sure for worker, sure in self.idle.items() if worker < workers}
        self.busy = {w: sure for w, sure in self.busy.items() if w < workers and len(self.has[w]) > 1}
        for book in (self.said_busy, self.tried):
            for leaver in range(workers, before):
                book.pop(leaver, None)
