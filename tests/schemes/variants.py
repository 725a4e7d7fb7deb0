"""Which parameters the contract tests try for each scheme."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import evenflow as ef
from evenflow.kernels import Float64Array


@dataclass(frozen=True)
class Case:
    """A scheme with parameters small enough that every rule of it is met in a short stream."""

    name: str
    parameters: dict[str, Any] = field(default_factory=dict)
    rate: float = 1e4  # messages per second of the clock passed as times

    def scheme(self, workers: int) -> ef.Scheme:
        return ef.scheme(self.name, **self.parameters)

    def times(self, messages: int) -> Float64Array:
        return np.arange(messages) / self.rate


CASES = [
    Case("key"),
    Case("shuffle"),
    Case("partial-key"),
    Case("partial-key", {"distinct": False}),
    Case("consistent-hash", {"replicas": 20}),
    Case("consistent-hash", {"replicas": 1}),
    Case("bounded-load"),
    Case("bounded-load", {"epsilon": 0.5, "replicas": 10}),
    Case("random-choices"),
    Case("random-choices", {"epsilon": 0.3}),
    Case("random-choices", {"epsilon": 0}),
]
IDS = [f"{case.name}-{i}" for i, case in enumerate(CASES)]
