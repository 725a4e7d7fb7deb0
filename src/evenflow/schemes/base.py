"""The interface of a scheme: immutable parameters that build routers, and the laws that every router obeys.

A **scheme** defines how keys are grouped; a **router** is a scheme running at one source. The laws are tested
for every scheme:

* conservation: ``route`` returns exactly one worker in 0 .. workers - 1 for every message;
* determinism: the same scheme, workers, seed, source and stream give the same decisions, in one call or many,
  in this process or another; no scheme reads the wall clock or a random device;
* agreement: routers of one run that differ only in ``source`` have the same candidates for every key;
* serialisation: ``Router.from_bytes(router.to_bytes())`` continues exactly where the router left off;
* learning: a stream that is cut into micro-batches, each with new routers that learn what the last ones knew
  (:mod:`evenflow.schemes.handover`), ends near the uncut stream in balance, memory and hot keys;
* bounded memory: a router's size does not grow with the number of distinct keys.

A router keeps everything it remembers in ``state``, a NamedTuple of numpy arrays (NamedTuples may nest).
Kernels take it directly, and saving it needs no code in the scheme.

Callers rely on a scheme's methods and declared properties, never on its class. The defaults are sufficient
for a scheme that declares its properties; it overrides what it can do better.
"""

from __future__ import annotations

import copy
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from evenflow.blob import Array, read_blob, write_blob
from evenflow.errors import EvenflowError
from evenflow.kernels import Float64Array, Int8Array, Int32Array, Int64Array, UInt64Array
from evenflow.keys import salt_of
from evenflow.plan import Plan
from evenflow.plan.counted import NOTHING, Counted
from evenflow.plan.one_owner import one_owner_plan, stable_buckets
from evenflow.schemes.coordination import Coordinator
from evenflow.schemes.cost_model import Costs
from evenflow.schemes.owner_plans import OwnerPlans
from evenflow.schemes.registry import list_schemes, scheme
from evenflow.schemes.saved_state import changed, changes

_CLOCK_STEP = 1 << 17  # messages whose logical clock is computed at once; fits the CPU cache
CARRIED = 100  # messages per worker that the loads which a router learns stand for
_CARRIED_LOADS = "carried loads"  # in a saved router


@dataclass(frozen=True)
class WorkerReport:
    """Feedback from the workers to one source: arrays with one value per worker, None if not reported.

    Parameters
    ----------
    time
        Time of the report, on the clock of the ``times`` passed to ``route``.
    backlog
        Messages waiting, from all sources.
    seconds_per_message
        Measured service time.
    signal
        +1 busy, -1 idle, 0 no signal; +2 and -2 if the worker is not sure.
    capacity
        Messages per second that a worker can serve.
    arrived
        Messages of a micro-batch that has just ended: all of them have been served.

    Examples
    --------
    >>> router = scheme("fill").router(workers=2)
    >>> router.report(WorkerReport(capacity=np.array([100.0, 300.0])))
    >>> np.bincount(router.route(np.arange(4000, dtype=np.uint64))).tolist()
    [995, 3005]
    """

    time: float = 0.0
    backlog: Float64Array | None = None
    seconds_per_message: Float64Array | None = None
    signal: Int8Array | None = None
    capacity: Float64Array | None = None
    arrived: Float64Array | None = None


class BusySignals(NamedTuple):
    """When workers signal busy or idle: at the end of a slot, by utilisation since their last sure signal."""

    slot: int  # messages per worker
    idle: float  # a worker is idle below this utilisation
    busy: float  # a worker is busy above this utilisation
    certainty: float = 0.0  # a worker is sure if by so many standard deviations of what it counted
    patience: int = 1  # slots after which a worker without a sure signal measures anew


@dataclass(frozen=True)
class Scheme(ABC):
    """A grouping scheme: its parameters are dataclass fields, its properties are class attributes.

    Examples
    --------
    >>> fill = scheme("fill", split=False)
    >>> fill.rescales, fill.one_owner, fill.parameters()
    (True, True, {'epsilon': 0.02, 'split': False, 'horizon': 10000, 'queue': 5.0, 'exchange': 0})
    """

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    paper: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    splits_keys: ClassVar[bool] = True  # may a key have several workers at once?
    needs_load: ClassVar[bool] = False  # do decisions depend on messages sent earlier?
    needs_time: ClassVar[bool] = False  # do decisions depend on message times?
    needs_reports: ClassVar[bool] = False  # does it use feedback from the workers?
    plannable: ClassVar[bool] = False  # can its decisions be tabulated before rows arrive?
    counts_keys: ClassVar[bool] = False  # does that table depend on key frequencies?
    only_hashes: ClassVar[bool] = False  # is a worker chosen by the hash of its key, and by nothing else?
    rescales: ClassVar[bool] = False  # can a running router change its number of workers?
    learns: ClassVar[bool] = False  # do routers hand on what they know to those of the next micro-batch?
    forgets: ClassVar[bool] = False  # does it forget by itself, so that nothing is aged when handed on?
    one_owner_with: ClassVar[str] = ""  # the parameter that gives every key one owner, if any

    def router(self, workers: int, seed: int = 0, *, source: int = 0, sources: int = 1) -> Router:
        """Return a router for one source.

        Parameters
        ----------
        workers
            Number of workers, 1 to 2**20.
        seed
            Seed of the hash functions; the sources of one run share it.
        source, sources
            The number of this source, from 0, and how many there are.

        Returns
        -------
        Router
            A router that has sent nothing yet.

        Examples
        --------
        >>> scheme("key").router(workers=4).route(np.array([3, 3, 3], np.uint64)).tolist()
        [1, 1, 1]
        """
        workers = _whole_number("workers", workers, 1, "a router needs at least one worker")
        sources = _whole_number("sources", sources, 1, "a stream needs at least one source")
        source = _whole_number("source", source, 0, "sources are numbered from 0")
        if source >= sources:
            raise EvenflowError(f"source is {source} of {sources}; sources are numbered 0 to {sources - 1}.")
        if not isinstance(seed, int | np.integer):
            raise EvenflowError(f"seed is {seed!r}; pass an integer.")
        return self.new_router(RouterPlace(workers, int(seed), source, sources))

    @abstractmethod
    def new_router(self, place: RouterPlace) -> Router:
        """Build the router; ``place`` is valid."""

    @property
    def one_owner(self) -> bool:
        """Whether every key has one worker at a time."""
        return not self.splits_keys

    @property
    def clock_rate(self) -> float:
        """Messages per second of the logical clock, used when messages have no times."""
        return 1e4

    @property
    def report_interval(self) -> float:
        """Seconds between two reports from the workers, for a scheme that needs them."""
        return 10.0

    @property
    def busy_signals(self) -> BusySignals | None:
        """When workers signal busy or idle, for a scheme that uses signals instead of reports."""
        return None

    @property
    def costs(self) -> Costs:
        """What a key costs its owner: by default its rows, for state, computation and communication alike."""
        return Costs("LLL")

    def plan(
        self,
        workers: int,
        counted: Counted = NOTHING,
        *,
        split: bool = True,
        seed: int = 0,
        previous: Plan | None = None,
        move_buckets: bool = True,
    ) -> Plan:
        """Return this scheme's decisions as a table.

        Parameters
        ----------
        workers
            Number of workers.
        counted
            Row counts of the hot keys, of all keys and, if known, of each bucket.
        split
            Whether a hot key may have several workers.
        seed
            Seed of the hash functions.
        previous
            An earlier plan, whose homes are kept where they still fit.
        move_buckets
            Whether buckets may move from their homes in ``previous``.

        Returns
        -------
        Plan
            The home of every bucket and every hot key.

        Raises
        ------
        EvenflowError
            If the scheme is not ``plannable``.

        Examples
        --------
        >>> counted = Counted(np.array([7, 8], np.uint64), np.array([60.0, 10.0]), 100.0)
        >>> scheme("fill").plan(2, counted).max_over_mean
        1.0
        >>> scheme("key").plan(2, counted).homes_of(7)
        [0]
        """
        self.check_plannable()
        workers = _whole_number("workers", workers, 1, "a plan needs at least one worker")
        return self.new_plan(
            workers, counted, split=split, seed=seed, previous=previous, move_buckets=move_buckets
        )

    def new_plan(
        self,
        workers: int,
        counted: Counted,
        *,
        split: bool,
        seed: int,
        previous: Plan | None,
        move_buckets: bool,
    ) -> Plan:
        """Make the plan; called only if ``plannable``.

        By default a new router routes the buckets, taking their numbers for key hashes.
        """
        buckets = np.arange(self.plan_buckets(workers), dtype=np.uint64)
        return one_owner_plan(workers, self.router(workers, seed).route(buckets), counted)

    def plan_buckets(self, workers: int) -> int:
        """Return the number of buckets of a plan."""
        return stable_buckets(workers)

    def check_plannable(self) -> None:
        """Raise an error unless the scheme is ``plannable``."""
        if not self.plannable:
            able = ", ".join(name for name, kind in list_schemes().items() if kind.plannable)
            raise EvenflowError(
                f"{self.name} decides row by row and cannot be planned; choose mode='online', or one of the "
                f"schemes that can be planned: {able}."
            )

    def owner_plans(self, seed: int) -> OwnerPlans:
        """Return the planner for keyed state; raise an error if keys can have several owners."""
        if not self.one_owner and self.one_owner_with:
            raise EvenflowError(
                f"{self} gives a key several workers, but keyed state has one owner; "
                f"add {self.one_owner_with}."
            )
        if not (self.one_owner and self.plannable):
            kinds = list_schemes().items()
            able = [name for name, kind in kinds if kind.plannable and not kind.splits_keys]
            able += [f"{name} with {kind.one_owner_with}" for name, kind in kinds if kind.one_owner_with]
            why = "decides row by row" if self.one_owner else "gives a key several workers"
            raise EvenflowError(
                f"{self.name} {why}, but the owner of keyed state must be known in advance; choose one of "
                f"{', '.join(able)}."
            )
        return OwnerPlans(self, seed)

    def coordinator(self, routers: Sequence[Router]) -> Coordinator:
        """Return the coordinator of the sources of one run; by default each source decides alone."""
        return Coordinator(routers)

    def contenders(self, keys: int, messages: int) -> list[Scheme]:
        """Return the variants to compare on a stream with this number of keys and messages."""
        return [self]

    def parameters(self) -> dict[str, Any]:
        """Return the parameters by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def _repr_html_(self) -> str:
        """Show the scheme in a notebook: what it does, its parameters and properties."""
        from evenflow.charts import notebook

        told = {
            "a key may have several workers": not self.one_owner,
            "decisions depend on earlier messages": self.needs_load,
            "needs times": self.needs_time,
            "needs reports from the workers": self.needs_reports,
            "can be planned": self.plannable,
            "can change its number of workers": self.rescales,
        }
        parameters = [(name, str(value)) for name, value in self.parameters().items()]
        return notebook.card(
            str(self),
            notebook.paragraph(self.summary),
            notebook.table(("parameter", "value"), parameters) if parameters else "",
            notebook.table(("property", ""), told.items()),
        )

    def __str__(self) -> str:
        changed = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        ]
        return f"{self.name}({', '.join(changed)})" if changed else self.name


@dataclass(frozen=True)
class RouterPlace:
    """Where a router runs: number of workers, seed, number of this source, number of sources."""

    workers: int
    seed: int
    source: int
    sources: int

    @property
    def offset(self) -> int:
        """The worker from which this source starts counting, so that identical sources do not herd."""
        return self.source * self.workers // self.sources

    @property
    def salt(self) -> np.uint64:
        """The salt of this run's hash family."""
        return salt_of(self.seed)


class Router(ABC):
    """A scheme running at one source. Subclasses set ``state`` and implement ``_route``."""

    state: Any

    def __init__(self, scheme: Scheme, place: RouterPlace):
        self.scheme = scheme
        self.place = place
        self.routed = 0
        self.began = 0.0  # the logical clock before the first message
        self.carried: Int64Array | None = None  # the part of the loads in ``state`` that others sent
        self._latest: float | None = None  # time of the last message, if messages have times

    @property
    def workers(self) -> int:
        """Number of workers."""
        return self.place.workers

    def route(self, keys: Any, times: Any = None) -> Int32Array:
        """Return a worker for every message and update the router's state.

        Parameters
        ----------
        keys
            Key hashes as a uint64 array; anything else is hashed first (`evenflow.hash_keys`).
        times
            Non-decreasing message times in seconds, for schemes that need time. Default: a logical clock that
            advances at the scheme's ``clock_rate``.

        Returns
        -------
        numpy.ndarray
            The worker of each message, int32.

        Examples
        --------
        >>> router = scheme("shuffle").router(workers=3)
        >>> router.route(["to", "be", "or", "not"]).tolist()
        [0, 1, 2, 0]
        """
        hashed = as_hashes(keys)
        out = np.empty(hashed.size, np.int32)
        own_clock = self.scheme.needs_time and times is None
        step = _CLOCK_STEP if own_clock else max(1, hashed.size)
        for start in range(0, max(1, hashed.size), step):
            part = hashed[start : start + step]
            clock = self._clock(part.size, times)
            if part.size:
                self._route(part, clock, out[start : start + step])
                self.routed += part.size
        return out

    @abstractmethod
    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        """Decide for every key and write to ``out``; ``times`` is empty unless the scheme ``needs_time``."""

    def lookup(self, keys: Any) -> Int32Array:
        """Return the worker that each key would get now, without changing the router."""
        return copy.deepcopy(self).route(keys)

    def report(self, report: WorkerReport) -> None:  # noqa: B027 - ignoring feedback is the default
        """Take feedback from the workers; schemes that do not use feedback ignore it.

        Parameters
        ----------
        report
            Backlog, speed, signals or capacity of the workers; see `WorkerReport`.
        """

    @property
    def heard(self) -> dict[str, list[float]]:
        """What this router made of reports, per worker, for people to read; empty without reports."""
        return {}

    def rescale(self, workers: int) -> None:
        """Change the number of workers: the highest-numbered ones leave, or new ones join at the end.

        Parameters
        ----------
        workers
            The new number of workers.

        Raises
        ------
        EvenflowError
            If the scheme cannot change its number of workers (``rescales`` is False).

        Examples
        --------
        >>> router = scheme("consistent-hash").router(workers=4)
        >>> router.rescale(5)
        >>> router.workers
        5
        """
        workers = _whole_number("workers", workers, 1, "a router needs at least one worker")
        if not self.scheme.rescales:
            able = ", ".join(name for name, kind in list_schemes().items() if kind.rescales)
            raise EvenflowError(
                f"{self.scheme.name} cannot change its number of workers; choose one of {able}."
            )
        if workers != self.workers:
            before = self.workers
            self.place = dataclasses.replace(self.place, workers=workers)
            self._rescale(before)
            if self.carried is not None:
                stay = min(before, workers)
                self.carried = np.pad(self.carried[:stay], (0, workers - stay))

    def _rescale(self, before: int) -> None:
        """Adapt ``state`` to ``self.workers``; ``before`` is the previous number of workers."""
        raise NotImplementedError

    @property
    def clock(self) -> float:
        """Time of the last message, if messages have times, or else of the next one on the logical clock."""
        if self._latest is not None:
            return self._latest
        return self.began + self.routed * self.place.sources / self.scheme.clock_rate

    def learn(self, others: Sequence[Router], share: float = 1.0) -> None:
        """Start, before the first message, from what the routers of an earlier part of the stream know.

        Parameters
        ----------
        others
            Routers of the same scheme and number of workers, in any order: the sources of one micro-batch.
        share
            What part of their counts to take, such as 1 / sources if so many routers learn the same.

        Notes
        -----
        Counts are added and multiplied by ``share``; hot keys, homes, candidates and assignments are taken
        over; the clock goes on from the latest of theirs. `loads` starts at 0. Decisions by load
        start from the others' loads, scaled down to at most 100 messages per worker: the messages
        that follow soon outweigh them, so that a micro-batch is balanced in itself.

        Examples
        --------
        >>> first = scheme("dynamic-key").router(workers=4)
        >>> _ = first.route(np.zeros(20_000, np.uint64))
        >>> later = scheme("dynamic-key").router(workers=4)
        >>> later.learn([first])
        >>> later.clock, int(later.loads.sum())
        (2.0, 0)
        """
        if self.routed:
            raise EvenflowError(
                f"this router has sent {self.routed} messages; call learn() before the first one."
            )
        if any(other.scheme != self.scheme or other.workers != self.workers for other in others):
            raise EvenflowError(
                "these routers differ in scheme or number of workers; learn from routers of the same kind."
            )
        if others:
            self.began = max(other.clock for other in others)
            if self.scheme.learns:
                self._learn(others, share)

    def _learn(self, others: Sequence[Any], share: float) -> None:
        """Take over from one or more routers of the same scheme: by default loads, if decisions need them."""
        if self.scheme.needs_load:
            self._carry(others, share)

    def _carry(self, others: Sequence[Any], share: float, most: float = CARRIED) -> None:
        """Start from the loads by which others decided, scaled down to ``most`` messages per worker.

        Sources round at different workers, or all of them would fill the same ones.
        """
        place = self.place
        phase = (np.arange(self.workers) + place.source) % place.sources / place.sources
        phase += 0.5 / place.sources
        loads = share * np.sum([other._decided_by for other in others], axis=0, dtype=np.float64)
        scaled = loads * min(1.0, most * self.workers / max(1.0, float(loads.sum())))
        self.carried = np.floor(scaled + phase).astype(np.int64)
        self._decided_by[:] = self.carried

    @property
    def _decided_by(self) -> Int64Array:
        """The loads by which this router decides, with those that it learned."""
        loads: Int64Array = self.state.loads
        return loads

    @property
    def choices(self) -> float | None:
        """The current number of candidates of hot keys, if the router decides it."""
        return None

    @property
    def head(self) -> tuple[UInt64Array, Int64Array] | None:
        """The hot keys and their counts, most frequent first, if the router tracks them."""
        return None

    @property
    def loads(self) -> Int64Array:
        """Messages sent by this source to each worker."""
        loads: Int64Array = self.state.loads
        return loads if self.carried is None else loads - self.carried

    @property
    def nbytes(self) -> int:
        """Bytes held in arrays."""
        return sum(array.nbytes for _, array in flatten(self.state))

    def to_bytes(self) -> bytes:
        """Return the router as bytes: plain data with a format version and a checksum.

        Examples
        --------
        >>> router = scheme("shuffle").router(workers=3)
        >>> _ = router.route(["to", "be"])
        >>> Router.from_bytes(router.to_bytes()).route(["or", "not"]).tolist()
        [2, 0]
        """
        header = {
            "scheme": self.scheme.name,
            "parameters": self.scheme.parameters(),
            "place": dataclasses.asdict(self.place),
            "routed": self.routed,
            "began": self.began,
            "latest": self._latest,
        }
        arrays = dict(flatten(self.state))
        if self.carried is not None:
            arrays[_CARRIED_LOADS] = self.carried
        new = dict(flatten(self.scheme.new_router(self.place).state))
        return write_blob("router", header, changes(arrays, new))

    @classmethod
    def from_bytes(cls, blob: bytes) -> Self:
        """Restore a router from `to_bytes`; it continues exactly where it left off.

        Parameters
        ----------
        blob
            What `to_bytes` returned. A scheme's own router class accepts only routers of that scheme.

        Raises
        ------
        EvenflowError
            If the bytes are damaged, of another version, or not a router of this class.
        """
        header, arrays = read_blob("router", blob)
        router = scheme(header["scheme"], **header["parameters"]).new_router(RouterPlace(**header["place"]))
        if not isinstance(router, cls):
            raise EvenflowError(
                f"this is a saved router of {header['scheme']!r}, not a {cls.__name__}; "
                "call Router.from_bytes()."
            )
        arrays = changed(dict(flatten(router.state)), arrays)
        router.state = unflatten(router.state, arrays)
        router.routed = header["routed"]
        router.began, router._latest = header.get("began", 0.0), header.get("latest")
        router.carried = arrays.get(_CARRIED_LOADS)
        return router

    def _clock(self, count: int, times: Any) -> Float64Array:
        if not self.scheme.needs_time:
            return np.empty(0)
        if times is None:
            ticks = np.arange(self.routed, self.routed + count, dtype=np.float64)
            ticks *= self.place.sources / self.scheme.clock_rate
            ticks += self.began
            return ticks
        clock = np.ascontiguousarray(times, np.float64)
        if clock.shape != (count,):
            raise EvenflowError(
                f"times has {clock.size} values for {count} keys; pass one per key, or leave times out."
            )
        if count:
            self._latest = float(clock[-1])
        return clock


def as_hashes(keys: Any) -> UInt64Array:
    """Return uint64 arrays as they are, and the hashes of anything else."""
    if isinstance(keys, np.ndarray) and keys.dtype == np.uint64:
        if keys.ndim != 1:
            raise EvenflowError(f"keys have {keys.ndim} dimensions; pass a one-dimensional array.")
        return np.ascontiguousarray(keys)
    from evenflow.keys import hash_keys

    return hash_keys(keys)


def flatten(state: Any, prefix: str = "") -> Iterator[tuple[str, Array]]:
    """Yield the arrays of nested NamedTuples as (dotted name, array)."""
    for name, value in zip(state._fields, state, strict=True):
        if hasattr(value, "_fields"):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def unflatten(template: Any, arrays: Mapping[str, Array], prefix: str = "") -> Any:
    """Rebuild a NamedTuple like ``template`` from the arrays that ``flatten`` yielded."""
    values = []
    for name, value in zip(template._fields, template, strict=True):
        if hasattr(value, "_fields"):
            values.append(unflatten(value, arrays, f"{prefix}{name}."))
        elif f"{prefix}{name}" not in arrays or arrays[f"{prefix}{name}"].dtype != value.dtype:
            raise EvenflowError(
                f"the saved router has no {prefix}{name}; read it with the evenflow version that wrote it."
            )
        else:
            values.append(arrays[f"{prefix}{name}"])
    return type(template)(*values)


def check(name: str, value: float, good: bool, rule: str) -> None:
    """Raise an error about a parameter unless it is ``good``; ``rule`` says what is allowed."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) or not good:
        raise EvenflowError(f"{name} is {value!r}; {rule}.")


def _whole_number(name: str, value: Any, lowest: int, why: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < lowest:
        raise EvenflowError(f"{name} is {value!r}; {why}.")
    if value > 2**20:
        raise EvenflowError(f"{name} is {value!r}; use at most {2**20}.")
    return int(value)
