"""What happens in one micro-batch of ``stateful``, on the driver, in six steps.

1. Open the table. If the batch is committed already, go to 5; if a later one is, refuse.
2. Workers process their rows and write state and output files under names of their own.
3. Collect the names: only tasks that succeeded appear.
4. Commit: the files, the batch's number, the outputs' names, the owners for the next batch.
5. Hand the staged outputs to the sink.
6. Return, so that Spark commits the batch too; before that, files are merged if they have become many.

Killed at any point, the next run finds either the batch before or this one, whole. What it needs is in the
table and the control directory, never in this process: on Spark Connect it is another one.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from evenflow.errors import EvenflowError
from evenflow.owners.sizing import Sizing
from evenflow.plan import Plan
from evenflow.schemes.base import Scheme
from evenflow.spark.clock import Time
from evenflow.spark.control import Control
from evenflow.spark.homes import Owners
from evenflow.spark.keyed_processor import KeyedProcessor
from evenflow.spark.lookup import with_worker
from evenflow.spark.merging_files import Merge, needed_by, runs_to_merge
from evenflow.spark.ownership import AutoWorkers, Decision, Measured, Ownership
from evenflow.spark.slices import Batches, Layout
from evenflow.spark.state_files import DamagedFile, StateFile
from evenflow.spark.state_layout import StateLayout
from evenflow.spark.state_lock import take_lock
from evenflow.spark.state_table import Committed, StateTable
from evenflow.spark.working import Work

log = logging.getLogger("evenflow.spark")

Sink = Callable[[DataFrame, int], None]

RESCALE = "rescale"  # the file with the last request for another number of workers
DECISIONS = "decisions"  # the folder with the log of decisions
HOTTEST = 1024  # keys that the loop is told of
_DONE = "done string"


@dataclass(frozen=True)
class Setting:
    """What the caller of ``stateful`` asked for, checked; goes to other processes as it is."""

    root: str
    token: str  # of this run
    control: str
    checkpoint: str
    processor: KeyedProcessor
    layout: Layout  # of the frame's columns, which have numbers for names; the hash is the first key
    state: StateLayout
    output: T.StructType
    output_arrow: pa.Schema
    scheme: Scheme
    workers: int
    auto: AutoWorkers | None
    seed: int
    speeds: str | None
    alpha: float | None
    order_by: tuple[int, ...]
    event_time: int | None
    delay: int  # microseconds
    late: str
    keep: float  # seconds
    beat: int | None  # the column that marks heartbeats

    @property
    def name(self) -> str:
        """The processor's name."""
        return type(self.processor).__name__

    @property
    def asked(self) -> Any:
        """The number of workers as the caller gave it, to see a change after a restart."""
        return self.workers if self.auto is None else repr(self.auto)


class MicroBatches:
    """The function that Spark calls for every micro-batch."""

    def __init__(self, setting: Setting, sink: Sink):
        self.setting = setting
        self.sink = sink
        self._table: StateTable | None = None
        self._finished = 0.0
        self._told: int | None = None  # the last batch in the log

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_table": None}

    def table(self) -> StateTable:
        """Return the state's table, opened once per process."""
        root = Path(self.setting.root)
        take_lock(root, self.setting.token)
        if self._table is None:
            self._table = StateTable(root, self.setting.state, self.setting.keep)
            self._table.sweep()
        return self._table

    def __call__(self, df: DataFrame, batch: int) -> None:
        """Do one micro-batch."""
        table = self.table()
        table.refresh()
        committed = table.committed
        check_sequence(committed, batch, self.setting)
        if committed is None or committed.batch < batch:
            table.sweep_outputs(batch)
            committed = Batch(self, table, df, batch).run()
        self._tell(committed)
        self.emit(df.sparkSession, committed)
        self.merge(df.sparkSession, table)
        self._finished = time.monotonic()

    @property
    def elapsed(self) -> float | None:
        """Seconds since the batch before was finished, in this process."""
        return time.monotonic() - self._finished if self._finished else None

    def emit(self, spark: SparkSession, committed: Committed) -> None:
        """Hand the staged outputs of a batch to the sink, the first time or again."""
        paths = [str(Path(self.setting.root) / name) for name in committed.outputs]
        if paths:
            outputs = spark.read.schema(self.setting.output).parquet(*paths)
        else:
            outputs = spark.createDataFrame([], self.setting.output)
        self.sink(outputs, committed.batch)

    def merge(self, spark: SparkSession, table: StateTable) -> None:
        """Merge state files if they have become many, and sweep."""
        files = table.files()
        chosen = runs_to_merge(files)
        committed = table.committed
        if not chosen or committed is None:
            return
        owners = Owners.of(Ownership.from_json(committed.ownership, self.setting.scheme).plan)
        work = Merge(
            self.setting.root,
            tuple(self.setting.state.key_names),
            tuple(chosen),
            needed_by(chosen, owners),
            owners,
            forget=len(chosen) == len(files),
        )
        done = collect(idle(spark, owners.workers, work), table)
        merged = [StateFile(**one["state"]) for one in done if one["state"] is not None]
        table.commit(committed, merged, chosen)
        swept = table.sweep()
        Control(self.setting.control).note(
            "merged", batch=committed.batch, files=len(chosen), into=len(merged),
            rows=sum(file.rows for file in chosen), left=sum(file.rows for file in merged), swept=swept,
        )  # fmt: skip

    def _tell(self, committed: Committed) -> None:
        """Write a batch to the logs, unless that was done before a kill."""
        control = Control(self.setting.control)
        loads = committed.loads
        if self._told is None:
            self._told = max((note.get("batch", -1) for note in control.notes("batch")), default=-1)
        if self._told >= committed.batch:
            return
        self._told = committed.batch
        control.note(
            "batch", batch=committed.batch, rows=loads["rows"], keys=sum(loads["touched"]),
            pairs=sum(loads["touched"]), busy=loads["seconds"], loads=loads, watermark=committed.watermark,
        )  # fmt: skip
        decisions = Control(Path(self.setting.control) / DECISIONS)
        for decision in committed.decisions:
            decisions.note("decision", **decision)
        if committed.migration is not None:
            decisions.note("migration", **committed.migration)


def check_sequence(committed: Committed | None, batch: int, setting: Setting) -> None:
    """Refuse a batch that cannot follow what is committed."""
    if committed is None:
        return
    query = query_id(setting.checkpoint)
    if query is not None and committed.query is not None and query != committed.query:
        raise EvenflowError(
            f"the state at {setting.root} belongs to another query ({committed.query}, now at batch "
            f"{committed.batch}), whose checkpoint is not {setting.checkpoint}; start with its checkpoint, "
            "or give this query a state path of its own."
        )
    if committed.batch > batch:
        raise EvenflowError(
            f"the state at {setting.root} is at batch {committed.batch}, and Spark asks for batch {batch} "
            f"again: the checkpoint {setting.checkpoint} is older than the state; restore the two together."
        )


def query_id(checkpoint: str) -> str | None:
    """Return the id that Spark gave a query, from its checkpoint; None if that cannot be read here."""
    try:
        return str(json.loads((Path(checkpoint) / "metadata").read_text())["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


class Batch:
    """One micro-batch that is not committed yet: steps 2 to 4."""

    def __init__(self, batches: MicroBatches, table: StateTable, df: DataFrame, batch: int):
        self.batches = batches
        self.setting = batches.setting
        self.table = table
        self.df = df
        self.batch = batch
        self.last = table.committed
        self.decision: Decision | None = None

    def run(self) -> Committed:
        """Process, collect, commit."""
        before, ownership, rescaled = self._owners()
        plan = ownership.plan
        files = self.table.files()
        clock = self._clock()
        work = self._work(plan, before, files, clock)
        done = self._process(work, plan)
        committed = self._committed(done, ownership, plan, before, rescaled, clock)
        self.table.commit(committed, [StateFile(**one["state"]) for one in done if one["state"] is not None])
        return committed

    def _owners(self) -> tuple[Plan | None, Ownership, int]:
        """Return the plan that the batch before ran with, the owners now, and the last request followed."""
        setting, last = self.setting, self.last
        if last is None:
            ownership = Ownership.start(
                setting.scheme, setting.workers, seed=setting.seed, auto=setting.auto, speeds=setting.speeds,
                alpha=setting.alpha,
            )  # fmt: skip
            before, rescaled = None, 0
        else:
            ownership = Ownership.from_json(last.ownership, setting.scheme)
            before, rescaled = Plan.from_json(last.plan) if last.plan else ownership.plan, last.rescaled
            if last.asked != setting.asked:
                ownership.sizing = None if setting.auto is None else Sizing(setting.auto)
                self._rescale(ownership, setting.workers if setting.auto is None else ownership.workers)
        asked = Control(setting.control).read(RESCALE, RESCALE)
        if asked is not None and int(asked[0]["serial"]) > rescaled:
            rescaled = int(asked[0]["serial"])
            self._rescale(ownership, int(asked[0]["workers"]))
        return before, ownership, rescaled

    def _rescale(self, ownership: Ownership, workers: int) -> None:
        if workers != ownership.workers:
            self.decision = replace(ownership.rescale(workers), batch=self.batch)

    def _clock(self) -> Time:
        setting, last = self.setting, self.last
        watermark = None if last is None else last.watermark
        if setting.processor.clock == "event":
            now = watermark
        else:
            now = max(time.time_ns() // 1000, (last and last.now) or 0)  # never backwards
        return Time(setting.processor.clock, now, watermark, setting.event_time, setting.late)

    def _work(self, plan: Plan, before: Plan | None, files: list[StateFile], clock: Time) -> Work:
        setting, owners = self.setting, Owners.of(plan)
        known = None if before is None else Owners.of(before)
        return Work(
            processor=setting.processor,
            name=setting.name,
            root=setting.root,
            batch=self.batch,
            layout=setting.layout,
            state=setting.state,
            output=setting.output_arrow,
            owners=owners,
            before=known if known is not None and known.moved_buckets(owners).any() else None,
            files=tuple(files),
            needed=needed_by(files, owners),
            time=clock,
        )

    def _process(self, work: Work, plan: Plan) -> list[dict[str, Any]]:
        """Run the work on all workers; where there are no rows at all, Spark leaves it out: ask again."""
        done = collect(placed(self.df, self.setting, plan).mapInArrow(work, _DONE), self.table)
        if not done:
            done = collect(idle(self.df.sparkSession, plan.workers, Idle(work)), self.table)
        if sorted(one["worker"] for one in done) != list(range(plan.workers)):
            raise EvenflowError(
                f"{len(done)} of {plan.workers} workers answered in batch {self.batch}; "
                "this is a bug of evenflow."
            )
        return sorted(done, key=lambda one: one["worker"])

    def _committed(
        self,
        done: list[dict[str, Any]],
        ownership: Ownership,
        plan: Plan,
        before: Plan | None,
        rescaled: int,
        clock: Time,
    ) -> Committed:
        measured = self._measured(done, plan)
        decision = ownership.observe(measured) if measured.total else None  # no rows say nothing of balance
        decided = [one.to_dict() for one in (self.decision, decision) if one is not None]
        latest = max((one["latest"] for one in done if one["latest"] is not None), default=None)
        if self.last is not None and self.last.latest is not None:
            latest = self.last.latest if latest is None else max(latest, self.last.latest)
        watermark = None if latest is None else latest - self.setting.delay
        if clock.watermark is not None and watermark is not None:
            watermark = max(watermark, clock.watermark)
        loads = self._loads(done)
        return Committed(
            batch=self.batch,
            query=query_id(self.setting.checkpoint),
            workers=plan.workers,
            outputs=[one["outputs"]["name"] for one in done if one["outputs"] is not None],
            ownership=ownership.to_json(),
            plan=None if ownership.plan is plan else plan.to_json(),
            asked=self.setting.asked,
            rescaled=rescaled,
            latest=latest,
            watermark=watermark,
            now=clock.now if clock.clock == "processing" else None,
            loads=loads,
            decisions=decided,
            migration=self._migration(done, plan, before, loads),
        )

    def _measured(self, done: list[dict[str, Any]], plan: Plan) -> Measured:
        keys = np.array([key for one in done for key in one["keys"]], np.int64).view(np.uint64)
        counts = np.array([count for one in done for count in one["counts"]], np.float64)
        hottest = np.argsort(-counts, kind="stable")[:HOTTEST]
        buckets = np.zeros(plan.buckets.size)
        for one in done:
            buckets[one["buckets"]] += one["bucket_rows"]
        return Measured(
            batch=self.batch,
            keys=keys[hottest],
            counts=counts[hottest],
            total=float(sum(one["rows"] for one in done)),
            rows=[one["rows"] for one in done],
            seconds=[one["seconds"] for one in done],
            state_bytes=[one["state_bytes"] for one in done],
            touched=[one["touched"] for one in done],
            buckets=buckets,
            elapsed=self.batches.elapsed,
        )

    def _loads(self, done: list[dict[str, Any]]) -> dict[str, Any]:
        before = 0 if self.last is None else int(self.last.loads.get("state_keys", 0))
        each = {
            name: [one[name] for one in done]
            for name in ("rows", "touched", "expired", "late", "state_bytes", "bytes_read")
        }
        return {
            **each,
            "seconds": [round(one["seconds"], 6) for one in done],
            "state_keys": before + sum(one["created"] - one["forgotten"] for one in done),
        }

    def _migration(
        self, done: list[dict[str, Any]], plan: Plan, before: Plan | None, loads: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Say what moved to new owners when this batch began, and what could not be avoided."""
        keys = sum(one["moved_keys"] for one in done)
        if before is None or (not keys and before.workers == plan.workers):
            return None
        held = max(1, 0 if self.last is None else int(self.last.loads["state_keys"]))
        most = max(before.workers, plan.workers)
        return {
            "batch": self.batch,
            "from": before.workers,
            "to": plan.workers,
            "keys": keys,
            "bytes": sum(one["moved_bytes"] for one in done),
            "state_keys": held,
            "part": keys / held,
            "ideal": max(1, abs(plan.workers - before.workers)) / most,
            "relative_migration": keys / held * most,
        }


def placed(df: DataFrame, setting: Setting, plan: Plan) -> DataFrame:
    """Return the rows on their workers, sorted by the key's hash, the key and the order of the input."""
    names = df.columns
    if setting.beat is not None:
        df = df.where(~F.col(names[setting.beat]))
    worker, position = "worker", "position"  # the frame's own columns have numbers for names
    df = df.select("*", F.monotonically_increasing_id().alias(position))
    df = with_worker(df, plan, F.col(names[setting.layout.keys[0]]), None, worker)
    order = [names[place] for place in (*setting.layout.keys, *setting.order_by)]
    return (
        df.repartitionById(plan.workers, F.col(worker)).sortWithinPartitions(*order, position).select(*names)
    )


def idle(spark: SparkSession, workers: int, work: Any) -> DataFrame:
    """Return a frame in which every worker works without rows."""
    return spark.range(0, workers, 1, workers).mapInArrow(work, _DONE)


@dataclass(frozen=True)
class Idle:
    """The work of a batch without rows."""

    work: Work

    def __call__(self, batches: Batches) -> Iterable[pa.RecordBatch]:
        """Take no notice of what the partition holds."""
        for _ in batches:
            pass
        return self.work([])


def collect(frame: DataFrame, table: StateTable) -> list[dict[str, Any]]:
    """Return what the workers said; a damaged file becomes a sentence."""
    done: list[dict[str, Any]] = [json.loads(row["done"]) for row in frame.collect()]
    for one in done:
        if "damaged" in one:
            raise table.refusal(DamagedFile(one["damaged"], one["why"]))
    return done
