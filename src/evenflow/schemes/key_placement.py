"""Placement of the tracked keys (`functions` 4.2 and 4.3): the algorithms scan, redist, readj, readj-round.

Each algorithm starts from the keys' old workers and tries placements, taking the one of lowest utility U(rho,
gamma). rho is the spread of the loads of the keys placed so far (Eq. 19, 20), gamma what has migrated (Eq.
18).

* ``scan`` places the keys by decreasing frequency.
* ``redist`` places, of all remaining keys, the one with the placement of lowest U / f.
* ``readj`` starts from the old placement and moves or swaps keys while that lowers rho, largest gain in U per
  moved frequency first. As printed in Algorithm 4, a gain is the difference to u, the U of the best
  readjustment so far: u is updated within a round, is carried over to the next, and starts at 0. The order in
  which readjustments are tried therefore matters: pairs of workers by number, keys in the given order, a move
  before the swaps of the same key.
* ``readj-round`` is the same with gains relative to U of the placement before the round, as the text
  describes them ("the reduction in the utility function value per frequency moved"). At its defaults and z =
  1 it migrates less at about the same imbalance (LLL, N = 10: 1.27 of the ideal at 1.32, against 1.38 at
  1.31; the paper prints 1.34 at 1.2), and at N = 32 1.6 against 2.6.

Not specified by the paper or contradicted by it, and chosen here: rho is the geometric mean over the
resources that are not constant (4.4). Keys no longer tracked migrate over D_o, and the ideal is over D_a, as
in Eq. 18 (the algorithms print other sets). redist adds the migration of the key it chose, from that key's
own old worker. In readj a readjustment that does not lower rho is skipped (the printed `break`, whose comment
says "move on to next option"); "no key" has frequency 0; keys of equal frequency are not swapped; a key is
readjusted at most 5 times; keys of leaving workers go to the new ring's worker. In a tie the first wins:
workers by number, keys in the given order.

Cost: for R keys on n workers, scan takes R n, redist about R (R + n) and a round of readj about R R / n
evaluations of U, each O(1). For each key, redist compares staying with the best placement elsewhere; readj
skips pairs of workers of which neither is most or least loaded in any resource. Neither shortcut changes the
result.

Beyond the paper: ``shares`` are the workers' capacities, 1 on average; a key that costs c adds c / share to
the load of its worker, and these loads are balanced. With uneven shares redist takes about R R n evaluations.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from evenflow.kernels import BoolArray, Float64Array, Int32Array, Int64Array, inlined, kernel
from evenflow.schemes.cost_model import Costs, resource, tolerance

ALGORITHMS = ("scan", "redist", "readj", "readj-round")
UTILITIES = ("A", "APM", "APLM", "ATM", "ATLM")
MOST_MOVES = 5

_A, _APM, _APLM, _ATM, _ATLM = range(5)


class Build(NamedTuple):
    """A placement under construction, indexed by non-constant resource r, key k and worker i."""

    frequencies: Float64Array  # of k
    costs: Float64Array  # [r, k]: beta_r(f)
    state: Float64Array  # of k: beta_s(f)
    old: Int32Array  # of k: old worker, which may have left
    shares: Float64Array  # of i: capacity, 1 on average
    theta: Float64Array  # of r
    where: Int32Array  # of k: new worker, the result
    loads: Float64Array  # [r, i]
    totals: Float64Array  # of r
    ends: Float64Array  # [r, 0..2]: highest, lowest and second lowest load
    moved: Float64Array  # [migrated so far, ideal]
    utility: Int64Array  # [which]


def place(
    algorithm: str,
    utility: str,
    costs: Costs,
    workers: int,
    frequencies: Float64Array,
    old: Int32Array,
    ring: Int32Array,
    moved: float,
    ideal: float,
    shares: Float64Array | None = None,
) -> Int32Array:
    """Return the new workers of keys with ``frequencies`` that have been on the workers ``old``.

    ``ring``: the keys' workers on the new ring. ``moved``: state that migrates with keys no longer tracked.
    ``ideal``: one worker's share of the state of all keys tracked before or after. ``shares``: the workers'
    capacities (default: equal).

    >>> spread = Costs("LLL", domain=4)
    >>> f, home = np.array([0.4, 0.3, 0.2, 0.1]), np.zeros(4, np.int32)
    >>> place("scan", "A", spread, 2, f, home, home, 0.0, 0.5).tolist()
    [0, 1, 1, 0]
    """
    if workers == 1 or frequencies.size == 0:
        return np.zeros(frequencies.size, np.int32)
    active = [
        (function, alpha)
        for function, alpha in zip(costs.resources, costs.alphas, strict=True)
        if function != "C"
    ]
    shape = len(active), frequencies.size
    capacity = np.ones(workers) if shares is None else np.asarray(shares, np.float64) / np.mean(shares)
    build = Build(
        frequencies=frequencies,
        costs=np.array([resource(function, frequencies) for function, _ in active]).reshape(shape),
        state=resource(costs.resources[0], frequencies),
        old=old.astype(np.int32),
        shares=capacity,
        theta=np.array([tolerance(alpha, workers) for _, alpha in active]),
        where=np.full(frequencies.size, -1, np.int32),
        loads=np.zeros((len(active), workers)),
        totals=np.zeros(len(active)),
        ends=np.zeros((len(active), 3)),
        moved=np.array([moved, ideal]),
        utility=np.array([UTILITIES.index(utility)]),
    )
    if algorithm == "scan":
        _scan(build)
    elif algorithm == "redist":
        _redist(build, len({function for function, _ in active}) == 1, bool((capacity == 1).all()))
    else:
        build.where[:] = np.where(old < workers, old, ring)
        _readj(build, new_sides(build), algorithm == "readj")
    return build.where


@inlined
def _utility(b: Build, rho: float, gamma: float) -> float:
    which = b.utility[0]
    if which == _A:
        return rho
    if which == _APM:
        return rho + gamma
    if which == _APLM:
        return rho + math.log(1 + gamma)
    if which == _ATM:
        return rho * (1 + gamma)
    return rho * (1 + math.log(1 + gamma))


@inlined
def _root(product: float, factors: int) -> float:
    if factors == 2:
        return math.sqrt(product)
    if factors == 3:
        return product ** (1 / 3)
    return product


@inlined
def _spread(b: Build, r: int, highest: float, lowest: float, total: float) -> float:
    """Return rho of one resource (Eq. 19)."""
    return (highest - lowest) / (b.theta[r] * (total / b.loads.shape[1]))


@inlined
def _rho_with(b: Build, r: int, load: float, cost: float, share: float) -> float:
    """Return rho of one resource after a worker of ``load`` and ``share`` has taken ``cost`` more."""
    lowest = b.ends[r, 1]
    after = load + cost / share
    if load == lowest:
        lowest = min(b.ends[r, 2], after)
    return _spread(b, r, max(b.ends[r, 0], after), lowest, b.totals[r] + cost)


@inlined
def _utility_at(b: Build, k: int, i: int) -> float:
    """Return U after key ``k`` has been placed on worker ``i``."""
    resources = b.theta.size
    product = 1.0 if resources else 0.0
    for r in range(resources):
        product *= _rho_with(b, r, b.loads[r, i], b.costs[r, k], b.shares[i])
    moved = b.moved[0] + (b.state[k] if i != b.old[k] else 0.0)
    return _utility(b, _root(product, resources), moved / b.moved[1])


@inlined
def _utility_elsewhere(b: Build, k: int) -> float:
    """Return a lower bound of U on workers other than the old one: each resource at its best worker."""
    resources = b.theta.size
    home = b.old[k]
    product = 1.0 if resources else 0.0
    for r in range(resources):
        load = b.ends[r, 1]
        if home < b.loads.shape[1] and b.loads[r, home] == load:
            load = b.ends[r, 2]
        product *= _rho_with(b, r, load, b.costs[r, k], 1.0)
    return _utility(b, _root(product, resources), (b.moved[0] + b.state[k]) / b.moved[1])


@inlined
def _best_worker(b: Build, k: int, scale: float) -> int:
    """Return the first worker of lowest U / ``scale`` (values equal after rounding tie)."""
    best = -1
    lowest = np.inf
    for i in range(b.loads.shape[1]):
        utility = _utility_at(b, k, i) / scale
        if utility < lowest:
            best = i
            lowest = utility
    return best


@inlined
def _find_ends(b: Build) -> None:
    for r in range(b.theta.size):
        highest, lowest, second = -np.inf, np.inf, np.inf
        for i in range(b.loads.shape[1]):
            load = b.loads[r, i]
            highest = max(highest, load)
            if load < lowest:
                second = lowest
                lowest = load
            elif load < second:
                second = load
        b.ends[r, 0] = highest
        b.ends[r, 1] = lowest
        b.ends[r, 2] = second


@inlined
def _add(b: Build, k: int, i: int) -> None:
    b.where[k] = i
    if i != b.old[k]:
        b.moved[0] += b.state[k]
    for r in range(b.theta.size):
        b.loads[r, i] += b.costs[r, k] / b.shares[i]
        b.totals[r] += b.costs[r, k]
    _find_ends(b)


@kernel
def _scan(b: Build) -> None:
    for k in range(b.where.size):
        _add(b, k, _best_worker(b, k, 1.0))


@kernel
def _redist(b: Build, alike: bool, even: bool) -> None:
    """Place the best key until none is left.

    ``alike``: all resources order the workers equally. ``even``: all capacities are equal; only then is the
    least loaded worker the best one elsewhere.
    """
    workers = b.loads.shape[1]
    for _ in range(b.where.size):
        best = -1
        lowest = np.inf
        for k in range(b.where.size):
            if b.where[k] >= 0:
                continue
            if not even:
                utility = _utility_at(b, k, _best_worker(b, k, 1.0))
            else:
                utility = _utility_elsewhere(b, k)
                if b.old[k] < workers:
                    utility = min(utility, _utility_at(b, k, b.old[k]))
            if even and not alike and utility / b.frequencies[k] < lowest:
                utility = _utility_at(b, k, _best_worker(b, k, 1.0))
            if utility / b.frequencies[k] < lowest:
                best = k
                lowest = utility / b.frequencies[k]
        _add(b, best, _best_worker(b, best, b.frequencies[best]))


class Sides(NamedTuple):
    """Lookup tables of readj: the keys of each worker, and the workers that matter."""

    members: Int32Array  # keys by worker, in order within each worker
    first: Int32Array  # of each worker: its first index in members; one more at the end
    moves: Int32Array  # of each key: number of readjustments
    extreme: BoolArray  # of each worker: most or least loaded in some resource?
    three: Int32Array  # [r, 0 | 1, 0..2]: the three most and the three least loaded workers, -1 for none
    rest: Float64Array  # [r, 0 | 1]: highest and lowest load outside the current pair


def new_sides(b: Build) -> Sides:
    """Return empty Sides for ``b``."""
    resources, workers = b.loads.shape
    return Sides(
        members=np.zeros(b.where.size, np.int32),
        first=np.zeros(workers + 1, np.int32),
        moves=np.zeros(b.where.size, np.int32),
        extreme=np.zeros(workers, np.bool_),
        three=np.full((resources, 2, 3), -1, np.int32),
        rest=np.zeros((resources, 2)),
    )


@inlined
def _sort_members(b: Build, s: Sides) -> None:
    s.first[:] = 0
    for k in range(b.where.size):
        s.first[b.where[k] + 1] += 1
    for i in range(b.loads.shape[1]):
        s.first[i + 1] += s.first[i]
    for k in range(b.where.size):
        s.members[s.first[b.where[k]]] = k
        s.first[b.where[k]] += 1
    for i in range(b.loads.shape[1], 0, -1):
        s.first[i] = s.first[i - 1]
    s.first[0] = 0


@inlined
def _sum_loads(b: Build, s: Sides) -> None:
    """Recompute all loads, so that rounding errors do not accumulate."""
    for r in range(b.theta.size):
        for i in range(b.loads.shape[1]):
            load = 0.0
            for member in range(s.first[i], s.first[i + 1]):
                load += b.costs[r, s.members[member]]
            b.loads[r, i] = load / b.shares[i]


@inlined
def _find_extremes(b: Build, s: Sides) -> None:
    s.extreme[:] = False
    s.three[:] = -1
    for r in range(b.theta.size):
        for i in range(b.loads.shape[1]):
            load = b.loads[r, i]
            if load == b.ends[r, 0] or load == b.ends[r, 1]:
                s.extreme[i] = True
            for side in range(2):
                sign = 1.0 if side == 0 else -1.0
                rank = 3
                while rank > 0:
                    other = s.three[r, side, rank - 1]
                    if other >= 0 and sign * b.loads[r, other] >= sign * load:
                        break
                    rank -= 1
                for lower in range(2, rank, -1):
                    s.three[r, side, lower] = s.three[r, side, lower - 1]
                if rank < 3:
                    s.three[r, side, rank] = i


@inlined
def _leave_out(b: Build, s: Sides, i: int, j: int) -> None:
    for r in range(b.theta.size):
        s.rest[r, 0] = -np.inf
        s.rest[r, 1] = np.inf
        for side in range(2):
            for rank in range(3):
                other = s.three[r, side, rank]
                if other >= 0 and other not in (i, j):
                    s.rest[r, side] = b.loads[r, other]
                    break


@inlined
def _rho_after(b: Build, s: Sides, i: int, key: int, j: int, other: int) -> float:
    """Return rho after moving ``key`` from i to j and ``other`` (-1: none) from j to i."""
    product = 1.0
    for r in range(b.theta.size):
        change = b.costs[r, key] - (b.costs[r, other] if other >= 0 else 0.0)
        left = b.loads[r, i] - change / b.shares[i]
        right = b.loads[r, j] + change / b.shares[j]
        highest = max(s.rest[r, 0], left, right)
        lowest = min(s.rest[r, 1], left, right)
        product *= _spread(b, r, highest, lowest, b.totals[r])
    return _root(product, b.theta.size)


@inlined
def _migrates(b: Build, key: int, i: int, j: int) -> float:
    """Return what moving ``key`` from i to j adds to the migration; negative if it returns home (Eq. 22)."""
    if key < 0:
        return 0.0
    return (b.state[key] if b.old[key] == i else 0.0) - (b.state[key] if b.old[key] == j else 0.0)


@inlined
def _gain(
    b: Build, s: Sides, i: int, key: int, j: int, other: int, rho: float, u: float
) -> tuple[float, float]:
    """Return U after a readjustment, and its gain per moved frequency; -inf if rho does not fall."""
    after = _rho_after(b, s, i, key, j, other)
    if after >= rho:
        return u, -np.inf
    moved = b.moved[0] + (_migrates(b, key, i, j) + _migrates(b, other, j, i))
    weight = b.frequencies[key] - (b.frequencies[other] if other >= 0 else 0.0)
    utility = _utility(b, after, moved / b.moved[1])
    return utility, (u - utility) / abs(weight)


@kernel
def _readj(b: Build, s: Sides, printed: bool) -> None:
    """Readjust until nothing lowers rho; with ``printed``, u follows the best readjustment of the round."""
    workers = b.loads.shape[1]
    u = 0.0
    for k in range(b.where.size):
        if b.where[k] != b.old[k]:
            b.moved[0] += b.state[k]
        for r in range(b.theta.size):
            b.totals[r] += b.costs[r, k]
    while b.theta.size > 0:
        _sort_members(b, s)
        _sum_loads(b, s)
        _find_ends(b)
        _find_extremes(b, s)
        rho = 1.0
        for r in range(b.theta.size):
            rho *= _spread(b, r, b.ends[r, 0], b.ends[r, 1], b.totals[r])
        rho = _root(rho, b.theta.size)
        if not printed:
            u = _utility(b, rho, b.moved[0] / b.moved[1])
        best, best_key, best_other, best_worker = -np.inf, -1, -1, -1
        for i in range(workers):
            for j in range(workers):
                if i == j or not (s.extreme[i] or s.extreme[j]):
                    continue
                _leave_out(b, s, i, j)
                for member in range(s.first[i], s.first[i + 1]):
                    key = s.members[member]
                    if s.moves[key] >= MOST_MOVES:
                        continue
                    after, gain = _gain(b, s, i, key, j, -1, rho, u)
                    if gain > best:
                        best, best_key, best_other, best_worker = gain, key, -1, j
                        u = after if printed else u
                    if i > j and not printed:
                        continue  # these swaps were tried as (j, i), with the same u
                    for other_member in range(s.first[j], s.first[j + 1]):
                        other = s.members[other_member]
                        if s.moves[other] >= MOST_MOVES or b.frequencies[other] == b.frequencies[key]:
                            continue
                        after, gain = _gain(b, s, i, key, j, other, rho, u)
                        if gain > best:
                            best, best_key, best_other, best_worker = gain, key, other, j
                            u = after if printed else u
        if best_key < 0:
            return
        i = b.where[best_key]
        b.moved[0] += _migrates(b, best_key, i, best_worker) + _migrates(b, best_other, best_worker, i)
        b.where[best_key] = best_worker
        s.moves[best_key] += 1
        if best_other >= 0:
            b.where[best_other] = i
            s.moves[best_other] += 1
