"""What the log says of a hot key beyond its rows: since when it has been hot, and its value.

Batches are told apart by hash, values are seen in some of them only, and a query may be restarted: both are
carried over from one batch to the next, at first from the log. Keep imports light: Python workers import this
room.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evenflow.control.directory import Control
from evenflow.control.record import finite

MAX_VALUE = 200  # characters of a key's value in the log


class HotKeyNotes:
    """The hot keys of one operator, from batch to batch.

    >>> import tempfile
    >>> control = Control(tempfile.mkdtemp())
    >>> notes = HotKeyNotes(control)
    >>> [[key, rows, homes, since, value]] = notes.of_batch([["00ff", 20, [0, 1]]], {"00ff": "the"})
    >>> key, rows, homes, value
    ('00ff', 20, [0, 1], 'the')
    >>> control.note("batch", hot=[[key, rows, homes, since, value]])
    >>> HotKeyNotes(control).of_batch([["00ff", 5, [1]]], {}) == [["00ff", 5, [1], since, "the"]]
    True
    """

    def __init__(self, control: Control, operator: str | None = None):
        self._control = control
        self._operator = operator
        self._known: dict[str, tuple[float | None, str | None]] | None = None  # since when, and the value

    def of_batch(self, hot: Iterable[Sequence[Any]], values: Mapping[str, str] | None) -> list[list[Any]]:
        """Return the hot keys of a batch, given as hash, rows and homes, with time and value behind them.

        ``values`` are those that the batch has shown, by hash; None if values are not to be logged.
        """
        known, now = self._logged() if self._known is None else self._known, round(time.time(), 3)
        self._known = {}
        found = []
        for key, rows, homes in hot:
            since, value = known.get(key, (None, None))
            since, value = now if since is None else since, None if values is None else values.get(key, value)
            self._known[key] = since, value
            found.append([key, rows, homes, since, value])
        return found

    def _logged(self) -> dict[str, tuple[float | None, str | None]]:
        """Return what the log says of the keys that were hot in its last batch."""
        last: list[Any] = []
        for note in self._control.notes("batch"):
            if note.get("operator") == self._operator and isinstance(note.get("hot"), list):
                last = note["hot"]
        known = {}
        for saved in last:
            if isinstance(saved, list) and len(saved) >= 4:
                value = saved[4] if len(saved) > 4 and isinstance(saved[4], str) else None
                known[str(saved[0])] = (finite(saved[3]), value)
        return known


def shortened(value: str) -> str:
    """Return the value of a key, cut if it is long.

    >>> len(shortened("x" * 1000))
    200
    """
    return value if len(value) <= MAX_VALUE else value[: MAX_VALUE - 1] + "…"
