"""A thousand tiny micro-batches in a row: what one costs, and whether anything grows.

The same stream, 50 rows per batch, through Spark's ``repartition`` and through evenflow's operators, each in
one query. After every tenth of the batches: milliseconds and CPU milliseconds of a batch, and what there is
of memory (resident, of the JVM and of Python), threads of the JVM, and files of the checkpoint and the
control directory. Spark keeps the files of the last 100 batches, and for a minute a thread of each stage, so
only what comes after the first half counts as growth.
"""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.bench.measure import Progress, Row, processor_seconds, silent
from evenflow.bench.on_spark import folder, session
from evenflow.report.tables import Table
from evenflow.spark import Aggregator, aggregate, balance

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCHES, PARTS, ROWS, WORKERS = 1000, 10, 50, 2
SETTLED = 5  # tenths
GROWING = ("ms", "cpu_ms", "jvm_mb", "python_mb", "threads", "files")


class Count(Aggregator):
    """Counts rows."""

    buffer = "rows long"
    merges = {"rows": "sum"}  # noqa: RUF012

    def zero(self) -> Any:
        """Return the state of a key without rows."""
        return (0,)

    def reduce(self, state: Any, rows: Any) -> Any:
        """Add rows."""
        return (state[0] + rows.num_rows,)


def run(quick: bool, progress: Progress = silent) -> list[Row]:
    """Return a row for each query and tenth of its batches; ``quick`` runs a tenth of the batches."""
    part = BATCHES // PARTS // (10 if quick else 1)
    queries: dict[str, Callable[[DataFrame, str], DataFrame]] = {
        "repartition": lambda df, control: df.repartition(WORKERS, "k"),
        "balance": lambda df, control: balance(df, "k", workers=WORKERS, control=control),
        "balance, online": lambda df, control: balance(
            df, "k", workers=WORKERS, mode="online", order="as-is", control=control
        ),
        "aggregate": lambda df, control: aggregate(
            df, "k", Count(), "rows long", workers=WORKERS, control=control
        ),
    }
    found: list[Row] = []
    with session("local[2]", WORKERS) as spark:
        for number, (name, query) in enumerate(queries.items()):
            progress(number, len(queries), name)
            source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
            keyed = source.selectExpr("if(value % 2 = 0, 0, value % 100) as k", "value")
            found += [{"what": name, **row} for row in _tenths(keyed, query, part)]
    unit = {row["batches"]: row["cpu_ms"] for row in found if row["what"] == "repartition"}
    return [row | {"of_repartition": row["cpu_ms"] / unit[row["batches"]]} for row in found]


def _tenths(df: DataFrame, query: Callable[[DataFrame, str], DataFrame], part: int) -> list[Row]:
    """Run a query over all batches; return what there is after each tenth."""
    rows: list[Row] = []
    with folder() as path:
        writer = query(df, str(path / "control")).writeStream.format("noop").outputMode("update")
        running = writer.option("checkpointLocation", str(path / "checkpoint")).start()
        try:
            _until(running, part // 2)  # to warm up
            spent, first = processor_seconds(), _done(running)
            for tenth in range(1, PARTS + 1):
                _until(running, tenth * part)
                now, last = processor_seconds(), _done(running)
                recent = [batch["durationMs"]["triggerExecution"] for batch in running.recentProgress[-part:]]
                row = {"batches": tenth * part, "ms": statistics.median(recent),
                       "cpu_ms": 1000 * (now - spent) / (last - first)}  # fmt: skip
                files = sum(1 for file in path.rglob("*") if file.is_file())
                rows.append(row | _processes() | {"files": files})
                spent, first = now, last
        finally:
            running.stop()
    return rows


def _until(query: Any, batch: int) -> None:
    """Wait until a query has done so many batches."""
    while _done(query) < batch:
        if query.exception() is not None:
            raise query.exception()
        time.sleep(0.2)


def _done(query: Any) -> int:
    """Return the number of the last batch that is done."""
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


def _processes() -> Row:
    """Return memory and threads of the JVM and of the Python processes below this one; Linux only."""
    parents: dict[int, tuple[int, str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, _, rest = path.read_text().partition("(")[2].rpartition(")")
            parents[int(path.parent.name)] = int(rest.split()[1]), name
    own, added = {os.getpid()}, {os.getpid()}
    while added := {process for process, (parent, _) in parents.items() if parent in added} - own:
        own |= added
    found = dict.fromkeys(("jvm_mb", "python_mb", "threads"), 0.0)
    for process in own:
        with suppress(OSError):
            lines = Path(f"/proc/{process}/status").read_text().splitlines()
            status = dict(line.split(":", 1) for line in lines if ":" in line)
            java = parents[process][1] == "java"
            found["jvm_mb" if java else "python_mb"] += int(status.get("VmRSS", "0").split()[0]) / 1000
            found["threads"] += int(status["Threads"]) if java else 0
    return found


def figure(rows: Sequence[Row], path: Path) -> None:
    """Draw what a batch takes and what there is, over the batches."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(12, 6), layout="constrained")
    panels: Any = drawing.subplots(2, 3)
    shown = {
        "ms": "milliseconds of a batch",
        "cpu_ms": "CPU milliseconds of a batch",
        "jvm_mb": "memory of the JVM, MB",
        "python_mb": "memory of Python, MB",
        "threads": "threads of the JVM",
        "files": "files",
    }
    for panel, (column, label) in zip(panels.ravel(), shown.items(), strict=True):
        for what, group in itertools.groupby(rows, lambda row: row["what"]):
            own = list(group)
            panel.plot([row["batches"] for row in own], [row[column] for row in own], ".-", label=what)
        panel.set_title(label)
        panel.set_xlabel("micro-batches")
        panel.set_ylim(bottom=0)
    panels[0, 0].legend()
    drawing.savefig(path, dpi=90)


def tables(rows: list[Row]) -> list[Table]:
    """Return each query in its last tenth, and how much more that is than when it had settled."""
    cells = []
    for name, group in itertools.groupby(rows, lambda row: row["what"]):
        own = list(group)
        settled, last = own[SETTLED - 1], own[-1]
        growth = [last[column] / settled[column] for column in GROWING]
        cells.append((name, last["batches"], *(last[column] for column in GROWING), last["of_repartition"]))
        cells.append(("of that settled", "", *growth, ""))
    columns = (
        "what",
        "batches",
        "ms",
        "CPU ms",
        "JVM MB",
        "Python MB",
        "threads",
        "files",
        "CPU of repartition",
    )
    return [Table(f"Micro-batches of {ROWS} rows: the last tenth, and of what it was after half of them",
                  columns, cells)]  # fmt: skip
