"""Common parts of the head schemes of `choices`: which keys are hot, and where hot and cold keys may go.

Head (III-A): ``H = {k : count(k) >= theta * N}`` according to this source's SpaceSaving sketch after N
messages, including the current one. The tail is routed as in Partial Key Grouping (Algorithm 1: d = 2).

Not specified by the paper, and chosen here:

* ``theta`` defaults to 1/(5n), the conservative end of the paper's range 1/(5n) .. 2/n.
* ``capacity`` of the sketch defaults to max(1000, 10 n), or 2/theta if that is more: with fewer than 1/theta
  counters every counter is above theta and every key looks hot. The error is never added to the count.
* As in Algorithm 1, a key can be head from the first message on, although a single one of the first 1/theta
  messages is a share of theta: these messages are spread like head messages. ``warm_up=True`` is an extra
  that is not in the paper: no key is head before N >= 1/theta. It saves the pairs of those
  messages and costs balance: every source sends the hottest key to the same two workers for 1/theta messages
  (with 48 sources and 80 workers, 19,200 messages in all).
* "Lowest load" over all workers breaks ties in the order offset, offset + 1, ... (mod n), with an offset per
  source, so that identical sources do not herd onto worker 0.

``least_of_all`` finds that worker exactly, in O(1) amortised. Loads only grow, so it keeps a level that no
load is below and a position before which every load is above the level, and continues the sweep from there. A
completed sweep has found every load above the level; it took n steps, and the level rises, which takes n
messages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenflow.kernels import Int64Array, UInt64Array, inlined
from evenflow.keys import candidate, second_candidate
from evenflow.schemes.base import Router, Scheme, check
from evenflow.sketches.space_saving import Counters, SpaceSaving, count_of, new_counters, top_counters


@dataclass(frozen=True)
class HeadScheme(Scheme):
    """Common parameters of the head schemes; n is the number of workers.

    Parameters
    ----------
    theta
        Share of the stream from which a key is hot. None: 1 / (5 n).
    capacity
        Number of counters of the sketch. None: max(1000, 10 n), or 2 / theta if that is more.
    distinct
        Whether a key's candidates must differ.
    warm_up
        Whether no key is hot before 1 / theta messages; not in the paper.
    """

    theta: float | None = None
    capacity: int | None = None
    distinct: bool = True
    warm_up: bool = False

    needs_load = True
    learns = True

    def __post_init__(self) -> None:
        if self.theta is not None:
            rule = "the share from which a key is hot must be 1e-7 to 1; the default is 1 / (5 workers)"
            check("theta", self.theta, 1e-7 <= self.theta <= 1, rule)
        if self.capacity is not None:
            good = isinstance(self.capacity, int) and self.capacity >= 1
            check("capacity", self.capacity, good, "use a whole number of counters, 1 or more")

    def theta_for(self, workers: int) -> float:
        """Return the share from which a key is hot."""
        return 1 / (5 * workers) if self.theta is None else float(self.theta)


def counters_for(workers: int, capacity: int | None, theta: float | None) -> int:
    """Return the number of counters of a source's sketch: ``capacity``, or enough for ``theta``."""
    if capacity is not None:
        return capacity
    return max(1000, 10 * workers, 0 if theta is None else math.ceil(2 / theta))


class HeadState(NamedTuple):
    """Messages sent to each worker, the sketch, and the cursor of ``least_of_all``: [level, position]."""

    loads: Int64Array
    sketch: Counters
    cursor: Int64Array


def new_head_state(scheme: HeadScheme, workers: int) -> HeadState:
    """Return the state of a source that has sent nothing."""
    loads = np.zeros(workers, np.int64)
    counters = counters_for(workers, scheme.capacity, scheme.theta)
    return HeadState(loads, new_counters(counters), np.zeros(2, np.int64))


class HeadRouter(Router):
    """A head scheme at one source; ``state`` has a field ``sketch``."""

    scheme: HeadScheme

    @property
    def theta(self) -> float:
        """The share from which a key is hot."""
        return self.scheme.theta_for(self.workers)

    @property
    def least(self) -> float:
        """The value of theta N from which keys can be hot."""
        return 1.0 if self.scheme.warm_up else 0.0

    @property
    def sketch(self) -> SpaceSaving:
        """This source's sketch, a live view; SpaceSaving.merged merges those of several sources."""
        return SpaceSaving.over(self.state.sketch)

    def _learn(self, others: Sequence[HeadRouter], share: float) -> None:
        super()._learn(others, share)
        counters = counters_for(self.workers, self.scheme.capacity, self.scheme.theta)
        sketch = SpaceSaving.merged((other.sketch for other in others), counters)
        self.state = self.state._replace(sketch=sketch.scaled(share).counters)
        self.state.cursor[0] = self.state.loads.min()  # the level; the position is 0, or the next worker

    @property
    def head(self) -> tuple[UInt64Array, Int64Array]:
        """The keys that are hot now and their counts, most frequent first."""
        counters = self.state.sketch
        warm = self.theta * counters.total[0] >= self.least
        keys, counts, _ = top_counters(counters, self.theta if warm else math.inf)
        return keys, counts


@inlined
def is_head(sketch: Counters, entry: int, theta: float, least: float) -> bool:
    """Return whether the key of ``entry``, which has just been counted, is hot."""
    share = theta * sketch.total[0]
    return share >= least and count_of(sketch, entry) >= share


@inlined
def tail_worker(key: np.uint64, loads: Int64Array, salt: np.uint64, distinct: bool) -> int:
    """Return the less loaded of two candidates, the first in a tie."""
    worker = candidate(key, 0, salt, loads.size)
    other = second_candidate(key, worker, salt, loads.size, distinct)
    return other if loads[other] < loads[worker] else worker


@inlined
def least_of_all(loads: Int64Array, cursor: Int64Array, offset: int) -> int:
    """Return the first worker of lowest load, counting from ``offset``, and move the cursor behind it."""
    n = loads.size
    level = cursor[0]
    for position in range(cursor[1], n):
        worker = position + offset if position + offset < n else position + offset - n
        if loads[worker] == level:
            cursor[1] = position + 1
            return worker
    best = offset
    best_position = 0
    for position in range(n):
        worker = position + offset if position + offset < n else position + offset - n
        if loads[worker] < loads[best]:
            best = worker
            best_position = position
        if loads[best] == level + 1:
            break
    cursor[0] = loads[best]
    cursor[1] = best_position + 1
    return best
