"""Building blocks of the router benchmarks: streams, schemes, tasks, rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import evenflow as ef
from evenflow.bench.measure import Measured, Prepare, Row
from evenflow.bench.results import Limit
from evenflow.kernels import Int64Array, UInt64Array
from evenflow.streams import Zipf

SEED = 1


class Workload(NamedTuple):
    """A stream as hashes, and the count of each distinct key."""

    name: str
    keys: UInt64Array
    distinct: UInt64Array
    counts: Int64Array


class Subject(NamedTuple):
    """A scheme to measure, and how to prepare its routers."""

    scheme: ef.Scheme
    variant: str = ""
    ready: Callable[[Any, Workload], object] | None = None

    @property
    def name(self) -> str:
        """The names of the scheme and the variant."""
        return f"{self.scheme.name}, {self.variant}" if self.variant else self.scheme.name


def result(
    part: str, subject: Subject, workers: int, stream: tuple[str, int], measured: Measured, value: float,
    limit: Limit | None, **details: Any,
) -> Row:  # fmt: skip
    """Return one measurement: a speed, and a ``value`` with its limit.

    ``stream`` is the name and number of messages; ``relative_to_key`` is the time relative to key grouping on
    the same stream, ``lowest`` and ``highest`` its range over the rounds.
    """
    name, messages = stream
    return {
        "part": part,
        "scheme": subject.scheme.name,
        "variant": subject.variant,
        "workers": workers,
        "stream": name,
        "messages": messages,
        "messages_per_second": messages / measured.seconds,
        "relative_to_key": measured.ratio,
        "lowest": measured.lowest,
        "highest": measured.highest,
        "value": value,
        "limit": None if limit is None else str(limit),
        "ok": None if limit is None else limit.holds(value),
        "details": details,
    }


def every_scheme() -> list[Subject]:
    """Return every registered scheme with its defaults, key grouping first."""
    names = sorted(ef.list_schemes(), key=lambda name: (name != "key", name))
    return [Subject(ef.scheme(name)) for name in names]


def lookup_alone() -> Subject:
    """Return explicit with a prebuilt map and without counting."""
    return Subject(
        ef.scheme("explicit", counting=False),
        "lookup alone",
        lambda router, load: router.rebuild(load.distinct, load.counts),
    )


def zipf(z: float, keys: int, messages: int) -> Workload:
    """Return a Zipf stream in memory."""
    stream = Zipf(z=z, keys=keys, messages=messages, seed=SEED)
    ids = stream.generate(0, messages).ids
    counts = np.bincount(ids, minlength=keys)
    seen = counts > 0
    return Workload(stream.name, stream.hashes[ids], stream.hashes[seen], counts[seen])


def routing(subject: Subject, workers: int, load: Workload, sources: int = 1) -> Prepare:
    """Return the task of routing a stream with new routers, one per source."""
    parts = [np.ascontiguousarray(load.keys[source::sources]) for source in range(sources)]
    subject.scheme.router(workers).route(load.keys[:10])  # compile

    def prepare() -> Callable[[], None]:
        routers = [subject.scheme.router(workers, SEED, source=i, sources=sources) for i in range(sources)]
        if subject.ready is not None:
            for router in routers:
                subject.ready(router, load)

        def work() -> None:
            for router, part in zip(routers, parts, strict=True):
                router.route(part)

        return work

    return prepare
