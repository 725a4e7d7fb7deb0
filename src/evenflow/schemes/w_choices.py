"""W-Choices (`choices` III-B, Algorithm 1): a head key may go to every worker, a tail key to two.

``worker = argmin load`` over all workers for a head key and over ``candidate 0, candidate 1`` for a tail key,
where a load counts the messages of this source.

What the paper does not specify is described in :mod:`evenflow.schemes.head`, which also explains why the
minimum over all workers is O(1) amortised.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, UInt64Array, kernel
from evenflow.schemes.base import RouterPlace
from evenflow.schemes.head import (
    HeadRouter,
    HeadScheme,
    HeadState,
    is_head,
    least_of_all,
    new_head_state,
    tail_worker,
)
from evenflow.schemes.registry import register
from evenflow.sketches.space_saving import count_key


@register
@dataclass(frozen=True)
class WChoices(HeadScheme):
    """Send hot keys to the least loaded of all workers: nearly perfect balance, hot keys on every worker.

    Parameters
    ----------
    theta, capacity, distinct, warm_up
        See :class:`~evenflow.schemes.head.HeadScheme`.

    Examples
    --------
    >>> router = WChoices(theta=0.5).router(workers=4)
    >>> router.route(np.array([1, 1, 1, 1], np.uint64)).tolist()
    [0, 1, 2, 3]

    References
    ----------
    Nasir et al., *When Two Choices Are not Enough* (ICDE 2016), section III-B.
    """

    name = "w-choices"
    aliases = ("w-c",)
    paper = "choices III-B"
    summary = "hot keys go to the least loaded of all workers, the rest have two candidates"

    def new_router(self, place: RouterPlace) -> WChoicesRouter:
        """Return a router for W-Choices."""
        return WChoicesRouter(self, place)


class WChoicesRouter(HeadRouter):
    """W-Choices at one source."""

    scheme: WChoices

    def __init__(self, scheme: WChoices, place: RouterPlace):
        super().__init__(scheme, place)
        self.state = new_head_state(scheme, place.workers)

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        place, distinct = self.place, self.scheme.distinct
        _route(keys, out, self.state, self.theta, self.least, place.offset, place.salt, distinct)


@kernel
def _route(
    keys: UInt64Array,
    out: Int32Array,
    state: HeadState,
    theta: float,
    least: float,
    offset: int,
    salt: np.uint64,
    distinct: bool,
) -> None:
    loads = state.loads
    for i in range(keys.size):
        entry = count_key(state.sketch, keys[i])
        if is_head(state.sketch, entry, theta, least):
            worker = least_of_all(loads, state.cursor, offset)
        else:
            worker = tail_worker(keys[i], loads, salt, distinct)
        loads[worker] += 1
        out[i] = worker
