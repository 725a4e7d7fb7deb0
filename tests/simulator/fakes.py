"""Streams and schemes made for tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import evenflow as ef
from evenflow.kernels import Float64Array, Int32Array, Int64Array, UInt64Array
from evenflow.schemes.base import BusySignals, RouterPlace
from evenflow.streams.base import CHUNK, Chunk, Stream


class ListStream(Stream):
    """A stream from lists; like a file it may not know its length or its keys."""

    def __init__(self, ids: Any, times: Any = None, known: bool = True):
        self.ids = np.asarray(ids, np.int32)
        self.times = None if times is None else np.asarray(times, np.float64)
        self.messages = self.ids.size if known else None
        self.known = known
        keys = int(self.ids.max()) + 1 if self.ids.size else 0
        self._hashes = np.random.default_rng(7).integers(0, 2**64, keys, dtype=np.uint64)
        self._seen = 0

    @property
    def name(self) -> str:
        return f"list of {self.ids.size}"

    def chunks(self, size: int = CHUNK) -> Iterator[Chunk]:
        for start in range(0, self.ids.size, size):
            part = slice(start, start + size)
            self._seen = max(self._seen, int(self.ids[part].max()) + 1)
            yield Chunk(self.ids[part], None if self.times is None else self.times[part])

    @property
    def hashes(self) -> UInt64Array:
        return self._hashes if self.known else self._hashes[: self._seen]

    def label(self, id: int) -> str:
        return str(id)

    def keys_upper_bound(self) -> int | None:
        return self._hashes.size if self.known else None


class LoadState(NamedTuple):
    loads: Int64Array


@dataclass(frozen=True)
class Modulo(ef.Scheme):
    """One owner, key modulo workers; its routers remember what they were told. Not registered."""

    wrong: int = 0  # added to every answer

    name = "modulo"
    splits_keys = False
    rescales = True

    def new_router(self, place: RouterPlace) -> ModuloRouter:
        return ModuloRouter(self, place)


@dataclass(frozen=True)
class Listening(Modulo):
    """Wants reports every ``interval`` seconds."""

    interval: float = 1.0

    name = "listening"
    needs_reports = True

    @property
    def report_interval(self) -> float:
        return self.interval


@dataclass(frozen=True)
class Signalled(Modulo):
    """Wants signals, slot by slot."""

    slot: int = 10
    idle: float = 0.75
    busy: float = 0.85

    name = "signalled"
    needs_reports = True

    @property
    def busy_signals(self) -> BusySignals:
        return BusySignals(self.slot, self.idle, self.busy)


class ModuloRouter(ef.Router):
    told: list[tuple[int, int, ef.WorkerReport]] = []  # noqa: RUF012 - (source, messages routed, report), of all

    def __init__(self, scheme: Modulo, place: RouterPlace):
        super().__init__(scheme, place)
        self.wrong = scheme.wrong
        self.state = LoadState(np.zeros(place.workers, np.int64))

    def _route(self, keys: UInt64Array, times: Float64Array, out: Int32Array) -> None:
        out[:] = (keys % np.uint64(self.workers)).astype(np.int32) + self.wrong
        self.state.loads[:] += np.bincount(out % self.workers, minlength=self.workers)

    def report(self, report: ef.WorkerReport) -> None:
        ModuloRouter.told.append((self.place.source, self.routed, report))

    def _rescale(self, before: int) -> None:
        self.state = LoadState(np.zeros(self.workers, np.int64))

    def lookup(self, keys: Any) -> Int32Array:
        return (keys % np.uint64(self.workers)).astype(np.int32)
