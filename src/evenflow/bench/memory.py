"""Memory of a router after few and after many distinct keys, which must be the same.

Two numbers are measured: ``nbytes`` as reported by the router, and the memory freed with the router. Speed is
measured at the same time, chunk by chunk against key grouping.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from typing import NamedTuple

import numpy as np

import evenflow as ef
from evenflow.bench.measure import Measured, Progress, Row, silent
from evenflow.bench.results import Limit
from evenflow.bench.subjects import SEED, every_scheme, result

CHUNK = 10**5
LIMIT = Limit("at most", 1.01)  # tolerates a few small Python objects


class Held(NamedTuple):
    """Memory of a router in bytes, as reported and as freed, and the time spent routing."""

    reported: int
    allocated: int
    seconds: float
    key_seconds: float


def memory(workers: int, messages: int, progress: Progress = silent) -> list[Row]:
    """Route messages / 1000 distinct keys, then one per message; ``value`` is the growth in memory."""
    few = max(1, messages // 1000)
    results = []
    known = every_scheme()
    for index, subject in enumerate(known):
        progress(index, len(known), f"memory of {subject.name}")
        before, after = (held(subject.scheme, workers, distinct, messages) for distinct in (few, messages))
        ratio = after.seconds / after.key_seconds
        results.append(
            result(
                "memory",
                subject,
                workers,
                (f"{messages} distinct keys", messages),
                Measured(after.seconds, ratio, ratio, ratio),
                max(after.reported / before.reported, after.allocated / before.allocated),
                LIMIT,
                distinct_keys=[few, messages],
                bytes_reported=[before.reported, after.reported],
                bytes_allocated=[before.allocated, after.allocated],
            )
        )
    return results


def held(scheme: ef.Scheme, workers: int, distinct: int, messages: int) -> Held:
    """Route ``messages`` messages with ``distinct`` keys through a new router."""
    scheme.router(workers).route(np.zeros(10, np.uint64))  # compile
    unit = ef.scheme("key").router(workers, SEED)
    seconds = key_seconds = 0.0
    gc.freeze()  # or every collection would look through all that the process has loaded
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
        reported, with_router = router.nbytes, _traced()
        del router
        return Held(reported, with_router - _traced(), seconds, key_seconds)
    finally:
        tracemalloc.stop()
        gc.unfreeze()


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
