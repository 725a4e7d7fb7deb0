"""How many workers? ``workers="auto"``: by utilisation, with hysteresis.

Work is the number of workers that would be busy all the time: busy seconds of all of them over the seconds
that passed. Utilisation is work / workers. Above ``high`` or below ``low`` for ``patience`` batches in a row,
the number becomes ``ceil(work / target)``, work being the mean over these batches. It depends on the work
alone and ``target`` lies between the two, so a constant load has one answer and stays there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from evenflow.errors import EvenflowError


@dataclass(frozen=True)
class AutoWorkers:
    """Between which numbers of workers, and at which utilisation, to grow and shrink."""

    least: int = 1
    most: int = 64
    low: float = 0.4
    high: float = 0.85
    patience: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise EvenflowError(
                f"least is {self.least} and most is {self.most}; at least 1 worker, and least <= most."
            )
        if not 0 < self.low < self.high <= 1:
            raise EvenflowError(
                f"low is {self.low} and high is {self.high}; both lie above 0, up to 1, low below high."
            )
        if self.patience < 1:
            raise EvenflowError(f"patience is {self.patience}; wait for at least one batch.")

    @property
    def target(self) -> float:
        """The utilisation that a change aims at, at most."""
        return math.sqrt(self.low * self.high)

    def clamp(self, workers: int) -> int:
        """Return the nearest allowed number of workers."""
        return min(self.most, max(self.least, workers))


@dataclass
class Sizing:
    """The streak of batches with too much or too little work."""

    rule: AutoWorkers
    works: list[float] = field(default_factory=list)
    direction: int = 0  # +1: too much, -1: too little

    def add(self, work: float, workers: int) -> int:
        """Count one batch; return the number of workers to go on with.

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
