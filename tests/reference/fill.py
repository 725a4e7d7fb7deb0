"""evenflow's own scheme, from the rules in the docstring of evenflow.schemes.fill, with lists and dicts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import evenflow as ef
from reference.base import GOLDEN, MASK, Reference, mix, reference_for
from reference.space_saving import SlowSpaceSaving

UNIT = 2**20  # the clock is rounded down to such parts of a row, weights are rounded to them


def rounded(rows: float) -> float:
    return round(rows * UNIT) / UNIT


@dataclass
class Entry:
    """The homes of a key in the order in which it got them, and the group of four that is looked at next."""

    key: int
    homes: list[int] = field(default_factory=list)
    pointer: int = 0
    used: int = 0

    def number_of_groups(self) -> int:
        return -(-len(self.homes) // 4)

    def group(self, number: int) -> list[int]:
        """Four homes: a last group that is not full repeats homes in the places that are not taken."""
        if len(self.homes) < 4:
            return [*self.homes, *self.homes[:1] * (4 - len(self.homes))]
        own = self.homes[4 * number : 4 * number + 4]
        return own + self.homes[4 * number - 4 : 4 * number][len(own) :]


class FillReference(Reference):
    def start(self) -> None:
        self.levels = [0.0] * self.n
        self.free = [0.0] * self.n
        self.weights = [1.0] * self.n
        self.cells = [0] * (1024 * self.n)
        self.buckets = [bucket // 1024 for bucket in range(1024 * self.n)]  # keys of a counter
        self.messages = self.since = self.counted = self.fresh = 0
        self.further = 0  # homes beyond a key's first
        self.stretched = 1.0
        self.distinct = 1  # keys, as estimated
        self.threshold = math.inf  # part times luck from which a key has homes in advance
        self.votes: list[tuple[int, float]] = [(0, 0.0)] * self.n  # by worker: leading key, lead
        self.reset_table(max(16_384, 64 * self.n))

    def reset_table(self, entries: int) -> None:
        self.slots: list[Entry | None] = [None] * entries
        self.free_slots = list(range(entries))
        self.groups = entries + entries // 4 + self.n
        self.hand = 0
        self.slot_of: dict[int, int] = {}

    def groups_in_table(self) -> int:
        return sum(entry.number_of_groups() for entry in self.slots if entry)

    def release_one(self, keep: Entry | None) -> None:
        oldest: int | None = None
        looked = 0
        while looked < 8 or oldest is None:
            entry = self.slots[self.hand]
            if entry is not None and entry is not keep:
                best = self.slots[oldest] if oldest is not None else None
                if best is None or entry.used < best.used:
                    oldest = self.hand
            self.hand = (self.hand + 1) % len(self.slots)
            looked += 1
        gone = self.slots[oldest]
        assert gone is not None
        del self.slot_of[gone.key]
        self.slots[oldest] = None
        self.free_slots.insert(0, oldest)

    def add_home(self, entry: Entry, worker: int) -> None:
        if len(entry.homes) % 4 == 0 and self.groups_in_table() == self.groups:
            self.release_one(entry)
        entry.homes.append(worker)

    def new_entry(self, key: int) -> Entry:
        if not self.free_slots:
            self.release_one(None)
        slot = self.free_slots.pop(0)
        entry = Entry(key)
        self.slots[slot] = entry
        self.slot_of[key] = slot
        return entry

    def first_of(self, workers: list[int]) -> int:
        return min(workers, key=lambda worker: self.free[worker])

    def another(self, hashed: int, opened: int, enough: float, highest: float) -> int:
        may = [worker for worker in range(self.n) if self.levels[worker] <= highest]
        if self.sources > 1:
            for i in range(opened, opened + 8):
                worker = ((mix((hashed + i * GOLDEN) & MASK) >> 32) * self.n) >> 32
                if worker in may and self.free[worker] <= enough:
                    return worker
        return min(may, key=lambda worker: self.free[worker])

    def clock(self) -> float:
        return math.floor((1 + 0.75 * self.scheme.epsilon) * (self.since / self.n) * UNIT) / UNIT

    def slack(self) -> float:
        average = self.since / self.n
        result = float(self.scheme.epsilon) * average
        if average < 100:
            result += 3 * math.sqrt(average) * (1 - average / 100)
        return result + (12 + math.sqrt(average) if self.sources > 1 else 0)

    def estimate_distinct(self) -> int:
        """From the counters that are still 0, rounded down, at least 1."""
        zeros = self.cells.count(0)
        return max(1, math.floor(len(self.cells) * math.log((len(self.cells) + 1) / (zeros + 1))))

    def stretch(self) -> float:
        """1 + 25 (several sources: 110) x homes beyond the first per distinct key, at most 8 (16).

        The price is an eighth higher from 8192 rows per worker on, and each time these have doubled.
        """
        price, longest = (25, 8.0) if self.sources == 1 else (110, 16.0)
        dearer = price * (1 + (self.messages // (8192 * self.n)).bit_length() / 8)
        return math.floor(min(longest, 1 + dearer * self.further / self.distinct) * UNIT) / UNIT

    def luck(self, cell: int) -> int:
        return int(2 ** (((mix(cell) >> 32) * 4) >> 32))

    def highest_threshold(self) -> float:
        """The highest step of four per power of two at which keys have enough rows."""
        least: dict[float, list[int]] = {}
        for cell, rows in enumerate(self.cells):
            if rows:
                power = 2.0 ** ((rows * self.luck(cell)).bit_length() - 1)
                step = power * math.floor(rows * self.luck(cell) / power * 4) / 4
                least.setdefault(step, []).append(rows)
        others = sum(rows * (rows - 1) for rows in self.cells)
        above = 0
        for step in sorted(least, reverse=True):
            above += sum(least[step])
            others -= sum(rows * (rows - 1) for rows in least[step])
            if above >= math.sqrt(others * self.n):
                return step * self.n / self.counted
        return math.inf

    def homes_in_advance(self, rows: int, cell: int) -> int:
        part = rows * float(self.n) / self.counted
        if rows < 2 or part * self.luck(cell) < self.threshold:
            return 1
        return min(self.n, 1 + math.ceil(1.5 * part))

    def vote(self, worker: int, key: int, now: float) -> None:
        leader, lead = self.votes[worker]
        weight = self.weights[worker]
        if self.free[worker] <= now:
            self.votes[worker] = key, weight
        elif leader == key:
            self.votes[worker] = key, lead + weight
        else:
            self.votes[worker] = (leader, lead - weight) if lead >= weight else (key, weight)

    def choose(self, key: int, time: float) -> int:
        if self.messages % 64 == 0:
            self.distinct = self.estimate_distinct()
            self.stretched = self.stretch()
            blocks = self.messages // 64
            if self.sources > 1 and self.messages >= self.n and blocks & (blocks - 1) == 0:
                self.threshold = self.highest_threshold()
        hashed = mix(key ^ self.salt)
        cell = ((hashed >> 32) * len(self.cells)) >> 32
        seen = self.cells[cell]
        self.cells[cell] += 1
        self.messages += 1
        self.since += 1
        self.counted += 1
        self.fresh += 1
        now, average, slack = self.clock(), self.since / self.n, self.slack()

        entry = self.slots[self.slot_of[key]] if key in self.slot_of else None
        first = self.buckets[cell]
        own = entry.homes if entry else [first]
        if self.sources > 1 and len(own) < self.homes_in_advance(seen + 1, cell):
            worker = ((mix((hashed + len(own) * GOLDEN) & MASK) >> 32) * self.n) >> 32
            while worker in own:
                worker = (worker + 1) % self.n
            if entry is None:
                entry = self.new_entry(key)
                entry.used = self.messages
                self.add_home(entry, first)
            self.add_home(entry, worker)
            self.further += 1
        looked = 0
        if entry is None:
            worker = first
            opened = 1
        else:
            looked = entry.pointer
            entry.pointer = (entry.pointer + 1) % entry.number_of_groups()
            worker = self.first_of(entry.group(looked))
            opened = len(entry.homes)
            entry.used = self.messages

        new = self.sources == 1 and seen == 0
        share = float(self.counted * opened)  # the recent rows of a key with part 1, times n
        weight = float((seen + 1) * self.n) if seen >= (10 if self.sources == 1 else 4) else 0.0
        hot = 1 / 160  # the part from which a key gives way before others
        if self.sources == 1:
            hot = min(1 / 240, max(1 / 1000, 1 / 2 * self.n / self.distinct))  # or half the average key's
        light = hot * share
        patience = 3 / 10 if new else self.stretched * math.sqrt(light / max(weight, light))
        most = min(self.scheme.queue, max(12.0, 0.5 * slack))
        limit = most * patience if new else max(most * patience, min(most, 1.5))
        high = average + slack * (0.5 if new else 0.75 if weight > 0.1 * share else 1.0)

        def leaves() -> bool:
            leader, lead = self.votes[worker]
            wait = self.free[worker] - now
            bursts = leader == key and min(lead, wait) > 0.9 * most
            return wait > limit or bursts or self.levels[worker] > high

        if leaves() and entry is not None and opened > 4:
            groups = entry.number_of_groups()
            more = [w for i in range(min(4, groups)) for w in entry.group((looked + i) % groups)]
            worker = self.first_of([w for w in more if self.levels[w] <= average + slack] or more[:1])
        if leaves():
            other = self.another(hashed, opened, now + limit, average + slack)
            if self.levels[worker] > average + slack or self.free[other] + 2 <= self.free[worker]:
                if entry is None and new:
                    self.buckets[cell] = other
                else:
                    if entry is None:
                        entry = self.new_entry(key)
                        entry.used = self.messages
                        self.add_home(entry, worker)
                    if other not in entry.homes:
                        self.add_home(entry, other)
                        self.further += 1
                worker = other

        self.vote(worker, key, now)
        self.levels[worker] += self.weights[worker]
        self.free[worker] = max(self.free[worker], now) + self.weights[worker]
        if self.fresh >= min(500, self.scheme.horizon) / math.sqrt(self.sources) * self.n:
            if self.sources > 1:
                self.threshold = self.highest_threshold()
            self.cells = [(count + 1) // 2 for count in self.cells]
            self.counted, self.fresh = sum(self.cells), 0
        return worker

    def report(self, report: ef.WorkerReport) -> None:
        assert report.capacity is not None
        mean = float(np.mean(report.capacity))
        shares = [float(capacity) / mean for capacity in report.capacity]
        now = self.clock()
        waits = [max(free - now, 0.0) for free in self.free]
        told = None if report.backlog is None else [float(row) / self.sources for row in report.backlog]
        if max(abs(share * weight - 1) for share, weight in zip(shares, self.weights, strict=True)) > 0.05:
            rows = told or [wait / weight for wait, weight in zip(waits, self.weights, strict=True)]
            self.weights = [rounded(1 / share) for share in shares]
            waits = [rounded(row * weight) for row, weight in zip(rows, self.weights, strict=True)]
            self.levels = list(waits)
            self.since = round(sum(wait / weight for wait, weight in zip(waits, self.weights, strict=True)))
            self.free = [self.clock() + wait for wait in waits]
            self.votes = [(leader, 0.0) for leader, _ in self.votes]
        elif told is not None:
            for worker, row in enumerate(told):
                most = rounded(row * self.weights[worker]) + self.scheme.queue
                self.free[worker] -= max(waits[worker] - most, 0.0)


def settle(weights: list[float], owners: list[int], target: list[float], tolerance: float) -> list[int]:
    """Give units of overloaded workers to the emptiest, largest first, worker by worker."""
    n = len(target)
    result = list(owners)
    carried = [0.0] * n
    for unit, owner in enumerate(owners):
        if 0 <= owner < n:
            carried[owner] += weights[unit]

    def emptiest() -> int:
        return max(range(n), key=lambda worker: (target[worker] - carried[worker], -worker))

    order = sorted(range(len(weights)), key=lambda unit: (owners[unit], -weights[unit]))
    for unit in order:
        if not 0 <= owners[unit] < n:
            worker = emptiest()
            result[unit] = worker
            carried[worker] += weights[unit]
    for unit in order:
        owner = result[unit]
        over = carried[owner] - target[owner]
        if over <= tolerance * target[owner] or weights[unit] > over or weights[unit] == 0:
            continue
        worker = emptiest()
        if worker != owner and carried[worker] + weights[unit] - target[worker] <= tolerance * target[worker]:
            result[unit] = worker
            carried[owner] -= weights[unit]
            carried[worker] += weights[unit]
    return result


class OwnerReference(Reference):
    def start(self) -> None:
        self.shares = [1.0] * self.n
        self.buckets = [bucket // 64 for bucket in range(64 * self.n)]
        self.left = self.length = 10 * self.n
        self.owned: dict[int, int] = {}
        self.new_epoch()

    def new_epoch(self) -> None:
        self.brought = [0] * len(self.buckets)
        self.sketch = SlowSpaceSaving(max(1000, 10 * self.n))

    def bucket(self, key: int) -> int:
        return ((mix(key ^ self.salt) >> 32) * len(self.buckets)) >> 32

    def choose(self, key: int, time: float) -> int:
        self.sketch.count(key)
        if key in self.owned:
            worker = self.owned[key]
        else:
            self.brought[self.bucket(key)] += 1
            worker = self.buckets[self.bucket(key)]
        self.left -= self.sources == 1  # several sources never move anything alone
        if self.left == 0:
            self.settle(self.scheme.epsilon + 2 / math.sqrt(self.length / self.n))
            self.left = self.length = min(2 * self.length, self.scheme.horizon * self.n)
            self.new_epoch()
        return worker

    def settle(self, tolerance: float) -> None:
        weight = [count + 0.5 for count in self.brought]
        light = 0.25 * float(np.mean(weight))
        hot: list[tuple[int, float, int]] = []
        for _, key in self.sketch.head(0.0):
            count, error, _ = self.sketch.counters[key]
            sure = float(count - error)
            if key in self.owned:
                hot.append((key, sure, self.owned[key]))
            elif sure > light:
                hot.append((key, sure, self.buckets[self.bucket(key)]))
                weight[self.bucket(key)] -= sure
        units = [sure for _, sure, _ in hot] + [max(w, 0.0) for w in weight]
        owners = [owner for _, _, owner in hot] + self.buckets
        total = float(np.sum(np.array(units)))
        share_sum = float(np.sum(np.array(self.shares)))
        target = [share / share_sum * total for share in self.shares]
        after = settle(units, owners, target, tolerance)
        self.buckets = after[len(hot) :]
        self.owned = {
            key: owner
            for (key, _, _), owner in zip(hot, after, strict=False)
            if owner != self.buckets[self.bucket(key)]
        }


@reference_for("fill")
class EitherReference(Reference):
    """Splits keys or not, as the scheme's parameters say."""

    def __init__(self, scheme: ef.Scheme, workers: int, seed: int, source: int, sources: int):
        kind: Any = FillReference if scheme.parameters()["split"] else OwnerReference
        self.inner: Reference = kind(scheme, workers, seed, source, sources)
        super().__init__(scheme, workers, seed, source, sources)

    def choose(self, key: int, time: float) -> int:
        return self.inner.choose(key, time)

    def report(self, report: ef.WorkerReport) -> None:
        self.inner.report(report)
