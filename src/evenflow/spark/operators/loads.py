"""`loads`: rows per worker, memory, hot keys with their homes, and fallbacks of a run or a query."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from evenflow.control.directory import Control
from evenflow.errors import EvenflowError
from evenflow.spark.replanning.batch_stats import BatchStats
from evenflow.spark.replanning.listener import CONTROLS, OBSERVATION_PREFIX
from evenflow.spark.routing.key_columns import Key, key_hash, key_label, key_struct, with_keys

_BAR_WIDTH = 30
_REPORTS = 20  # of the last batches
_TASKS = 32  # that count keys; Spark's 200 take longer to start than a small frame takes to count


@dataclass(frozen=True)
class HotKey:
    """A hot key, its rows and the workers that have them."""

    key: str  # its value; its hash if no batch has shown the value, or values are not to be logged
    rows: int
    homes: list[int]
    since: float | None = field(default=None, compare=False)  # seconds since the epoch, in a stream
    hash: str | None = field(default=None, compare=False)  # as `evenflow.hash_keys` gives it, in a stream


@dataclass(frozen=True)
class Loads:
    """The load of each worker in a run, or in the last micro-batch of a query."""

    rows: list[int]
    keys: int
    pairs: int
    hot: list[HotKey] = field(default_factory=list)
    fallbacks: int = 0
    busy: list[float] | None = None  # seconds per worker, if measured
    batch: int | None = None
    reports: list[dict[str, Any]] = field(default_factory=list, compare=False)  # to online routers, by batch

    @property
    def workers(self) -> int:
        """Number of workers."""
        return len(self.rows)

    @property
    def max_over_mean(self) -> float:
        """Load of the fullest worker, relative to the mean."""
        return max(self.rows) * self.workers / max(1, sum(self.rows))

    @property
    def imbalance(self) -> float:
        """Excess of the fullest worker over the mean, as a fraction of all rows."""
        return (self.max_over_mean - 1) / self.workers

    @property
    def memory(self) -> float:
        """Key-worker pairs per key; 1 for key grouping."""
        return self.pairs / max(1, self.keys)

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return one row per worker: its number, rows, rows relative to the mean, and busy seconds."""
        mean = max(sum(self.rows) / self.workers, 1e-300)
        busy: list[float | None] = list(self.busy) if self.busy else [None] * self.workers
        lines = [
            (worker, rows, rows / mean, seconds)
            for worker, (rows, seconds) in enumerate(zip(self.rows, busy, strict=True))
        ]
        return spark.createDataFrame(lines, "worker int, rows long, of_mean double, busy_seconds double")

    def table(self, max_workers: int = 16) -> Table:
        """Return a table for a terminal: a summary, the fullest and the emptiest workers, the hot keys."""
        table = Table(title=self.summary(), title_justify="left", caption=self._hot_lines() or None)
        table.caption_justify = "left"
        for name in ("worker", "rows", "of mean", *(("busy s",) if self.busy else ())):
            table.add_column(name, justify="right")
        table.add_column("")
        mean = max(sum(self.rows) / self.workers, 1e-300)
        order = sorted(range(self.workers), key=lambda worker: (-self.rows[worker], worker))
        half = max_workers // 2
        shown = order if len(order) <= max_workers else [*order[:half], -1, *order[-half:]]
        for worker in shown:
            if worker < 0:
                table.add_row("...")
                continue
            bar = "█" * round(_BAR_WIDTH * self.rows[worker] / max(1, *self.rows))
            busy = (f"{self.busy[worker]:.2f}",) if self.busy else ()
            table.add_row(
                str(worker), f"{self.rows[worker]:,}", f"{self.rows[worker] / mean:.3f}", *busy, bar
            )
        return table

    def summary(self) -> str:
        """Return a summary in one line."""
        batch = "" if self.batch is None else f"batch {self.batch}: "
        fallbacks = f", {self.fallbacks} fallbacks" if self.fallbacks else ""
        copies = (
            f"; {self.keys:,} keys, {self.pairs:,} key-worker pairs (memory {self.memory:.2f})"
            if self.keys
            else ""
        )
        return (
            f"{batch}{sum(self.rows):,} rows on {self.workers} workers, fullest at {self.max_over_mean:.3f} "
            f"of the mean{copies}{fallbacks}"
        )

    def to_json(self) -> str:
        """Return everything as one JSON object."""
        ratios = {"max_over_mean": self.max_over_mean, "imbalance": self.imbalance, "memory": self.memory}
        return json.dumps({**asdict(self), **ratios})

    def _repr_html_(self) -> str:
        """Show the loads in a notebook."""
        from evenflow.charts import notebook

        hot = [(key.key, key.rows, ", ".join(map(str, key.homes[:8]))) for key in self.hot]
        return notebook.card(
            self.summary(),
            notebook.bars(self.rows, "Rows per worker"),
            notebook.bars(self.busy, "Busy seconds per worker") if self.busy else "",
            notebook.table(("hot key", "rows", "workers"), hot) if hot else "",
        )

    def __str__(self) -> str:
        text = io.StringIO()
        Console(file=text, width=100).print(self.table())
        return text.getvalue()

    def _hot_lines(self) -> str:
        lines = []
        for hot in self.hot:
            homes = ", ".join(map(str, hot.homes[:8])) + (
                f", ... ({len(hot.homes)} in total)" if len(hot.homes) > 8 else ""
            )
            lines.append(f"{hot.key}: {hot.rows:,} rows on {homes or 'the home of their bucket'}")
        return "\n".join(lines)


def loads(
    of: DataFrame | Any,
    key: Key | None = None,
    *,
    workers: int | None = None,
    control: str | Path | None = None,
    top: int = 10,
) -> Loads:
    """Measure the load of each worker.

    Parameters
    ----------
    of : DataFrame, StreamingQuery, str or Path
        A balanced DataFrame, whose rows are counted; a streaming query balanced by evenflow, for its last
        non-empty batch; or a control directory, for the last batch in its log.
    key : str, Column or list of them, optional
        The key that a DataFrame was balanced by.
    workers : int, optional
        Number of partitions of a DataFrame. Without it, trailing empty partitions are missed.
    control : str or Path, optional
        Also write the loads of a DataFrame to the log of this control directory.
    top : int
        Maximum number of hot keys.

    Returns
    -------
    Loads
        Rows and busy seconds per worker, numbers of keys, hot keys and their workers. Prints as a table.

    Examples
    --------
    >>> from evenflow.spark import loads
    >>> found = loads(df.repartition(4, "user_id"), "user_id", workers=4)
    >>> sum(found.rows), found.workers, found.memory
    (10000, 4, 1.0)
    """
    if isinstance(of, str | Path):
        return _from_log(Control(of))
    if not isinstance(of, DataFrame):
        if not hasattr(of, "recentProgress"):
            raise EvenflowError(
                f"loads cannot measure {of!r}; pass a DataFrame, a query or a control directory."
            )
        return _from_query(of)
    if of.isStreaming:
        raise EvenflowError("this DataFrame is a stream; pass the query that start() returned.")
    if key is None:
        raise EvenflowError("key is None; pass the key that the DataFrame was balanced by.")
    found = _from_frame(of, key, workers, top)
    if control is not None:
        Control(control).note("run", **json.loads(found.to_json()))
    return found


def _from_frame(df: DataFrame, key: Key, workers: int | None, top: int) -> Loads:
    keyed, keys = with_keys(df, key)
    value = F.expr(key_struct(keys))
    pairs = (
        keyed.select(
            F.spark_partition_id().alias("worker"), F.expr(key_hash(keys)).alias("hash"), value.alias("key")
        )
        .groupBy("worker", "hash")
        .agg(F.count(F.lit(1)).alias("rows"), F.first("key").alias("key"))
        .coalesce(_TASKS)
        .persist()
    )
    try:
        per_worker = pairs.groupBy("worker").agg(F.sum("rows").alias("rows"), F.count("*").alias("pairs"))
        by_worker = {row["worker"]: row for row in per_worker.collect()}
        per_key = pairs.groupBy("hash").agg(
            F.sum("rows").alias("rows"),
            F.sort_array(F.collect_list("worker")).alias("homes"),
            F.first("key").alias("key"),
        )
        distinct = per_key.count()
        hottest = per_key.orderBy(F.desc("rows"), "hash").limit(top)
        hot = hottest.select("rows", "homes", F.to_json("key").alias("key")).collect()
    finally:
        pairs.unpersist()
    workers = max([workers or 1, *(worker + 1 for worker in by_worker)])
    total = sum(row["rows"] for row in by_worker.values())
    return Loads(
        rows=[int(by_worker[worker]["rows"]) if worker in by_worker else 0 for worker in range(workers)],
        keys=distinct,
        pairs=sum(int(row["pairs"]) for row in by_worker.values()),
        hot=[
            HotKey(key_label(row["key"]), int(row["rows"]), list(row["homes"]))
            for row in hot
            if len(row["homes"]) > 1 or row["rows"] * workers * 4 >= total
        ],
    )


def _from_query(query: Any) -> Loads:
    for progress in reversed(query.recentProgress):
        for name, row in (progress.observedMetrics or {}).items():
            if name.startswith(OBSERVATION_PREFIX):
                stats = BatchStats.from_row(row, int(progress.batchId))
                if stats.total:
                    return _from_stats(stats, CONTROLS.get(name))
    raise EvenflowError("this query has not finished a batch with rows placed by evenflow; wait for one.")


def _from_stats(stats: BatchStats, control: Control | None) -> Loads:
    """Return the loads of a batch from the log, or from Spark's metrics if it is not logged yet."""
    notes = list(control.notes()) if control is not None else []
    logged = [note for note in notes if note["event"] == "batch" and note.get("batch") == stats.batch]
    return _from_note(logged[-1] if logged else stats.summary(None), notes)


def _from_log(control: Control) -> Loads:
    """Return the loads of the last batch or run in a log."""
    notes = list(control.notes())
    wanted = [note for note in notes if note["event"] in ("batch", "run")]
    if not wanted:
        wanted = [_without_counts(note) for note in notes if note["event"] == "busy"]
    if not wanted:
        raise EvenflowError(
            f"there is no batch in the log of {control.location}; wait for one, or check the path."
        )
    return _from_note(wanted[-1], notes)


def _without_counts(note: dict[str, Any]) -> dict[str, Any]:
    """Return the note of a batch for which only busy times are known."""
    return {"batch": note["batch"], "rows": [], "keys": 0, "pairs": 0}


def _busy_by_worker(notes: list[dict[str, Any]], batch: int | None) -> dict[int, dict[str, Any]]:
    """Return the last report of each worker in a batch, from the last run with reports."""
    reports = [note for note in notes if note["event"] == "busy" and note.get("batch") == batch]
    return {note["worker"]: note for note in reports if note.get("run") == reports[-1].get("run")}


def _hot_key(
    key: str, rows: int, homes: list[int], since: float | None = None, value: str | None = None
) -> HotKey:
    """Return a hot key as the log of a stream has it (:mod:`evenflow.control.hot_keys`)."""
    return HotKey(key if value is None else value, rows, homes, since, key)


def _from_note(note: dict[str, Any], notes: list[dict[str, Any]]) -> Loads:
    hot = [
        _hot_key(*saved) if isinstance(saved, list) else HotKey(**saved) for saved in note.get("hot") or []
    ]
    busy = _busy_by_worker(notes, note.get("batch"))
    rows = [int(rows) for rows in note["rows"]]
    if not rows:
        rows = [busy[worker]["rows"] if worker in busy else 0 for worker in range(max(busy) + 1)]
    seconds = [float(busy[worker]["seconds"]) if worker in busy else 0.0 for worker in range(len(rows))]
    return Loads(
        rows=rows,
        keys=int(note["keys"]),
        pairs=int(note["pairs"]),
        hot=hot,
        fallbacks=sum(note["event"] == "fallback" for note in notes),
        busy=seconds if busy else note.get("busy"),
        batch=note.get("batch"),
        reports=[note for note in notes if note["event"] == "report"][-_REPORTS:],
    )
