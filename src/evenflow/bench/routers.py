"""The router of every scheme against key grouping, the baseline, which hashes once and counts once.

Three parts, each with evenflow's own limits:

* **speed** on a Zipf stream (z = 1.4, 10^5 keys, 10^7 messages, 100 workers);
* **growth** of the time per message from 10 to 1000 workers, for schemes that send hot keys to many workers;
* **memory** of a router after 10^4 and after 10^7 distinct keys (:mod:`evenflow.bench.memory`);

One call of ``route`` processes a whole stream in one thread; setting up the router is not measured.

Limits of schemes that look at loads are relative to partial-key grouping, the simplest of them. Key grouping
is a few instructions and one counter, whose time differs between processors more than that of other schemes:
2.6 ns on one and 1.1 ns on another, where partial-key grouping takes 5.1 and 3.8 ns, FISH 44 and 29 ns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import evenflow as ef
from evenflow.bench.measure import Progress, Row, against, silent
from evenflow.bench.memory import memory
from evenflow.bench.results import Limit
from evenflow.bench.subjects import Subject, every_scheme, lookup_alone, result, routing, zipf
from evenflow.errors import EvenflowError
from evenflow.report.tables import Cell, Table

WORKERS = 100
MESSAGES = 10**7
SIMPLEST = "partial-key"
LIMITS = {  # time relative to another scheme's
    SIMPLEST: ("key", 4),
    "explicit, lookup alone": ("key", 3),
    "fill": (SIMPLEST, 6),
    "d-choices": (SIMPLEST, 10),
    "w-choices": (SIMPLEST, 10),
    "random-choices": (SIMPLEST, 10),
    "fish": (SIMPLEST, 10),
    "dynamic-key": (SIMPLEST, 10),
    "consistent": (SIMPLEST, 10),
}
GROWING = ("w-choices", "d-choices")
GROWING_WORKERS = (10, 100, 1000)
GROWTH_LIMIT = Limit("less than", 3)


def run(
    workers: int = WORKERS, messages: int = MESSAGES, quick: bool = False, progress: Progress = silent
) -> list[Row]:
    """Measure all parts; ``quick`` uses a tenth of the messages and fewer rounds."""
    for name, value in (("workers", workers), ("messages", messages)):
        if value < 1:
            raise EvenflowError(f"{name} is {value}; it must be at least 1.")
    messages = max(1, messages // 10) if quick else messages
    rounds = 3 if quick else 7
    return [
        *speed(workers, messages, rounds, progress),
        *growth(messages, rounds, progress),
        *memory(workers, messages, progress),
    ]


def speed(workers: int, messages: int, rounds: int, progress: Progress = silent) -> list[Row]:
    """Measure every scheme on one stream; the limits apply to 100 workers."""
    load = zipf(1.4, 10**5, messages)
    subjects = {subject.name: subject for subject in (*every_scheme(), lookup_alone())}
    tasks = {name: routing(subject, workers, load) for name, subject in subjects.items()}
    results = []
    found = against(tasks["key"], tasks, rounds, progress)
    for name, measured in found.items():
        unit, most = LIMITS.get(name, ("key", None))
        limit = Limit("at most", most) if most is not None and workers == WORKERS else None
        value = measured.ratio / found[unit].ratio
        details = {"limit_of": unit, "relative_to_simplest": measured.ratio / found[SIMPLEST].ratio}
        stream = (load.name, messages)
        results.append(result("speed", subjects[name], workers, stream, measured, value, limit, **details))
    return sorted(results, key=lambda row: float(row["relative_to_key"]))


def growth(messages: int, rounds: int, progress: Progress = silent) -> list[Row]:
    """Measure the head schemes at 10, 100 and 1000 workers; ``value`` is the time relative to 10 workers."""
    load = zipf(1.4, 10**5, messages)
    unit = routing(Subject(ef.scheme("key")), WORKERS, load)
    results = []
    for scheme in GROWING:
        subject = Subject(ef.scheme(scheme))
        tasks = {f"{scheme}, {n} workers": routing(subject, n, load) for n in GROWING_WORKERS}
        measured = list(against(unit, tasks, rounds, progress).values())
        for n, own in zip(GROWING_WORKERS, measured, strict=True):
            limit = GROWTH_LIMIT if n == GROWING_WORKERS[-1] else None
            value = own.ratio / measured[0].ratio
            results.append(result("growth", subject, n, (load.name, messages), own, value, limit))
    return results


def _verdict(row: Row) -> str | None:
    """Return whether a value is within its limit, over or under it; None without a limit."""
    if row["ok"] is None:
        return None
    return "ok" if row["ok"] else "under" if row["limit"].startswith("at least") else "over"


_CELLS: dict[str, Callable[[Row], Cell]] = {
    "scheme": lambda row: f"{row['scheme']}, {row['variant']}" if row["variant"] else str(row["scheme"]),
    "M messages/s": lambda row: row["messages_per_second"] / 1e6,
    "ns": lambda row: 1e9 / row["messages_per_second"],
    "x key": lambda row: row["relative_to_key"],
    f"x {SIMPLEST}": lambda row: row["details"]["relative_to_simplest"],
    "limit": lambda row: (
        f"{row['limit']} x {row['details']['limit_of']}"
        if "limit_of" in row["details"] and row["limit"]
        else row["limit"]
    ),
    "": _verdict,
    "{distinct_keys[0]:,} keys": lambda row: row["details"]["bytes_reported"][0] / 1e3,
    "{distinct_keys[1]:,} keys": lambda row: row["details"]["bytes_reported"][1] / 1e3,
    "allocated": lambda row: row["details"]["bytes_allocated"][1] / 1e3,
    **dict.fromkeys(("growth", "x 10 workers"), lambda row: row["value"]),
}  # others are fields of the row
_TABLES = {  # title, columns, note
    "speed": ("Time per message, {workers} workers, {stream}",
              ("scheme", "M messages/s", "ns", "x key", "lowest", "highest", f"x {SIMPLEST}", "limit", ""),
              ""),
    "growth": ("Time by number of workers, {stream}",
               ("scheme", "workers", "ns", "x key", "x 10 workers", "limit", ""), ""),
    "memory": ("Memory of a router for {workers} workers, in kB",
               ("scheme", "{distinct_keys[0]:,} keys", "{distinct_keys[1]:,} keys", "growth", "limit", "",
                "allocated", "ns", "x key"),
               "Growth of reported or of allocated memory, whichever is larger; ns and x key are for "
               "{distinct_keys[1]:,} keys, each sent once."),
}  # fmt: skip


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return the parts as tables, with limits."""
    found = []
    for part, (title, columns, note) in _TABLES.items():
        own = [row for row in rows if row["part"] == part]
        if own:
            known = own[0] | own[0]["details"]
            cells = [[_CELLS[n](row) if n in _CELLS else row[n] for n in columns] for row in own]
            names = [name.format(**known) for name in columns]
            found.append(Table(title.format(**known), names, cells, note.format(**known)))
    return found
