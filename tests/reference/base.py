"""What a reference router is, and the hash family in plain Python integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import evenflow as ef

MASK = 0xFFFFFFFFFFFFFFFF
GOLDEN = 0x9E3779B97F4A7C15

REFERENCES: dict[str, type[Reference]] = {}


def mix(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def salt_of(seed: int) -> int:
    return mix((seed * GOLDEN + GOLDEN) & MASK)


class Reference:
    """One source's router, deciding message by message."""

    def __init__(self, scheme: ef.Scheme, workers: int, seed: int, source: int, sources: int):
        self.scheme: Any = scheme
        self.n = workers
        self.salt = salt_of(seed)
        self.source = source
        self.sources = sources
        self.offset = source * workers // sources
        self.loads = [0] * workers
        self.start()

    def start(self) -> None:
        """Set up what the scheme needs besides loads."""

    def candidate(self, key: int, index: int, n: int | None = None) -> int:
        hashed = mix(key ^ ((self.salt + index * GOLDEN) & MASK))
        return ((hashed >> 32) * (n or self.n)) >> 32

    def candidates(self, key: int, count: int, distinct: bool, n: int | None = None) -> list[int]:
        found: list[int] = []
        index = 0
        while len(found) < count:
            worker = self.candidate(key, index, n)
            index += 1
            if not (distinct and worker in found):
                found.append(worker)
        return found

    def least_loaded(self, workers: list[int]) -> int:
        """The lowest load; among equals the first."""
        return min(workers, key=lambda worker: self.loads[worker])

    def choose(self, key: int, time: float) -> int:
        raise NotImplementedError

    def route_one(self, key: int, time: float = 0.0) -> int:
        worker = self.choose(key, time)
        self.loads[worker] += 1
        return worker

    def report(self, report: ef.WorkerReport) -> None:
        """Take feedback."""

    def rescale(self, workers: int) -> None:
        raise NotImplementedError


def reference_for(name: str) -> Callable[[type[Reference]], type[Reference]]:
    def add(kind: type[Reference]) -> type[Reference]:
        REFERENCES[name] = kind
        return kind

    return add
