"""What a long list of warm keys costs: `balance` against `repartition`, from the call to the last row moved.

Keys with equally many rows, of which a worker gets some dozens, are all worth naming in a plan. Counting
them, making the plan and looking it up have to grow linearly; the limit is 1.5 times `repartition` plus one
second for up to 100,000 named keys. Runs alternate, and the fastest of each counts, since other processes
only add to it.
"""

from __future__ import annotations

import time
from typing import Any

from evenflow.bench.measure import Progress, Row, silent
from evenflow.bench.on_spark import drain
from evenflow.bench.results import Columns

CASES = ((64_000, 1000), (12_800, 200), (100_000, 1600))  # keys, workers; all keys are named
ROWS_PER_KEY = 20
FACTOR, EXTRA = 1.5, 1.0
COLUMNS: dict[str, Columns] = {
    "planning": (
        "Planning many warm keys, in seconds",
        (
            "keys", ("named in the plan", "named"), "workers", "repartition", "balance",
            ("before its job", "before"), "limit", "of_limit",
        ),
    ),
}  # fmt: skip


def run(spark: Any, *, part: int = 1, rounds: int = 5, progress: Progress = silent) -> list[Row]:
    """Measure every case, or a ``part`` of its keys and workers."""
    rows = []
    for index, (keys, workers) in enumerate(CASES):
        progress(index, len(CASES), f"planning, {keys // part:,} keys on {workers // part:,} workers")
        rows.append(measured(spark, keys // part, workers // part, rounds))
    return rows


def measured(spark: Any, keys: int, workers: int, rounds: int) -> Row:
    """Return the seconds of both, and of what `balance` does before its job."""
    from evenflow.spark import balance

    frame = spark.range(keys * ROWS_PER_KEY).selectExpr(f"id % {keys} AS key", "id").cache()
    frame.count()
    placed: list[Any] = []
    plain, ours, before = [], [], []
    for turn in range(rounds + 1):  # the first warms up
        start = time.perf_counter()
        drain(frame.repartition(workers, "key"))
        plain.append(time.perf_counter() - start)
        start = time.perf_counter()
        even = frame.transform(balance("key", workers, on_placed=placed.append))
        before.append(time.perf_counter() - start)
        drain(even)
        ours.append(time.perf_counter() - start)
        if turn == 0:
            plain, ours, before = [], [], []
    frame.unpersist()
    limit = FACTOR * min(plain) + EXTRA
    return {
        "part": "planning", "what": f"{keys:,} keys", "keys": keys, "workers": workers,
        "named": int(placed[-1].plan.keys.size), "repartition": min(plain), "balance": min(ours),
        "before": min(before), "limit": limit, "of_limit": min(ours) / limit,
    }  # fmt: skip
