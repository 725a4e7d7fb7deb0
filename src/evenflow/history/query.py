"""The history of one operator: its last batch in full, earlier ones in a bounded number of records."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict
from itertools import zip_longest
from typing import Any

import numpy as np

from evenflow.control.record import PAST, batch_record, coarser, finite, max_over_mean, thinned, time_of
from evenflow.history.events import Event, event_of
from evenflow.owners.speeds import BATCHES, Speeds

MAX_RECORDS = 4000  # kept in memory
MAX_EVENTS = 300
POINTS = 500  # of a line in a chart
BARS = 200  # of a chart by worker
_SHOWN_HOMES = 24
_SHOWN_WORKERS = 40  # in a table; of more workers, the fullest and the emptiest
_SLOW = 0.999  # of the mean capacity
_SERIES = (
    "time", "batch", "batches", "rows", "workers", "max_over_mean", "hashed", "hot_share", "seconds", "late",
    "state_keys", "state_bytes",
)  # fmt: skip


class QueryHistory:
    """What is known of one operator."""

    def __init__(self, name: str, operator: str, kind: str = "stream"):
        self.name = name
        self.operator = operator
        self.kind = kind  # stream, state or frame
        self.records: list[dict[str, Any]] = []
        self.events: deque[Event] = deque(maxlen=MAX_EVENTS)
        self.last: dict[str, Any] | None = None  # the note of the last batch
        self.compared: dict[str, Any] | None = (
            None  # the note of the last batch that was compared with hashing
        )
        self.busy: dict[int, float] = {}  # seconds by worker, in the last batch
        self.recent: deque[tuple[list[int], dict[int, float]]] = deque(maxlen=BATCHES + 1)
        self.fallbacks = 0
        self.totals = {"batches": 0, "rows": 0, "late": 0, "migrations": 0, "plans": 0, "moved_keys": 0}
        self.seconds_total = 0.0
        self.worker_rows: list[int] = []  # in the batches that were read in full
        self.worker_busy: list[float] = []
        self.plan_time: float | None = None
        self.ended: str | None = None
        self.changes = 0  # grows with everything that is added
        self._reports: dict[Any, tuple[Any, dict[int, float]]] = {}  # busy seconds by batch, of its last run

    def add(self, note: dict[str, Any]) -> None:
        """Take a note of the log; one that is not as expected is ignored."""
        kind = note["event"]
        try:
            if kind in ("batch", "run"):
                self._add_batch(note)
            elif kind == PAST:
                self._add_record(note)
            elif kind == "busy":
                self._add_busy(note)
            else:
                self._add_event(note)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            return
        self.changes += 1

    def _add_batch(self, note: dict[str, Any]) -> None:
        rows = [int(value) for value in note["rows"]]
        record = batch_record({**note, "rows": rows})
        if not rows:
            return
        self._add_record(record)
        self.last = {**note, "rows": rows}
        if isinstance(note.get("hashed"), list):
            self.compared = self.last
        _, self.busy = self._reports.get(note.get("batch"), (None, {}))
        given = note.get("busy")
        if isinstance(given, list):
            self.busy = {worker: float(seconds) for worker, seconds in enumerate(given)}
        self.recent.append((rows, self.busy))
        self.worker_rows = _added(self.worker_rows, rows)
        if self.busy:
            self.worker_busy = _added(self.worker_busy, self.busy_list())
        self.ended = None
        if note["event"] == "run":
            self.kind = "frame"

    def _add_record(self, record: dict[str, Any]) -> None:
        record = {name: finite(record.get(name)) for name in _SERIES}
        if record["time"] is None or record["rows"] is None:
            return
        self.records.append(record)
        if len(self.records) > MAX_RECORDS:
            self.records = coarser(self.records, MAX_RECORDS)
        for name in ("batches", "rows", "late"):
            self.totals[name] += int(record.get(name) or 0)
        self.seconds_total += float(record.get("seconds") or 0.0)

    def _add_busy(self, note: dict[str, Any]) -> None:
        """Take the report of a worker; it comes before the note of its batch, and the last one counts."""
        batch, run = note.get("batch"), note.get("run")
        known, seconds = self._reports.get(batch, (run, {}))
        if known != run:
            seconds = {}
        seconds[int(note["worker"])] = float(note["seconds"])
        self._reports = {batch: (run, seconds)} | {
            other: value for other, value in list(self._reports.items())[:BATCHES] if other != batch
        }
        if self.last is not None and self.last.get("batch") == batch:
            self.busy = seconds

    def _add_event(self, note: dict[str, Any]) -> None:
        event = event_of(note)
        if event is None:
            return
        self.events.append(event)
        self.fallbacks += event.kind == "fallback"
        self.totals["plans"] += event.kind in ("plan", "decision")
        if event.kind in ("plan", "decision"):
            self.plan_time = event.time
        if event.kind == "migration":
            self.totals["migrations"] += 1
            self.totals["moved_keys"] += int(note["keys"])
        self.ended = event.title.lower() if event.kind == "ended" else None

    def summary(self) -> dict[str, Any]:
        """Return the numbers of the last batch."""
        last = self.last
        found: dict[str, Any] = {
            "name": self.name,
            "operator": self.operator,
            "kind": self.kind,
            "status": self.ended or ("waiting" if last is None else "running"),
            "fallbacks": self.fallbacks,
            "plan_time": self.plan_time,
            "totals": {**self.totals, "seconds": round(self.seconds_total, 6)},
        }
        if last is None:
            return found
        rows = last["rows"]
        hashed, busy = self._hashed(), self.busy_list()
        total, keys, pairs = sum(rows), finite(last.get("keys")) or 0, finite(last.get("pairs")) or 0
        seconds = finite(last.get("seconds"))
        return found | {
            "time": time_of(last),
            "batch": finite(last.get("batch")),
            "plan": finite(last.get("plan")),
            "workers": len(rows),
            "rows": total,
            "fullest": int(np.argmax(rows)),
            "max_over_mean": max_over_mean(rows) or 0.0,
            "hashed_max_over_mean": max_over_mean(hashed) if hashed else None,
            "hashed_batch": finite(self.compared.get("batch")) if hashed and self.compared else None,
            "busy_over_mean": max_over_mean(busy) if busy else None,
            "keys": keys,
            "pairs": pairs,
            "memory": round(pairs / keys, 6) if keys else None,
            "seconds": seconds,
            "rows_per_second": round(total / seconds, 3) if seconds else None,
            **{name: finite(last.get(name)) for name in ("late", "state_keys", "state_bytes", "waiting")},
        }

    def busy_list(self) -> list[float]:
        """Return the busy seconds per worker in the last batch; empty if they were not measured."""
        if self.last is None or not self.busy:
            return []
        return [self.busy.get(worker, 0.0) for worker in range(len(self.last["rows"]))]

    def _hashed(self) -> list[int]:
        """Return the rows per worker under hashing, of the last batch that was compared; empty if unknown.

        If that is not the last batch, they are scaled to its number of rows.
        """
        if self.last is None or self.compared is None:
            return []
        values = [int(finite(value) or 0) for value in self.compared["hashed"]]
        if len(values) != len(self.last["rows"]):
            return []
        if self.compared is self.last:
            return values
        scale = sum(self.last["rows"]) / max(1, sum(values))
        return [round(value * scale) for value in values]

    def hot(self) -> list[dict[str, Any]]:
        """Return the hot keys of the last batch, hottest first."""
        if self.last is None:
            return []
        total = max(1, sum(self.last["rows"]))
        found = []
        for saved in self.last.get("hot") or []:
            try:
                key, rows, homes, since, value = _hot_key(saved)
            except (KeyError, TypeError, ValueError):
                continue
            found.append(
                {
                    "key": _cut(key if value is None else value),
                    "hash": key if isinstance(saved, list) else None,
                    "rows": rows,
                    "share": round(rows / total, 6),
                    "of_fair_share": round(rows * len(self.last["rows"]) / total, 4),
                    "homes": homes[:_SHOWN_HOMES],
                    "home_count": len(homes),
                    "since": since,
                }
            )
        return found

    def slow(self) -> list[dict[str, Any]]:
        """Return the workers that were slower than the others in each of the last batches."""
        batches = [(rows, busy) for rows, busy in self.recent if busy][-BATCHES:]
        if self.last is None or len(batches) < BATCHES:
            return []
        workers = len(self.last["rows"])
        speeds = Speeds(workers)
        for rows, busy in batches:
            if len(rows) == workers:
                speeds.add(rows, [0] * workers, [busy.get(worker, 0.0) for worker in range(workers)])
        shares = speeds.shares()
        typical = float(np.median(shares))
        return [
            {"worker": int(worker), "times_slower": round(typical / float(shares[worker]), 3)}
            for worker in np.flatnonzero(shares < _SLOW * typical)
        ]

    def snapshot(self, points: int = POINTS, bars: int = BARS) -> dict[str, Any]:
        """Return everything a page shows; its size does not depend on the number of workers or batches."""
        records = thinned(self.records, points)
        series = {name: [record[name] for record in records] for name in _SERIES}
        series["rows_per_second"] = [
            round(record["rows"] / record["seconds"], 3) if record["seconds"] else None for record in records
        ]
        series["batch_seconds"] = [
            None if record["seconds"] is None else round(record["seconds"] / (record["batches"] or 1), 6)
            for record in records
        ]
        return {
            "summary": self.summary(),
            "workers": self._bars(bars),
            "table": self._worker_table(),
            "history": series,
            "batches_per_point": max((record["batches"] or 1 for record in records), default=1),
            "hot": self.hot(),
            "slow": self.slow(),
            "events": [asdict(event) for event in reversed(self.events)],
        }

    def _bars(self, most: int) -> dict[str, Any]:
        """Return rows and busy seconds by worker; of many workers, the highest of each few neighbours."""
        if self.last is None:
            return {"first": [], "rows": [], "hashed": [], "busy": [], "group": 1, "mean": 0.0}
        rows = self.last["rows"]
        group = -(-len(rows) // most)
        return {
            "first": list(range(0, len(rows), group)),
            "rows": _highest(rows, group),
            "hashed": _highest(self._hashed(), group),
            "busy": _highest(self.busy_list(), group),
            "group": group,
            "mean": round(sum(rows) / len(rows), 6),
        }

    def _worker_table(self) -> list[dict[str, Any]]:
        """Return the workers as rows of a table, fullest first."""
        if self.last is None:
            return []
        rows, hashed, busy = self.last["rows"], self._hashed(), self.busy_list()
        mean = max(sum(rows) / len(rows), 1e-300)
        order = sorted(range(len(rows)), key=lambda worker: (-rows[worker], worker))
        if len(order) > _SHOWN_WORKERS:
            order = order[: _SHOWN_WORKERS // 2] + order[-_SHOWN_WORKERS // 2 :]
        return [
            {
                "worker": worker,
                "rows": rows[worker],
                "of_mean": round(rows[worker] / mean, 6),
                "hashed": hashed[worker] if hashed else None,
                "busy": busy[worker] if busy else None,
            }
            for worker in order
        ]


def _hot_key(saved: Any) -> tuple[str, int, list[int], float | None, str | None]:
    """Return a hot key as the log has it: a list of a stream, an object of a frame."""
    if isinstance(saved, dict):
        saved = [saved["key"], saved["rows"], saved["homes"], saved.get("since")]
    key, rows, homes, since, value = (*saved[:5], None, None)[:5]
    named = value if isinstance(value, str) else None
    return str(key), int(rows), [int(home) for home in homes], finite(since), named


def _cut(text: str) -> str:
    return text if len(text) <= 120 else text[:119] + "…"


def _added(totals: list[Any], values: list[Any]) -> list[Any]:
    """Return sums by worker; there may be more workers than before, or fewer."""
    missing = len(values) - len(totals)
    return [total + value for total, value in zip_longest([*totals, *[0] * missing], values, fillvalue=0)]


def _highest(values: list[Any], group: int) -> list[Any]:
    return values if group == 1 else [max(values[at : at + group]) for at in range(0, len(values), group)]
