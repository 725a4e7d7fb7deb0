"""One source inside a task: a router over the key hashes of one input partition.

The only part of evenflow that sees rows in Python on the way to a worker, and of a row only its key's hash.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.schemes.base import Router, Scheme
from evenflow.schemes.registry import register
from evenflow.spark.monitoring.control_dir import Control
from evenflow.spark.routing.router_snapshots import Snapshots
from evenflow.spark.task import current_task

MIXED_ROWS = 1 << 22  # 32 MB of hashes
BATCH, QUERY = "streaming.sql.batchId", "sql.streaming.queryId"  # local properties of a micro-batch's tasks


@dataclass(frozen=True)
class Online:
    """How the routers of one operator are made; it travels to every task.

    ``start``: a saved router whose knowledge all routers begin with. ``control``: where the routers of a
    streaming query pass on what they learned; None: every micro-batch begins anew. ``mixed``: rows come
    sorted, equal ones together; route them in a mixed order, as a stream has, by their positions alone.
    """

    scheme: Scheme
    workers: int
    seed: int = 0
    sources: int | None = None
    start: bytes | None = None
    control: str | None = None
    operator: str = ""
    mixed: bool = False

    def router(self, partition: int, learned: Router | None = None) -> Router:
        """Return the router of one partition as it begins, with its part of what is known."""
        sources = self.sources or self.workers
        router = self.scheme.router(self.workers, self.seed, source=partition % sources, sources=sources)
        if learned is None and self.start is not None:
            learned = Router.from_bytes(self.start)
        if learned is not None:
            router.learn([learned], 1 / sources)
        return router

    def snapshots(self, task: Any) -> tuple[Snapshots | None, int]:
        """Return where this task's micro-batch finds and leaves knowledge, and the batch's number."""
        batch = task.getLocalProperty(BATCH)
        if self.control is None or not self.scheme.learns or batch is None:
            return None, 0
        control = Control(self.control)
        folder = control.folder / "online" / self.operator / str(task.getLocalProperty(QUERY))

        def tell(number: int, why: str) -> None:
            control.note("fallback", operator=self.operator, batch=number, why=why)

        return Snapshots(folder, self.scheme, self.workers, tell), int(batch)


def route_partition(online: Online, batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
    """Route the rows of one partition: arrays of xxhash64 in, arrays of workers out."""
    task = current_task()
    register(type(online.scheme))  # a scheme that the caller's script defined is not known here yet
    snapshots, batch = online.snapshots(task)
    router = online.router(task.partitionId(), snapshots.before(batch) if snapshots else None)
    for number, block in enumerate(_blocks(batches, MIXED_ROWS if online.mixed else 1)):
        keys = np.concatenate([hashes.to_numpy(zero_copy_only=False).view(np.uint64) for hashes in block])
        if online.mixed:
            order = np.random.default_rng((online.seed % 2**63, number)).permutation(keys.size)
            workers = np.empty(keys.size, np.int32)
            workers[order] = router.route(keys[order])
        else:
            workers = router.route(keys)
        yield from map(pa.array, np.split(workers, np.cumsum([len(hashes) for hashes in block])[:-1]))
    if snapshots is not None:
        snapshots.keep(batch, task.partitionId(), router)


def _blocks(batches: Iterator[pa.Array], rows: int) -> Iterator[list[pa.Array]]:
    """Yield arrays that follow each other in lists of at least ``rows`` rows; the last may have fewer."""
    block: list[pa.Array] = []
    for batch in batches:
        block.append(batch)
        if sum(map(len, block)) >= rows:
            yield block
            block = []
    if block:
        yield block
