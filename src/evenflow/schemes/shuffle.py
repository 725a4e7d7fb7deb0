"""Shuffle grouping (`choices` II-B): round robin over the workers, regardless of the key.

Each source starts at its own offset, since otherwise identical sources would all start at worker 0.
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
    """Send messages to the workers in turn: perfect balance, with every key's state on every worker.

    Examples
    --------
    >>> Shuffle().router(workers=3).route(np.zeros(4, np.uint64)).tolist()
    [0, 1, 2, 0]

    References
    ----------
    Nasir et al., *When Two Choices Are not Enough* (ICDE 2016), section II-B.
    """

    name = "shuffle"
    aliases = ("sg",)
    paper = "choices II-B"
    summary = "round robin: perfect balance, every key on every worker"

    def new_router(self, place: RouterPlace) -> ShuffleRouter:
        """Return a router for shuffle grouping."""
        return ShuffleRouter(self, place)


class ShuffleState(NamedTuple):
    """Messages sent to each worker, and the next worker."""

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
