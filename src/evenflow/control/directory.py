"""The control directory: small files with the plans, snapshots and log of a running query.

The files are advisory and may disappear at any time: a file that is missing, truncated, corrupt or of another
version reads as None, and the reader logs a fallback. ``log.jsonl`` holds one JSON object per line and is
rotated by size; what is worth keeping of a rotated log is condensed to ``history.jsonl``, which is bounded
too (:mod:`evenflow.control.record`). Keep imports light: Python workers import this module.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from evenflow.blob import Array, read_blob, write_blob
from evenflow.control.record import condensed
from evenflow.errors import EvenflowError
from evenflow.files import replace_file

LOG = "log.jsonl"
ROTATED_LOG = "log.1.jsonl"
HISTORY = "history.jsonl"
DECISIONS = "decisions"  # the directory with a stateful query's log of decisions
PLANS = "planned"  # the directory with the plans of operators
OWNERS = f"{PLANS}/owners.plan"  # the plan of a stateful query, for people to read
MAX_LOG_BYTES = 200_000  # of each of the two files
_FILE_SCHEME = "file:"


class Control:
    """One control directory; writes are atomic, and failed writes are ignored since results do not need them.

    >>> import tempfile
    >>> control = Control(tempfile.mkdtemp())
    >>> control.note("hello", batch=3)
    >>> [note["event"] for note in control.notes()]
    ['hello']
    >>> control.read("plan", "plan") is None
    True
    """

    def __init__(self, folder: str | Path):
        self.folder = local_path(folder)

    def write(self, name: str, kind: str, header: dict[str, Any], arrays: dict[str, Array]) -> bool:
        """Replace a file atomically; return whether that succeeded."""
        path = self.folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, write_blob(kind, header, arrays))
        except OSError:
            return False
        return True

    def read(self, name: str, kind: str) -> tuple[dict[str, Any], dict[str, Array]] | None:
        """Return the header and arrays of a file, or None if it is missing or corrupt."""
        return self.read_with_reason(name, kind)[0]

    def read_with_reason(
        self, name: str, kind: str
    ) -> tuple[tuple[dict[str, Any], dict[str, Array]] | None, str]:
        """Return the header and arrays of a file, or None and the reason."""
        try:
            return read_blob(kind, (self.folder / name).read_bytes()), ""
        except FileNotFoundError:
            return None, f"{name} is missing"
        except (OSError, EvenflowError, ValueError, KeyError) as error:
            return None, f"{name} cannot be read: {error}"

    def note(self, event: str, **fields: Any) -> None:
        """Append an event to the log."""
        line = json.dumps({"time": round(time.time(), 3), "event": event, **fields}, default=str) + "\n"
        path = self.folder / LOG
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size + len(line) > MAX_LOG_BYTES:
                self._rotate(path)
            # a single write in append mode, so that lines of several processes do not interleave
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(handle, line.encode())
            finally:
                os.close(handle)

    def notes(self, event: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the events of the log, oldest first; malformed lines are skipped."""
        for name in (ROTATED_LOG, LOG):
            for note in _notes_in(self.folder / name):
                if event in (None, note["event"]):
                    yield note

    def past(self) -> Iterator[dict[str, Any]]:
        """Yield what is kept of logs that were rotated away, oldest first."""
        yield from _notes_in(self.folder / HISTORY)

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

    def remove_drafts(self) -> None:
        """Remove the temporary files of killed processes."""
        with contextlib.suppress(OSError):
            for path in self.folder.iterdir():
                if path.name.startswith(".") and path.is_file():
                    path.unlink(missing_ok=True)


def local_path(folder: str | Path, argument: str = "control") -> Path:
    """Return a path or ``file:`` URL as an absolute local path."""
    text = str(folder)
    if text.startswith(_FILE_SCHEME):
        text = "/" + text.removeprefix(_FILE_SCHEME).lstrip("/")
    elif "://" in text:
        raise EvenflowError(
            f"{argument} is {text!r}; use a directory mounted on the driver and on every executor, such as "
            f"/mnt/shared/{argument}."
        )
    if not text:
        raise EvenflowError(f"{argument} is empty; pass the path of a directory.")
    return Path(text).absolute()


def temporary_control_dir() -> str:
    """Return a new local control directory, the default where the caller passes none."""
    return tempfile.mkdtemp(prefix="evenflow-control-")


def parsed_note(line: str | bytes) -> dict[str, Any] | None:
    """Return a line of a log as a note; None if it is not one.

    >>> parsed_note('{"event": "plan"}'), parsed_note('{"event": "pl')
    ({'event': 'plan'}, None)
    """
    try:
        note = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return note if isinstance(note, dict) and isinstance(note.get("event"), str) else None


def _notes_in(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the notes of a file; malformed lines are skipped."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        note = parsed_note(line)
        if note is not None:
            yield note
