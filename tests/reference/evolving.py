"""`evolving` (FISH): Algorithms 1-3 and section 5 in plain Python, with the variables of the paper's Table 1.

Written from the paper and the decisions in the docstring of the scheme, not from the kernel: D, K, c_k, M_k,
f_k, f_top, d_min, theta, N_epoch, K_max; C_w, N_w, P_w, T, t_cur, t_pri; W_num.
"""

from __future__ import annotations

import math
from fractions import Fraction

import evenflow as ef
from reference.base import GOLDEN, MASK, Reference, mix, reference_for
from reference.choices import choices_needed
from reference.heterogeneous import PlainRing


class Counter:
    """An element k of K: c_k, and M_k, the most workers that k has had while it was counted."""

    def __init__(self, k: int, c: float):
        self.k, self.c, self.M = k, c, 0


class PlainEpochs:
    """Algorithm 1. K is a list: whoever replaces a key takes its place, and the first of equals is least."""

    def __init__(self, K_max: int, N_epoch: int, alpha: float):
        self.K_max, self.N_epoch, self.alpha = K_max, N_epoch, alpha
        self.K: list[Counter] = []
        self.counter = 0
        self.total = 0.0  # of everything counted, decayed with the counts

    def epoch_is_over(self) -> bool:
        return self.counter == self.N_epoch

    def time_decaying_update(self) -> None:
        """Lines 5-7 and 23-26."""
        for v in self.K:
            v.c *= self.alpha
        self.total *= self.alpha
        self.counter = 0

    def count(self, k: int) -> Counter:
        """Lines 9-18."""
        found = next((v for v in self.K if v.k == k), None)
        if found is not None:
            found.c += 1
        elif len(self.K) < self.K_max:
            found = Counter(k, 1.0)
            self.K.append(found)
        else:
            found = self.replace_min(k)
        self.counter += 1
        self.total += 1
        return found

    def replace_min(self, k: int) -> Counter:
        """Lines 19-22."""
        least = min(range(len(self.K)), key=lambda place: self.K[place].c)
        self.K[least] = Counter(k, self.K[least].c + 1)
        return self.K[least]


@reference_for("fish")
class FishReference(Reference):
    def start(self) -> None:
        scheme = self.scheme
        K_max = scheme.capacity or max(1000, 10 * self.n, math.ceil(2 / scheme.theta) if scheme.theta else 0)
        self.epochs = PlainEpochs(K_max, scheme.epoch, scheme.decay if scheme.epochs else 1.0)
        self.d_min = scheme.least_choices or 2
        self.C = [0.0] * self.n
        self.N = [0.0] * self.n
        self.P = [self.sources * (scheme.seconds_per_message or self.n / scheme.rate)] * self.n
        self.part_served = [0.0] * self.n  # of the message in service
        self.t_pri = self.t_cur = 0.0
        self.ring = PlainRing(range(self.n), self.salt, scheme.replicas)

    # 4.1.1: frequencies

    @property
    def theta(self) -> float:
        return self.scheme.theta or 1 / (4 * self.n)

    @property
    def tuples(self) -> float:
        """What a count is a share of: the decayed total, but at least one epoch."""
        return max(self.epochs.total, self.epochs.N_epoch)

    def is_hot(self, v: Counter) -> bool:
        """Algorithm 2, line 1; one message is never enough."""
        return v.c > self.theta * self.tuples and v.c >= 2

    def end_epoch(self) -> None:
        """Algorithm 1, lines 5-7, and d_min from the hot keys of the epoch that ends."""
        if not self.scheme.least_choices:
            hot = [v.c for v in self.epochs.K if self.is_hot(v)]
            if self.scheme.choices == "d-choices":
                f = [c / self.tuples for c in sorted(hot, reverse=True)]
                self.d_min = max(2, choices_needed(f, self.n, self.scheme.epsilon, distinct=True))
            else:
                F_H = sum(hot) / self.tuples
                self.d_min = max(2, math.ceil(self.n * F_H / len(hot))) if hot else 2
        self.epochs.time_decaying_update()

    # 4.1.2: how many workers

    def classify(self, v: Counter) -> int:
        """Algorithm 2."""
        if not self.is_hot(v):
            return 2
        W_num = self.n
        if self.scheme.choices == "w-choices":
            return W_num
        d_min = min(W_num, self.d_min)
        if self.scheme.choices == "d-choices":
            return d_min
        top_over_k = Fraction(max(u.c for u in self.epochs.K)) / Fraction(v.c)
        index = math.floor(top_over_k).bit_length() - 1  # floor(log2 of it), exactly
        d = max(W_num // 2**index, d_min)
        v.M = max(v.M, d)
        return v.M

    # 5: which workers

    def worker_at(self, k: int, i: int) -> int:
        hashed = mix(k ^ ((self.salt + i * GOLDEN) & MASK))
        return self.ring.owners(hashed)[0] if self.scheme.ring else hashed % self.n

    def candidates_of(self, k: int, d: int) -> list[int]:
        if d >= self.n > 2:
            return [(self.offset + place) % self.n for place in range(self.n)]
        A: list[int] = []
        i = 0
        while len(A) < min(d, self.n):
            w = self.worker_at(k, i)
            if w not in A:
                A.append(w)
            i += 1
        return A

    # 4.2: which of them

    def estimate(self) -> None:
        """Algorithm 3, lines 3-10 (Eq. 1), with the time that has passed for T, in whole tuples."""
        passed = self.t_cur - self.t_pri
        if passed > self.scheme.interval:
            for w in range(self.n):
                served = self.part_served[w] + passed / self.P[w]
                whole = math.floor(served)
                unprocessed = self.C[w] + self.N[w] - whole
                self.C[w] = max(0.0, unprocessed)
                self.N[w] = 0.0
                self.part_served[w] = served - whole if unprocessed > 0 else 0.0
            self.t_pri = self.t_cur

    def T_w(self, w: int) -> float:
        """Eq. 2, or the load that the figures without it compare."""
        return self.loads[w] if self.scheme.assignment == "counts" else (self.C[w] + self.N[w]) * self.P[w]

    def choose(self, key: int, time: float) -> int:
        self.t_cur = time
        self.estimate()
        if self.epochs.epoch_is_over():
            self.end_epoch()
        d = self.classify(self.epochs.count(key))
        appro = min(self.candidates_of(key, d), key=self.T_w)
        self.N[appro] += 1
        return appro

    def report(self, report: ef.WorkerReport) -> None:
        """P_w is sampled; what waits is inferred, and taken from workers only if the scheme is told so."""
        if report.seconds_per_message is not None:
            self.P = [self.sources * float(seconds) for seconds in report.seconds_per_message]
        if report.backlog is not None and self.scheme.assignment == "reported":
            self.C = [round(float(b) / self.sources * 2**20) / 2**20 for b in report.backlog]
            self.N = [0.0] * self.n
            self.part_served = [0.0] * self.n
            self.t_pri = max(self.t_cur, report.time)

    def rescale(self, workers: int) -> None:
        mean = math.fsum(self.P) / self.n
        self.loads = (self.loads + [0] * workers)[:workers]
        self.C = (self.C + [0.0] * workers)[:workers]
        self.N = (self.N + [0.0] * workers)[:workers]
        self.P = (self.P + [mean] * workers)[:workers]
        self.part_served = (self.part_served + [0.0] * workers)[:workers]
        self.n = workers
        self.offset = self.source * workers // self.sources
        self.ring = PlainRing(range(workers), self.salt, self.scheme.replicas)
