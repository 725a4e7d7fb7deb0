"""Snapshots of what online routers learned, passed from one micro-batch to the next through small files.

When a partition is done, its router writes what it knows, once (exclusive create: a retried task repeats the
same decisions, so any attempt's file will do). The first task of a later batch merges the files of the latest
earlier batch and freezes the result, again by exclusive create. Every task of that batch, first attempt or
retry, starts from its share of this frozen snapshot.

How routers are merged is the schemes' (:mod:`evenflow.schemes.handover`). The merged router also knows how
many partitions the batch had, which is the number of sources of the next one unless the caller gave it, and
has heard what the workers measured (:mod:`evenflow.spark.routing.worker_reports`).

Files: ``<batch>.<partition>.part`` and ``<batch>.joined``, which the next batch begins with, each a
compressed ``Router.to_bytes``. A file that is truncated or of another version is treated as absent, and the
fallback is counted. The files of a batch stay below ``MAX_BYTES``: partitions whose files would exceed it
write none.

All are read by their names, since listing objects is slow and may be behind: parts by their numbers, as long
as there are more; earlier batches one by one, past those without rows; after several of these, the batch that
``newest`` names.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from evenflow.errors import EvenflowError
from evenflow.schemes.base import Router, Scheme
from evenflow.schemes.handover import hand_over
from evenflow.storage import Location, Storage, open_storage
from evenflow.storage.base import at_once

MAX_BYTES = 2_000_000
BATCHES_BY_NAME = 4  # that are looked for one by one
_PARTS_AT_ONCE = 8
_PART, _JOINED, _LOST = "part", "joined", "lost"
_NEWEST = "newest"  # has the number of the last batch with rows

OnFallback = Callable[[int, str], None]  # batch, reason
Hear = Callable[[int, Router], Callable[[], None]]  # batch, merged router; returns what to do if it is kept


class Snapshots:
    """The snapshots of one operator of one query, in a place that every executor can write."""

    def __init__(
        self,
        place: str | Path,
        scheme: Scheme,
        workers: int,
        seed: int = 0,
        on_fallback: OnFallback = lambda batch, reason: None,
        hear: Hear = lambda batch, router: lambda: None,
    ):
        self.storage = open_storage(place)
        self.scheme = scheme
        self.workers = workers
        self.seed = seed
        self.on_fallback = on_fallback
        self.hear = hear

    def load_before(self, batch: int) -> Router | None:
        """Return the merged router that a batch begins with, or None; its first task makes it."""
        if batch == 0:
            return None
        name = _name(batch - 1, _JOINED)
        content = None
        with contextlib.suppress(OSError):  # what cannot be read costs balance, not results
            content = self._read(name)
            if content is None:
                content = self._made_once(batch, name)
        router = self._router(content)
        if router is None:
            self._report_loss(batch, "cannot be read" if content else "is missing")
        return router

    def _made_once(self, batch: int, name: str) -> bytes | None:
        """Freeze what a batch begins with, unless a task beside this one just does."""
        with self.storage.alone() as others:
            content = self._read(name) if others else None
            return self._freeze(batch, name) if content is None else content

    def save(self, batch: int, partition: int, router: Router) -> None:
        """Write what this partition's router knows, unless a file exists or the size limit is reached."""
        blob = zlib.compress(router.to_bytes(), 1)
        if partition < MAX_BYTES // len(blob):
            with contextlib.suppress(OSError):  # a full disk costs balance, not results
                self.storage.create(_part(batch, partition), blob)

    def _freeze(self, batch: int, name: str) -> bytes | None:
        """Write what a batch begins with, remove files that are no longer needed, return what is there."""
        found = self._latest_before(batch)
        blob, told = found.before or b"", None
        if found.parts:
            routers = [router for content in found.parts.values() if (router := self._router(content))]
            blob = b""
            if routers:
                before = self._router(found.before)
                merged = hand_over(self.scheme, self.workers, routers, before, self.seed)
                told = self.hear(found.batch, merged)
                blob = zlib.compress(merged.to_bytes(), 1)
        if len(blob) > MAX_BYTES:
            blob = b""
        if not self.storage.create(name, blob):
            return self._read(name)
        if told is not None:
            told()
        old = [*found.parts]
        if found.before is not None:
            old.append(_name(found.batch - 1, _JOINED))
            if self._router(found.before) is None:
                old.append(_name(found.batch, _LOST))
        self._pass_on(batch, old)
        return blob

    def _pass_on(self, batch: int, old: list[str]) -> None:
        """Note that a batch has rows, and remove files; one round trip."""
        steps = [lambda: self.storage.put(_NEWEST, b"%d" % batch), lambda: self.storage.delete(old)]
        with contextlib.suppress(OSError):
            at_once(lambda step: step(), steps)

    def _latest_before(self, batch: int) -> _Found:
        """Return what the latest earlier batch with rows left."""
        for earlier in range(batch - 1, max(-1, batch - 1 - BATCHES_BY_NAME), -1):
            parts = self._parts(earlier)
            before = self._read(_name(earlier - 1, _JOINED)) if earlier else None
            if parts or before is not None:
                return _Found(earlier, parts, before)
        newest = _newest(self.storage) if batch > BATCHES_BY_NAME else 0
        if newest >= batch:  # an earlier batch comes again
            return _Found(0, {}, None)
        return _Found(newest, self._parts(newest), self._read(_name(newest - 1, _JOINED)) if newest else None)

    def _parts(self, batch: int) -> dict[str, bytes]:
        """Return the parts of a batch by name, up to where none follow."""
        found = dict[str, bytes]()
        for first in range(0, MAX_BYTES, _PARTS_AT_ONCE):
            names = [_part(batch, number) for number in range(first, first + _PARTS_AT_ONCE)]
            contents = self.storage.read_all(names)
            found |= {
                name: content for name, content in zip(names, contents, strict=True) if content is not None
            }
            if contents[-1] is None:
                break
        return found

    def _read(self, name: str) -> bytes | None:
        try:
            return self.storage.read(name)
        except FileNotFoundError:
            return None

    def _router(self, content: bytes | None) -> Router | None:
        """Return the router of a file's content; None if that is missing or damaged."""
        if not content:
            return None
        try:
            router = Router.from_bytes(zlib.decompress(content))
        except (zlib.error, EvenflowError):
            return None
        return router if router.scheme == self.scheme and router.workers == self.workers else None

    def _report_loss(self, batch: int, how: str) -> None:
        """Report a missing snapshot once per batch, not once per task."""
        with contextlib.suppress(OSError):
            if self.storage.create(_name(batch, _LOST), uuid4().bytes):
                reason = f"the snapshot of what batch {batch - 1} learned {how}; routers start from scratch."
                self.on_fallback(batch, reason)


class _Found(NamedTuple):
    """What a batch left: the parts of its partitions, and what it began with."""

    batch: int
    parts: dict[str, bytes]
    before: bytes | None


def place_of(control: Location, operator: str, query: str) -> Location:
    """Return where an operator of a query has its snapshots."""
    return control / f"online/{operator}/{query}"


def sweep(place: Location, batch: int) -> None:
    """Remove what killed tasks left of batches long before this one; lists objects."""
    storage = open_storage(place)
    with contextlib.suppress(OSError):
        oldest = min(batch - BATCHES_BY_NAME, _newest(storage) - 1)
        storage.delete([name for at, name in _files(storage) if at < oldest])


def _newest(storage: Storage) -> int:
    """Return the last batch with rows; the first one notes nothing."""
    try:
        return int(storage.read(_NEWEST))
    except (FileNotFoundError, ValueError):
        return 0


def _files(storage: Storage) -> Iterator[tuple[int, str]]:
    """Yield every snapshot file with its batch."""
    for entry in storage.entries():
        number, suffix = entry.name.partition(".")[0], entry.name.rpartition(".")[2]
        if number.isdigit() and suffix in (_PART, _JOINED, _LOST):
            yield int(number), entry.name


def _name(batch: int, suffix: str) -> str:
    return f"{batch:09d}.{suffix}"


def _part(batch: int, partition: int) -> str:
    return f"{batch:09d}.{partition:05d}.{_PART}"
