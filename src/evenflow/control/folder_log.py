"""The log of a control directory that is a folder: lines appended to a file, which is rotated by size."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from evenflow.control.notes import HISTORY, LOG, MAX_LOG_BYTES, ROTATED_LOG, notes_in
from evenflow.control.record import condensed
from evenflow.files import replace_file


class FolderLog:
    """Two files, the current and the one before, and what is kept of older ones."""

    def __init__(self, folder: Path):
        self.folder = folder

    def append(self, line: bytes) -> None:
        """Append a line, in a single write, so that lines of several processes do not interleave."""
        path = self.folder / LOG
        self.folder.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size + len(line) > MAX_LOG_BYTES:
            self._rotate(path)
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, line)
        finally:
            os.close(handle)

    def notes(self) -> Iterator[dict[str, Any]]:
        """Yield the notes, oldest first."""
        for name in (ROTATED_LOG, LOG):
            yield from _notes_in(self.folder / name)

    def past(self) -> Iterator[dict[str, Any]]:
        """Yield what is kept of logs that were rotated away, oldest first."""
        yield from _notes_in(self.folder / HISTORY)

    def exists(self) -> bool:
        """Return whether there is a log."""
        return any((self.folder / name).is_file() for name in (LOG, ROTATED_LOG, HISTORY))

    def _rotate(self, log: Path) -> None:
        """Start a new log; the one before becomes the rotated one, whose predecessor is condensed."""
        claimed = self.folder / f".{ROTATED_LOG}.{uuid4().hex}"  # of several processes, one gets it
        with contextlib.suppress(FileNotFoundError):
            (self.folder / ROTATED_LOG).replace(claimed)
        with contextlib.suppress(FileNotFoundError):
            log.replace(self.folder / ROTATED_LOG)
        if claimed.exists():
            kept = condensed([*self.past(), *_notes_in(claimed)])
            if kept:
                replace_file(
                    self.folder / HISTORY, "".join(json.dumps(note) + "\n" for note in kept).encode()
                )
            claimed.unlink()


def _notes_in(path: Path) -> Iterator[dict[str, Any]]:
    try:
        text = path.read_bytes()
    except OSError:
        return
    yield from notes_in(text)
