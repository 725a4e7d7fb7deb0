"""Round-Robin head (`choices` III-B, the baseline "RR"): head keys in turn, two candidates for tail keys.

``worker = offset + (head messages so far) mod n`` for a head key, the less loaded of two candidates for a
tail key.

What the paper does not specify is described in :mod:`evenflow.schemes.head`. The round robin starts at the
source's offset. The loads compared for tail keys include head messages; these are spread evenly, so leaving
them out would change a load difference by at most one.
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
    """Send hot keys to all workers in turn, regardless of load; only the tail is balanced by load.

    Parameters
    ----------
    theta, capacity, distinct, warm_up
        See :class:`~evenflow.schemes.head.HeadScheme`.

    Examples
    --------
    >>> router = RoundRobinHead(theta=0.5).router(workers=4)
    >>> router.route(np.array([1, 1, 1, 1], np.uint64)).tolist()
    [0, 1, 2, 3]

    References
    ----------
    Nasir et al., *When Two Choices Are not Enough* (ICDE 2016), section III-B.
    """

    name = "round-robin-head"
    aliases = ("rr",)
    paper = "choices III-B"
    summary = "hot keys go to all workers in turn, the rest have two candidates"

    def new_router(self, place: RouterPlace) -> RoundRobinHeadRouter:
        """Return a router for the Round-Robin head."""
        return RoundRobinHeadRouter(self, place)


class RoundRobinHeadRouter(HeadRouter):
    """The Round-Robin head at one source; ``state.cursor[1]`` is the next worker."""

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
