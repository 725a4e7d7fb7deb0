"""The log of a control directory in an object store, whose objects cannot be appended to.

Every process that writes has an object of its own below ``log/``, a segment, which it writes anew with each
note, and starts another when it is full. Every so many notes, a thread lists the segments, condenses the
oldest to ``history.jsonl`` and deletes them; no batch waits for it. Keep imports light: Python
workers import this module.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from evenflow.control.notes import HISTORY, MAX_LOG_BYTES, SEGMENTS, notes_in
from evenflow.control.record import condensed, time_of
from evenflow.storage import Entry, Storage

SEGMENT_BYTES = 50_000
SEGMENT_SECONDS = 600.0  # after which a writer starts another one
CLEAN_EVERY = 100  # notes of a process
_TAKEN = "taken"  # the event that lists segments whose notes are in the history
_TRIES = 5


class ObjectLog:
    """Segments of several writers, and what is kept of older ones; one per process and place."""

    def __init__(self, storage: Storage):
        self.storage = storage
        self._lock = threading.Lock()
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._writer = uuid4().hex[:12]
        self._written = 0
        self._tidying = threading.Thread()
        self._new_segment()

    def _new_segment(self) -> None:
        self._name = f"{SEGMENTS}/{time.time_ns():020}-{self._writer}.jsonl"
        self._content = b""
        self._begun = time.monotonic()

    def append(self, line: bytes) -> None:
        """Add a line to the segment of this process; if that fails, it is written with the next one."""
        with self._lock:
            if self._process != os.getpid():
                self._start()
            is_old = time.monotonic() - self._begun > SEGMENT_SECONDS
            if self._content and (is_old or len(self._content) + len(line) > SEGMENT_BYTES):
                self._new_segment()
            self._content += line
            self.storage.put(self._name, self._content)
            self._written += 1
            if self._written % CLEAN_EVERY == 0 and not self._tidying.is_alive():
                self._tidying = threading.Thread(target=self._tidy, name="evenflow log", daemon=True)
                self._tidying.start()

    def settle(self) -> None:
        """Wait until no thread of this process tidies the log."""
        if self._tidying.is_alive():
            self._tidying.join()

    def _tidy(self) -> None:
        with contextlib.suppress(OSError):  # the next one has more to do
            self._clean()

    def notes(self) -> Iterator[dict[str, Any]]:
        """Yield the notes of all writers, oldest first."""
        with contextlib.suppress(OSError):
            taken = self._history()[1]
            names = [entry.name for entry in self.storage.entries(SEGMENTS) if entry.name not in taken]
            yield from self._notes(names)

    def past(self) -> Iterator[dict[str, Any]]:
        """Yield what is kept of older segments, oldest first."""
        with contextlib.suppress(OSError):
            yield from self._history()[0]

    def exists(self) -> bool:
        """Return whether there is a log."""
        return not self.storage.is_empty(SEGMENTS) or self.storage.exists(HISTORY)

    def _notes(self, names: list[str]) -> list[dict[str, Any]]:
        found = list[dict[str, Any]]()
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # condensed meanwhile
                found += notes_in(self.storage.read(name))
        return sorted(found, key=time_of)

    def _history(self) -> tuple[list[dict[str, Any]], set[str], str | None]:
        """Return what is kept, the segments that this includes, and the version of the object."""
        try:
            content, version = self.storage.read_version(HISTORY)
        except FileNotFoundError:
            return [], set(), None
        notes = list(notes_in(content))
        taken = {name for note in notes if note["event"] == _TAKEN for name in note.get("segments", [])}
        return [note for note in notes if note["event"] != _TAKEN], taken, version

    def _clean(self) -> None:
        """Condense the oldest segments if there are many bytes of them."""
        for _ in range(_TRIES):
            kept, taken, version = self._history()
            entries = self.storage.entries(SEGMENTS)
            self.storage.delete([entry.name for entry in entries if entry.name in taken])
            chosen = self._oldest([entry for entry in entries if entry.name not in taken])
            if not chosen:
                return
            notes = condensed([*kept, *self._notes(chosen)])
            lines = [{"event": _TAKEN, "by": uuid4().hex, "segments": chosen}, *notes]
            content = "".join(json.dumps(line) + "\n" for line in lines).encode()
            if self.storage.swap(HISTORY, content, version) is not None:
                self.storage.delete(chosen)
                return

    def _oldest(self, entries: list[Entry]) -> list[str]:
        """Return the segments to condense: nobody writes to them any more, or there is far too much."""
        size = sum(entry.size for entry in entries)
        newest = max((entry.modified for entry in entries), default=0.0)  # all times are the store's
        chosen = []
        for entry in sorted(entries, key=lambda entry: entry.modified):
            if size <= MAX_LOG_BYTES:
                break
            finished = self._writer in entry.name or newest - entry.modified > 2 * SEGMENT_SECONDS
            if entry.name != self._name and (finished or size > 4 * MAX_LOG_BYTES):
                chosen.append(entry.name)
                size -= entry.size
        return chosen


_LOGS: dict[int, ObjectLog] = {}


def object_log(storage: Storage) -> ObjectLog:
    """Return the log of a storage, one per process."""
    found = _LOGS.get(id(storage))
    if found is None or found.storage is not storage:
        found = _LOGS[id(storage)] = ObjectLog(storage)
    return found
