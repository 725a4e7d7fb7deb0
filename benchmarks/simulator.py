"""What simulating costs over routing: 10^7 messages in memory, Zipf z = 1.4, 10^5 keys, n = 100, one core.

Two limits: ``partial-key`` with all load and memory metrics at most 3 times routing alone; any scheme at
most 30 times routing with ``key``. Both are ratios within one run. ``head`` adds head and tail loads, for
which the stream is read twice; ``queued`` adds FIFO queues, latencies and feedback.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import evenflow as ef
from evenflow.kernels import UInt64Array
from evenflow.simulate import Queueing, simulate
from evenflow.streams import Stream, Zipf
from evenflow.streams.base import CHUNK, Chunk

MESSAGES = 10**7
WORKERS = 100
SOURCES = 5


class Held(Stream):
    """A stream in memory, so that making it is not measured."""

    def __init__(self, stream: Zipf):
        self.messages = stream.messages
        self.ids = next(stream.chunks(stream.messages)).ids
        self._stream = stream

    @property
    def name(self) -> str:
        """The spelling of what is held."""
        return self._stream.name

    def chunks(self, size: int = CHUNK) -> Iterator[Chunk]:
        """Yield slices."""
        for start in range(0, self.ids.size, size):
            yield Chunk(self.ids[start : start + size], None)

    @property
    def hashes(self) -> UInt64Array:
        """The hashes of what is held."""
        return self._stream.hashes

    def label(self, id: int) -> str:
        """Return the key."""
        return self._stream.label(id)

    def keys_upper_bound(self) -> int:
        """Return the number of keys."""
        return self._stream.keys_upper_bound()


def run(messages: int = MESSAGES, tries: int = 3) -> list[dict[str, Any]]:
    """Return one row per measurement, with the ratio to routing alone and its limit."""
    stream = Held(Zipf(z=1.4, keys=10**5, messages=messages, seed=1))
    keys = stream.hashes[stream.ids]

    def route(name: str) -> float:
        router = ef.scheme(name).router(WORKERS)
        router.route(keys[:1000])
        return _best(lambda: router.route(keys), tries)

    def measure(name: str, **options: Any) -> float:
        simulate(name, Zipf(messages=1000), WORKERS, SOURCES, **options)  # compiles
        return _best(lambda: simulate(name, stream, WORKERS, SOURCES, **options), tries)

    by_key, partial = route("key"), route("partial-key")
    rows = []

    def add(what: str, name: str, seconds: float, over: float, limit: float | None) -> None:
        rows.append(
            {
                "what": what,
                "scheme": name,
                "ns_per_message": 1e9 * seconds / messages,
                "ratio": seconds / over,
                "limit": limit,
            }
        )

    add("routing", "key", by_key, by_key, None)
    add("routing", "partial-key", partial, by_key, None)
    add("simulated over routing", "partial-key", measure("partial-key"), partial, 3.0)
    add("with head over routing", "partial-key", measure("partial-key", head=1 / 500), partial, 3.0)
    for name in ef.schemes():
        add("simulated over key", name, measure(name), by_key, 30.0)
    for name in ("partial-key", "consistent", "fish"):
        add("queued over key", name, measure(name, queueing=Queueing(load=0.8)), by_key, None)
    return rows


def _best(work: Callable[[], Any], tries: int) -> float:
    seconds = []
    for _ in range(tries):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


if __name__ == "__main__":
    for row in run():
        print(json.dumps(row))
