"""A query with one owner per key, whose loop measures, plans and moves state while it runs (`functions` 4.5).

The query is `stateful` with what a key holds, computes and receives all proportional to its frequency: it
keeps the values of all its rows and sleeps for each. It begins on some workers; after so many micro-batches
one more joins, and again. A row of the result is the last micro-batch on each number of workers, when owners
had time to settle: max / min of what the workers measured (bytes of state written, busy seconds, rows),
relative to the tolerance as their geometric mean (*imbalance*), and the keys that moved when the last worker
joined, relative to its share of all (*migration*). Between, the loop adopts plans whose *gain*, summed over
batches (*missed*), exceeds what they move (*paid*).
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.papers.deployments.lanes import LANES, Lanes, active_session, stop_queries
from evenflow.papers.experiment import Row
from evenflow.spark.operators.stateful import stateful
from evenflow.spark.state.processor import KeyedProcessor
from evenflow.streams import Zipf

SERVICE = 0.001  # seconds of a row


class Holding(KeyedProcessor):
    """Keeps all values of a key, and sleeps for each."""

    state = "held array<long>"

    def start(self, key: Any) -> dict[str, Any]:
        """Start without values."""
        return {"held": []}

    def process(self, key: Any, state: dict[str, Any], rows: Any) -> tuple[Any, ...]:
        """Sleep, and keep the values; output nothing."""
        time.sleep(rows.num_rows * SERVICE)
        state["held"] += rows["v"].to_pylist()
        return state, []


def owned(
    approaches: list[tuple[str, str]], z: float, domain: int, rows: int, workers: list[int], batches: int,
    master: str | None = None,
) -> list[Row]:  # fmt: skip
    """Run a query for each approach, named, with its scheme as text; a row per number of workers.

    ``workers`` are the numbers of workers, one after the other, with ``batches`` micro-batches of ``rows``
    rows each.
    """
    spark = active_session()
    stream = Zipf(z=z, keys=domain, messages=rows * batches * len(workers), seed=1)
    parts = [chunk.ids.astype(np.int64) for chunk in stream.chunks(rows)]
    slots = int(spark.sparkContext.defaultParallelism)
    lanes = Lanes(
        len(approaches), min(LANES, slots // max(workers)), 0, shares=False, stop=partial(stop_queries, spark)
    )
    found: dict[int, list[Row]] = {}

    def run(number: int, lane: int) -> None:
        label, scheme = approaches[number]
        found[number] = [
            {"approach": label} | row for row in _followed(spark, scheme, z, parts, workers, batches)
        ]

    lanes.run(run)
    return [row for number in sorted(found) for row in found[number]]


def _followed(
    spark: Any, scheme: str, z: float, parts: list[Any], workers: list[int], batches: int
) -> list[Row]:
    """Run one query; return what the loop measured and decided."""
    found: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="evenflow-owned-", ignore_cleanup_errors=True) as folder:
        source = Path(folder) / "parts"
        source.mkdir()
        frame = spark.readStream.schema("k long, v long").parquet(str(source))
        writer = stateful(frame, "k", Holding(), "k long", Path(folder) / "state", workers[0], scheme)
        query = writer.start(_discard)
        try:
            for step, count in enumerate(workers):
                if step:
                    query.rescale(count)
                for number in range(step * batches, (step + 1) * batches):
                    part = parts[number]
                    draft = Path(folder) / "draft.parquet"
                    pq.write_table(pa.table({"k": part, "v": np.arange(part.size)}), draft)
                    draft.rename(source / f"{number:05d}.parquet")
                    query.processAllAvailable()
                found.append({"z": z, "workers": count, **_measured(query, step * batches)})
        finally:
            query.stop()
    return found


def _discard(outputs: Any, batch: int) -> None:
    """Take no notice of outputs: there are none."""


def _measured(query: Any, first: int) -> Row:
    """Return what the loop measured in the last micro-batch, and what it did from batch ``first`` on."""
    decisions = [decision for decision in query.decisions() if decision["batch"] >= first - 1]
    last = decisions[-1]
    relative = list(last["relative"].values())
    moves = [migration for migration in query.migrations() if migration["batch"] >= first]
    joined = [migration for migration in moves if migration["from"] != migration["to"]]
    adopted = [decision for decision in decisions if decision["adopted"] and "b_before" in decision]
    gains = [decision["b_before"] / decision["b_after"] - 1 for decision in adopted]
    row: Row = {**last["ratios"], "imbalance": float(np.prod(relative) ** (1 / len(relative)))}
    row |= {"adopted": len(adopted), "gain": sum(gains), "missed": sum(d["missed"] for d in adopted)}
    row |= {"paid": sum(decision["relative_migration"] for decision in adopted)}
    if joined:
        row |= {"migration": joined[0]["relative_migration"], "keys": joined[0]["keys"],
                "bytes": joined[0]["bytes"]}  # fmt: skip
    return row
