"""The decisions of a stateful query: a log of their own, or, in an object store, lines of the query's log.

A folder keeps them apart, so that the notes of many batches do not rotate them away. In an object store every
log costs a request per batch; there they are in the log of the query, whose history keeps what was adopted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evenflow.control.directory import DECISIONS, Control


def log_decisions(control: Control, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Write decisions down; return those events that belong to the query's log."""
    if not control.location.is_local:
        return events
    if events:
        Control(control.location / DECISIONS).note_all(events)
    return [event for event in events if event["event"] == "gap"]


def decisions(control: Control, event: str) -> Iterator[dict[str, Any]]:
    """Yield what was decided, oldest first.

    >>> import tempfile
    >>> control = Control(tempfile.mkdtemp())
    >>> log_decisions(control, [{"event": "migration", "keys": 3}])
    []
    >>> [note["keys"] for note in decisions(control, "migration")]
    [3]
    """
    if control.location.is_local:
        yield from Control(control.location / DECISIONS).notes(event)
        return
    for note in (*control.past(), *control.notes()):
        if note["event"] == event:
            yield note
