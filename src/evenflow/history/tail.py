"""Reading a log as it grows: each call returns the notes that were added since the one before."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from evenflow.control.directory import Control
from evenflow.control.notes import HISTORY, LOG, ROTATED_LOG, SEGMENTS, notes_in, parsed_note
from evenflow.control.record import time_of
from evenflow.storage import Location

_CHUNK = 1 << 20
_MAX_LINE = 16 << 20  # bytes; a longer line is not a note


class Tail:
    """The log of one control directory.

    A log that is rotated between two calls is read to its end first. Malformed lines are skipped, and a line
    that is still being written is left for the next call.

    >>> import tempfile
    >>> from evenflow.control.directory import Control
    >>> control = Control(tempfile.mkdtemp())
    >>> tail = Tail(control.folder)
    >>> control.note("plan", batch=1)
    >>> [note["batch"] for note in tail.read()], list(tail.read())
    ([1], [])
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._log: BinaryIO | None = None
        self._rest = b""
        self._started = False

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield new notes, oldest first; at the first call also what is kept of older logs."""
        if not self._started:
            self._started = True
            for name in (HISTORY, ROTATED_LOG):
                with contextlib.suppress(OSError), (self.folder / name).open("rb") as file:
                    yield from self._notes(file)
                self._rest = b""
        current = self._open()
        if self._log is not None and (current is None or not _same(self._log, current)):
            yield from self._notes(self._log)  # the rest of a log that was rotated
            missed = None if current is None else self._open(ROTATED_LOG)
            if missed is not None and not _same(self._log, missed):  # rotated twice since
                self._rest = b""
                yield from self._notes(missed)
            if missed is not None:
                missed.close()
            self.close()
        if self._log is None:
            self._log, self._rest = current, b""
        elif current is not None:
            current.close()
        if self._log is not None:
            if os.fstat(self._log.fileno()).st_size < self._log.tell():  # truncated in place
                self._log.seek(0)
                self._rest = b""
            yield from self._notes(self._log)

    def close(self) -> None:
        """Close the file."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def _open(self, name: str = LOG) -> BinaryIO | None:
        try:
            return (self.folder / name).open("rb")
        except OSError:
            return None

    def _notes(self, file: BinaryIO) -> Iterator[dict[str, Any]]:
        while True:
            try:
                chunk = file.read(_CHUNK)
            except OSError:
                return
            if not chunk:
                return
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            if len(self._rest) > _MAX_LINE:
                self._rest = b""
            for line in lines:
                note = parsed_note(line)
                if note is not None:
                    yield note


class ObjectTail:
    """The log of a control directory in an object store; each call lists its segments once."""

    def __init__(self, location: Location):
        self.control = Control(location)
        self._read: dict[str, int] = {}  # bytes of each segment
        self._started = False

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield new notes, oldest first; at the first call also what is kept of older ones."""
        if not self._started:
            yield from self.control.past()
            self._started = True
        storage, found = self.control.storage, list[dict[str, Any]]()
        with contextlib.suppress(OSError):
            entries = storage.entries(SEGMENTS)
            self._read = {entry.name: self._read.get(entry.name, 0) for entry in entries}
            for name, size, _ in entries:
                start = self._read[name]
                if size > start:
                    with contextlib.suppress(FileNotFoundError):
                        whole, mark, _ = storage.read_range(name, start, size - start).rpartition(b"\n")
                        self._read[name] = start + len(whole) + len(mark)
                        found += notes_in(whole)
        yield from sorted(found, key=time_of)

    def close(self) -> None:
        """Do nothing: there is no file to close."""


def open_tail(location: Location) -> Tail | ObjectTail:
    """Return the tail of the log of a control directory."""
    return Tail(location.path) if location.is_local else ObjectTail(location)


def _same(first: BinaryIO, second: BinaryIO) -> bool:
    return os.path.samestat(os.fstat(first.fileno()), os.fstat(second.fileno()))
