"""One source within a task: a router over the key hashes of one input partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.control.directory import Control
from evenflow.schemes.base import Router, Scheme
from evenflow.schemes.registry import register
from evenflow.spark.monitoring.task_timing import BATCH_ID
from evenflow.spark.routing.router_snapshots import Snapshots
from evenflow.spark.task import current_task

PERMUTED_ROWS = 1 << 22  # 32 MB of hashes
QUERY_ID = "sql.streaming.queryId"  # a local property of a micro-batch's tasks


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

    @property
    def number_of_sources(self) -> int:
        """Number of routers that share the stream."""
        return self.sources or self.workers

    def router(self, partition: int, learned: Router | None = None) -> Router:
        """Return the initial router of a partition, with its share of what earlier routers learned."""
        number = self.number_of_sources
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
        folder = control.folder / "online" / self.operator / str(task.getLocalProperty(QUERY_ID))

        def on_fallback(number: int, why: str) -> None:
            control.note("fallback", operator=self.operator, batch=number, why=why)

        return Snapshots(folder, self.scheme, self.workers, self.number_of_sources, on_fallback), int(batch)


def route_partition(online: OnlineRouting, batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
    """Route the rows of one partition: arrays of xxhash64 in, arrays of workers out."""
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
