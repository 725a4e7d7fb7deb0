"""Shuffle grouping (`choices` II-B): round robin over the workers, whatever the key.

Identical sources would all start at worker 0; each starts at its own offset instead (DECISIONS: all schemes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, kernel
from evenflow.schemes.base import Router, RouterPlace, Scheme
from evenflow.schemes.registry import register


@register
@dataclass(frozen=True)
class Shuffle(Scheme):
    """Deal messages out one by one: perfect balance, every key's state on every worker.

    >>> Shuffle().router(workers=3).route(np.zeros(4, np.uint64)).tolist()
    [0, 1, 2, 0]
    """

    name = "shuffle"
    aliases = ("sg",)
    paper = "choices II-B"
    summary = "round robin: perfect balance, every key everywhere"

    def new_router(self, place: RouterPlace) -> ShuffleRouter:
        """Start shuffle grouping at one source."""
        return ShuffleRouter(self, place)


class ShuffleState(NamedTuple):
    """Messages sent to each worker, and the worker that is next."""

    loads: Int64Array
    next: Int64Array


class ShuffleRouter(Router):
    """Shuffle grouping at one source."""

    def __init__(self, scheme: Shuffle, place: RouterPlace):
        super().__init__(scheme, place)
        self.state = ShuffleState(np.zeros(place.workers, np.int64), np.array([place.offset], np.int64))

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        _route(out, self.state)


@kernel
def _route(out: Int32Array, state: ShuffleState) -> None:
    n = state.loads.size
    worker = state.next[0]
    for i in range(out.size):
        out[i] = worker
        state.loads[worker] += 1
        worker += 1
        if worker == n:
            worker = 0
    state.next[0] = worker
