"""What is kept of a log that was rotated away: each batch in a few numbers, and the events.

The history is bounded: when it holds too many batches, neighbouring ones of its older half become one record,
so that the recent past stays fine and the distant past becomes coarse. A record of several batches has their
sums, and the worst of their ratios. Keep imports light: Python workers import this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

PAST = "past"  # the event of a record
MAX_RECORDS = 800
MAX_EVENTS = 300
_KEPT = ("started", "ended", "migration", "gap")
_SUMS = ("batches", "rows", "seconds", "late")
_WORST = ("max_over_mean", "hashed", "hot_share", "busy_over_mean")


def max_over_mean(loads: Sequence[float]) -> float | None:
    """Return the highest load relative to the mean; None if there is no load.

    >>> max_over_mean([3, 1]), max_over_mean([0, 0])
    (1.5, None)
    """
    total = sum(loads)
    return round(max(loads) * len(loads) / total, 6) if total > 0 else None


def batch_record(note: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a batch from its note.

    >>> note = {"event": "batch", "time": 5.0, "batch": 2, "rows": [3, 1], "hashed": [4, 0], "seconds": 0.5}
    >>> record = batch_record(note)
    >>> record["rows"], record["max_over_mean"], record["hashed"], record["batches"]
    (4, 1.5, 2.0, 1)
    """
    rows = [int(value) for value in note["rows"]]
    hot = note.get("hot") or []
    hottest = max((_count(key) for key in hot), default=0)
    busy = note.get("busy")
    return {
        "event": PAST,
        "time": float(note["time"]),
        "operator": note.get("operator", ""),
        "batch": note.get("batch"),
        "batches": 1,
        "rows": sum(rows),
        "workers": len(rows),
        "max_over_mean": max_over_mean(rows),
        "hashed": max_over_mean(note.get("hashed") or [0]),
        "busy_over_mean": max_over_mean(busy or [0]),
        "hot_share": round(hottest / max(1, sum(rows)), 6),
        **{name: finite(note.get(name)) for name in ("seconds", "late", "state_keys", "state_bytes")},
    }


def finite(value: Any) -> Any:
    """Return a number, or None for anything else that a damaged line may hold.

    >>> finite(3), finite("3"), finite(float("nan")), finite(True)
    (3, None, None, None)
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and abs(value) < 1e300 else None


def _count(key: Any) -> float:
    """Return the rows of a hot key in a note, which are lists of streams and objects of frames."""
    return float(key["rows"] if isinstance(key, dict) else key[1])


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return two neighbouring records of an operator as one."""
    sums = {name: _together(sum, first.get(name), second.get(name)) for name in _SUMS}
    worst = {name: _together(max, first.get(name), second.get(name)) for name in _WORST}
    return {**first, **second, **sums, **worst}


def _together(function: Any, *values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return function(known) if known else None


def thinned(records: Sequence[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Return at most ``most`` records, each of about equally many of the given ones.

    >>> records = [batch_record({"time": n, "rows": [n, 1], "batch": n}) for n in range(1, 8)]
    >>> [(record["batch"], record["batches"], record["rows"]) for record in thinned(records, 3)]
    [(3, 3, 9), (6, 3, 18), (7, 1, 8)]
    """
    if len(records) <= most:
        return list(records)
    size = -(-len(records) // most)
    remaining = iter(records)
    found = []
    while group := list(islice(remaining, size)):
        first = group[0]
        for record in group[1:]:
            first = merged(first, record)
        found.append(first)
    return found


def coarser(records: Sequence[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Return the records; if there are too many, with neighbours merged in the older half."""
    if len(records) <= most:
        return list(records)
    half = len(records) // 2
    return [*thinned(records[:half], half // 2), *records[half:]]


def condensed(notes: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what is kept of notes, oldest first: a bounded number of records and of events."""
    records: dict[str, list[dict[str, Any]]] = {}
    events: list[dict[str, Any]] = []
    for note in notes:
        kind = note["event"]
        if kind in (PAST, "batch"):
            try:
                record = note if kind == PAST else batch_record(note)
            except (KeyError, TypeError, ValueError, IndexError):
                continue  # not one of ours
            records.setdefault(str(record.get("operator", "")), []).append(record)
        elif is_event(note):
            events.append(note)
    most = max(2, MAX_RECORDS // max(1, len(records)))
    kept = [record for own in records.values() for record in _bounded(own, most)]
    return sorted([*kept, *events[-MAX_EVENTS:]], key=time_of)


def time_of(note: dict[str, Any]) -> float:
    """Return the time of a note; 0 if it has none."""
    return float(finite(note.get("time")) or 0.0)


def _bounded(records: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    while len(records) > most:
        records = coarser(records, most)
    return records


def is_event(note: dict[str, Any]) -> bool:
    """Return whether a note is an event to remember: a plan that changed, a migration, a start."""
    kind = note["event"]
    return (
        kind in _KEPT
        or (kind == "plan" and bool(note.get("changed")))
        or (kind == "decision" and bool(note.get("adopted")))
    )
