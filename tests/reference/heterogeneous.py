"""`heterogeneous` 4.2 and 5: consistent hashing, bounded loads, PoRC, Consistent Grouping."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable

from reference.base import GOLDEN, MASK, Reference, mix, reference_for


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
        for index in range(4 * self.n):
            worker = self.candidate(key, index)
            if self.loads[worker] < capacity:
                return worker
        return self.least_loaded(list(range(self.n)))
