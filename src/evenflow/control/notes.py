"""The names of a log's files, and its lines as notes. Keep imports light: Python workers import this."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

LOG = "log.jsonl"
ROTATED_LOG = "log.1.jsonl"
HISTORY = "history.jsonl"
SEGMENTS = "log"  # where an object store has the log, an object for each writer
MAX_LOG_BYTES = 200_000  # of each of the two files


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


def notes_in(content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the notes of a file; malformed lines are skipped."""
    for line in content.decode(errors="replace").splitlines():
        note = parsed_note(line)
        if note is not None:
            yield note
