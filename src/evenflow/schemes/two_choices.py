"""Power of Two Choices (`heterogeneous` 4.3, 6; Azar et al.): the less loaded of two random workers.

``worker = argmin(load[R1(m)], load[R2(m)])`` with R1, R2 random numbers of the message m, regardless of its
key.

Not specified by the paper: the random numbers are hashes of (seed, source, message number), so that runs can
be repeated. Ties go to the first worker. The two workers are distinct by default; ``distinct=False`` draws
with replacement, as Azar et al. do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, kernel
from evenflow.keys import GOLDEN, mix, to_range
from evenflow.schemes.base import Router, RouterPlace, Scheme
from evenflow.schemes.registry import register


@register
@dataclass(frozen=True)
class TwoChoices(Scheme):
    """Send a message to the less loaded of two random workers: nearly the balance of shuffle, and its memory.

    Parameters
    ----------
    distinct
        Whether the two workers must differ.

    Examples
    --------
    >>> TwoChoices().router(workers=10).route(np.zeros(4, np.uint64)).tolist()
    [2, 5, 4, 4]

    References
    ----------
    Nasir et al., *Load Balancing for Skewed Streams on Heterogeneous Cluster* (2017), section 4.3.
    """

    distinct: bool = True

    name = "two-choices"
    aliases = ("potc",)
    paper = "heterogeneous 4.3"
    summary = "two random workers per row, regardless of the key; the less loaded one takes it"
    needs_load = True
    learns = True

    def new_router(self, place: RouterPlace) -> TwoChoicesRouter:
        """Return a router for Power of Two Choices."""
        return TwoChoicesRouter(self, place)


class TwoChoicesState(NamedTuple):
    """Messages sent to each worker."""

    loads: Int64Array


class TwoChoicesRouter(Router):
    """Power of Two Choices at one source."""

    scheme: TwoChoices

    def __init__(self, scheme: TwoChoices, place: RouterPlace):
        super().__init__(scheme, place)
        self.state = TwoChoicesState(np.zeros(place.workers, np.int64))

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        place = self.place
        _route(out, self.state, self.routed, place.source, place.salt, self.scheme.distinct)


@kernel
def _route(
    out: Int32Array, state: TwoChoicesState, message: int, source: int, salt: np.uint64, distinct: bool
) -> None:
    loads = state.loads
    n = loads.size
    stream = mix(salt ^ np.uint64(source))
    for i in range(out.size):
        number = np.uint64(2 * (message + i))
        worker = to_range(mix(stream + number * GOLDEN), n)
        hashed = mix(stream + (number + np.uint64(1)) * GOLDEN)
        if distinct and n > 1:  # one of the n - 1 others, counted from the first
            other = worker + 1 + to_range(hashed, n - 1)
            other = other if other < n else other - n
        else:
            other = to_range(hashed, n)
        if loads[other] < loads[worker]:
            worker = other
        loads[worker] += 1
        out[i] = worker
