"""Round-Robin head (`choices` III-B, the baseline "RR"): head keys are dealt out in turn, a tail key has two
choices.

``worker = offset + (head messages so far) mod n`` for a head key, the less loaded of two candidates for a
tail key.

Left open by the paper: everything in :mod:`evenflow.schemes.head`; the turn starts at the source's offset.
The loads that the tail looks at count head messages too; these are spread evenly, so leaving them out would
change a load difference by at most one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, UInt64Array, kernel
from evenflow.schemes.base import RouterPlace
from evenflow.schemes.head import HeadRouter, HeadScheme, HeadState, is_head, new_head_state, tail_worker
from evenflow.schemes.registry import register
from evenflow.sketches.space_saving import count_key


@register
@dataclass(frozen=True)
class RoundRobinHead(HeadScheme):
    """Hot keys are dealt out one by one, blind to load: the tail must find its own balance.

    >>> router = RoundRobinHead(theta=0.5).router(workers=4)
    >>> router.route(np.array([1, 1, 1, 1], np.uint64)).tolist()
    [2, 0, 1, 2]
    """

    name = "round-robin-head"
    aliases = ("rr",)
    paper = "choices III-B"
    summary = "hot keys round robin over all workers, the rest have two choices"

    def new_router(self, place: RouterPlace) -> RoundRobinHeadRouter:
        """Start the Round-Robin head at one source."""
        return RoundRobinHeadRouter(self, place)


class RoundRobinHeadRouter(HeadRouter):
    """The Round-Robin head at one source; ``state.cursor[1]`` is the worker whose turn is next."""

    scheme: RoundRobinHead

    def __init__(self, scheme: RoundRobinHead, place: RouterPlace):
        super().__init__(scheme, place)
        self.state = new_head_state(scheme, place.workers)
        self.state.cursor[1] = place.offset

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        _route(keys, out, self.state, self.theta, self.least, self.place.salt, self.scheme.distinct)


@kernel
def _route(
    keys: UInt64Array,
    out: Int32Array,
    state: HeadState,
    theta: float,
    least: float,
    salt: np.uint64,
    distinct: bool,
) -> None:
    loads = state.loads
    turn = state.cursor[1]
    for i in range(keys.size):
        entry = count_key(state.sketch, keys[i])
        if is_head(state.sketch, entry, theta, least):
            worker = turn
            turn = turn + 1 if turn + 1 < loads.size else 0
        else:
            worker = tail_worker(keys[i], loads, salt, distinct)
        loads[worker] += 1
        out[i] = worker
    state.cursor[1] = turn
