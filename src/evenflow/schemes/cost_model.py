"""The cost of a partitioning function (`functions` 3 and 4.1): resources, balance, migration, tracked keys.

A key of frequency f costs its worker beta_k(f) = 1, f or f * f of resource k: state, computation,
communication (letters C, L, Q; "LCL" is linear state, constant computation, linear communication). L_k(i) =
sum of beta_k(f) over the keys of worker i.

* Imbalance: r_k = max L_k / min L_k, allowed up to alpha_k; b_k = r_k / alpha_k; b = (b_s b_c b_n)^(1/3), Eq.
  11.
* Migration: M = sum of beta_s(f) over keys that change workers; m = M / (sum of all beta_s(f) / n), Eq. 12.
* Objective: b (1 + m), Eq. 13; lower is better.
* Keys of frequency delta or more are tracked: an untracked key can then use at most sigma of what alpha
  allows (Eq. 14-17). For quadratic resources delta is raised once the hot keys are known (4.1.3).

Not specified by the paper or contradicted by it, and chosen here: L_c has no second factor f (Eq. 3 has one;
the numbers of Fig. 1 do not). 4.1.3 predicts the sum of a quadratic resource over all workers; delta needs
the mean, so it is divided by n. With only constant resources no key is tracked. A single worker has nothing
to balance; it tracks what two would, so that a second one can be added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int32Array, Int64Array

RESOURCES = ("state", "computation", "communication")


def resource(function: str, frequencies: Float64Array) -> Float64Array:
    """Return beta(f) for the constant (C), linear (L) or quadratic (Q) resource function."""
    if function == "C":
        return np.ones_like(frequencies)
    return frequencies if function == "L" else frequencies * frequencies


def tolerance(alpha: float, workers: int) -> float:
    """Return theta: how far a worker may be from the mean while max / min <= alpha (Eq. 15).

    >>> round(tolerance(1.2, 10), 4)
    0.1765
    """
    return alpha * workers / (alpha + workers - 1) - 1


def alpha_from_capacity(total: float, capacity: float, workers: int) -> float:
    """Return the alpha that keeps every worker within ``capacity`` when all carry ``total`` (3.1).

    >>> round(alpha_from_capacity(total=10, capacity=3, workers=4), 3)
    1.286
    """
    if not total / workers < capacity < total:
        raise EvenflowError(
            f"capacity is {capacity!r}; with a total of {total!r} on {workers} workers it must be between "
            f"the mean and the total, {total / workers:g} and {total:g}."
        )
    return (workers - 1) * capacity / (total - capacity)


class Tail(NamedTuple):
    """Keys not listed individually: their number and the sum of their frequencies, assumed equal."""

    keys: int
    mass: float

    def resource(self, function: str) -> float:
        """Return the sum of beta(f) over these keys."""
        if self.keys <= 0:
            return 0.0
        return {"C": float(self.keys), "L": self.mass, "Q": self.mass * self.mass / self.keys}[function]


NO_TAIL = Tail(0, 0.0)


class Imbalance(NamedTuple):
    """The balance of the workers; tuples have one value per resource, in the order of RESOURCES."""

    ratios: tuple[float, ...]  # r_k
    relative: tuple[float, ...]  # b_k; above 1 is out of tolerance
    overall: float  # b


class Migration(NamedTuple):
    """State that moves from one function to the next."""

    cost: float  # M
    relative: float  # m; 1 is one worker's fair share


def objective(balance: Imbalance, moved: Migration) -> float:
    """Return b (1 + m), Eq. 13."""
    return balance.overall * (1 + moved.relative)


def weigh(
    missed: float, before: Imbalance, after: Imbalance, moved: float, least_gain: float = 0.0
) -> tuple[float, bool]:
    """Decide whether to adopt a new function, which moves ``moved`` (m).

    Eq. 13 improves if b' (1 + m) < b, that is b / b' - 1 > m. The left side is summed over all checks since
    the last change, since imbalance is paid at every check and migration once: ``missed`` is the sum so far,
    and is returned with the gain of this check added. A gain of ``least_gain`` or less does not count.

    >>> tilted, even = (Imbalance((), (), overall) for overall in (1.2, 1.0))
    >>> missed, adopt = weigh(0.0, tilted, even, moved=0.3)
    >>> round(missed, 9), adopt, weigh(missed, tilted, even, moved=0.3)[1]
    (0.2, False, True)
    """
    gain = before.overall / after.overall - 1
    if not gain > least_gain:  # inf / inf is not a gain
        return missed, False
    return missed + gain, moved < missed + gain


@dataclass(frozen=True)
class Costs:
    """Resource functions, tolerances, and the number of keys.

    >>> costs = Costs("LQL", (1.2, 1.2, 1.2))
    >>> frequencies = np.array([5.0, 3, 2, 1, 4, 3, 3, 1])  # Fig. 1, top left
    >>> where = np.array([0, 0, 0, 0, 1, 1, 1, 1], np.int32)
    >>> costs.loads("Q", frequencies, where, 2).tolist()
    [39.0, 35.0]
    >>> [round(ratio, 2) for ratio in costs.imbalance(frequencies, where, 2).ratios]
    [1.0, 1.11, 1.0]
    """

    resources: str = "LCL"
    alphas: tuple[float, float, float] = (1.2, 1.2, 1.2)
    sigma: float = 0.1
    domain: int = 10**6

    @staticmethod
    def loads(function: str, frequencies: Float64Array, where: Int32Array, workers: int) -> Float64Array:
        """Return L(i) of every worker i, for keys of ``frequencies`` on the workers ``where``."""
        return np.bincount(where, resource(function, frequencies), workers).astype(np.float64)

    def imbalance(
        self, frequencies: Float64Array, where: Int32Array, workers: int, tail: Tail = NO_TAIL
    ) -> Imbalance:
        """Return r_k, b_k and b; the tail is spread evenly."""
        return self.balance(
            [
                self.loads(function, frequencies, where, workers) + tail.resource(function) / workers
                for function in self.resources
            ]
        )

    def balance(self, loads: Sequence[Float64Array]) -> Imbalance:
        """Return r_k, b_k and b of the workers' ``loads``, one array per resource."""
        ratios = []
        for own in loads:
            lowest, highest = float(own.min()), float(own.max())
            ratios.append(highest / lowest if lowest > 0 else math.inf if highest > 0 else 1.0)
        relative = [ratio / alpha for ratio, alpha in zip(ratios, self.alphas, strict=True)]
        overall = (relative[0] * relative[1] * relative[2]) ** (1 / 3)
        return Imbalance(tuple(ratios), tuple(relative), overall)

    def migration(
        self,
        frequencies: Float64Array,
        before: Int32Array,
        after: Int32Array,
        workers: int,
        tail: Tail = NO_TAIL,
    ) -> Migration:
        """Return what moves when keys go from ``before`` to ``after`` on ``workers`` workers."""
        costs = resource(self.resources[0], frequencies)
        cost = math.fsum(costs[before != after])
        whole = math.fsum(costs) + tail.resource(self.resources[0])
        return Migration(cost, cost * workers / whole if whole > 0 else 0.0)

    def delta(self, workers: int, total: float | None = None) -> float:
        """Return the frequency from which keys are tracked (Eq. 17).

        ``total`` is the sum of a quadratic resource over all keys; by default the least possible, 1 / domain.

        >>> round(Costs().delta(workers=10), 5)
        0.00176
        """
        n = max(2, workers)
        delta = 1.0
        for function, alpha in zip(self.resources, self.alphas, strict=True):
            share = self.sigma * tolerance(alpha, n) / n
            if function == "L":
                delta = min(delta, share)
            elif function == "Q":
                delta = min(delta, math.sqrt(share * (1 / self.domain if total is None else total)))
        return delta

    def tail(self, frequencies: Float64Array) -> Tail:
        """Return the keys other than those of ``frequencies``."""
        return Tail(max(0, self.domain - frequencies.size), max(0.0, 1.0 - math.fsum(frequencies)))

    def tracked(self, frequencies: Float64Array, workers: int, slack: float = 0.0) -> Int64Array:
        """Return the indices of the keys to track, of frequency delta - ``slack`` or more (4.1.3)."""
        if set(self.resources) == {"C"}:
            return np.empty(0, np.int64)
        chosen = np.flatnonzero(frequencies >= self.delta(workers) - slack)
        if "Q" in self.resources:
            found = frequencies[chosen]
            total = math.fsum(found * found) + self.tail(found).resource("Q")
            chosen = chosen[found >= self.delta(workers, total) - slack]
        return chosen
