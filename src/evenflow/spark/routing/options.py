"""The options of a placement, checked once; an option that the chosen mode would ignore is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from evenflow.errors import EvenflowError
from evenflow.plan import JoinPlan, Plan
from evenflow.schemes.base import Scheme
from evenflow.schemes.spelling import as_scheme

MAX_WORKERS = 100_000  # Spark's driver keeps track of a task each
MODES = ("auto", "planned", "online", "repartition")
ORDERS = ("auto", "as-is", "sort", "content")
PARTITIONS = "spark.sql.shuffle.partitions"
_ALL_KEYS = "spark.sql.requireAllClusterKeysForDistribution"


@dataclass(frozen=True)
class PlacementOptions:
    """The options that `balance`, `apply` and `aggregate` share."""

    workers: int | None = None
    scheme: str | Scheme = "fill"
    mode: str = "auto"
    split: bool = True
    sample: float | None = None
    order: str = "auto"
    seed: int = 0
    plan: Plan | None = None
    sources: int | None = None
    control: str | None = None

    def resolve(self, df: DataFrame) -> ResolvedOptions:
        """Check the options against ``df`` and each other, and fill in defaults."""
        scheme = as_scheme(self.scheme)
        if isinstance(self.plan, JoinPlan):
            raise EvenflowError(
                "plan is the plan of a join, after which a key may be in several partitions; omit plan, and "
                "rows are placed again."
            )
        workers = resolve_workers(df, self.workers, self.plan)
        check_choice("mode", self.mode, MODES)
        check_choice("order", self.order, ORDERS)
        check_settings(df)
        reasons: list[str] = []
        if self.workers is None and self.plan is None:
            reasons.append(f"{workers} workers, from {PARTITIONS}")
        mode = self._choose_mode(scheme, reasons)
        resolved = ResolvedOptions(
            workers, scheme, mode, self.split, self.sample, self.order, self.seed, self.plan, self.sources,
            self.control, tuple(reasons),
        )  # fmt: skip
        resolved.refuse_ignored(df.isStreaming)
        return resolved

    def _choose_mode(self, scheme: Scheme, reasons: list[str]) -> str:
        if self.mode == "online" and self.plan is not None:
            raise EvenflowError(
                "mode is 'online' and plan is given, but online routers decide row by row and use no plan; "
                "omit one of the two."
            )
        if self.mode == "online":
            return "online"
        if self.mode == "repartition":
            return self._as_spark_does(scheme, reasons)
        if self.mode == "planned" or self.plan is not None:
            scheme.check_plannable()
            return "planned"
        if scheme.plannable:
            reasons.append(
                f"auto chose planned: {scheme.name} can be planned, at the cost of a plain shuffle"
            )
            return "planned"
        hears = ", and hears from its workers what `aggregate` measures" if scheme.needs_reports else ""
        reasons.append(f"auto chose online: {scheme.name} decides row by row and cannot be planned{hears}")
        return "online"

    def _as_spark_does(self, scheme: Scheme, reasons: list[str]) -> str:
        """Check that only the key's hash is wanted: the baseline, to compare other placements with."""
        if not scheme.only_hashes:
            raise EvenflowError(
                "mode is 'repartition', in which Spark's own hash of the key selects the worker, and "
                f"scheme is {scheme.name!r}; use scheme='key', or another mode."
            )
        if self.plan is not None:
            raise EvenflowError(
                "mode is 'repartition', which uses no plan, and plan is given; omit one of the two."
            )
        reasons.append("placed as by repartition(workers, key)")
        return "repartition"


@dataclass(frozen=True)
class ResolvedOptions:
    """Checked options: the scheme is an object, the mode "planned", "online" or "repartition"."""

    workers: int
    scheme: Scheme
    mode: str
    split: bool
    sample: float | None
    order: str
    seed: int
    plan: Plan | None
    sources: int | None
    control: str | None
    reasons: tuple[str, ...]

    def refuse_ignored(self, streaming: bool) -> None:
        """Refuse an option that would have no effect."""
        if self.sources is not None and self.mode != "online":
            raise EvenflowError(
                f"sources is {self.sources} but mode is {self.mode!r}, which has no routers at the sources; "
                "omit sources, or use mode='online'."
            )
        if self.sample is None:
            return
        reason = ""
        if self.mode == "online":
            reason = "mode is 'online', which counts no keys in advance"
        elif self.plan is not None:
            reason = "plan is given, so no keys are counted"
        elif streaming:
            reason = "df is a stream, whose plans are made from its micro-batches"
        elif not self.scheme.counts_keys:
            reason = f"{self.scheme.name} is planned without counting keys"
        if reason:
            raise EvenflowError(f"sample is {self.sample!r}, but {reason}; omit sample.")


def default_workers(df: DataFrame) -> int:
    """Return Spark's number of shuffle partitions."""
    value = str(df.sparkSession.conf.get(PARTITIONS))
    if not value.isdigit():
        raise EvenflowError(f"workers is None and {PARTITIONS} is {value!r}, not a number; pass workers.")
    return int(value)


def resolve_workers(df: DataFrame, workers: int | None, plan: Plan | JoinPlan | None) -> int:
    """Return the number of workers: as given, else the plan's, else Spark's; refuse a plan for another."""
    if workers is None:
        workers = default_workers(df) if plan is None else plan.workers
    check_workers(workers)
    if plan is not None and plan.workers != workers:
        raise EvenflowError(f"plan is for {plan.workers} workers but workers is {workers}; make them equal.")
    return workers


def check_workers(workers: Any) -> None:
    """Refuse an invalid number of workers."""
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise EvenflowError(f"workers is {workers!r}; pass the number of partitions to balance, 1 or more.")
    if workers > MAX_WORKERS:
        raise EvenflowError(
            f"workers is {workers}; pass at most {MAX_WORKERS}, since Spark runs a task for every worker."
        )


def check_settings(df: DataFrame) -> None:
    """Refuse Spark settings that would undo the placement."""
    if str(df.sparkSession.conf.get(_ALL_KEYS, "false")).lower() == "true":
        raise EvenflowError(
            f"{_ALL_KEYS} is true, so Spark would shuffle balanced rows by key again and undo the balance; "
            "set it to false."
        )


def check_choice(name: str, value: Any, known: tuple[str, ...]) -> None:
    """Refuse a value that is not one of ``known``."""
    if value not in known:
        raise EvenflowError(f"{name} is {value!r}; choose one of {', '.join(known)}.")
