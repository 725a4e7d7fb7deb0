"""The number of workers for ``workers="auto"``: by utilisation, with hysteresis.

Work is the number of workers that would be fully busy: the busy seconds of all workers divided by the elapsed
seconds. Utilisation is work / workers. After ``patience`` consecutive batches above ``high`` or below
``low``, the number of workers becomes ``ceil(work / target)``, with the mean work of these batches. It
depends only on the work, and ``target`` lies between ``low`` and ``high``, so a constant load leads to one
number of workers and stays there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from evenflow.errors import EvenflowError


@dataclass(frozen=True)
class AutoWorkers:
    """When to add and remove workers, by their utilisation.

    Parameters
    ----------
    least, most
        Fewest and most workers.
    low
        Utilisation below which workers are removed.
    high
        Utilisation above which workers are added.
    patience
        Number of consecutive batches outside these limits before the number of workers changes.

    Examples
    --------
    >>> rule = AutoWorkers(least=2, most=8)
    >>> rule.clamp(1), round(rule.target, 2)
    (2, 0.58)
    """

    least: int = 1
    most: int = 64
    low: float = 0.4
    high: float = 0.85
    patience: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise EvenflowError(f"least is {self.least} and most is {self.most}; choose 1 <= least <= most.")
        if not 0 < self.low < self.high <= 1:
            raise EvenflowError(f"low is {self.low} and high is {self.high}; choose 0 < low < high <= 1.")
        if self.patience < 1:
            raise EvenflowError(f"patience is {self.patience}; use at least one batch.")

    @property
    def target(self) -> float:
        """The highest utilisation after a change."""
        return math.sqrt(self.low * self.high)

    def clamp(self, workers: int) -> int:
        """Return the nearest allowed number of workers."""
        return min(self.most, max(self.least, workers))


@dataclass
class Sizing:
    """The current run of batches with too much or too little work."""

    rule: AutoWorkers
    works: list[float] = field(default_factory=list)
    direction: int = 0  # +1: too much, -1: too little

    def add(self, work: float, workers: int) -> int:
        """Take the work of one batch; return the number of workers from now on.

        >>> sizing = Sizing(AutoWorkers(most=8, patience=2))
        >>> [sizing.add(3.8, 4), sizing.add(3.8, 4)]
        [4, 7]
        """
        utilisation = work / workers
        now = 1 if utilisation > self.rule.high else -1 if utilisation < self.rule.low else 0
        if now != self.direction:
            self.works = []
        self.direction = now
        if now == 0:
            return self.rule.clamp(workers)
        self.works.append(work)
        if len(self.works) < self.rule.patience:
            return self.rule.clamp(workers)
        mean = sum(self.works) / len(self.works)
        self.works, self.direction = [], 0
        wanted = self.rule.clamp(math.ceil(mean / self.rule.target - 1e-9))
        return max(workers, wanted) if now > 0 else min(self.rule.clamp(workers), wanted)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"works": self.works, "direction": self.direction}
