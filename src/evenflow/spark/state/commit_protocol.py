"""One micro-batch of ``stateful`` on the driver, in six steps.

1. Open the table and compare it with the checkpoint (:mod:`evenflow.spark.state.continuity`). If the batch is
   already committed, go to step 5; if it does not follow the committed one, refuse it.
2. Workers process their rows and write state and output files with unique names. If there are many state
   files, the newest ones are merged into those that are written.
3. Collect the names, which only successful tasks report.
4. Commit the files, the batch number, the names of the outputs and the owners for the next batch.
5. Pass the staged outputs to the sink.
6. Sweep the files that were merged, and return, so that Spark commits the batch as well.

After a kill at any point, the next run finds either the previous batch or this one, complete. All it needs is
in the table and the control directory, never in this process, which on Spark Connect is a different one.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from evenflow.blob import write_blob
from evenflow.control.decisions import log_decisions
from evenflow.control.directory import OWNERS, Control
from evenflow.control.hot_keys import HotKeyNotes
from evenflow.errors import EvenflowError
from evenflow.owners import Ownership
from evenflow.spark.state.batch import Batch
from evenflow.spark.state.continuity import RequestedBatch, next_step, requested_batch
from evenflow.spark.state.lease import take_lease
from evenflow.spark.state.query_config import QueryConfig
from evenflow.spark.state.staged_outputs import ReadFiles
from evenflow.spark.state.table import Committed, StateTable
from evenflow.storage import Storage, open_storage

log = logging.getLogger("evenflow.spark.state")

Sink = Callable[[DataFrame, int], None]

_INTERRUPTED = "java.lang.InterruptedException"
# Spark searches the Python error for this, with a pattern that overflows the stack on a full Java stack trace
_STOPPED = f"py4j.protocol.Py4JJavaError: An error occurred while calling a batch.\n: {_INTERRUPTED}"


_UNWRITABLE = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES))


class StoppedError(Exception):
    """The query was stopped during a batch, which is replayed after a restart."""


class MicroBatches:
    """The function that Spark calls for every micro-batch."""

    def __init__(self, config: QueryConfig, sink: Sink):
        self.config = config
        self.sink = sink
        self._table: StateTable | None = None
        self._finished = 0.0
        self._began = 0.0  # the current batch
        self._requested: RequestedBatch | None = None  # the last batch that this process completed
        self._logged: set[str] | None = None  # identities of commits that are in the log
        self._hot_keys: HotKeyNotes | None = None
        self._plan_found = False
        self._planned: dict[str, Any] | None = None  # a plan to be written by `_look_after`
        self._counted: dict[str, int] = {}  # requests by place, at the last commit

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_table": None, "_requested": None}

    def table(self) -> StateTable:
        """Return the state table, opened once per process."""
        config = self.config
        lease = take_lease(config.root, config.token)
        if self._table is None or self._table.epoch != lease.epoch:
            table = StateTable(open_storage(config.root, "state"), config.state, config.keep, lease.epoch)
            if lease.contested:
                table.claim()
            self._table = table
            lease.on_beat = None if config.root.is_local else partial(self._look_after, table)
        return self._table

    def _look_after(self, table: StateTable) -> None:
        """Do beside the batches what no batch needs, in the thread that renews the lease."""
        table.look_after()
        header, self._planned = self._planned, None
        if header is not None:
            Control(self.config.control).storage.apart.put(OWNERS, write_blob("plan", header, {}))

    def __call__(self, df: DataFrame, batch: int) -> None:
        """Run one micro-batch; if the query is stopped meanwhile, raise an error that Spark recognises."""
        try:
            self._run(df, batch)
        except Exception as error:
            self._table = None  # what is committed is read again
            if _INTERRUPTED in str(error):
                raise StoppedError(_STOPPED) from None
            why = next((text for text in _UNWRITABLE if text in str(error)), None)
            if why is None or isinstance(error, EvenflowError):
                raise
            raise EvenflowError(
                f"batch {batch} cannot be written to the state at {self.config.root}: {why}. The state is "
                "that of the batch before; make room, or the directory writable, and start the query again."
            ) from error

    def _run(self, df: DataFrame, batch: int) -> None:
        self._began = time.monotonic()
        table = self.table()
        committed = table.committed
        requested = requested_batch(self.config, committed, batch, df.sparkSession, self._requested)
        step = next_step(self.config, committed, requested)
        if not self._finished:
            table.check_newest()
            table.sweep()  # not before the comparison: a rewind may need these files
        merged = None
        if step is None and committed is not None:
            check_staged(table.storage, committed)
        else:
            assert step is not None
            running = Batch(self.config, table, df, step, self.elapsed, self._requests)
            committed, merged = running.run(), running.merged
        assert committed is not None
        self._log_batch(committed, table, merged)
        self.emit(df.sparkSession, committed)
        if merged is not None:
            table.sweep()
        self._finished = time.monotonic()
        self._requested = requested

    @property
    def elapsed(self) -> float | None:
        """Seconds since this process finished the previous batch."""
        return time.monotonic() - self._finished if self._finished else None

    def _requests(self) -> int:
        """Return the requests to the stores since the commit before, with the commit to come."""
        places = (self.config.root, self.config.control)
        now = {str(place): open_storage(place).requests for place in places}
        made = sum(now.values()) - sum(self._counted.get(place, 0) for place in now)
        self._counted = now
        return made

    def emit(self, spark: SparkSession, committed: Committed) -> None:
        """Pass the staged outputs of a batch to the sink, for the first time or in a replay."""
        files = tuple((output["name"], output["bytes"]) for output in committed.outputs)
        if files:
            work = ReadFiles(self.config.root, files, self.config.output_arrow)
            outputs = spark.range(0, len(files), 1, len(files)).mapInArrow(work, self.config.output)
        else:
            outputs = spark.createDataFrame([], self.config.output)
        self.sink(outputs, committed.batch)

    def _log_batch(self, committed: Committed, table: StateTable, merged: dict[str, Any] | None) -> None:
        """Write a batch to the log, unless it was written before a kill."""
        control = Control(self.config.control)
        events = list[dict[str, Any]]()
        if self._logged is None:
            self._logged = {note.get("commit", "") for note in control.notes("batch")}
            events.append(
                {
                    "event": "started", "query": committed.query, "run": self.config.token,
                    "batch": committed.batch, "workers": committed.workers, "name": self.config.name,
                    "scheme": str(self.config.scheme),
                }
            )  # fmt: skip
        if committed.identity not in self._logged:
            self._logged = {committed.identity}
            events.append(self._batch_event(control, committed, table))
            if committed.gap is not None:
                log.warning("accept_gap: %s", committed.gap["why"])
            self._write_plan(control, committed)
            events += log_decisions(control, _decisions(committed))
            events += [] if merged is None else [merged]
        if events:
            control.note_all(events)

    def _batch_event(self, control: Control, committed: Committed, table: StateTable) -> dict[str, Any]:
        loads = committed.loads
        return {
            "event": "batch", "batch": committed.batch, "rows": loads["rows"],
            "keys": sum(loads["touched"]), "pairs": sum(loads["touched"]), "busy": loads["seconds"],
            "watermark": committed.watermark,
            "loads": {name: value for name, value in loads.items() if name not in ("hashed", "hot")},
            "commit": committed.identity, "query": committed.query, "hashed": loads.get("hashed"),
            "hot": self._hot(control, loads), "seconds": round(time.monotonic() - self._began, 6),
            "late": sum(loads["late"]), "state_keys": loads["state_keys"],
            "state_bytes": sum(file.bytes for file in table.footers.values()),
        }  # fmt: skip

    def _hot(self, control: Control, loads: dict[str, Any]) -> list[list[Any]]:
        """Return the hot keys of a batch for the log, with the time since which each has been hot."""
        if self._hot_keys is None:
            self._hot_keys = HotKeyNotes(control)
        hot = loads.get("hot", [])
        values = {key: value for key, _, _, *rest in hot for value in rest if value is not None}
        return self._hot_keys.of_batch([key[:3] for key in hot], values if self.config.log_values else None)

    def _has_plan(self, control: Control) -> bool:
        """Return whether there is a plan; in an object store, it is looked for once."""
        if not self._plan_found or control.location.is_local:
            self._plan_found = control.read(OWNERS, "plan") is not None
        return self._plan_found

    def _write_plan(self, control: Control, committed: Committed) -> None:
        """Write the plan for the next batch to the control directory if it is a new one, to be explained."""
        changed = any(decision["adopted"] for decision in committed.decisions) or not self._finished
        if changed or not self._has_plan(control):
            plan = Ownership.from_json(committed.ownership, self.config.scheme).plan
            header = {"serial": committed.batch, "workers": plan.workers, "plan": plan.to_json()}
            if self._finished and not (self.config.root.is_local or control.location.is_local):
                self._planned = header
            else:
                self._plan_found = control.write(OWNERS, "plan", header, {})


def _decisions(committed: Committed) -> list[dict[str, Any]]:
    """Return what was decided in a batch as events."""
    events = [{"event": "decision", **decision} for decision in committed.decisions]
    if committed.gap is not None:
        events.append({"event": "gap", "batch": committed.batch, **committed.gap})
    if committed.migration is not None:
        events.append({"event": "migration", **committed.migration})
    return events


def check_staged(storage: Storage, committed: Committed) -> None:
    """Refuse to replay a batch whose staged outputs are missing or truncated."""
    root = storage.location
    for output in committed.outputs:
        try:
            size: int | None = storage.size(output["name"])
        except FileNotFoundError:
            size = None
        if size != output["bytes"]:
            path, place = root / output["name"], str(root)
            found = "is missing" if size is None else f"has {size} bytes of {output['bytes']}"
            raise EvenflowError(
                f"batch {committed.batch} of the state at {root} has to be emitted again, but its staged "
                f"output {path} {found}; restore it from a backup, or call rewind_state({place!r}, "
                f"batch={committed.batch - 1}) to process the batch again."
            )
