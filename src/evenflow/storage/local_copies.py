"""Copies of objects on the disk of an executor, so that its Python processes read none of them twice.

Objects with unique names never change: what a process of the executor has written or read, another one finds
here. The folder is one of Spark's own for this executor, with its shuffle files, and is removed with them.
Keep imports light: Python workers import this module.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

from evenflow.storage.base import Storage

LIMIT_BYTES = 1 << 30  # of the copies of one storage
_FOLDERS = "SPARK_LOCAL_DIRS"  # set by Spark for its Python workers


class LocalCopies:
    """Copies of the objects of one storage; one that cannot be written is none, and does no harm.

    >>> import tempfile
    >>> copies = LocalCopies(Path(tempfile.mkdtemp()))
    >>> copies.save("data/a", b"content")
    >>> copies.find("data/a", 7).read_bytes(), copies.find("data/a", 8), copies.find("data/b", 7)
    (b'content', None, None)
    """

    def __init__(self, folder: Path, limit: int = LIMIT_BYTES):
        self.folder = folder
        self.limit = limit

    def find(self, name: str, size: int) -> Path | None:
        """Return the copy of an object of a known size."""
        path = self._path(name)
        try:
            return path if path.stat().st_size == size else None
        except OSError:
            return None

    def save(self, name: str, content: bytes) -> None:
        """Keep the content of an object."""
        with contextlib.suppress(OSError):
            draft = self._draft(name)
            draft.write_bytes(content)
            self._keep(draft, name)

    def beside(self, sink: Any, name: str) -> Any:
        """Return a sink that writes an object and its copy."""
        try:
            return _Both(sink, self._draft(name), lambda draft: self._keep(draft, name))
        except OSError:
            return sink

    def discard(self, name: str) -> bool:
        """Remove a copy; return whether there was one."""
        with contextlib.suppress(OSError):
            self._path(name).unlink()
            return True
        return False

    def retain(self, is_needed: Callable[[str], bool]) -> None:
        """Remove the copies of objects that nobody needs."""
        with contextlib.suppress(OSError):
            for path in self.folder.iterdir():
                if not path.name.startswith(".") and not is_needed(path.name.replace("@", "/")):
                    path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.folder / name.replace("/", "@")

    def _draft(self, name: str) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f".{uuid4().hex}"

    def _keep(self, draft: Path, name: str) -> None:
        """Give a copy its name, and remove the oldest ones if there are too many bytes."""
        draft.replace(self._path(name))
        found = sorted(
            ((path.stat(), path) for path in self.folder.iterdir()), key=lambda one: one[0].st_mtime
        )
        size = sum(status.st_size for status, _ in found)
        for status, path in found:
            if size <= self.limit:
                break
            path.unlink(missing_ok=True)
            size -= status.st_size


class _Both:
    """A sink of an object whose bytes also go to a file, as long as that works."""

    def __init__(self, sink: Any, draft: Path, keep: Callable[[Path], None]):
        self.sink, self.draft, self.keep = sink, draft, keep
        self.file: Any = draft.open("wb")

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return bool(self.sink.closed)

    def write(self, content: Any) -> int:
        """Add bytes."""
        if self.file is not None:
            try:
                self.file.write(content)
            except OSError:
                self._give_up()
        return int(self.sink.write(content))

    def tell(self) -> int:
        """Return how many bytes were written."""
        return int(self.sink.tell())

    def flush(self) -> None:
        """Do nothing before the object is complete."""

    def close(self) -> None:
        """Finish the object, then the copy."""
        if self.sink.closed:
            return
        try:
            self.sink.close()
        except BaseException:
            self._give_up()
            raise
        if self.file is not None:
            try:
                self.file.close()
                self.keep(self.draft)
            except OSError:
                self._give_up()

    def abort(self) -> None:
        """Leave neither."""
        self.sink.abort()
        self._give_up()

    def _give_up(self) -> None:
        if self.file is not None:
            with contextlib.suppress(OSError):
                self.file.close()
            self.file = None
            with contextlib.suppress(OSError):
                self.draft.unlink(missing_ok=True)


def local_copies(storage: Storage) -> LocalCopies | None:
    """Return the copies of a storage's objects on this executor; None for a folder, or outside of Spark."""
    folder = os.environ.get(_FOLDERS, "").split(",")[0]
    if storage.location.is_local or not folder or not os.path.isdir(folder):
        return None
    place = blake2b(str(storage.location).encode(), digest_size=12).hexdigest()
    return LocalCopies(Path(folder) / "evenflow" / place)
