"""`stateful` with its state and control in an object store, compared with a local folder.

Both queries read the same files and touch the same keys; the runs are interleaved. A batch in the store may
take 1.5 times as long, plus the round trips that it has to wait for: those of the driver, one after another,
and those of the workers, of which as many run at once as there are cores. A round trip is the median of small
writes and reads of the same store.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np

from evenflow.bench.measure import Progress, Row, silent
from evenflow.bench.on_spark import folder
from evenflow.bench.results import Columns
from evenflow.bench.stateful_work import Count, files, stateful_query
from evenflow.storage import Location, locate, open_storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKERS, CORES = 4, 2
PER_WORKER = 2  # requests
WARM_UP = 3  # batches
COLUMNS: dict[str, Columns] = {
    "storage": (
        "State and control in an object store, 4 workers on 2 cores",
        ("where", "touched", "ms", "requests", "in_turn", "round_trip_ms", "ratio", "ratio_without_trips"),
    ),
}


def stored(
    spark: SparkSession, storage: str, *, quick: bool = False, progress: Progress = silent
) -> list[Row]:
    """Return the time per batch in a local folder and in the store."""
    sizes, batches, rounds = ((1000,), 6, 1) if quick else ((1000, 10_000), 12, 3)
    place = locate(storage, "storage")
    found: list[Row] = []
    for part, touched in enumerate(sizes):
        random = np.random.default_rng(touched)
        keys = [random.choice(10 * touched, touched, replace=False) for _ in range(batches)]
        times: dict[str, list[float]] = {"folder": [], "store": []}
        requests = 0
        with files(spark, keys) as source:
            for turn in range(rounds + 1):  # the first one warms up Spark
                for where, taken in times.items():
                    progress(part * (rounds + 1) + turn, len(sizes) * (rounds + 1), f"storage, {where}")
                    with folder() as path:
                        state = path / "state" if where == "folder" else place / f"bench-{uuid4().hex}"
                        done = stateful_query(
                            source, Count(), WORKERS, "key", state=state, checkpoint=path / "checkpoint"
                        )
                        if isinstance(state, Location):
                            requests = done.requests
                            remove(state)
                    if turn or quick:
                        taken += done.milliseconds[WARM_UP:]
        trip = round_trip(place)
        in_turn = requests - PER_WORKER * WORKERS + PER_WORKER * WORKERS // CORES
        local, far = (statistics.median(taken) for taken in times.values())
        same = {"part": "storage", "touched": touched}
        found += [
            same | {"where": "folder", "ms": local, "requests": 0, "in_turn": 0, "round_trip_ms": 0.0,
                    "ratio": 1.0, "ratio_without_trips": 1.0},
            same | {"where": place.scheme, "ms": far, "requests": requests, "in_turn": in_turn,
                    "round_trip_ms": trip, "ratio": far / local,
                    "ratio_without_trips": (far - in_turn * trip) / local},
        ]  # fmt: skip
    return found


def round_trip(place: Location) -> float:
    """Return the median milliseconds of a small write and of a small read, the mean of both."""
    storage, name = open_storage(place), f"bench-{uuid4().hex}"
    taken: dict[str, list[float]] = {"write": [], "read": []}
    for _ in range(30):
        for verb, seconds in taken.items():
            began = time.perf_counter()
            storage.put(name, b"x" * 4096) if verb == "write" else storage.read(name)
            seconds.append(time.perf_counter() - began)
    storage.delete([name])
    return 1000 * statistics.fmean(statistics.median(seconds) for seconds in taken.values())


def remove(state: Location) -> None:
    """Remove the objects of a run."""
    storage = open_storage(state)
    storage.delete([entry.name for entry in storage.entries()])
