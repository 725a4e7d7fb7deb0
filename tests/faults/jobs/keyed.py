"""A program with keyed state that is killed, or kills its Python workers, where it is told to.

Every point comes once (a marker says so); started again, the program goes on from its checkpoint. The driver
asks for other numbers of workers on the way. What ``remember`` computes without Spark is what must come out.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from evenflow.spark import KeyedProcessor, read_state, stateful
from evenflow.spark.session import local_session
from evenflow.spark.state import batch as batch_module
from evenflow.spark.state.commit_protocol import MicroBatches
from evenflow.spark.state.compaction import runs_to_merge
from evenflow.spark.state.files import StateFile
from evenflow.spark.state.table import Committed, StateTable
from evenflow.testing import once

DRIVER = ("before", "written", "committed", "emitted", "merging", "merged")
WORKER = ("processing", "saved")
EXECUTOR = "executor"  # while it processes; on a cluster
SIZES = (5, 2, 4, 3)  # numbers of workers that are asked for, in turn
ROWS = "batch int, key string, number long, ts timestamp"
OUTPUT = "key string, n long, total long, why string"
SILENCE = timedelta(seconds=3)  # of a key, after which it expires
RUNS = 4  # of state files, so that merging comes often


class Remember(KeyedProcessor):
    """Counts and adds up; forgets a key now and then, and one that falls silent; may kill its process."""

    state = "n long, total long, last long"
    clock = "event"

    def __init__(self, folder: str, kills: dict[int, str]):
        self.folder = folder
        self.kills = kills

    def start(self, key: Any) -> Any:
        """Begin with nothing."""
        return {"n": 0, "total": 0, "last": -1}

    def process(self, key: Any, state: Any, rows: Any) -> Any:
        """Add up, and see that rows come in order."""
        self.maybe_die(rows["batch"][0].as_py())
        numbers = rows["number"].to_pylist()
        if numbers != sorted(numbers) or numbers[0] <= state["last"]:
            raise ValueError(f"{numbers} after {state['last']}")
        return remembered(key, state, numbers, max(rows["ts"].to_pylist()))

    def expire(self, key: Any, state: Any) -> Any:
        """Say goodbye."""
        return None, [(key, state["n"], state["total"], "expired")]

    def maybe_die(self, batch: int) -> None:
        """Kill this process now, or when it has written its state."""
        marker = Path(self.folder) / f"killed-{batch}"
        point = self.kills.get(batch)
        if point == "processing" and once(marker):
            os.kill(os.getpid(), signal.SIGKILL)
        if point == EXECUTOR and once(marker):
            daemon = os.getppid()
            executor = subprocess.run(
                ["ps", "-o", "ppid=", "-p", str(daemon)], capture_output=True, check=True
            )
            os.kill(int(executor.stdout), signal.SIGKILL)
        if point == "saved" and not marker.exists():
            from evenflow.spark.state import worker_task

            write = vars(worker_task)["write_state"]

            def write_and_die(*given: Any) -> StateFile:
                written: StateFile = write(*given)
                if once(marker):
                    os.kill(os.getpid(), signal.SIGKILL)
                return written

            vars(worker_task)["write_state"] = write_and_die


def remembered(key: Any, state: Any, numbers: list[int], latest: datetime) -> Any:
    """Return what ``process`` returns."""
    now = {"n": state["n"] + len(numbers), "total": state["total"] + sum(numbers), "last": numbers[-1]}
    forgets = now["total"] % 11 == 0
    outputs = [(key, now["n"], now["total"], "forgotten" if forgets else "rows")]
    return (None, outputs) if forgets else (now, outputs, latest + SILENCE)


def remember(batches: Iterable[pa.Table]) -> tuple[list[list[Any]], list[Any]]:
    """Return the outputs of every batch and the last state, as the program should give them, sorted."""
    states: dict[Any, Any] = {}
    times: dict[Any, datetime] = {}
    watermark = latest = None
    results = []
    for batch in batches:
        outputs: list[Any] = []
        groups: dict[Any, list[Any]] = {}
        for row in batch.to_pylist():
            groups.setdefault(row["key"], []).append(row)
        for key, rows in groups.items():
            state = states.get(key, {"n": 0, "total": 0, "last": -1})
            newest = max(row["ts"] for row in rows)
            latest = newest if latest is None else max(latest, newest)
            state, said, *until = remembered(key, state, [row["number"] for row in rows], newest)
            outputs += said
            states.pop(key, None)
            if state is not None:
                states[key], times[key] = state, until[0]
        for key in [key for key in states if key not in groups]:
            if watermark is not None and times[key] <= watermark:
                gone = states.pop(key)
                outputs.append((key, gone["n"], gone["total"], "expired"))
        watermark = latest
        results.append(sorted(map(list, outputs), key=str))
    return results, sorted(([key, *state.values()] for key, state in states.items()), key=str)


def table(batch: int, keys: list[Any], first: int) -> pa.Table:
    """Return one micro-batch of rows, one second of event time."""
    moments = [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=batch) for _ in keys]
    return pa.table(
        {
            "batch": pa.array([batch] * len(keys), pa.int32()),
            "key": pa.array(keys, pa.string()),
            "number": pa.array(range(first, first + len(keys)), pa.int64()),
            "ts": pa.array(moments, pa.timestamp("us", "UTC")),
        }
    )


def main(folder: Path, kills: dict[int, str], master: str) -> None:
    """Run over all files there are."""
    group = os.getpgid(0)

    def point(batch: int, where: str) -> None:
        if kills.get(batch) == where and once(folder / f"killed-{batch}"):
            os.killpg(group, signal.SIGKILL)

    call, commit = MicroBatches.__call__, StateTable.commit

    def calling(self: MicroBatches, df: DataFrame, batch: int) -> None:
        point(batch, "before")
        call(self, df, batch)
        point(batch, "emitted")

    def committing(
        self: StateTable, committed: Committed, added: Iterable[StateFile], removed: Iterable[StateFile] = ()
    ) -> None:
        gone = list(removed)
        for where in ("written", *["merging"] * bool(gone)):
            point(committed.batch, where)
        commit(self, committed, added, gone)
        for where in ("committed", *["merged"] * bool(gone)):
            point(committed.batch, where)

    MicroBatches.__call__ = calling  # type: ignore[method-assign]
    StateTable.commit = committing  # type: ignore[method-assign]
    vars(batch_module)["runs_to_merge"] = partial(runs_to_merge, max_runs=RUNS)
    settings = {"spark.sql.shuffle.partitions": 2, "spark.executor.memory": "512m"}
    spark = local_session(master, **settings)
    stream = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    running: list[Any] = []

    def sink(outputs: DataFrame, batch: int) -> None:
        rows = sorted(([*row] for row in outputs.collect()), key=str)
        path = folder / "out" / f"{batch}.json"
        if path.exists() and json.loads(path.read_text()) != rows:
            (folder / "changed").write_text(f"{batch}: {rows}")
        path.with_suffix(".draft").write_text(json.dumps(rows))
        path.with_suffix(".draft").replace(path)
        if batch % 3 == 1 and running:
            running[0].rescale(SIZES[batch // 3 % len(SIZES)])

    using = Remember(str(folder), kills)
    place = os.environ.get("EVENFLOW_STATE", str(folder / "state"))
    writer = stateful(
        stream, "key", using, OUTPUT, place, 3, "explicit", event_time="ts", order_by="number",
        checkpoint=folder / "state" / "_checkpoint",
    )  # fmt: skip
    running.append(writer.start(sink, availableNow=True))
    running[0].awaitTermination()
    state = sorted(([*row] for row in read_state(spark, place).collect()), key=str)
    (folder / "state.json").write_text(json.dumps(state))
    spark.stop()


if __name__ == "__main__":
    points = {int(batch): where for batch, where in json.loads(sys.argv[2]).items()}
    main(Path(sys.argv[1]), points, sys.argv[3])
