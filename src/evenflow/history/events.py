"""Notes that are worth telling: plan changes, migrations, starts, ends, fallbacks, gaps, in words."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from evenflow.control.record import finite, time_of

_PATH = re.compile(r"(?:file:)?(?:/+[^\s/'\"<>,;:()\[\]]+)+/*(?=[\s'\"<>,;:()\[\].]|$)")
_LONGEST = 600  # characters of a text


@dataclass(frozen=True)
class Event:
    """Something that happened: what, why, and the numbers behind it."""

    time: float
    batch: int | None
    kind: str
    title: str
    text: str = ""
    numbers: dict[str, float | int | str] = field(default_factory=dict)


def without_paths(text: Any) -> str:
    """Return a text with every absolute path replaced by its last part.

    >>> without_paths("cannot read '/mnt/shared/control/a.plan': no space")
    "cannot read 'a.plan': no space"
    >>> without_paths("12 rows/s and 3/4 of the mean")
    '12 rows/s and 3/4 of the mean'
    """
    shown = _PATH.sub(lambda found: _last_part(found, str(text)), str(text))
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


def _last_part(found: re.Match[str], text: str) -> str:
    start = found.start()
    if start and (text[start - 1].isalnum() or text[start - 1] in "_.-"):
        return found.group()  # a ratio or a unit
    return found.group().rstrip("/").rsplit("/", 1)[-1]


def event_of(note: dict[str, Any]) -> Event | None:
    """Return the event that a note tells of; None if it is not one."""
    describe = _KINDS.get(note["event"])
    if describe is None:
        return None
    try:
        told = describe(note)
    except (KeyError, TypeError, ValueError):
        return None
    if told is None:
        return None
    title, text, numbers = told
    batch = note.get("batch")
    return Event(
        time_of(note),
        batch if isinstance(batch, int) else None,
        note["event"],
        without_paths(title),
        without_paths(text),
        {
            name: without_paths(value) if isinstance(value, str) else value
            for name, value in numbers.items()
            if isinstance(value, str) or finite(value) is not None
        },
    )


_Told = tuple[str, str, dict[str, Any]] | None


def _plan(note: dict[str, Any]) -> _Told:
    if not note.get("changed"):
        return None
    numbers = {"plan": note.get("serial"), "expected max/mean": note.get("expected")}
    changes = note.get("numbers")
    return "New plan", note.get("reason", ""), numbers | _words(changes if isinstance(changes, dict) else {})


def _decision(note: dict[str, Any]) -> _Told:
    if not note.get("adopted"):
        return None
    before, after = int(note["workers_before"]), int(note["workers_after"])
    title = "New owners"
    if after > before:
        title = f"{after - before} {_workers(after - before)} joining: {before} → {after}"
    elif after < before:
        title = f"{before - after} {_workers(before - after)} leaving: {before} → {after}"
    names = ("b_before", "b_after", "moved", "ideal", "relative_migration", "utilisation", "missed")
    relative = note.get("relative")
    numbers = (
        {f"{name} max/min": value for name, value in relative.items()} if isinstance(relative, dict) else {}
    )
    return title, note["reason"], numbers | _words({name: note[name] for name in names if name in note})


def _migration(note: dict[str, Any]) -> _Told:
    text = (
        f"{int(note['keys']):,} of {int(note['state_keys']):,} keys moved to new owners "
        f"({float(note['part']):.1%}; {float(note['ideal']):.1%} were unavoidable), "
        f"{int(note['bytes']):,} bytes"
    )
    return f"Migration: {note['from']} → {note['to']} workers", text, {
        "keys": note["keys"], "bytes": note["bytes"], "share of all keys": note["part"],
    }  # fmt: skip


def _started(note: dict[str, Any]) -> _Told:
    where = f"from batch {note['batch']}" if note.get("batch") else "from its first batch"
    return f"Started on {note['workers']} workers", f"The query runs {where}.", {}


def _ended(note: dict[str, Any]) -> _Told:
    failed = note.get("failed")
    if failed is None:
        return "Ended", "The query was stopped or has read all its rows.", {}
    return (
        "Failed",
        failed if isinstance(failed, str) else "The query failed; its error is in Spark's log.",
        {},
    )


def _fallback(note: dict[str, Any]) -> _Told:
    return "Fallback to hashing", note.get("why", ""), {}


def _gap(note: dict[str, Any]) -> _Told:
    return "Gap accepted", note.get("why", ""), {}


def _words(numbers: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", " "): value for name, value in numbers.items()}


def _workers(count: int) -> str:
    return "worker" if count == 1 else "workers"


_KINDS: dict[str, Callable[[dict[str, Any]], _Told]] = {
    "plan": _plan,
    "decision": _decision,
    "migration": _migration,
    "started": _started,
    "ended": _ended,
    "fallback": _fallback,
    "gap": _gap,
}
