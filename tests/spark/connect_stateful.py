"""A stateful query through Spark Connect, whose batches are committed by another process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from evenflow.errors import EvenflowError
from evenflow.spark import read_state, stateful
from evenflow.testing import wait_for
from spark.processors import OUTPUT, STREAM, Adding, Sessions
from spark.stream_files import read_batches, write_batches


def found(spark: Any, folder: Path) -> dict[str, Any]:
    """Return what a query did that was rescaled, asked for twice, stopped and started again."""
    keys = [f"k{number * number % 50}" for number in range(300)]
    table = pa.table({"key": keys, "number": pa.array(range(300), pa.int64())})
    write_batches(folder / "in", [table.slice(0, 100), table.slice(100, 100)])
    out = str(folder / "out")

    def start(state: str = "state", checkpoint: str = "state/_checkpoint") -> Any:
        stream = read_batches(spark, folder / "in", STREAM)
        return stateful(
            stream, "key", Adding(), OUTPUT, folder / state, 2, checkpoint=folder / checkpoint
        ).start(out)

    seen: dict[str, Any] = {}
    query = start()
    query.processAllAvailable()
    query.rescale(3)
    try:
        start()
        seen["refused"] = ""
    except EvenflowError as error:
        seen["refused"] = str(error)
    write_batches(folder / "in", [table.slice(200)], first=2)
    query.processAllAvailable()
    seen["workers"], seen["rows"] = query.loads().workers, sum(query.loads().rows)
    seen["moved"] = query.migrations()[-1]["keys"]
    query.stop()
    state = {row["key"]: row["total"] for row in read_state(spark, folder / "state").collect()}
    seen["state"] = state == {key: sum(n for n in range(300) if keys[n] == key) for key in set(keys)}
    rows = spark.read.parquet(out).collect()
    seen["outputs"] = {key: max(row["total"] for row in rows if row["key"] == key) for key in state} == state
    query = wait_for(lambda: restarted(start), "the lock of the query that was stopped")
    query.processAllAvailable()
    query.stop()
    seen["no state"] = refusal(lambda: start(state="elsewhere"))
    seen["new checkpoint"] = wait_for(
        lambda: refusal(lambda: start(checkpoint="new"), "in use by another query"), "the lock", 60
    )

    silent = stateful(
        read_batches(spark, folder / "in", STREAM), "key", Sessions(0.1), OUTPUT, folder / "silent", 2,
        heartbeat="1 second",
    ).start(str(folder / "expired"))  # fmt: skip
    wait_for(lambda: (folder / "silent").exists() and forgot(spark, folder), "the time-outs", 120)
    silent.stop()
    return seen


def refusal(start: Any, passing: str | None = None) -> str:
    """Return why a start is refused; nothing while it is for a reason that will pass."""
    try:
        start().stop()
    except EvenflowError as error:
        return "" if passing is not None and passing in str(error) else str(error)
    return "not refused"


def restarted(start: Any) -> Any:
    try:
        return start()
    except EvenflowError:
        return None


def forgot(spark: Any, folder: Path) -> bool:
    from evenflow.spark.state.table import history
    from evenflow.storage import open_storage

    last = next(history(open_storage(folder / "silent")), None)
    return last is not None and last[1].batch >= 3 and last[1].loads["state_keys"] == 0
