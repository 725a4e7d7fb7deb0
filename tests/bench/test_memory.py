"""The benchmark of memory sees a router that remembers every key, whether the router says so or not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import evenflow as ef
from evenflow.bench.memory import held
from evenflow.bench.results import Limit
from evenflow.kernels import Float64Array, Int32Array, UInt64Array
from evenflow.schemes.base import RouterPlace
from evenflow.schemes.key import KeyState


@dataclass(frozen=True)
class Leaky(ef.Scheme):
    name = "leaky"

    def new_router(self, place: RouterPlace) -> LeakyRouter:
        return LeakyRouter(self, place)


class LeakyRouter(ef.Router):
    def __init__(self, scheme: Leaky, place: RouterPlace):
        super().__init__(scheme, place)
        self.state = KeyState(np.zeros(place.workers, np.int64))
        self.seen: set[int] = set()

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        self.seen.update(keys.tolist())
        out[:] = 0


def test_a_leak_is_seen() -> None:
    few, many = (held(Leaky(), 10, distinct, 5000) for distinct in (5, 5000))
    assert few.reported == many.reported
    assert many.allocated > few.allocated + 5000 * 8


def test_a_bounded_router_holds_the_same() -> None:
    few, many = (held(ef.scheme("w-choices"), 10, distinct, 5000) for distinct in (5, 5000))
    assert few.reported == many.reported
    assert many.allocated == pytest.approx(few.allocated, rel=0.01)
    assert many.allocated >= many.reported


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [("at most", 3, 3.1), ("less than", 2.9, 3), ("at least", 3, 2.9)],
)
def test_limits(rule: str, good: float, bad: float) -> None:
    assert Limit(rule, 3).holds(good)
    assert not Limit(rule, 3).holds(bad)
