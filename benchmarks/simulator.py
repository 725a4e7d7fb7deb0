"""Overhead of simulation over routing: 10^7 messages in memory, Zipf z = 1.4, 10^5 keys, n = 100, one core.

Two limits: ``partial-key`` with all load and memory metrics takes at most 3 times as long as routing alone;
any scheme at most 30 times as long as routing with ``key``. Ratios compare interleaved runs. ``head`` adds
head and tail loads, for which the stream is read twice; ``queued`` adds FIFO queues, latencies and feedback.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import evenflow as ef
from evenflow.bench.measure import Prepare, Progress, Row, against, silent
from evenflow.bench.subjects import Subject, routing, zipf
from evenflow.kernels import UInt64Array
from evenflow.report.tables import Table
from evenflow.simulator import Queueing, simulate
from evenflow.streams import Stream, Zipf
from evenflow.streams.base import CHUNK, Chunk

MESSAGES = 10**7
WORKERS = 100
SOURCES = 5
QUEUED = ("partial-key", "consistent", "fish")


class Held(Stream):
    """A stream in memory, so that generating it is not measured."""

    def __init__(self, stream: Zipf):
        self.messages = stream.messages
        self.ids = next(stream.chunks(stream.messages)).ids
        self._stream = stream

    @property
    def name(self) -> str:
        """The spec of the stream."""
        return self._stream.name

    def chunks(self, size: int = CHUNK) -> Iterator[Chunk]:
        """Yield slices."""
        for start in range(0, self.ids.size, size):
            yield Chunk(self.ids[start : start + size], None)

    @property
    def hashes(self) -> UInt64Array:
        """The hashes of the keys."""
        return self._stream.hashes

    def label(self, id: int) -> str:
        """Return the key."""
        return self._stream.label(id)

    def keys_upper_bound(self) -> int:
        """Return the number of keys."""
        return self._stream.keys_upper_bound()


def run(quick: bool = False, progress: Progress = silent) -> list[Row]:
    """Return one row per measurement, with the ratio to routing alone and its limit."""
    messages, rounds = (MESSAGES // 10, 3) if quick else (MESSAGES, 5)
    load = zipf(1.4, 10**5, messages)
    stream = Held(Zipf(z=1.4, keys=10**5, messages=messages, seed=1))
    by_key, partial = (routing(Subject(ef.scheme(name)), WORKERS, load) for name in ("key", "partial-key"))

    def simulating(name: str, **options: Any) -> Prepare:
        simulate(name, Zipf(messages=1000), WORKERS, SOURCES, **options)  # compiles
        return lambda: lambda: simulate(name, stream, WORKERS, SOURCES, **options)

    parts: list[tuple[str, Prepare, dict[str, Prepare], float | None]] = [
        ("routing over key", by_key, {"key": by_key, "partial-key": partial}, None),
        ("simulated over routing", partial, {"partial-key": simulating("partial-key")}, 3.0),
        ("with head over routing", partial, {"partial-key": simulating("partial-key", head=1 / 500)}, 3.0),
        ("simulated over key", by_key, {name: simulating(name) for name in ef.list_schemes()}, 30.0),
        (
            "queued over key",
            by_key,
            {name: simulating(name, queueing=Queueing(load=0.8)) for name in QUEUED},
            None,
        ),
    ]
    rows = []
    for what, unit, tasks, limit in parts:
        for name, measured in against(unit, tasks, rounds, progress).items():
            rows.append(
                {
                    "what": what,
                    "scheme": name,
                    "messages": messages,
                    "ns_per_message": 1e9 * measured.seconds / messages,
                    "ratio": measured.ratio,
                    "limit": limit,
                    "ok": None if limit is None else measured.ratio <= limit,
                }
            )
    return rows


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return one table."""
    cells = [
        (
            row["what"],
            row["scheme"],
            row["ns_per_message"],
            row["ratio"],
            None if row["limit"] is None else f"at most {row['limit']:g}",
            None if row["ok"] is None else "ok" if row["ok"] else "over",
        )
        for row in rows
    ]
    title = f"Simulating {rows[0]['messages']:,} messages, {WORKERS} workers, {SOURCES} sources"
    return [Table(title, ("what", "scheme", "ns", "ratio", "limit", ""), cells)]
