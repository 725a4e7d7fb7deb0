"""What a router holds after few and after many distinct keys: it must be the same.

Two numbers: ``nbytes``, what the router says, and what the allocator gets back when the router is gone.
While the keys stream past, their speed is measured too, chunk by chunk beside key grouping's.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from typing import NamedTuple

import numpy as np

import evenflow as ef
from evenflow.bench.measure import Measured, Say, silent
from evenflow.bench.subjects import SEED, Limit, Result, every_scheme, result

CHUNK = 10**5
LIMIT = Limit("at most", 1.01)  # a few small Python objects may come and go


class Held(NamedTuple):
    """What a router holds in bytes, as it says and as it gives back, and what routing took."""

    said: int
    allocated: int
    seconds: float
    key_seconds: float


def memory(workers: int, messages: int, say: Say = silent) -> list[Result]:
    """Send a thousandth as many keys as messages, then as many; ``value`` is held then over held before."""
    few = max(1, messages // 1000)
    results = []
    known = every_scheme()
    for place, subject in enumerate(known):
        say(place, len(known), f"memory of {subject.name}")
        before, after = (held(subject.scheme, workers, distinct, messages) for distinct in (few, messages))
        ratio = after.seconds / after.key_seconds
        results.append(
            result(
                "memory",
                subject,
                workers,
                (f"{messages} distinct keys", messages),
                Measured(after.seconds, ratio, ratio, ratio),
                max(after.said / before.said, after.allocated / before.allocated),
                LIMIT,
                distinct_keys=[few, messages],
                bytes_said=[before.said, after.said],
                bytes_allocated=[before.allocated, after.allocated],
            )
        )
    return results


def held(scheme: ef.Scheme, workers: int, distinct: int, messages: int) -> Held:
    """Send ``messages`` through a new router, the same ``distinct`` keys again and again."""
    scheme.router(workers).route(np.zeros(10, np.uint64))  # compile
    unit = ef.scheme("key").router(workers, SEED)
    seconds = key_seconds = 0.0
    tracemalloc.start()
    try:
        router = scheme.router(workers, SEED)
        for first in range(0, messages, CHUNK):
            numbers = np.arange(first, min(first + CHUNK, messages), dtype=np.int64) % distinct
            keys = ef.hash_keys(numbers)
            start = time.process_time()
            unit.route(keys)
            middle = time.process_time()
            router.route(keys)
            seconds += time.process_time() - middle
            key_seconds += middle - start
            del numbers, keys
        said, with_router = router.nbytes, _traced()
        del router
        return Held(said, with_router - _traced(), seconds, key_seconds)
    finally:
        tracemalloc.stop()


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
