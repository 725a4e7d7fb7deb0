"""`functions` (Gedik): lossy counting, sliding and not."""

from __future__ import annotations

import math
from fractions import Fraction


class Lossy:
    """Lossy counting with buckets of ``width`` messages; without a width nothing ever leaves."""

    def __init__(self, width: Fraction | int | None):
        self.width = width
        self.messages = 0
        self.entries: dict[int, tuple[int, int]] = {}  # key: (count, error)

    def closed(self) -> int:
        return 0 if self.width is None else math.floor(self.messages / self.width)

    def evict(self) -> None:
        bucket = self.closed()
        self.entries = {key: (c, e) for key, (c, e) in self.entries.items() if c + e > bucket}

    def count(self, key: int) -> None:
        before = self.closed()
        count, error = self.entries.get(key, (0, before))
        self.entries[key] = (count + 1, error)
        self.messages += 1
        if self.closed() > before:
            self.evict()


class SlidingLossy:
    """x lossy counters that start a step apart; the oldest one answers."""

    def __init__(self, epsilon: float, window: int, counters: int):
        self.step = math.ceil(window / (counters - 1))
        self.most = counters
        self.width = self.width_for(epsilon)
        self.messages = 0
        self.counters = [Lossy(self.width)]

    def width_for(self, epsilon: float) -> Fraction | None:
        buckets = math.floor(self.step * epsilon)
        return Fraction(self.step, buckets) if buckets else None

    @property
    def oldest(self) -> Lossy:
        return self.counters[0]

    def count(self, key: int) -> None:
        for counter in self.counters:
            counter.count(key)
        self.messages += 1
        if self.messages % self.step == 0:
            self.counters.append(Lossy(self.width))
            self.counters = self.counters[-self.most :]

    def set_epsilon(self, epsilon: float) -> None:
        self.width = self.width_for(epsilon)
        for counter in self.counters:
            counter.width = self.width
            counter.evict()
