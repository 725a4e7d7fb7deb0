"""D-Choices (`choices` III-B, IV-A): a head key has d candidates, the fewest that can balance the head.

``worker = argmin(load[candidate 0], ..., load[candidate d - 1])`` for a head key, with d = 2 for a tail key.
d is the smallest number, starting at ``max(2, ceil(p_1 n))``, that satisfies Prop. 4.1 for every prefix h = 1
.. |H| of the head, most frequent first::

    P_h + (b_h / n)^d (P_|H| - P_h) + (b_h / n)^2 (1 - P_|H|) <= b_h (1 / n + epsilon)

where P_h is the share of the h most frequent keys. If d = n, the head is routed as in W-Choices.

Not specified by the paper, and chosen here:

* Candidates are distinct, so h keys reach ``b_h = n - n (1 - d / n)^h`` workers in expectation.
  ``distinct=False`` uses the printed ``b_h = n - n (1 - 1 / n)^(h d)``, with candidates that may coincide.
  The distinct formula gives the d found by experiment (K = 10^4; z = 1.4, 2.0 at n = 50 and n = 100: 18, 32,
  35, 62); the printed one gives 22, 49, 43, 95.
* Ties go to the first candidate. Candidates are nested: a larger d only adds some.
* Shares are counts of this source's sketch divided by its messages; the error is not added.
* When to solve again. A source inspects its head at the first head message, and then at the first one after N
  has doubled or ``capacity`` messages have passed, whichever comes first. An inspection walks the distinct
  counts of the sketch, fewer than ``capacity``, so it costs at most one step per message. It solves again
  only if the head has changed materially since the last solution: its size by more than 1 percent, or some
  P_h by more than 1 percent of P_h or of 1 - P_h, whichever is less. d is roughly proportional to these
  shares, so it is off by little more than 1 percent; on a stationary stream the shares settle and the solver
  no longer runs.

The minimum is found without reading all d loads: head keys keep their candidates in a row of a bounded cache,
with a level and a position, as in ``least_of_all``. This is exact, since loads only grow, and costs one pass
over a row each time its level rises. A level rises by about one in n messages, so the whole head takes about
|H| d / n steps per message, however hot its keys are. The cache is cleared when d changes or when it is full;
it does not affect decisions and is not saved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt32Array, UInt64Array, inlined, kernel
from evenflow.keys import candidate
from evenflow.schemes.base import RouterPlace, check, flatten
from evenflow.schemes.choices_solver import solve_choices
from evenflow.schemes.head import HeadRouter, HeadScheme, counters_for, is_head, least_of_all, tail_worker
from evenflow.schemes.registry import register
from evenflow.sketches.space_saving import Counters, count_key, new_counters

MATERIAL = 0.01  # relative change of the head above which d is solved for again
CACHE_CELLS = 2**22  # most candidates in all rows; bounds the cache for thousands of workers


@register
@dataclass(frozen=True)
class DChoices(HeadScheme):
    """Send hot keys to the least loaded of d candidates, the fewest that keep the imbalance below epsilon.

    Parameters
    ----------
    theta, capacity, distinct, warm_up
        See :class:`~evenflow.schemes.head.HeadScheme`.
    epsilon
        Imbalance for which d is solved.
    choices
        A fixed d. None: solve for it.

    Examples
    --------
    >>> router = DChoices(theta=0.5).router(workers=10)
    >>> router.route(np.array([1, 1, 1, 1], np.uint64)).tolist()
    [0, 1, 2, 3]
    >>> router.choices
    10

    References
    ----------
    Nasir et al., *When Two Choices Are not Enough* (ICDE 2016), sections III-B and IV-A.
    """

    epsilon: float = 1e-4
    choices: int | None = None

    name = "d-choices"
    aliases = ("d-c",)
    paper = "choices III-B"
    summary = "hot keys have as many candidates as balance requires, the rest two"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_epsilon(self.epsilon)
        if self.choices is not None:
            good = isinstance(self.choices, int) and 2 <= self.choices <= 2**20
            check("choices", self.choices, good, "use 2 to 2**20, or leave it out to solve for it")

    def new_router(self, place: RouterPlace) -> DChoicesRouter:
        """Return a router for D-Choices."""
        return DChoicesRouter(self, place)


class DChoicesState(NamedTuple):
    """Messages sent to each worker, the sketch, the cursor over all workers, d and the head it is for."""

    loads: Int64Array
    sketch: Counters
    cursor: Int64Array
    choices: Int64Array  # [d, N of the next inspection, size of the head that d was solved for]
    solved: Float64Array  # P_1, P_2, ... of that head


class Rows(NamedTuple):
    """A cache of head keys' candidates, and scratch space; does not affect decisions."""

    row: Int32Array  # of each entry of the sketch, or -1
    owner: UInt64Array  # the key whose candidates a row holds
    level: Int64Array  # no candidate of a row has a load below its level,
    position: Int32Array  # and those before its position have a load above it
    cells: UInt32Array  # row after row of d candidates
    used: Int64Array  # [rows in use, d of all rows, last stamp]
    seen: Int64Array  # the stamp under which a worker was last found
    shares: Float64Array  # P_1, P_2, ... of the head at an inspection


class DChoicesRouter(HeadRouter):
    """D-Choices at one source."""

    scheme: DChoices

    def __init__(self, scheme: DChoices, place: RouterPlace):
        super().__init__(scheme, place)
        n = place.workers
        capacity = counters_for(n, scheme.capacity, scheme.theta)
        choices = np.array([min(scheme.choices or 2, n), 0, 0], np.int64)
        if scheme.choices is not None:
            choices[1] = np.iinfo(np.int64).max  # never inspect
        loads, cursor = np.zeros(n, np.int64), np.zeros(2, np.int64)
        self.state = DChoicesState(loads, new_counters(capacity), cursor, choices, np.zeros(capacity))
        self._rows = _new_rows(capacity, min(capacity, math.ceil(1 / self.theta)), n)

    @property
    def choices(self) -> int:
        """The current d; if it is the number of workers, the head is routed as in W-Choices."""
        return int(self.state.choices[0])

    @property
    def nbytes(self) -> int:
        """Bytes held in arrays, including the cache."""
        return super().nbytes + sum(array.nbytes for _, array in flatten(self._rows))

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        scheme, place = self.scheme, self.place
        _route(
            keys,
            out,
            self.state,
            self._rows,
            self.theta,
            self.least,
            scheme.epsilon,
            place.offset,
            place.salt,
            scheme.distinct,
        )


def choices_needed(head: npt.ArrayLike, workers: int, epsilon: float = 1e-4, distinct: bool = True) -> int:
    """Return the number of choices required by Prop. 4.1, given the head keys' shares of the stream.

    At least 2, and ``workers`` if no smaller number suffices.

    >>> choices_needed([0.4, 0.1], workers=10)
    8
    """
    shares = np.sort(np.asarray(head, np.float64).ravel())[::-1]
    if shares.size and not (shares[-1] >= 0 and shares.sum() <= 1 + 1e-9):
        raise EvenflowError(
            f"head is {head!r}; pass non-negative shares of the stream that sum to at most 1."
        )
    good = isinstance(workers, int | np.integer) and workers >= 1
    check("workers", workers, good, "there must be at least one worker")
    _check_epsilon(epsilon)
    return int(solve_choices(np.cumsum(shares), shares.size, int(workers), float(epsilon), bool(distinct)))


def _check_epsilon(epsilon: float) -> None:
    check(
        "epsilon",
        epsilon,
        0 < epsilon < 1,
        "the allowed imbalance is a share above 0 and below 1, such as 1e-4",
    )


def _new_rows(capacity: int, rows: int, workers: int) -> Rows:
    return Rows(
        row=np.full(capacity, -1, np.int32),
        owner=np.zeros(rows, np.uint64),
        level=np.zeros(rows, np.int64),
        position=np.zeros(rows, np.int32),
        cells=np.zeros(min(rows * workers, max(workers, CACHE_CELLS)), np.uint32),
        used=np.zeros(3, np.int64),
        seen=np.zeros(workers, np.int64),
        shares=np.zeros(capacity),
    )


@kernel
def _route(
    keys: UInt64Array,
    out: Int32Array,
    state: DChoicesState,
    rows: Rows,
    theta: float,
    least: float,
    epsilon: float,
    offset: int,
    salt: np.uint64,
    distinct: bool,
) -> None:
    loads = state.loads
    n = loads.size
    for i in range(keys.size):
        key = keys[i]
        entry = count_key(state.sketch, key)
        worker = -1
        if is_head(state.sketch, entry, theta, least):
            if state.sketch.total[0] >= state.choices[1]:
                _inspect(state, rows.shares, theta, epsilon, distinct)
            d = state.choices[0]
            if d >= n:
                worker = least_of_all(loads, state.cursor, offset)
            elif d > 2:
                row = rows.row[entry]
                if row < 0 or rows.owner[row] != key or rows.used[1] != d:
                    row = _new_row(rows, entry, key, d, salt, n, distinct)
                worker = _least_of_row(rows, row, d, loads)
        if worker < 0:
            worker = tail_worker(key, loads, salt, distinct)
        loads[worker] += 1
        out[i] = worker


@inlined
def _least_of_row(rows: Rows, row: int, d: int, loads: Int64Array) -> int:
    """Return the first of a row's candidates with the lowest load, as ``least_of_all`` does for all workers.

    Cells and workers are unsigned, which avoids numba's handling of negative indices.
    """
    start = np.uint64(row * d)
    level = rows.level[row]
    end = start + np.uint64(d)
    cell = start + np.uint64(rows.position[row])
    while cell < end:
        worker = rows.cells[cell]
        cell += np.uint64(1)
        if loads[worker] == level:
            rows.position[row] = np.int64(cell - start)
            return np.int64(worker)  # type: ignore[return-value]
    level += 1
    best = rows.cells[start]
    lowest = loads[best]
    best_cell = start
    cell = start
    while cell < end and lowest > level:
        worker = rows.cells[cell]
        if loads[worker] < lowest:
            lowest = loads[worker]
            best_cell = cell
        cell += np.uint64(1)
    rows.level[row] = lowest
    rows.position[row] = np.int64(best_cell - start) + 1
    return np.int64(rows.cells[best_cell])  # type: ignore[return-value]


@kernel
def _new_row(rows: Rows, entry: int, key: np.uint64, d: int, salt: np.uint64, n: int, distinct: bool) -> int:
    """Give ``entry`` a row with the first d candidates of ``key``, and return the row."""
    row = rows.row[entry]
    full = rows.used[0] == min(rows.owner.size, rows.cells.size // d)
    if rows.used[1] != d or (row < 0 and full):
        for other in range(rows.row.size):
            rows.row[other] = -1
        rows.used[0] = 0
        rows.used[1] = d
        row = -1
    if row < 0:
        row = rows.used[0]
        rows.used[0] += 1
        rows.row[entry] = row
    rows.owner[row] = key
    rows.level[row] = -1
    rows.position[row] = d
    rows.used[2] += 1
    found = 0
    index = 0
    while found < d:
        worker = candidate(key, index, salt, n)
        index += 1
        if not distinct or rows.seen[worker] != rows.used[2]:
            rows.seen[worker] = rows.used[2]
            rows.cells[row * d + found] = worker
            found += 1
    return row


@kernel
def _inspect(
    state: DChoicesState, shares: Float64Array, theta: float, epsilon: float, distinct: bool
) -> None:
    """Measure the head, solve for d if it has changed materially, and schedule the next inspection."""
    size = _measure(state.sketch, theta, shares)
    if _has_changed(state.solved, state.choices[2], shares, size):
        state.choices[0] = solve_choices(shares, size, state.loads.size, epsilon, distinct)
        state.choices[2] = size
        for h in range(size):
            state.solved[h] = shares[h]
    total = state.sketch.total[0]
    state.choices[1] = total + min(total, state.sketch.keys.size)


@inlined
def _measure(sketch: Counters, theta: float, shares: Float64Array) -> int:
    """Write P_1, P_2, ... of the head to ``shares`` and return its size."""
    total = sketch.total[0]
    size = 0
    bucket = sketch.ends[1]
    while bucket >= 0:  # upwards: the head comes out least frequent first
        count = sketch.bucket_count[bucket]
        if count >= theta * total:
            entry = sketch.bucket_first[bucket]
            while entry >= 0:
                shares[size] = count
                size += 1
                entry = sketch.after[entry]
        bucket = sketch.bucket_above[bucket]
    for h in range(size // 2):
        shares[h], shares[size - 1 - h] = shares[size - 1 - h], shares[h]
    messages = 0.0
    for h in range(size):
        messages += shares[h]
        shares[h] = messages / total
    return size


@inlined
def _has_changed(solved: Float64Array, solved_size: int, shares: Float64Array, size: int) -> bool:
    if abs(size - solved_size) > MATERIAL * solved_size:
        return True
    for h in range(min(size, solved_size)):
        if abs(shares[h] - solved[h]) > MATERIAL * min(solved[h], 1 - solved[h]):
            return True
    return False
