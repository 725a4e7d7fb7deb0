"""A folder of the local or of a mounted file system as a storage."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from evenflow.files import create_exclusive, replace_file
from evenflow.storage.base import Entry, Storage
from evenflow.storage.location import Location


class Folder(Storage):
    """Objects as files; a new one appears under its name only when it is complete.

    Files whose names start with a dot are drafts of writers, and no objects.
    """

    def __init__(self, location: Location):
        super().__init__(location)
        self.path = location.path

    def put(self, name: str, content: bytes) -> None:
        """Write a file and rename it."""
        replace_file(self._made(name), content)

    def create(self, name: str, content: bytes) -> bool:
        """Write a file and link it under its name."""
        return create_exclusive(self._made(name), content)

    def swap(self, name: str, content: bytes, version: str | None) -> str | None:
        """Replace a file under a lock of the operating system."""
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
        return (self.path / name).read_bytes()

    def read_version(self, name: str) -> tuple[bytes, str]:
        """Read a file; its version is a digest."""
        content = self.read(name)
        return content, _version(content)

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """Read a part of a file."""
        with (self.path / name).open("rb") as file:
            file.seek(start)
            return file.read(length)

    def size(self, name: str) -> int:
        """Return the size of a file."""
        return (self.path / name).stat().st_size

    def entries(self, below: str = "") -> list[Entry]:
        """Walk through the folder."""
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
        for name in names:
            (self.path / name).unlink(missing_ok=True)

    def _made(self, name: str) -> Path:
        """Return the path of a file, in a folder that exists."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def _version(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
