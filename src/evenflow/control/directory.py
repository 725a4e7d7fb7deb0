"""The control directory: small files with the plans, snapshots and log of a running query.

It is a folder or the URL of an object store. The files are advisory and may disappear at any time: one that
is missing, truncated, corrupt or of another version reads as None, and the reader logs a fallback. The log
holds one JSON object per line and is rotated by size; what is worth keeping of a rotated log is condensed to
``history.jsonl``, which is bounded too (:mod:`evenflow.control.record`). Keep imports light: Python workers
import this module.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from evenflow.blob import Array, read_blob, write_blob
from evenflow.control.folder_log import FolderLog
from evenflow.control.object_log import ObjectLog, object_log
from evenflow.errors import EvenflowError
from evenflow.storage import Location, Storage, locate, open_storage

DECISIONS = "decisions"  # the directory with a stateful query's log of decisions
PLANS = "planned"  # the directory with the plans of operators
OWNERS = f"{PLANS}/owners.plan"  # the plan of a stateful query, for people to read


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

    def __init__(self, place: str | Path):
        self.location: Location = locate(place)
        self.storage: Storage = open_storage(self.location)
        is_local = self.location.is_local
        self.log: FolderLog | ObjectLog = FolderLog(self.folder) if is_local else object_log(self.storage)

    @property
    def folder(self) -> Path:
        """The folder; an error if it is in an object store."""
        return self.location.path

    def exists(self) -> bool:
        """Return whether there is anything."""
        return self.folder.is_dir() if self.location.is_local else not self.storage.is_empty()

    def write(self, name: str, kind: str, header: dict[str, Any], arrays: dict[str, Array]) -> bool:
        """Replace a file atomically; return whether that succeeded."""
        try:
            self.storage.put(name, write_blob(kind, header, arrays))
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
            return read_blob(kind, self.storage.read(name)), ""
        except FileNotFoundError:
            return None, f"{name} is missing"
        except (OSError, EvenflowError, ValueError, KeyError) as error:
            return None, f"{name} cannot be read: {error}"

    def note(self, event: str, **fields: Any) -> None:
        """Append an event to the log."""
        self.note_all([{"event": event, **fields}])

    def note_all(self, events: Iterable[dict[str, Any]]) -> None:
        """Append several events to the log, in one write."""
        now = round(time.time(), 3)
        lines = [json.dumps({"time": now, **event}, default=str) + "\n" for event in events]
        with contextlib.suppress(OSError):
            self.log.append("".join(lines).encode())

    def notes(self, event: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the events of the log, oldest first; malformed lines are skipped."""
        for note in self.log.notes():
            if event in (None, note["event"]):
                yield note

    def past(self) -> Iterator[dict[str, Any]]:
        """Yield what is kept of logs that were rotated away, oldest first."""
        yield from self.log.past()

    def remove_drafts(self) -> None:
        """Remove the temporary files of killed processes; object stores have none."""
        self.storage.remove_drafts()


def local_path(folder: str | Path, argument: str = "control") -> Path:
    """Return a path or ``file:`` URL as an absolute local path."""
    found = locate(folder, argument)
    if not found.is_local:
        raise EvenflowError(
            f"{argument} is {str(found)!r}; use a directory mounted on the driver and on every executor, "
            f"such as /mnt/shared/{argument}."
        )
    return found.path


def temporary_control_dir() -> str:
    """Return a new local control directory, the default where the caller passes none."""
    return tempfile.mkdtemp(prefix="evenflow-control-")
