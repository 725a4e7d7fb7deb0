"""`functions` (Gedik): lossy counting, sliding and not; scan, redist and readj; the partitioning function."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from reference.base import Reference, mix, reference_for
from reference.heterogeneous import PlainRing


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


def beta(function: str, f: float) -> float:
    return {"C": 1.0, "L": f, "Q": f * f}[function]


@dataclass
class Problem:
    """What a construction algorithm is given; items are numbered by falling frequency."""

    resources: str
    alphas: tuple[float, ...]
    utility: str
    n: int
    f: list[float]
    old: list[int]  # p^(t)(d)
    ring: list[int]  # H_c^(t+1)(d)
    moved: float  # migration of D_o
    ideal: float

    @property
    def items(self) -> range:
        return range(len(self.f))

    def state(self, d: int) -> float:
        return beta(self.resources[0], self.f[d])

    def rho(self, placed: list[tuple[int, int]]) -> float:
        """The balance penalty of a list of (item, worker), from scratch (Eq. 19, 20)."""
        product, factors = 1.0, 0
        for function, alpha in zip(self.resources, self.alphas, strict=True):
            if function != "C":
                loads = [0.0] * self.n
                total = 0.0
                for d, worker in placed:
                    loads[worker] += beta(function, self.f[d])
                    total += beta(function, self.f[d])
                product *= self.rho_of(loads, total, alpha)
                factors += 1
        return self.mean(product, factors)

    def rho_of(self, loads: list[float], total: float, alpha: float) -> float:
        theta = alpha * self.n / (alpha + self.n - 1) - 1
        return (max(loads) - min(loads)) / (theta * (total / self.n))

    @staticmethod
    def mean(product: float, factors: int) -> float:
        if factors == 0:
            return 0.0
        if factors == 1:
            return product
        return math.sqrt(product) if factors == 2 else product ** (1 / 3)

    def U(self, rho: float, moved: float) -> float:
        gamma = moved / self.ideal
        if self.utility == "A":
            return rho
        if self.utility == "APM":
            return rho + gamma
        if self.utility == "APLM":
            return rho + math.log(1 + gamma)
        if self.utility == "ATM":
            return rho * (1 + gamma)
        return rho * (1 + math.log(1 + gamma))


def scan(p: Problem) -> list[int]:
    """Algorithm 2."""
    moved = p.moved
    placed: list[tuple[int, int]] = []
    for d in p.items:
        best, lowest = -1, math.inf
        for worker in range(p.n):
            u = p.U(p.rho([*placed, (d, worker)]), moved + (p.state(d) if worker != p.old[d] else 0.0))
            if u < lowest:
                best, lowest = worker, u
        if best != p.old[d]:
            moved += p.state(d)
        placed.append((d, best))
    return [worker for _, worker in sorted(placed)]


def redist(p: Problem) -> list[int]:
    """Algorithm 3."""
    moved = p.moved
    placed: list[tuple[int, int]] = []
    left = list(p.items)
    while left:
        best, chosen, lowest = -1, -1, math.inf
        for c in left:
            for worker in range(p.n):
                rho = p.rho([*placed, (c, worker)])
                u = p.U(rho, moved + (p.state(c) if worker != p.old[c] else 0.0)) / p.f[c]
                if u < lowest:
                    best, chosen, lowest = worker, c, u
        if best != p.old[chosen]:
            moved += p.state(chosen)
        placed.append((chosen, best))
        left.remove(chosen)
    return [worker for _, worker in sorted(placed)]


def readj(p: Problem, printed: bool = True) -> list[int]:
    """Algorithm 4; if not as ``printed``, u is the utility before the round throughout the round."""
    where = [old if old < p.n else ring for old, ring in zip(p.old, p.ring, strict=True)]
    moved = p.moved
    for d in p.items:
        if where[d] != p.old[d]:
            moved += p.state(d)
    times = [0] * len(where)
    u = 0.0
    while True:
        rho = p.rho(list(enumerate(where)))
        if not printed:
            u = p.U(rho, moved)
        best: tuple[int, int, int, int | None] | None = None
        gain = -math.inf
        for i in range(p.n):
            for j in range(p.n):
                for d1 in [d for d in p.items if where[d] == i != j and times[d] < 5]:
                    swaps = [d for d in p.items if where[d] == j and times[d] < 5 and p.f[d] != p.f[d1]]
                    for d2 in [None, *swaps]:
                        a = rho_after(p, where, i, d1, j, d2)
                        if a >= rho:
                            continue
                        u_after = p.U(a, moved + migrates(p, i, d1, j, d2))
                        g = (u - u_after) / abs(p.f[d1] - (0.0 if d2 is None else p.f[d2]))
                        if g > gain:
                            best, gain = (i, d1, j, d2), g
                            if printed:
                                u = u_after
        if best is None:
            return where
        moved += migrates(p, *best)
        i, d1, j, d2 = best
        where[d1] = j
        times[d1] += 1
        if d2 is not None:
            where[d2] = i
            times[d2] += 1


def rho_after(p: Problem, where: list[int], i: int, d1: int, j: int, d2: int | None) -> float:
    product, factors = 1.0, 0
    for function, alpha in zip(p.resources, p.alphas, strict=True):
        if function == "C":
            continue
        loads = [0.0] * p.n
        total = 0.0
        for d, worker in enumerate(where):
            loads[worker] += beta(function, p.f[d])
            total += beta(function, p.f[d])
        change = beta(function, p.f[d1]) - (0.0 if d2 is None else beta(function, p.f[d2]))
        loads[i] -= change
        loads[j] += change
        product *= p.rho_of(loads, total, alpha)
        factors += 1
    return p.mean(product, factors)


def migrates(p: Problem, i: int, d1: int, j: int, d2: int | None) -> float:
    """Eq. 22."""
    first = (p.state(d1) if p.old[d1] == i else 0.0) - (p.state(d1) if p.old[d1] == j else 0.0)
    if d2 is None:
        return first
    return first + ((p.state(d2) if p.old[d2] == j else 0.0) - (p.state(d2) if p.old[d2] == i else 0.0))


def solve(algorithm: str, problem: Problem) -> list[int]:
    if problem.n == 1 or not problem.f:
        return [0] * len(problem.f)
    if algorithm == "readj-round":
        return readj(problem, printed=False)
    return {"scan": scan, "redist": redist, "readj": readj}[algorithm](problem)


class Function:
    """A partitioning function: an explicit hash and a consistent one."""

    def __init__(self, n: int, salt: int, replicas: int):
        self.n = n
        self.salt = salt
        self.ring = PlainRing(range(n), salt, replicas)
        self.explicit: dict[int, int] = {}

    def on_ring(self, key: int) -> int:
        points = self.ring.points
        return points[bisect.bisect_left(points, (mix(key ^ self.salt), -1)) % len(points)][1]

    def __call__(self, key: int) -> int:
        return self.explicit[key] if key in self.explicit else self.on_ring(key)


@reference_for("explicit")
class ExplicitReference(Reference):
    scheme: Any

    def start(self) -> None:
        self.function = Function(self.n, self.salt, self.scheme.replicas)
        window = self.scheme.window or self.scheme.domain
        self.every = self.scheme.every if self.scheme.every is not None else max(1, window // 10)
        if self.sources > 1 or not self.scheme.counting:
            self.every = 0
        self.counters = SlidingLossy(0.1 * self.delta(), window, self.scheme.counters)
        self.missed = 0.0

    def choose(self, key: int, time: float) -> int:
        worker = self.function(key)
        if self.scheme.counting:
            self.counters.count(key)
            if self.every and self.counters.messages % self.every == 0:
                self.look()
        return worker

    def theta(self, alpha: float) -> float:
        n = max(2, self.n)
        return alpha * n / (alpha + n - 1) - 1

    def delta(self, total: float | None = None) -> float:
        """Eq. 17; ``total`` is the predicted sum of a quadratic resource."""
        s, n = self.scheme, max(2, self.n)
        deltas = [1.0]
        for function, alpha in zip(s.resources, s.alphas, strict=True):
            share = s.sigma * self.theta(alpha) / n
            if function == "L":
                deltas.append(share)
            if function == "Q":
                deltas.append(math.sqrt(share * (1 / s.domain if total is None else total)))
        return min(deltas)

    def tail(self, frequencies: list[float]) -> tuple[int, float]:
        return max(0, self.scheme.domain - len(frequencies)), max(0.0, 1 - math.fsum(frequencies))

    @staticmethod
    def tail_resource(tail: tuple[int, float], function: str) -> float:
        keys, mass = tail
        if keys == 0:
            return 0.0
        return {"C": float(keys), "L": mass, "Q": mass * mass / keys}[function]

    def known(self) -> dict[int, float]:
        oldest = self.counters.oldest
        pairs = [(count / oldest.messages, key) for key, (count, _) in oldest.entries.items()]
        return {key: f for f, key in sorted(pairs, key=lambda pair: (-pair[0], pair[1]))}

    def tracked(self, known: dict[int, float]) -> dict[int, float]:
        slack = 0.1 * self.delta()
        if self.scheme.resources == "CCC":
            return {}
        found = {key: f for key, f in known.items() if f >= self.delta() - slack}
        if "Q" in self.scheme.resources:
            squares = math.fsum(f * f for f in found.values())
            total = squares + self.tail_resource(self.tail(list(found.values())), "Q")
            found = {key: f for key, f in found.items() if f >= self.delta(total) - slack}
        return found

    def imbalance(self, items: dict[int, float], where: list[int]) -> list[float]:
        """b_k of every resource."""
        tail = self.tail(list(items.values()))
        result = []
        for function, alpha in zip(self.scheme.resources, self.scheme.alphas, strict=True):
            loads = [0.0] * self.n
            for worker, f in zip(where, items.values(), strict=True):
                loads[worker] += beta(function, f)
            loads = [load + self.tail_resource(tail, function) / self.n for load in loads]
            ratio = max(loads) / min(loads) if min(loads) > 0 else math.inf if max(loads) > 0 else 1.0
            result.append(ratio / alpha)
        return result

    def plan(self, old: Function, known: dict[int, float]) -> tuple[dict[int, int], float]:
        """The next explicit hash and the relative migration (Eq. 12) to it; self.function is the new one."""
        items = self.tracked(known)
        s = self.scheme
        gone = {key: known.get(key, 0.0) for key in old.explicit if key not in items}
        lost = math.fsum(
            beta(s.resources[0], f) for key, f in gone.items() if old(key) != self.function.on_ring(key)
        )
        everything = [*items.values(), *gone.values()]
        state = math.fsum(beta(s.resources[0], f) for f in everything)
        problem = Problem(
            s.resources,
            s.alphas,
            s.utility,
            self.n,
            list(items.values()),
            [old(key) for key in items],
            [self.function.on_ring(key) for key in items],
            lost,
            state / self.n,
        )
        homes = dict(zip(items, solve(s.algorithm, problem), strict=True))
        moved = math.fsum(
            [beta(s.resources[0], f) for key, f in items.items() if homes[key] != old(key)]
            + [beta(s.resources[0], f) for key, f in gone.items() if self.function.on_ring(key) != old(key)]
        )
        whole = state + self.tail_resource(self.tail(everything), s.resources[0])
        return homes, moved * self.n / whole if whole > 0 else 0.0

    def look(self) -> None:
        known = self.known()
        items = self.tracked(known)
        now = self.imbalance(items, [self.function(key) for key in items])
        if max(now) <= 1:
            self.missed = 0.0
            return
        homes, m = self.plan(self.function, known)
        after = self.imbalance(items, list(homes.values()))
        b, b_after = (math.prod(now)) ** (1 / 3), (math.prod(after)) ** (1 / 3)
        if b_after < b:
            self.missed += b / b_after - 1
            if m < self.missed:
                self.function.explicit = homes
                self.missed = 0.0

    def rebuild(self) -> None:
        self.function.explicit = self.plan(self.function, self.known())[0]
        self.missed = 0.0

    def rescale(self, workers: int) -> None:
        self.n = workers
        self.loads = (self.loads + [0] * workers)[:workers]
        old, known = self.function, self.known()
        self.counters.set_epsilon(0.1 * self.delta())
        self.function = Function(workers, self.salt, self.scheme.replicas)
        self.function.explicit = self.plan(old, known)[0]
        self.missed = 0.0
