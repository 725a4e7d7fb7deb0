"""Snapshots of what online routers learned, passed from one micro-batch to the next through small files.

When a partition is done, its router writes what it knows, once (exclusive create: a retried task repeats the
same decisions, so any attempt's file will do). The first task of a later batch merges the files of the latest
earlier batch and freezes the result, again by exclusive create. Every task of that batch, first attempt or
retry, starts from its share of this frozen snapshot.

How routers are merged is the schemes' (:mod:`evenflow.schemes.handover`). The merged router also knows how
many partitions the batch had, which is the number of sources of the next one unless the caller gave it, and
has heard what the workers measured (:mod:`evenflow.spark.routing.worker_reports`).

Files: ``<batch>.<partition>.part`` and ``<batch>.joined``, each a compressed ``Router.to_bytes``. A file that
is missing, truncated or of another version is treated as absent, and the fallback is counted. The files of a
batch stay below ``MAX_BYTES``: partitions whose files would exceed it write none.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

from evenflow.errors import EvenflowError
from evenflow.schemes.base import Router, Scheme
from evenflow.schemes.handover import hand_over
from evenflow.storage import open_storage

MAX_BYTES = 900_000
_PART, _JOINED, _LOST = "part", "joined", "lost"

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
        """Return the merged router of the latest earlier batch, or None; only the first task lists files."""
        if batch > 0 and (router := self._read(f"{batch - 1:09d}.{_JOINED}")) is not None:
            return router
        known = (found for found, name in self._files() if found < batch and _suffix(name) != _LOST)
        newest = max(known, default=None)
        if newest is None:
            if batch > 0:
                self._report_loss(batch, "the previous batch left no snapshot")
            return None
        joined = f"{newest:09d}.{_JOINED}"
        if not self._exists(joined):
            self._merge_parts(newest, joined)
        router = self._read(joined)
        if router is None:
            self._report_loss(batch, f"the snapshot of batch {newest} cannot be read")
        return router

    def save(self, batch: int, partition: int, router: Router) -> None:
        """Write what this partition's router knows, unless a file exists or the size limit is reached."""
        blob = zlib.compress(router.to_bytes(), 1)
        if partition < MAX_BYTES // len(blob):
            with contextlib.suppress(OSError):  # a full disk costs balance, not results
                self.storage.create(f"{batch:09d}.{partition:05d}.{_PART}", blob)

    def _merge_parts(self, batch: int, joined: str) -> None:
        """Freeze the sum of a batch's parts, and remove files that are no longer needed."""
        parts = [name for found, name in self._files() if found == batch and _suffix(name) == _PART]
        routers = [router for name in sorted(parts) if (router := self._read(name)) is not None]
        blob, told = b"", None
        if routers:
            merged = hand_over(self.scheme, self.workers, routers, self._joined_before(batch), self.seed)
            told = self.hear(batch, merged)
            blob = zlib.compress(merged.to_bytes(), 1)
        with contextlib.suppress(OSError):
            created = self.storage.create(joined, blob if len(blob) <= MAX_BYTES else b"")
            if created and told is not None:
                told()
        old = [name for found, name in self._files() if found < batch]
        for name in [*old, *parts]:
            with contextlib.suppress(OSError):
                self.storage.delete([name])

    def _joined_before(self, batch: int) -> Router | None:
        """Return what the routers of a batch began with."""
        before = [name for found, name in self._files() if found < batch and _suffix(name) == _JOINED]
        return self._read(before[-1]) if before else None

    def _files(self) -> Iterator[tuple[int, str]]:
        """Yield every snapshot file with its batch."""
        with contextlib.suppress(OSError):
            for entry in self.storage.entries():
                number = entry.name.partition(".")[0]
                if number.isdigit() and _suffix(entry.name) in (_PART, _JOINED, _LOST):
                    yield int(number), entry.name

    def _exists(self, name: str) -> bool:
        try:
            return self.storage.exists(name)
        except OSError:
            return False

    def _read(self, name: str) -> Router | None:
        try:
            router = Router.from_bytes(zlib.decompress(self.storage.read(name)))
        except (OSError, zlib.error, EvenflowError):
            return None
        return router if router.scheme == self.scheme and router.workers == self.workers else None

    def _report_loss(self, batch: int, reason: str) -> None:
        """Report a missing snapshot once per batch, not once per task."""
        with contextlib.suppress(OSError):
            if self.storage.create(f"{batch:09d}.{_LOST}", uuid4().bytes):
                self.on_fallback(batch, f"{reason}; routers start from scratch.")


def _suffix(name: str) -> str:
    return name.rpartition(".")[2]
