"""`evolving` (FISH): Algorithms 1-3 in plain Python, and the counting of Algorithm 1 by itself."""

from __future__ import annotations

import bisect
import math
from fractions import Fraction

import evenflow as ef
from evenflow.schemes.head import counters_for
from reference.base import GOLDEN, MASK, Reference, mix, reference_for
from reference.heterogeneous import PlainRing


class PlainEpochs:
    """Algorithm 1: K as two parallel lists, a key's place in them being its entry."""

    def __init__(self, capacity: int, epoch: int, decay: float):
        self.capacity, self.epoch, self.decay = capacity, epoch, decay
        self.keys: list[int] = []
        self.counts: list[float] = []
        self.total = 0.0
        self.messages = 0
        self.in_epoch = 0

    def due(self) -> bool:
        return self.in_epoch == self.epoch

    def close(self) -> None:
        self.counts = [count * self.decay for count in self.counts]
        self.total *= self.decay
        self.in_epoch = 0

    def count(self, key: int) -> tuple[int, bool]:
        """Count a message; return its entry and whether the key is new there."""
        self.total += 1
        self.messages += 1
        self.in_epoch += 1
        fresh = key not in self.keys
        if fresh and len(self.keys) < self.capacity:
            self.keys.append(key)
            self.counts.append(0.0)
        elif fresh:
            self.keys[self.counts.index(min(self.counts))] = key
        entry = self.keys.index(key)
        self.counts[entry] += 1.0
        return entry, fresh


@reference_for("fish")
class FishReference(Reference):
    def start(self) -> None:
        scheme = self.scheme
        self.sketch = PlainEpochs(
            counters_for(self.n, scheme.capacity, scheme.theta),
            scheme.epoch,
            scheme.decay if scheme.epochs else 1.0,
        )
        self.widths: dict[int, int] = {}
        self.least = scheme.least_choices or 2
        seconds = scheme.seconds_per_message or self.n / scheme.rate
        self.C = [0.0] * self.n
        self.N = [0.0] * self.n
        self.P = [self.sources * seconds] * self.n
        self.served = [0.0] * self.n  # the part of a message
        self.looked = self.latest = 0.0
        self.ring = PlainRing(range(self.n), self.salt, scheme.replicas)

    def worker_at(self, key: int, index: int) -> int:
        if not self.scheme.ring:
            return self.candidate(key, index)
        hashed = mix(key ^ ((self.salt + index * GOLDEN) & MASK))
        place = bisect.bisect_left(self.ring.points, (hashed, -1))
        return self.ring.points[place % len(self.ring.points)][1]

    def candidates_of(self, key: int, d: int) -> list[int]:
        if d >= self.n > 2:
            return [(self.offset + place) % self.n for place in range(self.n)]
        found: list[int] = []
        index = 0
        while len(found) < min(d, self.n):
            worker = self.worker_at(key, index)
            if worker not in found:
                found.append(worker)
            index += 1
        return found

    @property
    def theta(self) -> float:
        return self.scheme.theta_for(self.n)

    def hot(self) -> list[float]:
        """Counts of the hot keys, by entry; none before 1/theta messages."""
        if self.theta * self.sketch.messages < 1:
            return []
        return [count for count in self.sketch.counts if count > self.theta * self.sketch.total]

    def end_epoch(self) -> None:
        if self.theta * self.sketch.messages >= 1 and not self.scheme.least_choices:
            head, total = self.hot(), self.sketch.total
            if self.scheme.choices == "d-choices":
                needed = choices_needed(sorted(head, reverse=True), total, self.n, self.scheme.epsilon)
                self.least = max(2, needed)
            else:
                share = sum(head) / total
                self.least = max(2, math.ceil(self.n * share / len(head))) if head else 2
        self.sketch.close()

    def classify(self, entry: int) -> int:
        """Algorithm 2."""
        count = self.sketch.counts[entry]
        if self.theta * self.sketch.messages < 1 or not count > self.theta * self.sketch.total:
            return 2
        if self.scheme.choices == "w-choices":
            return self.n
        least = min(self.n, self.least)
        if self.scheme.choices == "d-choices":
            return least
        ratio = Fraction(max(self.sketch.counts)) / Fraction(count)
        index = math.floor(ratio).bit_length() - 1  # floor(log2(ratio)), exactly
        self.widths[entry] = max(self.widths.get(entry, 0), self.n // 2**index, least)
        return self.widths[entry]

    def wait(self, worker: int) -> float:
        if self.scheme.assignment == "counts":
            return self.loads[worker]
        return (self.C[worker] + self.N[worker]) * self.P[worker]

    def look(self, time: float) -> None:
        """Algorithm 3, lines 4-10, with whole messages and the time that has passed."""
        if time - self.looked > self.scheme.interval:
            for worker in range(self.n):
                served = self.served[worker] + (time - self.looked) / self.P[worker]
                left = self.C[worker] + self.N[worker] - math.floor(served)
                self.C[worker], self.N[worker] = max(0.0, left), 0.0
                self.served[worker] = served - math.floor(served) if left > 0 else 0.0
            self.looked = time

    def choose(self, key: int, time: float) -> int:
        self.latest = time
        self.look(time)
        if self.sketch.due():
            self.end_epoch()
        entry, fresh = self.sketch.count(key)
        if fresh:
            self.widths.pop(entry, None)
        worker = min(self.candidates_of(key, self.classify(entry)), key=self.wait)
        self.N[worker] += 1
        return worker

    def report(self, report: ef.WorkerReport) -> None:
        if report.seconds_per_message is not None:
            self.P = [self.sources * float(seconds) for seconds in report.seconds_per_message]
        if report.backlog is not None:
            self.C = [round(float(b) / self.sources * 2**20) / 2**20 for b in report.backlog]
            self.N, self.served = [0.0] * self.n, [0.0] * self.n
            self.looked = max(self.latest, report.time)

    def rescale(self, workers: int) -> None:
        mean = math.fsum(self.P) / self.n
        self.loads = (self.loads + [0] * workers)[:workers]
        self.C = (self.C + [0.0] * workers)[:workers]
        self.N = (self.N + [0.0] * workers)[:workers]
        self.P = (self.P + [mean] * workers)[:workers]
        self.served = (self.served + [0.0] * workers)[:workers]
        self.n = workers
        self.offset = self.source * workers // self.sources
        self.ring = PlainRing(range(workers), self.salt, self.scheme.replicas)


def choices_needed(head: list[float], total: float, n: int, epsilon: float) -> int:
    """The smallest d >= 2 that satisfies Prop. 4.1 of `choices` for every prefix of the head, or n."""
    shares = []
    messages = 0.0
    for count in head:
        messages += count
        shares.append(messages / total)
    d = max(2, math.ceil(shares[0] * n)) if head else 2
    while d < n:
        met = [1 - (1 - d / n) ** (h + 1) for h in range(len(head))]
        loads = [
            share + b**d * (shares[-1] - share) + b * b * (1 - shares[-1])
            for share, b in zip(shares, met, strict=True)
        ]
        if all(load <= b * (1 + n * epsilon) for load, b in zip(loads, met, strict=True)):
            return d
        d += 1
    return n
