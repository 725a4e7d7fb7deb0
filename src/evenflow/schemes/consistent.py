"""Consistent Grouping, CG (`heterogeneous` 5.2, 5.3 and 6.1): virtual workers that move to who has time.

``worker = owner[virtual(key)]``: an allocation (PoRC) fills equal virtual workers; every slot a worker says
busy (above 0.85 of its capacity) or idle (below 0.75), and the source hands a virtual worker of the busy
worker that has waited longest to the idle one that has waited longest. Only later messages follow; none
moves.

Left open by the paper, and chosen here:

* Signals. They reach a source late, with an acknowledgement, as ``report(WorkerReport(signal=...))``; each
  source has its own queues. A new signal cancels an opposite older one of the same worker and enters its
  own queue; a signal that is queued already keeps its place. Of several in one report, lower worker numbers
  come first.
* The virtual worker that moves is the one acquired most recently; at the start worker w has w, w + n, w + 2
  n, ... in this order. Every worker keeps at least one: a busy worker with one is not queued.
* No idle worker (5.2.1 waits for one, 6.1.2 probes): a busy worker waits for one slot, that is until it
  says busy again. Then its virtual worker goes to a worker that has never said busy (the one so tried
  longest ago, first from the source's offset), or else to the one that last said busy the longest ago.
* Utilisation = (arrived in the slot + waiting at its start) / (capacity x slot); a slot lasts 100 messages
  per worker.
* The number of virtual workers never changes (5.2.1), also when workers come or go: a newcomer takes its
  share, 1/n, one by one from whoever has most; those of a leaver go to the others in proportion to what
  they have. Only if there would be fewer virtual workers than workers does the allocation start afresh with
  more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from evenflow.errors import EvenflowError, nearest
from evenflow.kernels import Float64Array, Int8Array, Int32Array, Int64Array, UInt64Array, inlined, kernel
from evenflow.schemes.base import BusySignals, Router, RouterPlace, Scheme, WorkerReport, check
from evenflow.schemes.consistent_hash import resized
from evenflow.schemes.load_cap import check_epsilon, is_number
from evenflow.schemes.owner_plans import OwnerPlans
from evenflow.schemes.registry import register, scheme

ALLOCATIONS = ("bounded-load", "key", "partial-key", "random-choices", "shuffle", "two-choices")
BUSY = 1
IDLE = -1


@register
@dataclass(frozen=True)
class ConsistentGrouping(Scheme):
    """Equal virtual workers, moved from busy workers to idle ones, so that load follows capacity.

    >>> router = ConsistentGrouping().router(workers=4)
    >>> router.report(WorkerReport(signal=np.array([+1, 0, 0, -1], np.int8)))  # 0 is busy, 3 is idle
    >>> router.held.tolist()
    [9, 10, 10, 11]
    """

    allocation: str = "random-choices"  # of virtual workers: a scheme; key keeps one owner per key
    epsilon: float = 0.01  # imbalance allowed among virtual workers
    virtual_workers: int = 10  # per worker, at the start
    idle: float = 0.75  # below this utilisation a worker says so
    busy: float = 0.85  # above this one too
    slot: int = 100  # messages per worker between two looks at utilisation

    name = "consistent"
    aliases = ("cg",)
    paper = "heterogeneous 5.2"
    summary = "equal virtual workers, moved from busy workers to idle ones"
    needs_load = True
    needs_reports = True
    rescales = True
    one_owner_with = 'allocation="key"'

    def __post_init__(self) -> None:
        if self.allocation not in ALLOCATIONS:
            close = nearest(str(self.allocation), ALLOCATIONS)
            raise EvenflowError(f"allocation is {self.allocation!r}; {close}")
        check_epsilon(self.epsilon)
        good = isinstance(self.virtual_workers, int) and 1 <= self.virtual_workers <= 10**4
        rule = "each worker starts with so many, a whole number from 1 to 10**4"
        check("virtual_workers", self.virtual_workers, good, rule)
        rule = "a worker is idle below this share of its capacity, from 0 to the share of a busy one"
        check(
            "busy",
            self.busy,
            is_number(self.busy) and self.busy > 0,
            "a worker is busy above this share of its capacity",
        )
        check("idle", self.idle, is_number(self.idle) and 0 <= self.idle <= self.busy, rule)
        good = isinstance(self.slot, int) and self.slot >= 1
        check("slot", self.slot, good, "a time slot lasts so many messages per worker, a whole number from 1")

    def new_router(self, place: RouterPlace) -> ConsistentGroupingRouter:
        """Start Consistent Grouping at one source."""
        return ConsistentGroupingRouter(self, place)

    @property
    def busy_signals(self) -> BusySignals:
        """When workers signal busy and idle."""
        return BusySignals(self.slot, self.idle, self.busy)

    def owner_plans(self, seed: int) -> OwnerPlans:
        """Return what plans for keyed state, if a key's virtual worker never changes."""
        if self.allocation != "key":
            return super().owner_plans(seed)  # refuses
        from evenflow.schemes.virtual_worker_plans import VirtualWorkerPlans

        return VirtualWorkerPlans(self, seed)


def busy_threshold(epsilon: float, workers: int, virtual_workers: float) -> float:
    """Return theta_b = 1 + epsilon n alpha: who is above it has at least its best number of virtual workers.

    >>> busy_threshold(0.01, 10, 10)
    2.0
    """
    return 1 + epsilon * workers * virtual_workers


def signals(
    arrived: Float64Array,
    backlog: Float64Array,
    capacity: Float64Array,
    slot_seconds: float,
    idle: float,
    busy: float,
) -> Int8Array:
    """Return what each worker says at the end of a slot: +1 busy, -1 idle, 0 nothing.

    ``arrived``: messages that came in the slot; ``backlog``: those that waited when it began; ``capacity``:
    messages per second. A worker without capacity is busy.

    >>> capacity = np.array([100.0, 100, 100, 0])
    >>> signals(np.array([90.0, 70, 80, 0]), np.zeros(4), capacity, 1, 0.75, 0.85).tolist()
    [1, -1, 0, 1]
    """
    work = np.asarray(arrived, np.float64) + backlog
    able = np.asarray(capacity, np.float64) * slot_seconds
    says = np.zeros(work.shape, np.int8)
    says[work < idle * able] = IDLE
    says[(work > busy * able) | (able <= 0)] = BUSY
    return says


class Assignment(NamedTuple):
    """Who has which virtual worker, and who waits to get or to give one."""

    owner: Int32Array  # of each virtual worker
    below: Int32Array  # of each virtual worker: the one that its owner acquired before it, or -1
    top: Int32Array  # of each worker: the virtual worker that it acquired last
    held: Int32Array  # of each worker: number of virtual workers
    waiting: Int8Array  # of each worker: BUSY, IDLE or 0
    since: Int64Array  # of each worker: number of the signal it waits by
    said_busy: Int64Array  # of each worker: number of its last busy signal, or 0
    tried: Int64Array  # of each worker: number of the signal that last tried it out, or 0
    counts: Int64Array  # [signals heard, virtual workers moved]


def new_assignment(workers: int, virtual: int) -> Assignment:
    """Deal ``virtual`` virtual workers out to ``workers``, to each the same number."""
    numbers = np.arange(virtual, dtype=np.int32)
    owner = numbers % np.int32(workers)
    below = np.maximum(numbers - np.int32(workers), np.int32(-1))
    return Assignment(
        owner=owner,
        below=below,
        top=numbers[virtual - workers :].copy(),
        held=np.full(workers, virtual // workers, np.int32),
        waiting=np.zeros(workers, np.int8),
        since=np.zeros(workers, np.int64),
        said_busy=np.zeros(workers, np.int64),
        tried=np.zeros(workers, np.int64),
        counts=np.zeros(2, np.int64),
    )


class ConsistentGroupingState(NamedTuple):
    """Messages sent to each worker, the assignment, and the state of the allocation to virtual workers."""

    loads: Int64Array
    assignment: Assignment
    allocation: Any


class ConsistentGroupingRouter(Router):
    """Consistent Grouping at one source."""

    scheme: ConsistentGrouping

    def __init__(self, scheme: ConsistentGrouping, place: RouterPlace):
        super().__init__(scheme, place)
        self._loads = np.zeros(place.workers, np.int64)
        self._start(scheme.virtual_workers * place.workers)

    def _start(self, virtual: int) -> None:
        self._assignment = new_assignment(self.workers, virtual)
        self._allocation = self._new_allocation(virtual)

    def _new_allocation(self, virtual: int) -> Router:
        name, place = self.scheme.allocation, self.place
        bounded = name in ("bounded-load", "random-choices")
        inner = scheme(name, epsilon=self.scheme.epsilon) if bounded else scheme(name)
        return inner.new_router(RouterPlace(virtual, place.seed, place.source, place.sources))

    @property
    def state(self) -> ConsistentGroupingState:
        """Everything this router remembers."""
        return ConsistentGroupingState(self._loads, self._assignment, self._allocation.state)

    @state.setter
    def state(self, state: ConsistentGroupingState) -> None:
        self._loads = state.loads
        self._assignment = state.assignment
        self._allocation = self._new_allocation(state.assignment.owner.size)  # fewer or more after a rescale
        self._allocation.state = state.allocation

    @property
    def held(self) -> Int32Array:
        """Number of virtual workers that each worker has."""
        return self._assignment.held

    @property
    def moved(self) -> int:
        """Number of virtual workers that have changed their owner."""
        return int(self._assignment.counts[1])

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        self._allocation.routed = int(self._allocation.loads.sum())  # not part of the saved state
        self._allocation._route(keys, times, out)
        _to_owners(out, self._loads, self._assignment.owner)

    def report(self, report: WorkerReport) -> None:
        """Hear the workers' signals and move virtual workers from busy to idle ones."""
        if report.signal is None:
            return
        said = np.ascontiguousarray(report.signal, np.int8)
        if said.shape != (self.workers,):
            raise EvenflowError(
                f"signal has {said.size} values for {self.workers} workers; pass one per worker."
            )
        _hear(said, self._assignment, self.place.offset)

    def _rescale(self, before: int) -> None:
        self._loads = resized(self._loads, self.workers)
        old = self._assignment
        if self.workers > old.owner.size:
            self._start(self.scheme.virtual_workers * self.workers)
            return
        if self.workers < before:
            _hand_over(old, self.workers, np.zeros(self.workers, np.int64))
        fields = ("held", "waiting", "since", "said_busy", "tried")
        top = np.full(self.workers, -1, np.int32)
        top[: min(before, self.workers)] = old.top[: self.workers]
        self._assignment = old._replace(
            top=top, **{name: resized(getattr(old, name), self.workers) for name in fields}
        )
        if self.workers > before:
            _take_shares(self._assignment, before)


@kernel
def _to_owners(out: Int32Array, loads: Int64Array, owner: Int32Array) -> None:
    for i in range(out.size):
        worker = owner[out[i]]
        loads[worker] += 1
        out[i] = worker


@kernel
def _hear(said: Int8Array, a: Assignment, offset: int) -> None:
    for worker in range(said.size):
        if said[worker] != 0:
            a.counts[0] += 1
            if said[worker] > 0:
                _hear_busy(worker, a, offset)
            else:
                _hear_idle(worker, a)


@inlined
def _hear_idle(worker: int, a: Assignment) -> None:
    if a.waiting[worker] != IDLE:
        a.waiting[worker] = IDLE
        a.since[worker] = a.counts[0]
    busy = _longest_waiting(BUSY, a)
    if busy >= 0:
        _move(busy, worker, a)
        a.waiting[busy] = 0
        a.waiting[worker] = 0


@inlined
def _hear_busy(worker: int, a: Assignment, offset: int) -> None:
    a.said_busy[worker] = a.counts[0]
    if a.held[worker] == 1:
        a.waiting[worker] = 0
        return
    again = a.waiting[worker] == BUSY
    if not again:
        a.waiting[worker] = BUSY
        a.since[worker] = a.counts[0]
    target = _longest_waiting(IDLE, a)
    if target >= 0:
        a.waiting[target] = 0
    elif again:
        target = _least_busy_lately(worker, a, offset)
        if target >= 0:
            a.tried[target] = a.counts[0]
    if target >= 0:
        _move(worker, target, a)
        a.waiting[worker] = 0


@inlined
def _longest_waiting(kind: int, a: Assignment) -> int:
    first = -1
    for worker in range(a.waiting.size):
        if a.waiting[worker] == kind and (first < 0 or a.since[worker] < a.since[first]):
            first = worker
    return first


@inlined
def _least_busy_lately(giver: int, a: Assignment, offset: int) -> int:
    """Return who never said busy, tried longest ago, or else who said busy longest ago."""
    best = -1
    for i in range(a.held.size):
        worker = (offset + i) % a.held.size
        if worker != giver and (
            best < 0
            or a.said_busy[worker] < a.said_busy[best]
            or (a.said_busy[worker] == a.said_busy[best] and a.tried[worker] < a.tried[best])
        ):
            best = worker
    return best


@inlined
def _move(giver: int, taker: int, a: Assignment) -> None:
    virtual = a.top[giver]
    a.top[giver] = a.below[virtual]
    a.below[virtual] = a.top[taker]
    a.top[taker] = virtual
    a.owner[virtual] = taker
    a.held[giver] -= 1
    a.held[taker] += 1
    a.counts[1] += 1


@kernel
def _hand_over(a: Assignment, workers: int, given: Int64Array) -> None:
    """Spread the leavers' virtual workers in proportion to what the others have (highest averages)."""
    for leaver in range(workers, a.held.size):
        while a.held[leaver] > 0:
            heir = 0
            for worker in range(1, workers):
                mine = a.held[worker] - given[worker]
                best = a.held[heir] - given[heir]
                if mine * (given[heir] + 1) > best * (given[worker] + 1):
                    heir = worker
            _move(leaver, heir, a)
            given[heir] += 1


@kernel
def _take_shares(a: Assignment, before: int) -> None:
    """Give every newcomer its share from whoever has most."""
    n = a.held.size
    for newcomer in range(before, n):
        while a.held[newcomer] < a.owner.size // n:
            giver = 0
            for worker in range(1, n):
                if a.held[worker] > a.held[giver]:
                    giver = worker
            _move(giver, newcomer, a)
    for worker in range(n):
        if a.held[worker] == 1 and a.waiting[worker] == BUSY:
            a.waiting[worker] = 0
