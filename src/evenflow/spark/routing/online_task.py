"""One source within a task: a router over the key hashes of one input partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.control.directory import Control
from evenflow.schemes.base import Router, Scheme
from evenflow.schemes.registry import register
from evenflow.spark.monitoring.task_timing import BATCH_ID, QUERY_ID, measured_lately
from evenflow.spark.routing.router_snapshots import Snapshots, place_of
from evenflow.spark.routing.worker_reports import measured_batches, report_of
from evenflow.spark.task import current_task, settle

PERMUTED_ROWS = 1 << 22  # 32 MB of hashes


@dataclass(frozen=True)
class OnlineRouting:
    """How the routers of one operator are made; sent to every task.

    ``control`` is the directory through which routers pass on what they learned to the next micro-batch; if
    it is None, every micro-batch starts from scratch. ``permuted``: the input is sorted, with equal rows
    adjacent, and is routed in a random order that depends on positions only.
    """

    scheme: Scheme
    workers: int
    seed: int = 0
    sources: int | None = None
    control: str | None = None
    operator: str = ""
    permuted: bool = False

    def router(self, partition: int, learned: Router | None = None) -> Router:
        """Return the initial router of a partition, with its share of what earlier routers learned.

        The number of routers that share the stream is given, or that of the batch before, or the number of
        workers.
        """
        number = self.sources or (self.workers if learned is None else learned.place.sources)
        router = self.scheme.router(self.workers, self.seed, source=partition % number, sources=number)
        if learned is not None:
            router.learn([learned], 1 / number)
        return router

    def snapshots(self, task: Any) -> tuple[Snapshots | None, int]:
        """Return the snapshots that this task's micro-batch reads and writes, if any, and its number."""
        batch = task.getLocalProperty(BATCH_ID)
        if self.control is None or not self.scheme.learns or batch is None:
            return None, 0
        control = Control(self.control)
        query = task.getLocalProperty(QUERY_ID)
        place = place_of(control.location, self.operator, query)

        def on_fallback(number: int, why: str) -> None:
            control.note("fallback", operator=self.operator, batch=number, why=why)

        def hear(number: int, router: Router) -> Callable[[], None]:
            return self._hear(control, query, number, router)

        return Snapshots(place, self.scheme, self.workers, self.seed, on_fallback, hear), int(batch)

    def _hear(self, control: Control, query: str, batch: int, router: Router) -> Callable[[], None]:
        """Give a router the workers' report on a batch; return a function that logs it."""
        if not self.scheme.needs_reports:
            return lambda: None
        notes = measured_lately(control, query, self.workers)
        report = report_of(measured_batches(notes, self.workers, batch), router.clock)
        if report is None:
            return lambda: None
        router.report(report)
        values = {name: value for name, value in asdict(report).items() if isinstance(value, np.ndarray)}
        told = {name: _rounded(value) for name, value in values.items()}
        decision = {name: _rounded(value) for name, value in router.heard.items()}
        return lambda: control.note("report", operator=self.operator, batch=batch, **told, decision=decision)


def _rounded(values: Any) -> list[float]:
    """Return numbers with four digits, for the log."""
    return [float(f"{value:.4g}") for value in values]


def route_partition(online: OnlineRouting, batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
    """Route the rows of one partition: arrays of xxhash64 in, arrays of workers out."""
    settle()
    task = current_task()
    register(type(online.scheme))  # a scheme defined in the caller's script is not registered in this process
    snapshots, batch = online.snapshots(task)
    router = online.router(task.partitionId(), snapshots.load_before(batch) if snapshots else None)
    for number, block in enumerate(_blocks(batches, PERMUTED_ROWS if online.permuted else 1)):
        keys = np.concatenate([hashes.to_numpy(zero_copy_only=False).view(np.uint64) for hashes in block])
        if online.permuted:
            order = np.random.default_rng((online.seed % 2**63, number)).permutation(keys.size)
            workers = np.empty(keys.size, np.int32)
            workers[order] = router.route(keys[order])
        else:
            workers = router.route(keys)
        yield from map(pa.array, np.split(workers, np.cumsum([len(hashes) for hashes in block])[:-1]))
    if snapshots is not None:
        snapshots.save(batch, task.partitionId(), router)


def _blocks(batches: Iterator[pa.Array], rows: int) -> Iterator[list[pa.Array]]:
    """Yield lists of consecutive arrays with at least ``rows`` rows in all; the last list may have fewer."""
    block: list[pa.Array] = []
    for batch in batches:
        block.append(batch)
        if sum(map(len, block)) >= rows:
            yield block
            block = []
    if block:
        yield block
