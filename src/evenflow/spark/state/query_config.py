"""What the caller of ``stateful`` asked for, checked; goes to other processes as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from evenflow.owners import AutoWorkers
from evenflow.schemes.base import Scheme
from evenflow.spark.grouped.runs import Layout
from evenflow.spark.state.processor import KeyedProcessor
from evenflow.spark.state.schema import StateLayout


@dataclass(frozen=True)
class QueryConfig:
    """Everything that a micro-batch needs to know beside what the state's table holds."""

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
    accept_gap: bool  # go on where state and checkpoint do not belong together

    @property
    def name(self) -> str:
        """The processor's name."""
        return type(self.processor).__name__

    @property
    def asked(self) -> Any:
        """The number of workers as the caller gave it, to see a change after a restart."""
        return self.workers if self.auto is None else repr(self.auto)
