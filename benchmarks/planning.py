"""What a long list of warm keys costs: `balance` against `repartition`, from the call to the last row moved.

Keys with equally many rows, of which a worker gets some dozens, are all worth naming in a plan. Counting
them, making the plan and looking it up have to grow linearly; the target is 1.5 times `repartition` plus one
second for up to 100,000 named keys. Runs alternate, and the fastest of each counts, since other processes
only add to it. The numbers are seconds of one machine with one session.
"""

from __future__ import annotations

import time
from typing import Any

from evenflow.bench.measure import Progress, Row, silent
from evenflow.report.tables import Table

CASES = ((64_000, 1000), (12_800, 200), (100_000, 1600))  # keys, workers; all keys are named
ROWS_PER_KEY = 20
ROUNDS = 5
FACTOR, EXTRA = 1.5, 1.0


def run(quick: bool = False, progress: Progress = silent) -> list[Row]:
    """Measure every case; ``quick`` takes a tenth of keys and workers, and one round."""
    from evenflow.spark.session import local_session

    scale, rounds = (10, 1) if quick else (1, ROUNDS)
    rows = []
    with local_session() as spark:
        for index, (keys, workers) in enumerate(CASES):
            progress(index, len(CASES), f"{keys // scale:,} keys on {workers // scale:,} workers")
            rows.append(measured(spark, keys // scale, workers // scale, rounds))
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
        moved(frame.repartition(workers, "key"))
        plain.append(time.perf_counter() - start)
        start = time.perf_counter()
        even = frame.transform(balance("key", workers, on_placed=placed.append))
        before.append(time.perf_counter() - start)
        moved(even)
        ours.append(time.perf_counter() - start)
        if turn == 0:
            plain, ours, before = [], [], []
    frame.unpersist()
    limit = FACTOR * min(plain) + EXTRA
    return {
        "part": "planning", "keys": keys, "workers": workers, "named": int(placed[-1].plan.keys.size),
        "repartition_seconds": min(plain), "balance_seconds": min(ours), "before_the_job": min(before),
        "limit_seconds": limit, "ok": min(ours) <= limit,
    }  # fmt: skip


def moved(frame: Any) -> None:
    """Move every row, and do nothing with it."""
    frame.write.format("noop").mode("overwrite").save()


def tables(rows: list[Row]) -> list[Table]:
    """Return one line per case."""
    columns = (
        "keys", "named in the plan", "workers", "repartition (s)", "balance (s)", "before its job (s)",
        "limit (s)", "ok",
    )  # fmt: skip
    names = (
        "keys", "named", "workers", "repartition_seconds", "balance_seconds", "before_the_job",
        "limit_seconds", "ok",
    )  # fmt: skip
    lines = [
        tuple(row[name] if name != "ok" else "yes" if row["ok"] else "no" for name in names) for row in rows
    ]
    return [Table("Planning many warm keys", columns, lines)]
