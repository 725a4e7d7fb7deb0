"""Partial Key Grouping (`choices` II-B; Nasir et al., ICDE 2015): the less loaded of a key's two candidates.

``worker = argmin(load[candidate 0], load[candidate 1])``, where a load counts the messages of this source.

Not specified by the paper: ties go to the first candidate. The two candidates may coincide in the authors'
simulator but not in Storm; here they are distinct by default, and ``distinct=False`` takes the first two
hashes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, kernel
from evenflow.keys import candidate, second_candidate
from evenflow.schemes.base import Router, RouterPlace, Scheme
from evenflow.schemes.registry import register


@register
@dataclass(frozen=True)
class PartialKey(Scheme):
    """Send a message to the less loaded of its key's two candidates; balanced while no key exceeds 2/n.

    Parameters
    ----------
    distinct
        Whether the two candidates must differ.

    Examples
    --------
    >>> PartialKey().router(workers=10).route(np.array([1, 1, 1, 1], np.uint64)).tolist()
    [6, 1, 6, 1]

    References
    ----------
    Nasir et al., *When Two Choices Are not Enough* (ICDE 2016), section II-B.
    """

    distinct: bool = True

    name = "partial-key"
    aliases = ("pkg",)
    paper = "choices II-B"
    summary = "two candidates per key; the less loaded one takes the row"
    needs_load = True
    learns = True

    def new_router(self, place: RouterPlace) -> PartialKeyRouter:
        """Return a router for Partial Key Grouping."""
        return PartialKeyRouter(self, place)


class PartialKeyState(NamedTuple):
    """Messages sent to each worker."""

    loads: Int64Array


class PartialKeyRouter(Router):
    """Partial Key Grouping at one source."""

    scheme: PartialKey

    def __init__(self, scheme: PartialKey, place: RouterPlace):
        super().__init__(scheme, place)
        self.state = PartialKeyState(np.zeros(place.workers, np.int64))

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        _route(keys, out, self.state, self.place.salt, self.scheme.distinct)


@kernel
def _route(
    keys: UInt64Array, out: Int32Array, state: PartialKeyState, salt: np.uint64, distinct: bool
) -> None:
    loads = state.loads
    n = loads.size
    for i in range(keys.size):
        key = keys[i]
        worker = candidate(key, 0, salt, n)
        other = second_candidate(key, worker, salt, n, distinct)
        if loads[other] < loads[worker]:
            worker = other
        loads[worker] += 1
        out[i] = worker
