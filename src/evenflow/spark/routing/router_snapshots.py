"""Snapshots of what online routers learned, passed from one micro-batch to the next through small files.

When a partition is done, its router writes what it knows, once (exclusive create: a retried task repeats the
same decisions, so any attempt's file will do). The first task of a later batch merges the files of the latest
earlier batch and freezes the result, again by exclusive create. Every task of that batch, first attempt or
retry, starts from its share of this frozen snapshot.

Merging halves each count, so that the past decays, but a batch with few rows decays it by less: Kafka and
``availableNow`` make tiny batches by themselves. Where a batch has fewer partitions than sources, the shares
that no partition took are added from the snapshot before.

Files: ``<batch>.<partition>.part`` and ``<batch>.joined``, each a compressed ``Router.to_bytes``. A file that
is missing, truncated or of another version is treated as absent, and the fallback is counted. The files of a
batch stay below ``MAX_BYTES``: partitions whose files would exceed it write none.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from evenflow.errors import EvenflowError
from evenflow.files import create_exclusive
from evenflow.schemes.base import Router, Scheme

MAX_BYTES = 900_000
PAST_WEIGHT = 0.5  # of all earlier batches, relative to a last one with STEADY_ROWS_PER_WORKER
STEADY_ROWS_PER_WORKER = 256  # in a batch; enough to detect hot keys without earlier batches
_PART, _JOINED, _LOST = "part", "joined", "lost"

OnFallback = Callable[[int, str], None]  # batch, reason


class Snapshots:
    """The snapshots of one operator of one query, in a directory that every executor can write."""

    def __init__(
        self,
        folder: Path,
        scheme: Scheme,
        workers: int,
        sources: int,
        on_fallback: OnFallback = lambda batch, reason: None,
    ):
        self.folder = folder
        self.scheme = scheme
        self.workers = workers
        self.sources = sources
        self.on_fallback = on_fallback

    def load_before(self, batch: int) -> Router | None:
        """Return the merged router of the latest earlier batch, or None."""
        known = (found for found, path in self._files() if found < batch and path.suffix != f".{_LOST}")
        newest = max(known, default=None)
        if newest is None:
            if batch > 0:
                self._report_loss(batch, "the previous batch left no snapshot")
            return None
        joined = self.folder / f"{newest:09d}.{_JOINED}"
        if not joined.exists():
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
                self.folder.mkdir(parents=True, exist_ok=True)
                create_exclusive(self.folder / f"{batch:09d}.{partition:05d}.{_PART}", blob)

    def _merge_parts(self, batch: int, joined: Path) -> None:
        """Freeze the sum of a batch's parts, and remove files that are no longer needed."""
        parts = [path for found, path in self._files() if found == batch and path.suffix == f".{_PART}"]
        routers = [router for path in sorted(parts) if (router := self._read(path)) is not None]
        merged = self.scheme.router(self.workers)
        with contextlib.suppress(EvenflowError):  # files of another scheme count as absent
            merged.learn([*routers, *self._untaken(batch, len(routers))], self._decay(routers))
        blob = zlib.compress(merged.to_bytes(), 1)
        with contextlib.suppress(OSError):
            create_exclusive(joined, blob if routers and len(blob) <= MAX_BYTES else b"")
        for found, path in self._files():
            if found < batch or (found == batch and path.suffix == f".{_PART}"):
                with contextlib.suppress(OSError):
                    path.unlink()

    def _decay(self, routers: list[Router]) -> float:
        """Return the weight of what these routers know in the next batch."""
        rows = sum(router.routed for router in routers)
        decay = PAST_WEIGHT ** min(1.0, rows / (STEADY_ROWS_PER_WORKER * self.workers))
        return decay * min(1.0, self.sources / max(1, len(routers)))  # each of them began with 1/sources

    def _untaken(self, batch: int, parts: int) -> list[Router]:
        """Return what the snapshot before knows, in the weight of the shares that no partition took."""
        before = [path for found, path in self._files() if found < batch and path.suffix == f".{_JOINED}"]
        past = self._read(before[-1]) if before and 0 < parts < self.sources else None
        if past is None:
            return []
        untaken = self.scheme.router(self.workers)
        untaken.learn([past], 1 - parts / self.sources)
        return [untaken]

    def _files(self) -> Iterator[tuple[int, Path]]:
        """Yield every snapshot file with its batch."""
        with contextlib.suppress(OSError):
            for path in sorted(self.folder.iterdir()):
                number = path.name.partition(".")[0]
                if number.isdigit() and path.suffix in (f".{_PART}", f".{_JOINED}", f".{_LOST}"):
                    yield int(number), path

    def _read(self, path: Path) -> Router | None:
        try:
            router = Router.from_bytes(zlib.decompress(path.read_bytes()))
        except (OSError, zlib.error, EvenflowError):
            return None
        return router if router.scheme == self.scheme and router.workers == self.workers else None

    def _report_loss(self, batch: int, reason: str) -> None:
        """Report a missing snapshot once per batch, not once per task."""
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            if create_exclusive(self.folder / f"{batch:09d}.{_LOST}", b""):
                self.on_fallback(batch, f"{reason}; routers start from scratch.")
