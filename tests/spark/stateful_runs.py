"""Runs of a stateful query over numbered rows, and what must come out of them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from evenflow.spark import stateful
from evenflow.streams import Zipf
from spark.processors import OUTPUT, STREAM, Adding
from spark.stream_files import read_batches

ROWS = 400


class Sunk:
    """A sink that remembers what it was given, every time."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, list[Any]]] = []

    def __call__(self, df: Any, batch: int) -> None:
        self.calls.append((batch, sorted(map(tuple, df.collect()), key=str)))

    def last(self) -> dict[Any, Any]:
        return {row[0]: row[1:] for _, rows in self.calls for row in rows}


def numbers(files: int) -> pa.Table:
    ids = Zipf(z=1.2, keys=200, messages=ROWS * files, seed=5).generate(0, ROWS * files).ids
    keys = [None if key == 3 else f"k{key}" for key in ids.tolist()]
    return pa.table({"key": pa.array(keys), "number": pa.array(range(len(keys)), pa.int64())})


def cut(table: pa.Table) -> list[pa.Table]:
    return [table.slice(at, ROWS) for at in range(0, table.num_rows, ROWS)]


def totals(table: pa.Table) -> dict[Any, Any]:
    found: dict[Any, list[int]] = defaultdict(lambda: [0, 0])
    for key, number in zip(table["key"].to_pylist(), table["number"].to_pylist(), strict=True):
        found[key][0] += 1
        found[key][1] += number
    return {key: tuple(values) for key, values in found.items()}


def held(state: Any) -> dict[Any, Any]:
    return {row["key"]: (row["n"], row["total"]) for row in state.collect()}


def start(spark: Any, folder: Path, sink: Any, using: Any = None, **options: Any) -> Any:
    stream = read_batches(spark, options.pop("source", folder / "in"), STREAM, options.pop("files", 1))
    trigger = options.pop("trigger", {})
    given = {"state": folder / "state", "workers": 3, **options}
    return stateful(stream, "key", using or Adding(), OUTPUT, **given).start(sink, **trigger)


def finish(query: Any) -> None:
    try:
        query.processAllAvailable()
    finally:
        query.stop()
