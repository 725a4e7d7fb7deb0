"""Fill with 5, 20 and 100 sources: memory, p99 and balance, without talking and with an exchange of homes.

An exchange is at most 30 homes of 10 bytes per source, every so many rows per worker
(:mod:`evenflow.schemes.fill_exchange`). ``news`` is a stream of stories that come, fade and are forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import evenflow as ef
from benchmarks.fill import GENERATED, _read, _real_streams, _serve, _short
from benchmarks.fill_latency import HELD_OUT, memory
from evenflow.bench.measure import Progress, Row, silent
from evenflow.kernels import Int32Array, UInt64Array
from evenflow.report.tables import Table
from evenflow.schemes.fill_exchange import BYTES, HomeExchange
from evenflow.streams import open_stream

SOURCES = (5, 20, 100)
EXCHANGES = (0, 200)  # rows per worker between two exchanges; 0: the sources never talk
WORKERS = (50, 100)
ROWS = 4 * 10**5  # of every stream
RATE = 10_000  # rows per second, for the cost of exchanges
LIMIT = 1.5  # of one source's excess memory


def run(quick: bool = False, data: str | None = None, progress: Progress = silent) -> list[Row]:
    """Measure the first rows of every stream; ``quick`` uses fewer, and one number of workers."""
    specs = [*_real_streams(data), *GENERATED, *HELD_OUT, "news"]
    rows: list[Row] = []
    for step, spec in enumerate(specs):
        progress(step, len(specs), _short(spec))
        ids, hashes = news(ROWS) if spec == "news" else _read(open_stream(spec))
        for workers in WORKERS[:1] if quick else WORKERS:
            rows += compare(_short(spec), ids[: ROWS // 4 if quick else ROWS], hashes, workers)
    return rows


def news(rows: int, stories: int = 20_000, lasts: float = 0.05) -> tuple[Int32Array, UInt64Array]:
    """Return a stream of stories: each begins at some time, at Zipf's weights, and fades exponentially."""
    rng = np.random.default_rng(1)
    begins = np.sort(rng.random(stories)) * (1 + lasts) - lasts
    weights = rng.permutation(np.arange(1, stories + 1) ** -1.0)
    ids = np.empty(rows, np.int32)
    parts = 200
    for part, where in enumerate(np.array_split(np.arange(rows), parts)):
        age = (part + 0.5) / parts - begins
        now = np.where(age >= 0, weights * np.exp(-np.maximum(age, 0) / lasts), 0.0)
        ids[where] = rng.choice(stories, where.size, p=now / now.sum())
    return ids, ef.hash_keys(np.arange(stories))


def compare(name: str, ids: Int32Array, hashes: UInt64Array, workers: int) -> list[Row]:
    """Measure one source, and several with every interval of exchanges."""
    alone = measure(name, ids, hashes, workers, 1, 0)
    several = [measure(name, ids, hashes, workers, s, every) for every in EXCHANGES for s in SOURCES]
    for row in several:
        row["excess"] = (row["memory"] - 1) / max(alone["memory"] - 1, 1e-9)
        row["ok"] = row["excess"] <= LIMIT
    return [alone, *several]


def measure(
    name: str, ids: Int32Array, hashes: UInt64Array, workers: int, sources: int, exchange: int
) -> Row:
    """Route a stream row by row to its sources in turn."""
    scheme = ef.scheme("fill", exchange=exchange)
    routers = [scheme.router(workers, 0, source=source, sources=sources) for source in range(sources)]
    coordinator = scheme.coordinator(routers)
    out = np.empty(ids.size, np.int32)
    keys = hashes[ids]
    start = 0
    while start < ids.size:
        stop = min(ids.size, coordinator.next_message)
        for source, router in enumerate(routers):
            own = slice(start + (source - start) % sources, stop, sources)
            out[own] = router.route(keys[own])
        if stop == coordinator.next_message:
            coordinator.before(stop)
        start = stop
    latency = np.empty(ids.size)
    _serve(out, np.zeros(workers), 0.9, latency)
    told = coordinator.told if isinstance(coordinator, HomeExchange) else 0
    return {
        "stream": name,
        "workers": workers,
        "sources": sources,
        "exchange": exchange,
        "memory": memory(ids, out, workers),
        "p99": float(np.quantile(latency, 0.99) * 0.9),
        "max_over_mean": float(np.bincount(out, minlength=workers).max() * workers / ids.size),
        "bytes": BYTES * told * exchange * workers / max(1, ids.size) / sources,
    }


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return one table per interval of exchanges."""
    at = {(row["stream"], row["workers"], row["sources"], row["exchange"]): row for row in rows}
    places = list(dict.fromkeys((row["stream"], row["workers"]) for row in rows))
    return [
        Table(
            f"{_title(every)}: excess of memory relative to one source; p99 in rows; max/mean",
            ("stream", "workers", "one source", *(f"{s} sources" for s in SOURCES), ""),
            [_line(at, stream, workers, every) for stream, workers in places],
            f"Limit: {LIMIT} times one source's excess. p99 at load 0.9." + _cost(rows, every),
        )
        for every in EXCHANGES
    ]


def _title(every: int) -> str:
    return f"Homes exchanged every {every} rows per worker" if every else "Sources that do not talk"


def _line(
    at: dict[tuple[str, int, int, int], Row], stream: str, workers: int, every: int
) -> tuple[str | int, ...]:
    alone = at[stream, workers, 1, 0]
    several = [at[stream, workers, sources, every] for sources in SOURCES]
    return (
        stream,
        workers,
        f"{alone['memory']:.3f}; {alone['p99']:.1f}; {alone['max_over_mean']:.3f}",
        *(f"{row['excess']:.2f}x; {row['p99']:.1f}; {row['max_over_mean']:.3f}" for row in several),
        "ok" if all(row["ok"] for row in several) else "missed",
    )


def _cost(rows: Sequence[Row], every: int) -> str:
    own = [row for row in rows if row["exchange"] == every and row["sources"] > 1]
    if not every:
        return ""
    sent = [row["bytes"] for row in own]
    minute = [row["bytes"] * 60 * RATE / (every * row["workers"]) for row in own]
    return (
        f" Bytes per source: {np.mean(sent):.0f} per exchange on average, at most {max(sent):.0f};"
        f" per minute, at {RATE:,} rows per second in all, {np.mean(minute):.0f} and {max(minute):.0f}."
    )
