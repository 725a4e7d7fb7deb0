"""The checked arguments of ``stateful``, as sent to other processes."""

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
from evenflow.storage import Location


@dataclass(frozen=True)
class QueryConfig:
    """Everything a micro-batch needs besides the state table."""

    root: Location
    token: str  # of this run
    control: Location
    checkpoint: str
    processor: KeyedProcessor
    layout: Layout  # of the frame's numbered columns; the hash is the first key column
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
    beat: int | None  # index of the column that flags heartbeats
    accept_gap: bool  # continue if state and checkpoint do not belong together
    log_values: bool  # of hot keys, beside their hashes

    @property
    def name(self) -> str:
        """The processor's name."""
        return type(self.processor).__name__

    @property
    def requested_workers(self) -> Any:
        """The ``workers`` argument, to detect a change after a restart."""
        return self.workers if self.auto is None else repr(self.auto)
