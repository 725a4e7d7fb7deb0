"""A folder of the local or of a mounted file system as a storage."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from evenflow.files import create_exclusive, replace_file
from evenflow.storage.base import Entry, Storage
from evenflow.storage.location import Location

_PATIENCE = 1.0  # seconds for those that do the same work
_LOOK = 0.005  # seconds between two looks whether they are done


class Folder(Storage):
    """Objects as files; a new one appears under its name only when it is complete.

    Files whose names start with a dot are drafts of writers, and no objects.
    """

    def __init__(self, location: Location):
        super().__init__(location)
        self.path = location.path

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        """Lock the folder itself; one that is not there yet, or held for long, is not locked."""
        try:
            lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            yield False
            return
        try:
            waited, end = False, time.monotonic() + _PATIENCE
            while not _locked(lock) and time.monotonic() < end:
                waited = True
                time.sleep(_LOOK)
            yield waited
        finally:
            os.close(lock)

    def put(self, name: str, content: bytes) -> None:
        """Write a file and rename it."""
        self.requests += 1
        replace_file(self._made(name), content)

    def open_sink(self, name: str) -> Any:
        """Open a file that gets its name when it is complete and on the disk."""
        self.requests += 1
        return _Sink(self._made(name))

    def create(self, name: str, content: bytes) -> bool:
        """Write a file and link it under its name."""
        self.requests += 1
        return create_exclusive(self._made(name), content)

    def swap(self, name: str, content: bytes, version: str | None) -> str | None:
        """Replace a file under a lock of the operating system."""
        self.requests += 1
        path = self._made(name)
        lock = os.open(path.with_name(f".{path.name}.swap"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                found: str | None = _version(path.read_bytes())
            except FileNotFoundError:
                found = None
            if found != version:
                return None
            replace_file(path, content)
            return _version(content)
        finally:
            os.close(lock)

    def read(self, name: str) -> bytes:
        """Read a file."""
        self.requests += 1
        return (self.path / name).read_bytes()

    def read_version(self, name: str) -> tuple[bytes, str]:
        """Read a file; its version is a digest."""
        content = self.read(name)
        return content, _version(content)

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """Read a part of a file."""
        self.requests += 1
        with (self.path / name).open("rb") as file:
            file.seek(start)
            return file.read(length)

    def size(self, name: str) -> int:
        """Return the size of a file."""
        self.requests += 1
        return (self.path / name).stat().st_size

    def entries(self, below: str = "") -> list[Entry]:
        """Walk through the folder."""
        self.requests += 1
        found = []
        for folder, _, files in os.walk(self.path / below):
            for file in files:
                if file.startswith("."):
                    continue
                path = Path(folder, file)
                try:
                    status = path.stat()
                except FileNotFoundError:
                    continue
                name = path.relative_to(self.path).as_posix()
                found.append(Entry(name, status.st_size, status.st_mtime))
        return sorted(found)

    def delete(self, names: Iterable[str]) -> None:
        """Delete files."""
        self.requests += 1
        for name in names:
            (self.path / name).unlink(missing_ok=True)

    def remove_drafts(self, below: str = "") -> None:
        """Remove files whose names start with a dot."""
        with contextlib.suppress(OSError):
            for path in (self.path / below).iterdir():
                if path.name.startswith(".") and path.is_file():
                    path.unlink(missing_ok=True)

    def _made(self, name: str) -> Path:
        """Return the path of a file, in a folder that exists."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


class _Sink:
    """A file under another name until it is closed."""

    def __init__(self, path: Path):
        self.path = path
        self.draft = path.with_name(f".{path.name}.{uuid4().hex}")
        self.file = self.draft.open("wb")
        self.closed = False

    def write(self, content: Any) -> int:
        """Add bytes."""
        return self.file.write(content)

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self.file.tell()

    def flush(self) -> None:
        """Do nothing before the file is complete."""

    def close(self) -> None:
        """Write the file to the disk and give it its name."""
        if self.closed:
            return
        self.closed = True
        try:
            with self.file as file:
                file.flush()
                os.fsync(file.fileno())
            self.draft.replace(self.path)
        except BaseException:
            self._remove()
            raise

    def abort(self) -> None:
        """Give up."""
        if not self.closed:
            self.closed = True
            self.file.close()
            self._remove()

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self.draft.unlink(missing_ok=True)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    return True


def _version(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
