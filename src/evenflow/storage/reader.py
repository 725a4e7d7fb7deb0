"""An object as a file that can be read from any position, a range per request."""

from __future__ import annotations

import io
from typing import Any

from evenflow.storage.base import Storage

BUFFER = 1 << 22  # bytes per request when a file is read from front to back


class ObjectFile(io.RawIOBase):
    """An object of a known size."""

    def __init__(self, storage: Storage, name: str, size: int | None = None):
        self.storage = storage
        self.object = name
        self.size = storage.size(name) if size is None else size
        self.at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position."""
        self.at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        return self.at

    def readinto(self, buffer: Any) -> int:
        """Read as many bytes as fit and are there."""
        length = min(len(buffer), self.size - self.at)
        if length <= 0:
            return 0
        content = self.storage.read_range(self.object, self.at, length)
        buffer[: len(content)] = content
        self.at += len(content)
        return len(content)


def open_object(storage: Storage, name: str, buffer: int = BUFFER) -> io.BufferedReader:
    """Open an object for reading.

    >>> import tempfile
    >>> from evenflow.storage import open_storage
    >>> storage = open_storage(tempfile.mkdtemp())
    >>> storage.put("name", b"0123456789")
    >>> with open_object(storage, "name") as file:
    ...     file.seek(-3, 2), file.read()
    (7, b'789')
    """
    return io.BufferedReader(ObjectFile(storage, name), buffer)
