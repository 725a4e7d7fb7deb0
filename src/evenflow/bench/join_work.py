"""Joins on Spark, each computed in every way: seconds, rows of the fullest task, and bytes shuffled.

**Work**: 100 microseconds of waiting for every joined row, 32 tasks on 16 slots. **Bare**: nothing after the
join, on two cores; the CPU time of the JVM beside wall time. **Kinds**: rows out of the fullest task for
every kind of join.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from evenflow.bench.join_tables import DEFAULTS, NO_BROADCAST, SHARE, Way, tables, ways
from evenflow.bench.measure import Progress, Row, processor_seconds, silent
from evenflow.bench.on_spark import NOT_COALESCED, drain, session
from evenflow.bench.results import Columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

WORKERS = 32
SLOTS = 16
SLEEP = 1e-4
SHARE_OF_PAIRS = 0.75  # joined rows of the key that is hot on both sides, of the rows of the left
BARE_PAIRS = 13.5  # the same where no work follows
BOTH = "both sides hot"
LIVE = {"spark.ui.liveUpdate.period": "0"}  # so that Spark counts shuffled bytes at once
UNITS = {
    "of_plain": "plain",
    "of_tuned": "adaptive, tuned",
    "of_forced": "adaptive, tuned and forced",
    "of_salting": "salting the hot key",
}
CASES = ("inner", "full outer", "right aggregated", "three tables", BOTH, "no skew")
SHOWN = ("case", "what", "seconds", ("of plain", "of_plain"), ("max/mean", "max_over_mean"), "shuffled_mb")
COLUMNS: dict[str, Columns] = {
    "work": ("100 microseconds of waiting for every joined row", SHOWN),
    "bare": (
        "Nothing after the join",
        (*SHOWN[:4], "cpu_seconds", ("CPU of plain", "cpu_of_plain"), "shuffled_mb"),
    ),
    "kinds": (
        "Every kind of join: rows of the fullest task",
        ("case", "what", ("max/mean", "max_over_mean")),
    ),
}


def sleep_for_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Wait for every row of a task; return the number of rows."""
    import pyarrow as pa

    rows = 0
    for batch in batches:
        rows += batch.num_rows
        time.sleep(batch.num_rows * SLEEP)
    yield pa.record_batch({"rows": pa.array([rows], pa.int64())})


def count_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the number of rows of a task."""
    import pyarrow as pa

    yield pa.record_batch({"rows": pa.array([sum(batch.num_rows for batch in batches)], pa.int64())})


def work(quick: bool, progress: Progress = silent, cases: Iterable[str] = CASES) -> Iterator[list[Row]]:
    """Measure the cases with work after the join; yield the rows of each."""
    size = 40_000 if quick else 400_000
    with session(f"local[{SLOTS}]", WORKERS, **NO_BROADCAST, **NOT_COALESCED, **LIVE) as spark:
        for case in cases:
            rounds = 3 if case == "inner" and not quick else 1  # there the differences are small
            pairs = int((size * 3 * SHARE_OF_PAIRS) ** 0.5) if case == BOTH else 0
            with tables(spark, size, size // 4, _hot(case), pairs) as frames:
                found = _measured(spark, "work", case, ways(*frames, case, WORKERS), rounds, _tasks, progress)
            yield found


def bare(quick: bool, progress: Progress = silent) -> list[Row]:
    """Measure joins with nothing after them."""
    size, rounds = (400_000, 2) if quick else (4_000_000, 6)
    found: list[Row] = []
    with session("local[2]", WORKERS, **NO_BROADCAST, **LIVE) as spark:
        for case in ("inner", BOTH, "no skew"):
            pairs = int((size * 3 * BARE_PAIRS) ** 0.5) if case == BOTH else 0
            with tables(spark, size, size // 4, _hot(case), pairs) as frames:
                wanted = ("plain", "evenflow, plan given", "evenflow, counting")
                chosen = [way for way in ways(*frames, case, WORKERS) if way.name in wanted]
                found += _measured(spark, "bare", case, chosen, rounds, _drained, progress)
    return found


def kinds(quick: bool, progress: Progress = silent) -> list[Row]:
    """Return the rows of the fullest task for every kind of join, and for plain Spark."""
    from evenflow.plan.join_build import KINDS
    from evenflow.spark import join

    size = 40_000 if quick else 400_000
    found: list[Row] = []
    with session("local[2]", WORKERS, **NO_BROADCAST) as spark, tables(spark, size, size // 4) as frames:
        left, right, _ = frames
        spark.conf.set("spark.sql.adaptive.enabled", "false")
        if_kept = right.where("k % 2 = 0 or k = 7"), right.where("k % 2 = 0 and k != 7")
        for number, how in enumerate(KINDS):
            progress(number, len(KINDS), f"kinds, {how}")
            other = if_kept[1] if how == "left_anti" else if_kept[0]
            for name, joined in {
                "plain": left.join(other, "k", how),
                "evenflow": join(left, other, "k", how, WORKERS),
            }.items():
                rows = [row["rows"] for row in joined.mapInArrow(count_rows, "rows long").collect()]
                found.append({"part": "kinds", "case": how, "what": name, "max_over_mean": _uneven(rows)})
    return found


def _hot(case: str) -> float:
    return 0.0 if case == "no skew" else SHARE


def _tasks(joined: DataFrame) -> list[int]:
    """Compute the work of every task; return its rows."""
    return [row["rows"] for row in joined.mapInArrow(sleep_for_rows, "rows long").collect()]


def _drained(joined: DataFrame) -> list[int]:
    drain(joined)
    return []


def _uneven(rows: Sequence[int]) -> float:
    """Return the rows of the fullest task in those of a worker's share."""
    return max(rows, default=0) * WORKERS / max(1, sum(rows))


def _measured(
    spark: SparkSession, part: str, case: str, found: Sequence[Way], rounds: int,
    compute: Callable[[DataFrame], list[int]], progress: Progress,
) -> list[Row]:  # fmt: skip
    """Run every way in turn after a warm-up; return a row for each, with medians of ratios within a round."""
    runs: dict[str, list[Row]] = {way.name: [] for way in found}
    for turn in range(rounds + 1):
        for index, way in enumerate(found):
            done, total = turn * len(found) + index, (rounds + 1) * len(found)
            progress(done, total, f"{part}, {case}, {way.name}")
            for name, value in (DEFAULTS | way.settings).items():
                spark.conf.set(name, value)
            shuffled, spent, start = _shuffled(spark), processor_seconds(), time.perf_counter()
            rows = compute(way.join())
            run: Row = {"seconds": time.perf_counter() - start, "cpu": processor_seconds() - spent}
            run |= {"shuffled": _shuffled(spark) - shuffled, "max_over_mean": _uneven(rows)}
            if turn:
                runs[way.name].append(run)
    return [
        {
            "part": part,
            "case": case,
            "what": name,
            "seconds": statistics.median(run["seconds"] for run in own),
            "cpu_seconds": statistics.median(run["cpu"] for run in own),
            "cpu_of_plain": _ratio(own, runs["plain"], "cpu"),
            "max_over_mean": max(run["max_over_mean"] for run in own),
            "shuffled_mb": statistics.median(run["shuffled"] for run in own) / 1e6,
            **{field: _ratio(own, runs[unit], "seconds") for field, unit in UNITS.items() if unit in runs},
        }
        for name, own in runs.items()
    ]


def _ratio(own: Sequence[Row], unit: Sequence[Row], value: str) -> float:
    return statistics.median(a[value] / b[value] for a, b in zip(own, unit, strict=True))


def _shuffled(spark: Any) -> int:
    """Return the bytes that all tasks have written for shuffles so far."""
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    executors = context.statusStore().executorList(True)
    return int(sum(executors.apply(number).totalShuffleWrite() for number in range(executors.size())))
