"""Consistent Grouping, CG (`heterogeneous` 5.2, 5.3 and 6.1): virtual workers move from busy to idle workers.

``worker = owner[virtual(key)]``: an allocation (PoRC) fills equal virtual workers. At the end of a slot a
worker may signal busy (above 0.85 of its capacity) or idle (below 0.75), and the source hands a virtual
worker of the longest-waiting busy worker to the longest-waiting idle one. Only later messages follow;
messages already sent do not move.

Not specified by the paper, and chosen here:

* Signals reach a source late, with an acknowledgement, as ``report(WorkerReport(signal=...))``; each source
  has its own queues. A new signal cancels an older opposite signal of the same worker and joins its own
  queue; a signal that is already queued keeps its position. Within one report, lower worker numbers come
  first.
* The virtual worker that moves is the one acquired most recently; initially worker w has w, w + n, w + 2 n,
  ... in this order. Every worker keeps at least one: a busy worker with only one is not queued.
* If no worker is idle (5.2.1 waits for one, 6.1.2 probes), a busy worker waits for one slot, that is until it
  signals busy again. Its virtual worker then goes to a worker that has never signalled busy (the one probed
  longest ago, counting from the source's offset), or else to the one whose last busy signal is oldest.
* How long a slot is, and over what time a worker measures. A slot, the least time between two signals of a
  worker (6.1), lasts 100 messages per worker. A worker measures from its last sure signal on, in whole slots:
  utilisation = (arrived + waiting at the start) / (capacity x time) = w / c. It is busy or idle by the
  paper's thresholds, and sure of it if the difference exceeds the noise of a count:
  ``w - 3 sqrt(w) > 0.85 c`` or ``w + 3 sqrt(w) < 0.75 c`` (``certainty`` is the 3). A virtual worker
  moves only if the busy or the idle worker is sure, and only a sure one probes. After 20 slots without a sure
  signal a worker measures anew (``patience``). A signal is thus +1 or -1 if sure, +2 or -2 if not.
  ``certainty=0, patience=1`` is the paper's binary signal, by the thresholds alone after every slot. A slot's
  utilisation has a standard deviation of 0.05 to 0.07, no less than the 0.05 between 0.8 and either
  threshold, so that virtual workers then move to and fro, and every move leaves state behind. Longer slots
  avoid that, but react late (Fig. 14 and 12 of the paper: 24 workers, two of them at 30 percent; 10 workers,
  three of them 5 times faster, twice others)::

                              memory, 24 workers   messages until queues   Fig. 12: the same, by change,
                              equal   Fig. 14      are even in Fig. 14     and utilisation spread at the end
      sure (default)          1.95    2.15         55,000                  49,000  44,000   0.19
      slots of  100, binary   3.12    3.68         never                   49,000  44,000   0.06
      slots of  200, binary   2.58    3.15         never                  102,000 115,000   0.07
      slots of  500, binary   2.05    2.53         never                  299,000 294,000   0.09
      slots of 1000, binary   1.95    2.21         never                    never 652,000   0.29
      slots of 2000, binary   1.95    2.11         never                    never   never   0.33

  The last column is the price: without moving to and fro, a slow worker of Fig. 12 has 4 or 5 of the 100
  virtual workers, 0.70 or 0.88 of its capacity, and stays there.
* The number of virtual workers never changes (5.2.1), even when workers join or leave: a new worker takes its
  share, 1/n, one by one from the worker that has most; those of a leaving worker go to the others in
  proportion to what they have. Only if there would be fewer virtual workers than workers does the allocation
  restart with more.
"""

from __future__ import annotations

from collections.abc import Sequence
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
UTILISATION = 0.8  # of a worker with the mean load, in the paper's experiments
PERHAPS = 2  # times BUSY or IDLE: beyond the threshold, but by less than the noise


@register
@dataclass(frozen=True)
class ConsistentGrouping(Scheme):
    """Move equal virtual workers from busy workers to idle ones, so that load follows capacity.

    Parameters
    ----------
    allocation
        The scheme that assigns messages to virtual workers; "key" gives every key one owner.
    epsilon
        Allowed imbalance among virtual workers.
    virtual_workers
        Initial number of virtual workers per worker.
    idle
        A worker below this utilisation signals idle.
    busy
        A worker above this utilisation signals busy.
    slot
        Messages per worker between two decisions of a worker whether to signal.
    certainty
        Standard deviations by which utilisation must differ from a threshold for a sure signal.
    patience
        Slots after which a worker without a sure signal measures anew.

    Examples
    --------
    >>> router = ConsistentGrouping().router(workers=4)
    >>> router.report(WorkerReport(signal=np.array([+1, 0, 0, -1], np.int8)))  # 0 is busy, 3 is idle
    >>> router.held.tolist()
    [9, 10, 10, 11]

    References
    ----------
    Nasir et al., *Load Balancing for Skewed Streams on Heterogeneous Cluster* (2017), sections 5.2, 5.3 and
    6.1.
    """

    allocation: str = "random-choices"
    epsilon: float = 0.01
    virtual_workers: int = 10
    idle: float = 0.75
    busy: float = 0.85
    slot: int = 100
    certainty: float = 3.0
    patience: int = 20

    name = "consistent"
    aliases = ("cg",)
    paper = "heterogeneous 5.2"
    summary = "equal virtual workers, moved from busy workers to idle ones"
    needs_load = True
    needs_reports = True
    rescales = True
    learns = True
    one_owner_with = 'allocation="key"'

    def __post_init__(self) -> None:
        if self.allocation not in ALLOCATIONS:
            close = nearest(str(self.allocation), ALLOCATIONS)
            raise EvenflowError(f"allocation is {self.allocation!r}; {close}")
        check_epsilon(self.epsilon)
        good = isinstance(self.virtual_workers, int) and 1 <= self.virtual_workers <= 10**4
        rule = "use a whole number per worker, 1 to 10**4"
        check("virtual_workers", self.virtual_workers, good, rule)
        rule = "it is the share of its capacity below which a worker is idle, from 0 to busy"
        check(
            "busy",
            self.busy,
            is_number(self.busy) and self.busy > 0,
            "it is the share of its capacity above which a worker is busy, above 0",
        )
        check("idle", self.idle, is_number(self.idle) and 0 <= self.idle <= self.busy, rule)
        good = isinstance(self.slot, int) and self.slot >= 1
        check("slot", self.slot, good, "use a whole number of messages per worker, 1 or more")
        good = is_number(self.certainty) and 0 <= self.certainty < np.inf
        rule = "use a number of standard deviations, 0 (signal by the thresholds alone) or more"
        check("certainty", self.certainty, good, rule)
        good = isinstance(self.patience, int) and self.patience >= 1
        check("patience", self.patience, good, "use a whole number of slots, 1 or more")

    def new_router(self, place: RouterPlace) -> ConsistentGroupingRouter:
        """Return a router for Consistent Grouping."""
        return ConsistentGroupingRouter(self, place)

    @property
    def busy_signals(self) -> BusySignals:
        """When workers signal busy or idle."""
        return BusySignals(self.slot, self.idle, self.busy, self.certainty, self.patience)

    def owner_plans(self, seed: int) -> OwnerPlans:
        """Return the planner for keyed state, if every key has one virtual worker."""
        if self.allocation != "key":
            return super().owner_plans(seed)  # raises an error
        from evenflow.schemes.virtual_worker_plans import VirtualWorkerPlans

        return VirtualWorkerPlans(self, seed)


def busy_threshold(epsilon: float, workers: int, virtual_workers: float) -> float:
    """Return theta_b = 1 + epsilon n alpha: above it a worker has at least its optimum of virtual workers.

    >>> busy_threshold(0.01, 10, 10)
    2.0
    """
    return 1 + epsilon * workers * virtual_workers


def signals(
    arrived: Float64Array,
    backlog: Float64Array,
    capacity: Float64Array,
    seconds: float | Float64Array,
    idle: float,
    busy: float,
    certainty: float = 0.0,
) -> Int8Array:
    """Return each worker's signal at the end of a slot: +1 busy, -1 idle, 0 none; +2 and -2 if not sure.

    ``seconds``: how long it has measured; ``arrived``: messages that arrived in this time; ``backlog``:
    messages waiting at its start; ``capacity``: messages per second. A worker without capacity is busy.

    >>> capacity = np.array([100.0, 100, 100, 0])
    >>> signals(np.array([90.0, 70, 80, 0]), np.zeros(4), capacity, 1, 0.75, 0.85).tolist()
    [1, -1, 0, 1]
    >>> signals(np.array([90.0, 70, 120, 0]), np.zeros(4), capacity, 1, 0.75, 0.85, certainty=3).tolist()
    [2, -2, 1, 1]
    """
    work = np.asarray(arrived, np.float64) + backlog
    noise = certainty * np.sqrt(work)
    capacity = np.asarray(capacity, np.float64) * seconds
    signal = np.zeros(work.shape, np.int8)
    signal[work < idle * capacity] = PERHAPS * IDLE
    signal[work > busy * capacity] = PERHAPS * BUSY
    signal[work + noise < idle * capacity] = IDLE
    signal[(work - noise > busy * capacity) | (capacity <= 0)] = BUSY
    return signal


class Assignment(NamedTuple):
    """The owners of the virtual workers, and the queues of busy and idle workers."""

    owner: Int32Array  # of each virtual worker
    below: Int32Array  # of each virtual worker: the one its owner acquired before it, or -1
    top: Int32Array  # of each worker: the virtual worker acquired last
    held: Int32Array  # of each worker: number of virtual workers
    waiting: Int8Array  # of each worker: BUSY, IDLE, PERHAPS times one of them, or 0
    since: Int64Array  # of each worker: number of the signal that queued it
    last_busy: Int64Array  # of each worker: number of its last busy signal, or 0
    probed: Int64Array  # of each worker: number of the signal that last probed it, or 0
    counts: Int64Array  # [signals received, virtual workers moved]


def new_assignment(workers: int, virtual: int) -> Assignment:
    """Give each of ``workers`` workers the same number of the ``virtual`` virtual workers."""
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
        last_busy=np.zeros(workers, np.int64),
        probed=np.zeros(workers, np.int64),
        counts=np.zeros(2, np.int64),
    )


class ConsistentGroupingState(NamedTuple):
    """Messages sent to each worker, the assignment, and the state of the allocation to virtual workers."""

    loads: Int64Array
    assignment: Assignment
    allocation: Any
    carried: Int64Array  # the part of the allocation's loads that it learned; empty if none


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
        carried = self._allocation.carried
        return ConsistentGroupingState(
            self._loads,
            self._assignment,
            self._allocation.state,
            np.zeros(0, np.int64) if carried is None else carried,
        )

    @state.setter
    def state(self, state: ConsistentGroupingState) -> None:
        self._loads = state.loads
        self._assignment = state.assignment
        self._allocation = self._new_allocation(state.assignment.owner.size)  # may have changed in a rescale
        self._allocation.state = state.allocation
        self._allocation.carried = state.carried if state.carried.size else None

    @property
    def held(self) -> Int32Array:
        """Number of virtual workers of each worker."""
        return self._assignment.held

    @property
    def moved(self) -> int:
        """Number of virtual workers that have changed owner."""
        return int(self._assignment.counts[1])

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        self._allocation.routed = int(self._allocation.loads.sum())  # not part of the saved state
        self._allocation._route(keys, times, out)
        _to_owners(out, self._loads, self._assignment.owner)

    def report(self, report: WorkerReport) -> None:
        """Move virtual workers from busy to idle workers, according to their signals.

        A report of a whole micro-batch has no signals; these are made from its rows and seconds.
        """
        if report.signal is None:
            if report.arrived is not None and report.seconds_per_message is not None:
                self._hear_batch(report.arrived, report.seconds_per_message)
            return
        signal = np.ascontiguousarray(report.signal, np.int8)
        if signal.shape != (self.workers,):
            raise EvenflowError(
                f"signal has {signal.size} values for {self.workers} workers; pass one per worker."
            )
        _receive(signal, self._assignment, self.place.offset)

    def _hear_batch(self, arrived: Float64Array, seconds: Float64Array) -> None:
        """Signal as often as slots have passed in a micro-batch, with the loads that each move leads to.

        All messages of a batch are there at its start, so capacity is relative: a worker with the mean of
        the busy seconds is at the utilisation at which the paper runs its workers.
        """
        scheme, before = self.scheme, self.held.astype(np.float64)
        slots = int(arrived.sum()) // (scheme.slot * self.workers)
        for _ in range(min(max(1, slots), scheme.patience)):
            rows = arrived * self.held / before
            mean = float((rows * seconds).mean())
            signal = signals(
                rows, np.zeros(self.workers), 1 / seconds, mean / UTILISATION, scheme.idle, scheme.busy,
                scheme.certainty,
            )  # fmt: skip
            if not signal.any():
                break
            _receive(signal, self._assignment, self.place.offset)

    @property
    def heard(self) -> dict[str, list[float]]:
        """The number of virtual workers of each worker."""
        return {"virtual_workers": self.held.tolist()}

    def _learn(self, others: Sequence[ConsistentGroupingRouter], share: float) -> None:
        """Take the owners and queues of the source that heard most, and the loads of the virtual workers.

        Sources that heard the same have the same owners; where they differ, most signals, then most moves,
        then the owners themselves decide, whatever the order of ``others``.
        """
        chosen = max(
            (other._assignment for other in others), key=lambda a: (*a.counts.tolist(), a.owner.tobytes())
        )
        self._assignment = chosen._replace(**{name: getattr(chosen, name).copy() for name in chosen._fields})
        virtual = chosen.owner.size
        self._allocation = self._new_allocation(virtual)
        same = [other._allocation for other in others if other._assignment.owner.size == virtual]
        self._allocation._learn(same, share)

    def _rescale(self, before: int) -> None:
        self._loads = resized(self._loads, self.workers)
        old = self._assignment
        if self.workers > old.owner.size:
            self._start(self.scheme.virtual_workers * self.workers)
            return
        if self.workers < before:
            _hand_over(old, self.workers, np.zeros(self.workers, np.int64))
        fields = ("held", "waiting", "since", "last_busy", "probed")
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
def _receive(signal: Int8Array, a: Assignment, offset: int) -> None:
    for worker in range(signal.size):
        if signal[worker] != 0:
            a.counts[0] += 1
            if signal[worker] > 0:
                _receive_busy(worker, signal[worker], a, offset)
            else:
                _receive_idle(worker, signal[worker], a)


@inlined
def _receive_idle(worker: int, signal: int, a: Assignment) -> None:
    if a.waiting[worker] >= 0:
        a.since[worker] = a.counts[0]
    a.waiting[worker] = signal
    busy = _longest_waiting(BUSY, signal == IDLE, a)
    if busy >= 0:
        _move(busy, worker, a)
        a.waiting[busy] = 0
        a.waiting[worker] = 0


@inlined
def _receive_busy(worker: int, signal: int, a: Assignment, offset: int) -> None:
    a.last_busy[worker] = a.counts[0]
    if a.held[worker] == 1:
        a.waiting[worker] = 0
        return
    again = a.waiting[worker] == BUSY and signal == BUSY
    if a.waiting[worker] <= 0:
        a.since[worker] = a.counts[0]
    a.waiting[worker] = signal
    target = _longest_waiting(IDLE, signal == BUSY, a)
    if target >= 0:
        a.waiting[target] = 0
    elif again:
        target = _least_recently_busy(worker, a, offset)
        if target >= 0:
            a.probed[target] = a.counts[0]
    if target >= 0:
        _move(worker, target, a)
        a.waiting[worker] = 0


@inlined
def _longest_waiting(kind: int, perhaps: bool, a: Assignment) -> int:
    """Return the worker that has waited longest as ``kind``, with ``perhaps`` even if it is not sure."""
    first = -1
    for worker in range(a.waiting.size):
        fits = a.waiting[worker] == kind or (perhaps and a.waiting[worker] == PERHAPS * kind)
        if fits and (first < 0 or a.since[worker] < a.since[first]):
            first = worker
    return first


@inlined
def _least_recently_busy(giver: int, a: Assignment, offset: int) -> int:
    """Return the worker with the oldest last busy signal; among those without one, the oldest probe."""
    best = -1
    for i in range(a.held.size):
        worker = (offset + i) % a.held.size
        if worker != giver and (
            best < 0
            or a.last_busy[worker] < a.last_busy[best]
            or (a.last_busy[worker] == a.last_busy[best] and a.probed[worker] < a.probed[best])
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
    """Give leaving workers' virtual workers to the others, in proportion to theirs (highest averages)."""
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
    """Give every new worker its share, taken from the workers that have most."""
    n = a.held.size
    for newcomer in range(before, n):
        while a.held[newcomer] < a.owner.size // n:
            giver = 0
            for worker in range(1, n):
                if a.held[worker] > a.held[giver]:
                    giver = worker
            _move(giver, newcomer, a)
    for worker in range(n):
        if a.held[worker] == 1 and a.waiting[worker] > 0:  # busy, or perhaps
            a.waiting[worker] = 0
