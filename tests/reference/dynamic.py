"""`dynamic` (DKG): the key space (Algorithms 1-3) and the choice of a worker (Algorithms 4-6)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from reference.base import Reference, reference_for


@dataclass
class Item:
    """A Key Item."""

    key: int
    count: int = 0
    checked: float = -math.inf


class PlainSpaces:
    """Three lists of items, promoted as messages find a cycle due."""

    def __init__(self, expected: int, baby_limit: int | None, teenage_cycle: float, old_cycle: float):
        self.baby_size = expected - expected * 4 // 10 - expected // 10
        self.sizes = {"teenage": expected * 4 // 10, "old": expected // 10}
        self.limit = max(baby_limit, self.baby_size + 1) if baby_limit else 100 * self.baby_size
        self.cycles = (teenage_cycle, old_cycle)
        self.baby: list[Item] = []
        self.teenage: list[Item] = []
        self.old: list[Item] = []
        self.begun: float | None = None
        self.due = [0.0, 0.0]

    def run(self, now: float) -> None:
        if self.begun is None:
            self.begun = now
            self.due = [now + cycle for cycle in self.cycles]
        if now >= self.due[0]:
            self.truncate()
            promote(self.baby, self.teenage, self.sizes["teenage"])
            self.due[0] = now + self.cycles[0]
        if now >= self.due[1]:
            self.teenage.sort(key=lambda item: -item.count)
            promote(self.teenage, self.old, self.sizes["old"])
            self.due[1] = now + self.cycles[1]

    def truncate(self) -> None:
        self.baby.sort(key=lambda item: -item.count)
        del self.baby[self.baby_size :]

    def note(self, key: int) -> Item:
        for item in self.old + self.teenage + self.baby:
            if item.key == key:
                break
        else:
            if len(self.baby) == self.limit:
                self.truncate()
            item = Item(key)
            self.baby.append(item)
        item.count += 1
        return item


def promote(source: list[Item], destination: list[Item], size: int) -> None:
    """Algorithm 3, with the destination filled first."""
    while source and len(destination) < size:
        destination.append(source.pop(0))
    destination.sort(key=lambda item: -item.count)
    for _ in range(len(destination)):
        if not source or destination[-1].count > source[0].count:
            break
        first, last = source.pop(0), destination.pop()
        destination.insert(0, first)
        source.append(last)


@reference_for("dynamic-key")
class DynamicKeyReference(Reference):
    def start(self) -> None:
        scheme = self.scheme
        self.spaces = PlainSpaces(
            scheme.expected_keys, scheme.baby_limit, scheme.teenage_cycle, scheme.old_cycle
        )
        self.threshold = 100 / self.n + math.sqrt(100 / self.n)
        self.limit = math.floor(100 / self.threshold) + 1
        self.widths: dict[int, int] = {}  # of the keys above 2
        self.seen: dict[int, float] = {}
        self.places: list[int | None] = [None] * scheme.expected_keys

    def load(self, worker: int) -> float:
        return 100.0 * self.loads[worker] / max(1, sum(self.loads))

    def targets(self, key: int, width: int) -> list[int]:
        return [(self.candidate(key, 0) + step) % self.n for step in range(width)]

    def choose(self, key: int, time: float) -> int:
        """Algorithm 4."""
        self.spaces.run(time)
        item = self.spaces.note(key)
        if key in self.widths:
            self.seen[key] = time
        width = self.widths.get(key, min(self.n, 2))
        targets = self.targets(key, width)
        best = self.least_loaded(targets)
        if not self.check_is_due(item, time):
            return best
        item.checked = time
        if self.load(best) >= self.threshold and item in self.spaces.old:
            new = self.targets(key, width + 1)[-1]
            if width < self.limit and self.load(new) < self.load(best):
                self.set_width(key, width + 1, time)
                return new
        elif width > 2 and sum(self.load(worker) < self.threshold for worker in targets) >= 2:
            self.set_width(key, width - 1, time)
            return self.least_loaded(targets[:-1])
        return best

    def check_is_due(self, item: Item, time: float) -> bool:
        assert self.spaces.begun is not None
        warm = time - self.spaces.begun > self.scheme.warm_up
        concerned = item in self.spaces.old or item.key in self.widths
        return warm and concerned and time - item.checked >= self.scheme.check_every

    def set_width(self, key: int, width: int, time: float) -> None:
        if width <= 2:
            del self.widths[key]
            self.places[self.places.index(key)] = None
            return
        if key not in self.widths:
            if None not in self.places:  # the one that came least recently, the first of several
                loser = min((k for k in self.places if k is not None), key=lambda k: self.seen[k])
                del self.widths[loser]
                self.places[self.places.index(loser)] = None
            self.places[self.places.index(None)] = key
        self.widths[key] = width
        self.seen[key] = time
