"""An uncommitted micro-batch of ``stateful``: choose the owners, run the tasks, commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenflow.control.directory import Control
from evenflow.errors import EvenflowError
from evenflow.owners import Decision, Measured, Ownership
from evenflow.owners.sizing import Sizing
from evenflow.plan import Plan
from evenflow.spark.grouped.runs import Batches
from evenflow.spark.monitoring.job_description import job_description
from evenflow.spark.routing.key_columns import quoted
from evenflow.spark.routing.plan_sql import with_worker
from evenflow.spark.state.batch_time import BatchTime
from evenflow.spark.state.compaction import needed_by, runs_to_merge
from evenflow.spark.state.continuity import Step
from evenflow.spark.state.files import DamagedFile, StateFile
from evenflow.spark.state.owner_lookup import Owners
from evenflow.spark.state.query_config import QueryConfig
from evenflow.spark.state.table import Committed, StateTable
from evenflow.spark.state.task_report import SCHEMA, TaskReport
from evenflow.spark.state.worker_task import TaskSpec
from evenflow.spark.versions.placement import on_workers

REQUESTS = "requests"  # the file with the last request of each kind
RESCALE = "rescale"  # a request to change the number of workers
REBALANCE = "rebalance"  # a request to balance at once
_SHOWN_DIVISOR = 4  # the log lists keys from 1/4 of a worker's share
_MOST_SHOWN = 50
MAX_MEASURED_KEYS = 1024  # hot keys reported to the adaptivity loop


class Batch:
    """Steps 2 to 4 of :mod:`evenflow.spark.state.commit_protocol`."""

    def __init__(
        self,
        config: QueryConfig,
        table: StateTable,
        df: DataFrame,
        step: Step,
        elapsed: float | None,
        requests: Callable[[], int],
    ):
        self.config = config
        self.elapsed = elapsed  # seconds since the previous batch finished
        self.table = table
        self.df = df
        self.step = step
        self.batch = step.batch
        self.last = table.committed
        self.decision: Decision | None = None
        self.merged: dict[str, Any] | None = None  # what the log says of files that were merged
        self.requests = requests

    def run(self) -> Committed:
        """Process the batch and commit it."""
        before, ownership, requests = self._owners()
        plan = ownership.plan
        files = self.table.files()
        clock = self._clock()
        merging = runs_to_merge(files)
        spec = self._task_spec(plan, before, files, merging, clock)
        reports = self._process(spec, plan)
        committed = self._committed(reports, ownership, plan, before, requests, clock)
        written = [report.state for report in reports if report.state is not None]
        self.table.commit(committed, written, merging)
        if merging:
            self.merged = {
                "event": "merged", "batch": self.batch, "files": len(merging), "into": len(written),
                "rows": sum(file.rows for file in merging), "left": sum(file.rows for file in written),
            }  # fmt: skip
        return committed

    def _owners(self) -> tuple[Plan | None, Ownership, dict[str, int]]:
        """Return the previous batch's plan, the current owners, and the last requests applied."""
        config, last = self.config, self.last
        if last is None:
            ownership = Ownership.start(
                config.scheme, config.workers, seed=config.seed, auto=config.auto, speeds=config.speeds,
                alpha=config.alpha,
            )  # fmt: skip
            before, requests = None, {RESCALE: 0, REBALANCE: 0}
        else:
            ownership = Ownership.from_json(last.ownership, config.scheme)
            before = Plan.from_json(last.plan) if last.plan else ownership.plan
            requests = {RESCALE: last.rescaled, REBALANCE: last.rebalanced}
            if last.asked != config.requested_workers:
                ownership.sizing = None if config.auto is None else Sizing(config.auto)
                self._rescale(ownership, config.workers if config.auto is None else ownership.workers)
        made = last_requests(Control(config.control))
        for name in (RESCALE, REBALANCE):
            request = made.get(name)
            if request is not None and self._is_new(request, requests[name]):
                requests[name] = int(request["serial"])
                if name == RESCALE:
                    self._rescale(ownership, int(request["workers"]))
                elif self.decision is None:  # a new number of workers is planned afresh anyway
                    self.decision = replace(ownership.rebalance(), batch=self.batch)
        return before, ownership, requests

    def _is_new(self, request: dict[str, Any], applied: int) -> bool:
        """Return whether a request is new, and not for an earlier state with the same control directory."""
        state = request.get("state")
        return int(request["serial"]) > applied and state in (None, self.table.identity)

    def _rescale(self, ownership: Ownership, workers: int) -> None:
        if workers != ownership.workers:
            self.decision = replace(ownership.rescale(workers), batch=self.batch)

    def _clock(self) -> BatchTime:
        config, last = self.config, self.last
        watermark = None if last is None else last.watermark
        if config.processor.clock == "event":
            now = watermark
        else:
            now = max(time.time_ns() // 1000, (last and last.now) or 0)  # never backwards
        return BatchTime(config.processor.clock, now, watermark, config.event_time, config.late)

    def _task_spec(
        self,
        plan: Plan,
        before: Plan | None,
        files: list[StateFile],
        merging: list[StateFile],
        clock: BatchTime,
    ) -> TaskSpec:
        config, owners = self.config, Owners.of(plan)
        previous = None if before is None else Owners.of(before)
        return TaskSpec(
            processor=config.processor,
            name=config.name,
            root=config.root,
            epoch=self.table.epoch,
            batch=self.batch,
            layout=config.layout,
            state=config.state,
            output=config.output_arrow,
            owners=owners,
            before=previous if previous is not None and previous.moved_buckets(owners).any() else None,
            files=tuple(files),
            needed=needed_by(files, owners),
            time=clock,
            merging=tuple(merging),
            log_values=config.log_values,
        )

    def _process(self, spec: TaskSpec, plan: Plan) -> list[TaskReport]:
        """Run the tasks of all workers, with a separate job if Spark skips them since there are no rows."""
        spark = self.df.sparkSession
        rows = rows_by_owner(self.df, self.config, plan)
        text = f"evenflow: {self.config.name}, batch {self.batch} on {plan.workers} workers"
        with job_description(spark, text):
            reports = collect_reports(rows.mapInArrow(spec, SCHEMA), self.table)
            if not reports:
                idle = run_without_rows(spark, plan.workers, WithoutRows(spec))
                reports = collect_reports(idle, self.table)
        if sorted(report.worker for report in reports) != list(range(plan.workers)):
            raise EvenflowError(
                f"{len(reports)} of {plan.workers} workers reported in batch {self.batch}, which is a bug in "
                "evenflow; please report it."
            )
        return sorted(reports, key=lambda report: report.worker)

    def _committed(
        self,
        reports: list[TaskReport],
        ownership: Ownership,
        plan: Plan,
        before: Plan | None,
        requests: dict[str, int],
        clock: BatchTime,
    ) -> Committed:
        measured = self._measured(reports, plan)
        decision = (
            ownership.observe(measured) if measured.total else None
        )  # an empty batch carries no information
        decisions = [made.to_dict() for made in (self.decision, decision) if made is not None]
        latest = max((report.latest for report in reports if report.latest is not None), default=None)
        if self.last is not None and self.last.latest is not None:
            latest = self.last.latest if latest is None else max(latest, self.last.latest)
        watermark = None if latest is None else latest - self.config.delay
        if clock.watermark is not None and watermark is not None:
            watermark = max(watermark, clock.watermark)
        loads = {**self._loads(reports), **_compared(measured, plan, reports)}
        loads["requests"] = self.requests() + sum(report.requests for report in reports)
        return Committed(
            batch=self.batch,
            query=self.step.query,
            workers=plan.workers,
            outputs=[report.outputs for report in reports if report.outputs is not None],
            ownership=ownership.to_json(),
            plan=None if ownership.plan is plan else plan.to_json(),
            asked=self.config.requested_workers,
            rescaled=requests[RESCALE],
            rebalanced=requests[REBALANCE],
            latest=latest,
            watermark=watermark,
            now=clock.now if clock.clock == "processing" else None,
            loads=loads,
            decisions=decisions,
            migration=self._migration(reports, plan, before),
            shift=self.step.shift,
            offsets=self.step.offsets,
            gap=self.step.gap,
            identity=uuid4().hex,
        )

    def _measured(self, reports: list[TaskReport], plan: Plan) -> Measured:
        keys = np.array([key for report in reports for key in report.keys], np.int64).view(np.uint64)
        counts = np.array([count for report in reports for count in report.counts], np.float64)
        hottest = np.argsort(-counts, kind="stable")[:MAX_MEASURED_KEYS]
        buckets = np.zeros(plan.buckets.size)
        for report in reports:
            buckets[report.buckets] += report.bucket_rows
        return Measured(
            batch=self.batch,
            keys=keys[hottest],
            counts=counts[hottest],
            total=float(sum(report.rows for report in reports)),
            rows=[report.rows for report in reports],
            seconds=[report.seconds for report in reports],
            state_bytes=[report.state_bytes for report in reports],
            touched=[report.touched for report in reports],
            buckets=buckets,
            elapsed=self.elapsed,
        )

    def _loads(self, reports: list[TaskReport]) -> dict[str, Any]:
        before = 0 if self.last is None else int(self.last.loads.get("state_keys", 0))
        per_worker = {
            name: [getattr(report, name) for report in reports]
            for name in ("rows", "touched", "expired", "late", "state_bytes", "bytes_read")
        }
        return {
            **per_worker,
            "seconds": [round(report.seconds, 6) for report in reports],
            "state_keys": before + sum(report.created - report.forgotten for report in reports),
        }

    def _migration(self, reports: list[TaskReport], plan: Plan, before: Plan | None) -> dict[str, Any] | None:
        """Return how much state moved to new owners before this batch, and the unavoidable part."""
        keys = sum(report.moved_keys for report in reports)
        if before is None or (not keys and before.workers == plan.workers):
            return None
        held = max(1, 0 if self.last is None else int(self.last.loads["state_keys"]))
        moved = keys / held
        ideal = max(1, abs(plan.workers - before.workers)) / max(before.workers, plan.workers)
        return {
            "batch": self.batch,
            "from": before.workers,
            "to": plan.workers,
            "keys": keys,
            "bytes": sum(report.moved_bytes for report in reports),
            "state_keys": held,
            "part": moved,
            "ideal": ideal,
            "relative_migration": moved / ideal,
        }


def last_requests(control: Control) -> dict[str, dict[str, Any]]:
    """Return the last request of each kind, by its name."""
    found = control.read(REQUESTS, REQUESTS)
    return {} if found is None else {**found[0]}


def _compared(measured: Measured, plan: Plan, reports: list[TaskReport]) -> dict[str, Any]:
    """Return what hashing would have done with the same rows, and the hot keys: hash, rows, owner, value."""
    buckets = np.zeros(0) if measured.buckets is None else np.asarray(measured.buckets)
    hashed = np.bincount(np.arange(buckets.size) % plan.workers, buckets, plan.workers)
    shown = measured.counts * _SHOWN_DIVISOR * plan.workers >= max(1.0, measured.total)
    hot = list(zip(measured.keys[shown].tolist(), measured.counts[shown].tolist(), strict=True))[:_MOST_SHOWN]
    values = {key % 2**64: value for report in reports for key, value in (report.values or {}).items()}
    return {
        "hashed": hashed.astype(int).tolist(),
        "hot": [[f"{key:016x}", int(count), plan.homes_of(key), values.get(key)] for key, count in hot],
    }


def rows_by_owner(df: DataFrame, config: QueryConfig, plan: Plan) -> DataFrame:
    """Return the rows partitioned by owner and sorted by the key's hash, the key and the input order."""
    names = df.columns
    if config.beat is not None:
        df = df.where(~F.col(names[config.beat]))
    worker, position = "worker", "position"  # not taken: the frame's own columns are numbered
    df = df.select("*", F.monotonically_increasing_id().alias(position))
    df = with_worker(df, plan, quoted(names[config.layout.keys[0]]), None, worker)
    order = [names[index] for index in (*config.layout.keys, *config.order_by)]
    return on_workers(df, plan.workers, F.col(worker)).sortWithinPartitions(*order, position).select(*names)


def run_without_rows(spark: SparkSession, workers: int, work: Any) -> DataFrame:
    """Return a frame that runs ``work`` once per worker, without rows."""
    return spark.range(0, workers, 1, workers).mapInArrow(work, SCHEMA)


@dataclass(frozen=True)
class WithoutRows:
    """The tasks of a batch without rows."""

    spec: TaskSpec

    def __call__(self, batches: Batches) -> Iterable[pa.RecordBatch]:
        """Run the task on an empty input."""
        for _ in batches:
            pass
        return self.spec([])


def collect_reports(frame: DataFrame, table: StateTable) -> list[TaskReport]:
    """Return the workers' reports; raise an error if a worker found a damaged file."""
    reports = [TaskReport.from_json(row["report"]) for row in frame.collect()]
    for report in reports:
        if report.damaged is not None:
            raise table.damaged_file_error(DamagedFile(report.damaged, report.reason))
    return reports
