"""One micro-batch of ``stateful`` that is not committed yet: who owns what, the work, what is committed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenflow.errors import EvenflowError
from evenflow.owners import Decision, Measured, Ownership
from evenflow.owners.sizing import Sizing
from evenflow.plan import Plan
from evenflow.spark.grouped.runs import Batches
from evenflow.spark.monitoring.control_dir import Control
from evenflow.spark.routing.key_columns import quoted
from evenflow.spark.routing.plan_sql import with_worker
from evenflow.spark.state.batch_time import Time
from evenflow.spark.state.compaction import needed_by
from evenflow.spark.state.continuity import Step
from evenflow.spark.state.files import DamagedFile, StateFile
from evenflow.spark.state.owner_lookup import Owners
from evenflow.spark.state.query_config import Setting
from evenflow.spark.state.table import Committed, StateTable
from evenflow.spark.state.worker_task import Work

RESCALE = "rescale"  # the file with the last request for another number of workers
HOTTEST = 1024  # keys that the loop is told of
_DONE = "done string"


class Batch:
    """Steps 2 to 4 of :mod:`evenflow.spark.state.commit_protocol`."""

    def __init__(self, setting: Setting, table: StateTable, df: DataFrame, step: Step, elapsed: float | None):
        self.setting = setting
        self.elapsed = elapsed  # seconds since the batch before was finished
        self.table = table
        self.df = df
        self.step = step
        self.batch = step.batch
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
        if asked is not None and self._is_new(asked[0], rescaled):
            rescaled = int(asked[0]["serial"])
            self._rescale(ownership, int(asked[0]["workers"]))
        return before, ownership, rescaled

    def _is_new(self, request: dict[str, Any], followed: int) -> bool:
        """Say whether a request is for this state, not one before it at the same control directory."""
        state = request.get("state")
        return int(request["serial"]) > followed and state in (None, self.table.identity)

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
            query=self.step.query,
            workers=plan.workers,
            outputs=[one["outputs"] for one in done if one["outputs"] is not None],
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
            shift=self.step.shift,
            offsets=self.step.offsets,
            gap=self.step.gap,
            identity=uuid4().hex,
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
            elapsed=self.elapsed,
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
    df = with_worker(df, plan, quoted(names[setting.layout.keys[0]]), None, worker)
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
