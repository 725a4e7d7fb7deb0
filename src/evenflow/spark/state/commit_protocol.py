"""What happens in one micro-batch of ``stateful``, on the driver, in six steps.

1. Open the table and compare it with the checkpoint (:mod:`evenflow.spark.state.continuity`). If the batch is
   committed already, go to 5; if it is not the one that follows, refuse.
2. Workers process their rows and write state and output files under names of their own.
3. Collect the names: only tasks that succeeded appear.
4. Commit: the files, the batch's number, the outputs' names, the owners for the next batch.
5. Hand the staged outputs to the sink.
6. Return, so that Spark commits the batch too; before that, files are merged if they have become many.

Killed at any point, the next run finds either the batch before or this one, whole. What it needs is in the
table and the control directory, never in this process: on Spark Connect it is another one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from evenflow.errors import EvenflowError
from evenflow.owners import Ownership
from evenflow.spark.monitoring.control_dir import Control
from evenflow.spark.state.batch import Batch, collect, idle
from evenflow.spark.state.compaction import Merge, needed_by, runs_to_merge
from evenflow.spark.state.continuity import Asked, asked_for, next_step
from evenflow.spark.state.lock import take_lock
from evenflow.spark.state.owner_lookup import Owners
from evenflow.spark.state.query_config import QueryConfig
from evenflow.spark.state.table import Committed, StateTable

log = logging.getLogger("evenflow.spark")

Sink = Callable[[DataFrame, int], None]

DECISIONS = "decisions"  # the folder with the log of decisions
_INTERRUPTED = "java.lang.InterruptedException"
# Spark looks for this in what Python raised, with a pattern that needs too much stack for a whole Java trace
_STOPPED = f"py4j.protocol.Py4JJavaError: An error occurred while calling a batch.\n: {_INTERRUPTED}"


class StoppedError(Exception):
    """The query was stopped in the middle of a batch; the batch is done again when it starts."""


class MicroBatches:
    """The function that Spark calls for every micro-batch."""

    def __init__(self, config: QueryConfig, sink: Sink):
        self.config = config
        self.sink = sink
        self._table: StateTable | None = None
        self._finished = 0.0
        self._asked: Asked | None = None  # the batch that this process did last
        self._told: set[str] | None = None  # commits that are in the log

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_table": None, "_asked": None}

    def table(self) -> StateTable:
        """Return the state's table, opened once per process."""
        root = Path(self.config.root)
        take_lock(root, self.config.token)
        if self._table is None:
            self._table = StateTable(root, self.config.state, self.config.keep)
        return self._table

    def __call__(self, df: DataFrame, batch: int) -> None:
        """Do one micro-batch; if the query is stopped meanwhile, say so in a way that Spark understands."""
        try:
            self._run(df, batch)
        except Exception as error:
            if _INTERRUPTED in str(error):
                raise StoppedError(_STOPPED) from None
            raise

    def _run(self, df: DataFrame, batch: int) -> None:
        table = self.table()
        table.refresh()
        committed = table.committed
        asked = asked_for(self.config, committed, batch, df.sparkSession, self._asked)
        step = next_step(self.config, committed, asked)
        if not self._finished:
            table.sweep()  # not before: what does not belong together may have to go back
        if step is not None:
            table.sweep_outputs(step.batch)
            committed = Batch(self.config, table, df, step, self.elapsed).run()
        assert committed is not None
        self._tell(committed)
        self.emit(df.sparkSession, committed)
        self.merge(df.sparkSession, table)
        self._finished = time.monotonic()
        self._asked = asked

    @property
    def elapsed(self) -> float | None:
        """Seconds since the batch before was finished, in this process."""
        return time.monotonic() - self._finished if self._finished else None

    def emit(self, spark: SparkSession, committed: Committed) -> None:
        """Hand the staged outputs of a batch to the sink, the first time or again."""
        root = Path(self.config.root)
        check_staged(root, committed)
        paths = [str(root / output["name"]) for output in committed.outputs]
        if paths:
            outputs = spark.read.schema(self.config.output).parquet(*paths)
        else:
            outputs = spark.createDataFrame([], self.config.output)
        self.sink(outputs, committed.batch)

    def merge(self, spark: SparkSession, table: StateTable) -> None:
        """Merge state files if they have become many, and sweep."""
        files = table.files()
        chosen = runs_to_merge(files)
        committed = table.committed
        if not chosen or committed is None:
            return
        owners = Owners.of(Ownership.from_json(committed.ownership, self.config.scheme).plan)
        work = Merge(
            self.config.root,
            tuple(self.config.state.key_names),
            tuple(chosen),
            needed_by(chosen, owners),
            owners,
            forget=len(chosen) == len(files),
        )
        reports = collect(idle(spark, owners.workers, work), table)
        merged = [report.state for report in reports if report.state is not None]
        table.commit(committed, merged, chosen)
        swept = table.sweep()
        Control(self.config.control).note(
            "merged", batch=committed.batch, files=len(chosen), into=len(merged),
            rows=sum(file.rows for file in chosen), left=sum(file.rows for file in merged), swept=swept,
        )  # fmt: skip

    def _tell(self, committed: Committed) -> None:
        """Write a batch to the logs, unless that was done before a kill."""
        control = Control(self.config.control)
        loads = committed.loads
        if self._told is None:
            self._told = {note.get("commit", "") for note in control.notes("batch")}
        if committed.identity in self._told:
            return
        self._told = {committed.identity}
        control.note(
            "batch", batch=committed.batch, rows=loads["rows"], keys=sum(loads["touched"]),
            pairs=sum(loads["touched"]), busy=loads["seconds"], loads=loads, watermark=committed.watermark,
            commit=committed.identity,
        )  # fmt: skip
        decisions = Control(Path(self.config.control) / DECISIONS)
        for decision in committed.decisions:
            decisions.note("decision", **decision)
        if committed.gap is not None:
            decisions.note("gap", batch=committed.batch, **committed.gap)
            control.note("gap", batch=committed.batch, **committed.gap)
            log.warning("accept_gap: %s", committed.gap["why"])
        if committed.migration is not None:
            decisions.note("migration", **committed.migration)


def check_staged(root: Path, committed: Committed) -> None:
    """Refuse to emit a batch again whose staged outputs are not what was committed."""
    for output in committed.outputs:
        path = root / output["name"]
        size = path.stat().st_size if path.exists() else None
        if size != output["bytes"]:
            found = "is missing" if size is None else f"has {size} bytes of {output['bytes']}"
            raise EvenflowError(
                f"batch {committed.batch} of the state at {root} is to be emitted again, and its staged "
                f"output {path} {found}; restore it from a copy, or call rewind_state({str(root)!r}, "
                f"batch={committed.batch - 1}) to process the batch again."
            )
