"""Greedy-d (`choices` III-B; Azar et al.): the least loaded of d candidates, for hot and cold keys alike.

``worker = argmin(load[candidate 0], ..., load[candidate d - 1])``; d = 1 is key grouping, d = 2 Partial Key
Grouping.

Not specified by the paper: ties go to the first candidate. Candidates are distinct by default;
``distinct=False`` takes the first d hashes as they are. With d >= n distinct candidates every worker is a
candidate, and the rule is that of W-Choices for a head key, including ties.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array, kernel
from evenflow.keys import candidate
from evenflow.schemes.base import Router, RouterPlace, Scheme, check
from evenflow.schemes.head import least_of_all
from evenflow.schemes.registry import register


@register
@dataclass(frozen=True)
class GreedyD(Scheme):
    """Send a message to the least loaded of its key's d candidates: O(d) per message.

    Parameters
    ----------
    choices
        Number of candidates of every key (d).
    distinct
        Whether the candidates must differ.

    Examples
    --------
    >>> GreedyD(choices=3).router(workers=10).route(np.array([1, 1, 1, 1], np.uint64)).tolist()
    [6, 1, 9, 6]

    References
    ----------
    Nasir et al., *When Two Choices Are not Enough* (ICDE 2016), section III-B.
    """

    choices: int = 2
    distinct: bool = True

    name = "greedy-d"
    aliases = ("greedy",)
    paper = "choices III-B"
    summary = "d candidates for every key; the least loaded one takes the row"
    needs_load = True
    learns = True

    def __post_init__(self) -> None:
        good = isinstance(self.choices, int) and 1 <= self.choices <= 2**20
        check("choices", self.choices, good, "use a whole number of candidates, 1 to 2**20")

    def new_router(self, place: RouterPlace) -> GreedyDRouter:
        """Return a router for Greedy-d."""
        return GreedyDRouter(self, place)


class GreedyDState(NamedTuple):
    """Messages sent to each worker, and the cursor of ``least_of_all``."""

    loads: Int64Array
    cursor: Int64Array


class GreedyDRouter(Router):
    """Greedy-d at one source."""

    scheme: GreedyD

    def __init__(self, scheme: GreedyD, place: RouterPlace):
        super().__init__(scheme, place)
        self.state = GreedyDState(np.zeros(place.workers, np.int64), np.zeros(2, np.int64))

    def _learn(self, others: Sequence[GreedyDRouter], share: float) -> None:
        super()._learn(others, share)
        self.state.cursor[0] = self.state.loads.min()

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        if self.scheme.distinct and self.scheme.choices >= self.workers:
            _route_to_all(out, self.state, self.place.offset)
        else:
            seen = np.full(self.workers, -1, np.int64)
            _route(keys, out, self.state, self.scheme.choices, self.place.salt, self.scheme.distinct, seen)


@kernel
def _route_to_all(out: Int32Array, state: GreedyDState, offset: int) -> None:
    for i in range(out.size):
        worker = least_of_all(state.loads, state.cursor, offset)
        state.loads[worker] += 1
        out[i] = worker


@kernel
def _route(
    keys: UInt64Array,
    out: Int32Array,
    state: GreedyDState,
    choices: int,
    salt: np.uint64,
    distinct: bool,
    seen: Int64Array,
) -> None:
    loads = state.loads
    n = loads.size
    for i in range(keys.size):
        worker = candidate(keys[i], 0, salt, n)
        seen[worker] = i
        found = 1
        index = 1
        while found < choices:
            other = candidate(keys[i], index, salt, n)
            index += 1
            if distinct:
                if seen[other] == i:
                    continue
                seen[other] = i
            found += 1
            if loads[other] < loads[worker]:
                worker = other
        loads[worker] += 1
        out[i] = worker
