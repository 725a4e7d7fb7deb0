"""`choices` III-B, IV-A and `heterogeneous` 4.3: two choices, Greedy-d, Algorithm 1 with its three heads."""

from __future__ import annotations

import math
from itertools import accumulate

from reference.base import GOLDEN, MASK, Reference, mix, reference_for
from reference.space_saving import SlowSpaceSaving


@reference_for("two-choices")
class TwoChoicesReference(Reference):
    def choose(self, key: int, time: float) -> int:
        message = sum(self.loads)
        first = self.draw(2 * message, self.n)
        if self.scheme.distinct and self.n > 1:
            others = [(first + step) % self.n for step in range(1, self.n)]
            return self.least_loaded([first, others[self.draw(2 * message + 1, self.n - 1)]])
        return self.least_loaded([first, self.draw(2 * message + 1, self.n)])

    def draw(self, number: int, n: int) -> int:
        stream = mix(self.salt ^ self.source)
        return (mix((stream + number * GOLDEN) & MASK) >> 32) * n >> 32


@reference_for("greedy-d")
class GreedyDReference(Reference):
    def choose(self, key: int, time: float) -> int:
        if self.scheme.distinct and self.scheme.choices >= self.n:
            return self.least_of_all()
        return self.least_loaded(self.candidates(key, self.scheme.choices, self.scheme.distinct))

    def least_of_all(self) -> int:
        return self.least_loaded([(self.offset + place) % self.n for place in range(self.n)])


class HeadReference(Reference):
    """Algorithm 1: a head key goes where the scheme says, a tail key to one of two."""

    def start(self) -> None:
        self.theta = self.scheme.theta or 1 / (5 * self.n)
        capacity = self.scheme.capacity
        if capacity is None:
            capacity = max(1000, 10 * self.n, math.ceil(2 / self.theta) if self.scheme.theta else 0)
        self.sketch = SlowSpaceSaving(capacity)

    def choose(self, key: int, time: float) -> int:
        count = self.sketch.count(key)
        warm = self.theta * self.sketch.total >= 1 or not self.scheme.warm_up
        if warm and count >= self.theta * self.sketch.total:
            return self.choose_for_head(key)
        return self.two_choices(key)

    def two_choices(self, key: int) -> int:
        return self.least_loaded(self.candidates(key, min(2, self.n), self.scheme.distinct))

    def all_workers(self) -> list[int]:
        return [(self.offset + place) % self.n for place in range(self.n)]

    def choose_for_head(self, key: int) -> int:
        raise NotImplementedError


@reference_for("w-choices")
class WChoicesReference(HeadReference):
    def choose_for_head(self, key: int) -> int:
        return self.least_loaded(self.all_workers())


@reference_for("round-robin-head")
class RoundRobinHeadReference(HeadReference):
    def start(self) -> None:
        super().start()
        self.turn = 0

    def choose_for_head(self, key: int) -> int:
        self.turn += 1
        return self.all_workers()[(self.turn - 1) % self.n]


def satisfied(prefixes: list[float], d: int, n: int, epsilon: float, distinct: bool) -> bool:
    """Proposition 4.1, divided by n, for every prefix of a head, given their shares of the stream.

    Where both sides are equal, rounding decides: the terms are in the router's order.
    """
    head = prefixes[-1] if prefixes else 0.0
    for h, prefix in enumerate(prefixes, start=1):
        met = 1 - (1 - d / n) ** h if distinct else 1 - (1 - 1 / n) ** (h * d)  # b / n
        load = prefix + met**d * (head - prefix) + met * met * (1 - head)
        if load > met * (1 + n * epsilon):
            return False
    return True


def choices_needed(shares: list[float], n: int, epsilon: float, distinct: bool) -> int:
    """FINDOPTIMALCHOICES, given the shares of the head's keys, most frequent first."""
    return choices_for(list(accumulate(shares)), n, epsilon, distinct)


def choices_for(prefixes: list[float], n: int, epsilon: float, distinct: bool) -> int:
    """FINDOPTIMALCHOICES: from p1 x n upwards until all constraints hold; from n on it is W-Choices."""
    d = max(2, math.ceil(prefixes[0] * n)) if prefixes else 2
    while d < n and not satisfied(prefixes, d, n, epsilon, distinct):
        d += 1
    return min(d, n)


@reference_for("d-choices")
class DChoicesReference(HeadReference):
    def start(self) -> None:
        super().start()
        self.d = min(self.scheme.choices or 2, self.n)
        self.next_look = 0
        self.solved: list[float] = []

    def choose_for_head(self, key: int) -> int:
        if self.scheme.choices is None and self.sketch.total >= self.next_look:
            self.look()
        if self.d >= self.n:
            return self.least_loaded(self.all_workers())
        return self.least_loaded(self.candidates(key, self.d, self.scheme.distinct))

    def look(self) -> None:
        total = self.sketch.total
        counts = [count for count, _ in self.sketch.head(self.theta)]
        prefixes = [messages / total for messages in accumulate(counts)]
        if self.changed(prefixes):
            self.d = choices_for(prefixes, self.n, self.scheme.epsilon, self.scheme.distinct)
            self.solved = prefixes
        self.next_look = total + min(total, self.sketch.capacity)

    def changed(self, prefixes: list[float]) -> bool:
        """More than 1 percent, in size or in the share of any prefix or of what it leaves."""
        if abs(len(prefixes) - len(self.solved)) > 0.01 * len(self.solved):
            return True
        return any(
            abs(now - then) > 0.01 * min(then, 1 - then)
            for now, then in zip(prefixes, self.solved, strict=False)
        )
