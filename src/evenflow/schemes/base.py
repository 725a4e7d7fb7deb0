"""What every scheme is: frozen parameters that make routers, and routers that keep these laws.

A **scheme** says how keys are grouped; a **router** is a scheme running at one source. Laws, tested for every
scheme:

* conservation: ``route`` answers every message with exactly one worker in 0 .. workers - 1;
* determinism: the same scheme, workers, seed, source and stream give the same answers, in one call or in
  many, in this process or another; no scheme looks at the wall clock or at a random device;
* agreement: routers of one run that differ only in ``source`` have the same candidates for every key;
* serialisation: ``Router.from_bytes(router.to_bytes())`` goes on as if nothing had happened;
* bounded memory: what a router holds does not grow with the number of distinct keys.

A router's whole memory is ``state``, a NamedTuple of numpy arrays (NamedTuples may nest), so that kernels
take it as it is and saving it needs no code of the scheme's own.

Schemes speak for themselves: whoever uses one asks its methods and declared properties, never what class it
is. The defaults here are enough for a scheme that declares what it has; a scheme overrides what it does
better.
"""

from __future__ import annotations

import copy
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from evenflow.blob import Array, read_blob, write_blob
from evenflow.errors import EvenflowError, nearest
from evenflow.kernels import Float64Array, Int8Array, Int32Array, Int64Array, UInt64Array
from evenflow.keys import salt_of
from evenflow.plan import Plan
from evenflow.plan.counted import NOTHING, Counted
from evenflow.plan.one_owner import one_owner_plan, stable_buckets
from evenflow.schemes.coordination import Coordinator
from evenflow.schemes.cost_model import Costs
from evenflow.schemes.owner_plans import OwnerPlans

AnyScheme = TypeVar("AnyScheme", bound="Scheme")

_CLOCK_STEP = 1 << 17  # so many messages' logical clock is made at once: it stays in the cache

_REGISTRY: dict[str, type[Scheme]] = {}
_ALIASES: dict[str, str] = {}


@dataclass(frozen=True)
class WorkerReport:
    """What the workers told one source, one value per worker; None where they did not say.

    ``backlog``: messages waiting (all sources' together). ``seconds_per_message``: measured service time.
    ``signal``: +1 busy, -1 idle, 0 nothing to say. ``capacity``: messages per second a worker can serve.
    ``time`` is on the clock that ``route`` gets.
    """

    time: float = 0.0
    backlog: Float64Array | None = None
    seconds_per_message: Float64Array | None = None
    signal: Int8Array | None = None
    capacity: Float64Array | None = None


class BusySignals(NamedTuple):
    """When workers say that they are busy or idle: at the end of every slot, by their utilisation."""

    slot: int  # messages per worker
    idle: float  # a worker is idle below this utilisation
    busy: float  # and busy above this one


@dataclass(frozen=True)
class Scheme(ABC):
    """A grouping scheme: its parameters are fields, its properties are class attributes."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    paper: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    splits_keys: ClassVar[bool] = True  # may a key be on several workers at once?
    needs_load: ClassVar[bool] = False  # does a decision depend on what was sent before?
    needs_time: ClassVar[bool] = False  # does it read the clock of its messages?
    needs_reports: ClassVar[bool] = False  # does it want feedback from the workers?
    plannable: ClassVar[bool] = False  # can its decisions be a table, made before the rows are seen?
    counts_keys: ClassVar[bool] = False  # does that table depend on how often keys come?
    rescales: ClassVar[bool] = False  # can its routers change their number of workers?
    learns: ClassVar[bool] = False  # do its routers know more than loads, worth passing on?
    one_owner_with: ClassVar[str] = ""  # the parameter that gives every key one owner, where there is one

    def router(self, workers: int, seed: int = 0, *, source: int = 0, sources: int = 1) -> Router:
        """Start this scheme at one of ``sources`` sources that share ``seed``."""
        workers = _whole_number("workers", workers, 1, "a router needs at least one worker")
        sources = _whole_number("sources", sources, 1, "a stream has at least one source")
        source = _whole_number("source", source, 0, "sources are numbered from 0")
        if source >= sources:
            raise EvenflowError(f"source is {source} of {sources}; sources are numbered 0 to {sources - 1}.")
        if not isinstance(seed, int | np.integer):
            raise EvenflowError(f"seed is {seed!r}; a seed is an integer.")
        return self.new_router(RouterPlace(workers, int(seed), source, sources))

    @abstractmethod
    def new_router(self, place: RouterPlace) -> Router:
        """Build the router; ``place`` has been checked."""

    @property
    def one_owner(self) -> bool:
        """Whether a key is on one worker at a time."""
        return not self.splits_keys

    @property
    def clock_rate(self) -> float:
        """Messages per second of the logical clock, where messages have no times."""
        return 1e4

    @property
    def report_interval(self) -> float:
        """Seconds between two reports of the workers, for a scheme that needs them."""
        return 10.0

    @property
    def busy_signals(self) -> BusySignals | None:
        """When workers signal busy and idle, if that is what the scheme wants instead of reports."""
        return None

    @property
    def costs(self) -> Costs:
        """What a key costs its owner; rows for state, computation and communication alike."""
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
        """Return this scheme's decisions as a table, for what was counted.

        ``split=False`` keeps every key on one worker. ``previous``: homes to keep where they still fit.
        ``move_buckets=False``: buckets stay where they were.

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
        """Make the plan; only called if ``plannable``. By default a router is asked for each bucket.

        Buckets are routed as if their numbers were key hashes, by a router that has seen nothing.
        """
        buckets = np.arange(self.plan_buckets(workers), dtype=np.uint64)
        return one_owner_plan(workers, self.router(workers, seed).route(buckets), counted)

    def plan_buckets(self, workers: int) -> int:
        """Return the number of buckets of a plan."""
        return stable_buckets(workers)

    def check_plannable(self) -> None:
        """Refuse to plan, with a sentence, unless ``plannable``."""
        if not self.plannable:
            able = ", ".join(name for name, kind in list_schemes().items() if kind.plannable)
            raise EvenflowError(
                f"{self.name} decides row by row and cannot be planned; choose mode='online', or one of the "
                f"schemes that can: {able}."
            )

    def owner_plans(self, seed: int) -> OwnerPlans:
        """Return what plans for keyed state; a scheme whose keys have several owners refuses."""
        if not self.one_owner and self.one_owner_with:
            raise EvenflowError(
                f"{self} gives a key several workers; state has one owner, so add {self.one_owner_with}."
            )
        if not (self.one_owner and self.plannable):
            kinds = list_schemes().items()
            able = [name for name, kind in kinds if kind.plannable and not kind.splits_keys]
            able += [f"{name} with {kind.one_owner_with}" for name, kind in kinds if kind.one_owner_with]
            why = "decides row by row" if self.one_owner else "gives a key several workers"
            raise EvenflowError(
                f"{self.name} {why}; state has one owner that is known before the rows are: choose one of "
                f"{', '.join(able)}."
            )
        return OwnerPlans(self, seed)

    def coordinator(self, routers: Sequence[Router]) -> Coordinator:
        """Return what lets the sources of one run agree, as far as the scheme needs that."""
        return Coordinator(routers)

    def contenders(self, keys: int, messages: int) -> list[Scheme]:
        """Return the variants to compare on a stream of so many keys and messages."""
        return [self]

    def parameters(self) -> dict[str, Any]:
        """Return the parameters by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def __str__(self) -> str:
        changed = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        ]
        return f"{self.name}({', '.join(changed)})" if changed else self.name


@dataclass(frozen=True)
class RouterPlace:
    """Where a router runs: how many workers it serves, under which seed, as which of how many sources."""

    workers: int
    seed: int
    source: int
    sources: int

    @property
    def offset(self) -> int:
        """Where this source starts counting workers, so that identical sources do not herd."""
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

    @property
    def workers(self) -> int:
        """Number of workers."""
        return self.place.workers

    def route(self, keys: Any, times: Any = None) -> Int32Array:
        """Return a worker for every key hash (uint64; anything else is hashed first), and remember it.

        ``times`` are seconds, one per message, not decreasing; schemes with a clock read them. Without them
        the source's own logical clock runs at the scheme's ``clock_rate``.
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
        """Return the worker that every key would get now, and remember nothing."""
        return copy.deepcopy(self).route(keys)

    def report(self, report: WorkerReport) -> None:  # noqa: B027 - ignoring feedback is the default
        """Take feedback from the workers; schemes that use none ignore it."""

    def rescale(self, workers: int) -> None:
        """Go on with another number of workers: the last ones leave, or new ones join at the end."""
        workers = _whole_number("workers", workers, 1, "a router needs at least one worker")
        if not self.scheme.rescales:
            able = ", ".join(name for name, kind in sorted(_REGISTRY.items()) if kind.rescales)
            raise EvenflowError(f"{self.scheme.name} cannot change its number of workers; these can: {able}.")
        if workers != self.workers:
            before = self.workers
            self.place = dataclasses.replace(self.place, workers=workers)
            self._rescale(before)

    def _rescale(self, before: int) -> None:
        """Adapt ``state`` to ``self.workers``, which has been ``before`` until now."""
        raise NotImplementedError

    def learn(self, others: Sequence[Router], share: float = 1.0) -> None:
        """Begin, before the first message, with what other sources' routers learned.

        Who is hot and where keys live is taken over, counts times ``share``; loads begin at 0, so that what
        comes next is balanced in itself. A scheme that knows only loads (``learns`` is False) takes nothing.
        """
        if self.routed:
            raise EvenflowError(f"this router has sent {self.routed} messages; learn before the first one.")
        if any(other.scheme != self.scheme or other.workers != self.workers for other in others):
            raise EvenflowError("a router learns from routers of its own scheme and number of workers.")
        if others:
            self._learn(others, share)

    def _learn(self, others: Sequence[Any], share: float) -> None:  # noqa: B027 - loads alone are not passed on
        """Take over from at least one router of the same scheme."""

    @property
    def choices(self) -> float | None:
        """The number of candidates that hot keys have now, if the router decides it."""
        return None

    @property
    def head(self) -> tuple[UInt64Array, Int64Array] | None:
        """The hot keys and their counts, most frequent first, if the router has a list of them."""
        return None

    @property
    def loads(self) -> Int64Array:
        """Messages this source has sent to each worker."""
        loads: Int64Array = self.state.loads
        return loads

    @property
    def nbytes(self) -> int:
        """Bytes held in arrays."""
        return sum(array.nbytes for _, array in flatten(self.state))

    def to_bytes(self) -> bytes:
        """Save everything this router knows, as plain data with a version and a checksum."""
        header = {
            "scheme": self.scheme.name,
            "parameters": self.scheme.parameters(),
            "place": dataclasses.asdict(self.place),
            "routed": self.routed,
        }
        return write_blob("router", header, dict(flatten(self.state)))

    @classmethod
    def from_bytes(cls, blob: bytes) -> Self:
        """Resume a saved router; called on a scheme's own router class, only that scheme's blob is taken."""
        header, arrays = read_blob("router", blob)
        router = scheme(header["scheme"], **header["parameters"]).new_router(RouterPlace(**header["place"]))
        if not isinstance(router, cls):
            raise EvenflowError(
                f"this is a saved router of {header['scheme']!r}, not a {cls.__name__}; "
                "use Router.from_bytes."
            )
        router.state = unflatten(router.state, arrays)
        router.routed = header["routed"]
        return router

    def _clock(self, count: int, times: Any) -> Float64Array:
        if not self.scheme.needs_time:
            return np.empty(0)
        if times is None:
            ticks = np.arange(self.routed, self.routed + count, dtype=np.float64)
            ticks *= self.place.sources / self.scheme.clock_rate
            return ticks
        clock = np.ascontiguousarray(times, np.float64)
        if clock.shape != (count,):
            raise EvenflowError(
                f"times has {clock.size} values for {count} keys; pass one time per key, or none."
            )
        return clock


def as_hashes(keys: Any) -> UInt64Array:
    """Take uint64 as hashed keys; hash anything else."""
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
    """Build a NamedTuple like ``template`` from the arrays that ``flatten`` yielded."""
    values = []
    for name, value in zip(template._fields, template, strict=True):
        if hasattr(value, "_fields"):
            values.append(unflatten(value, arrays, f"{prefix}{name}."))
        elif f"{prefix}{name}" not in arrays or arrays[f"{prefix}{name}"].dtype != value.dtype:
            raise EvenflowError(f"the saved router lacks {prefix}{name}; it was written by another version.")
        else:
            values.append(arrays[f"{prefix}{name}"])
    return type(template)(*values)


def register(kind: type[AnyScheme]) -> type[AnyScheme]:
    """Make a scheme known by its name and aliases (a class decorator)."""
    for name in (kind.name, *kind.aliases):
        known = _REGISTRY.get(_ALIASES.get(name, name))
        if known is not None and known is not kind and known.__qualname__ != kind.__qualname__:
            raise EvenflowError(
                f"a scheme named {name!r} is known already ({known.__module__}); choose another name."
            )
    _REGISTRY[kind.name] = kind
    _ALIASES.update(dict.fromkeys(kind.aliases, kind.name))
    return kind


def scheme(name: str, /, **parameters: Any) -> Scheme:
    """Return the scheme called ``name`` with ``parameters``.

    >>> scheme("partial-key")
    PartialKey(distinct=True)
    """
    kind = _REGISTRY.get(_ALIASES.get(name, name)) if isinstance(name, str) else None
    if kind is None and isinstance(name, str):
        _find_installed()
        kind = _REGISTRY.get(_ALIASES.get(name, name))
    if kind is None:
        raise EvenflowError(f"there is no scheme {name!r}; {nearest(str(name), [*_REGISTRY, *_ALIASES])}")
    known = [field.name for field in dataclasses.fields(kind)]
    for parameter in parameters:
        if parameter not in known:
            rest = nearest(parameter, known) if known else "it takes none."
            raise EvenflowError(f"{kind.name} has no parameter {parameter!r}; {rest}")
    for field in dataclasses.fields(kind):
        if field.name in parameters:
            _check_type(kind.name, field, parameters[field.name])
    return kind(**parameters)


def _check_type(scheme_name: str, field: dataclasses.Field[Any], value: Any) -> None:
    """Refuse a value whose type cannot be right: a parameter takes what its default is."""
    words = ""
    if isinstance(field.default, bool):
        words = "" if isinstance(value, bool | np.bool_) else "True or False"
    elif isinstance(field.default, int | float):
        words = "a number" if isinstance(value, str | bytes | bool) else ""
    elif isinstance(field.default, str):
        words = "" if isinstance(value, str) else "a word"
    if words:
        raise EvenflowError(
            f"{scheme_name}: {field.name} is {value!r}; it is {words}, such as {field.default!r}."
        )


def list_schemes() -> dict[str, type[Scheme]]:
    """Return every known scheme by name, those of installed packages too."""
    _find_installed()
    return dict(sorted(_REGISTRY.items()))


def is_known(name: str) -> bool:
    """Say whether there is a scheme of this name or alias."""
    return name in _REGISTRY or name in _ALIASES


def _find_installed() -> None:
    from evenflow.schemes.plugins import find_installed  # it needs what this module defines

    find_installed()


def check(name: str, value: float, good: bool, rule: str) -> None:
    """Refuse a parameter with a sentence unless ``good``."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) or not good:
        raise EvenflowError(f"{name} is {value!r}; {rule}.")


def _whole_number(name: str, value: Any, lowest: int, why: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < lowest:
        raise EvenflowError(f"{name} is {value!r}; {why}.")
    if value > 2**20:
        raise EvenflowError(f"{name} is {value!r}; evenflow routes to at most {2**20} workers or sources.")
    return int(value)
