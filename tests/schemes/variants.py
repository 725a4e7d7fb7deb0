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


# keys above a few percent are tracked, and the map is looked at several times
SMALL_FUNCTION = {"domain": 200, "every": 150, "sigma": 1.0, "alpha": (1.5, 1.5, 1.7), "replicas": 20}

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
    Case("consistent"),
    Case("consistent", {"allocation": "bounded-load", "virtual_workers": 3, "epsilon": 0.2}),
    Case("consistent", {"allocation": "key", "virtual_workers": 4}),
    Case("consistent", {"allocation": "partial-key", "virtual_workers": 4}),
    Case("consistent", {"allocation": "two-choices", "virtual_workers": 2}),
    Case("consistent", {"allocation": "shuffle", "virtual_workers": 1}),
    Case("fill"),
    Case("fill", {"epsilon": 0.3, "horizon": 100}),
    Case("fill", {"split": False}),
    Case("fill", {"split": False, "epsilon": 0.1, "horizon": 100}),
    Case("two-choices"),
    Case("two-choices", {"distinct": False}),
    Case("greedy-d", {"choices": 1}),
    Case("greedy-d", {"choices": 4}),
    Case("greedy-d", {"choices": 7, "distinct": False}),
    Case("w-choices"),
    Case("w-choices", {"theta": 0.02, "capacity": 30}),
    Case("w-choices", {"theta": 0.1, "distinct": False, "warm_up": True}),
    Case("round-robin-head"),
    Case("round-robin-head", {"theta": 0.05, "capacity": 40}),
    Case("d-choices"),
    Case("d-choices", {"theta": 0.02, "capacity": 60, "epsilon": 0.01}),
    Case("d-choices", {"theta": 0.01, "capacity": 150, "distinct": False, "warm_up": True}),
    Case("d-choices", {"theta": 0.05, "capacity": 25, "choices": 4}),
    Case("fish"),
    Case("fish", {"epoch": 50, "capacity": 20, "theta": 0.04, "interval": 2.0, "replicas": 5}, rate=20),
    Case("fish", {"epoch": 30, "capacity": 40, "decay": 0.5, "theta": 0.03, "ring": False}, rate=10),
    Case("fish", {"epoch": 70, "capacity": 30, "theta": 0.05, "choices": "d-choices", "epsilon": 0.05}),
    Case("fish", {"epoch": 40, "capacity": 30, "theta": 0.05, "choices": "w-choices", "replicas": 1}, rate=2),
    Case("fish", {"epochs": False, "capacity": 50, "theta": 0.02, "assignment": "counts", "replicas": 10}),
    Case("fish", {"decay": 0, "epoch": 25, "capacity": 60, "least_choices": 4, "interval": 0.5}, rate=100),
    Case("dynamic-key"),
    Case("dynamic-key", rate=10),
    Case(
        "dynamic-key",
        {
            "expected_keys": 10,
            "baby_limit": 8,
            "teenage_cycle": 0.5,
            "old_cycle": 1,
            "warm_up": 1,
            "check_every": 1,
        },
        rate=20,
    ),
    Case("dynamic-key", {"expected_keys": 30, "baby_limit": 30, "old_cycle": 20, "check_every": 0}, rate=10),
    Case("explicit"),
    Case("explicit", {"counting": False, "replicas": 20}),
    Case("explicit", {"algorithm": "scan", **SMALL_FUNCTION}),
    Case("explicit", {"algorithm": "redist", **SMALL_FUNCTION}),
    Case("explicit", {"algorithm": "readj", **SMALL_FUNCTION}),
    Case("explicit", {"algorithm": "readj-round", **SMALL_FUNCTION}),
    Case("explicit", {**SMALL_FUNCTION, "resources": "LQL", "utility": "ATLM", "window": 77, "counters": 5}),
]
IDS = [f"{case.name}-{i}" for i, case in enumerate(CASES)]
