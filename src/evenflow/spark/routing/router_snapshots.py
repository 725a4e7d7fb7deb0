"""What online routers learned, passed from one micro-batch to the next through small files.

At its end a partition's router writes what it knows, once (exclusive create: a retried task repeats the same
decisions, so the first file is as good as any). The first task of a later batch joins the files of the newest
batch before it, each count halved so that the past is forgotten, and freezes the result, again by exclusive
create. Every task of that batch, first attempt or retry, starts from this frozen file with its part of it.

Files: ``<batch>.<partition>.part`` and ``<batch>.joined``, both a compressed ``Router.to_bytes``. A file that
is missing, cut short or of another version is as if it had never been written, and is counted. Together they
stay below ``MOST_BYTES``: partitions whose file would go beyond do not write theirs.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

from evenflow.errors import EvenflowError
from evenflow.schemes.base import Router, Scheme

MOST_BYTES = 900_000
PAST = 0.5  # weight of all earlier batches against the last one
_PART, _JOINED, _LOST = "part", "joined", "lost"

Tell = Callable[[int, str], None]  # batch, what happened


class Snapshots:
    """The snapshots of one operator of one query, in one folder that every executor can write."""

    def __init__(self, folder: Path, scheme: Scheme, workers: int, tell: Tell = lambda batch, what: None):
        self.folder = folder
        self.scheme = scheme
        self.workers = workers
        self.tell = tell

    def before(self, batch: int) -> Router | None:
        """Return what all routers knew after the newest batch before this one, or None."""
        known = (found for found, path in self._files() if found < batch and path.suffix != f".{_LOST}")
        newest = max(known, default=None)
        if newest is None:
            if batch > 0:
                self._lost(batch, "there is no snapshot of the batch before")
            return None
        joined = self.folder / f"{newest:09d}.{_JOINED}"
        if not joined.exists():
            self._join(newest, joined)
        router = self._read(joined)
        if router is None:
            self._lost(batch, f"the snapshot of batch {newest} cannot be read")
        return router

    def keep(self, batch: int, partition: int, router: Router) -> None:
        """Write what this partition's router knows, unless it is written already or there is no room."""
        blob = zlib.compress(router.to_bytes(), 1)
        if partition < MOST_BYTES // len(blob):
            with contextlib.suppress(OSError):  # a disk that is full costs knowledge, not results
                self.folder.mkdir(parents=True, exist_ok=True)
                create(self.folder / f"{batch:09d}.{partition:05d}.{_PART}", blob)

    def _join(self, batch: int, joined: Path) -> None:
        """Freeze the sum of a batch's parts, and sweep what is no longer needed."""
        parts = [path for found, path in self._files() if found == batch and path.suffix == f".{_PART}"]
        routers = [router for path in sorted(parts) if (router := self._read(path)) is not None]
        sum_of_all = self.scheme.router(self.workers)
        with contextlib.suppress(EvenflowError):  # another scheme's files: as if there were none
            sum_of_all.learn(routers, PAST)
        blob = zlib.compress(sum_of_all.to_bytes(), 1)
        with contextlib.suppress(OSError):
            create(joined, blob if routers and len(blob) <= MOST_BYTES else b"")
        for found, path in self._files():
            if found < batch or (found == batch and path.suffix == f".{_PART}"):
                with contextlib.suppress(OSError):
                    path.unlink()

    def _files(self) -> Iterator[tuple[int, Path]]:
        """Yield every file of ours with its batch."""
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

    def _lost(self, batch: int, what: str) -> None:
        """Tell it once per batch, not once per task."""
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            if create(self.folder / f"{batch:09d}.{_LOST}", b""):
                self.tell(batch, f"{what}; its routers begin anew.")


def create(path: Path, content: bytes) -> bool:
    """Write a file in one step unless it exists; say whether it was this call that made it."""
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    draft.write_bytes(content)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True
