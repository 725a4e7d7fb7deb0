"""The result of a simulation: one row, tables over time and by worker; as Arrow, JSON and CSV."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from evenflow.errors import EvenflowError
from evenflow.kernels import Int64Array

Columns = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Result:
    """One simulated run; everything except ``seconds`` is determined by the configuration."""

    scheme: str
    parameters: str
    stream: str
    workers: int  # at the start
    sources: int
    seed: int
    feed: str
    messages: int
    numbers: dict[str, float]  # the metrics of the row, in order
    over_time: Columns
    by_worker: Columns
    rescales: Columns = field(default_factory=dict)
    periods: Columns = field(default_factory=dict)
    seconds: float = 0.0  # for routing and measuring, without generating the stream

    def row(self) -> dict[str, Any]:
        """Return the run as a flat row; all values but ``messages_per_second`` are machine-independent."""
        given = ("scheme", "parameters", "stream", "workers", "sources", "seed", "feed", "messages")
        speed = self.messages / self.seconds if self.seconds > 0 else math.inf
        return {name: getattr(self, name) for name in given} | self.numbers | {"messages_per_second": speed}

    @property
    def loads(self) -> Int64Array:
        """Messages of each worker, including those that left."""
        loads: Int64Array = self.by_worker["messages"]
        return loads

    def _repr_html_(self) -> str:
        """Show the result in a notebook: its numbers, and the load of each worker."""
        from evenflow.charts import notebook

        title = f"{self.parameters or self.scheme} on {self.workers:,} workers, {self.messages:,} messages"
        numbers = [(name.replace("_", " "), float(value)) for name, value in self.numbers.items()]
        return notebook.card(
            title,
            notebook.paragraph(self.stream),
            notebook.bars(self.loads.tolist(), "Messages per worker"),
            notebook.table(("", "value"), numbers),
        )

    def table(self) -> pa.Table:
        """Return the metrics over time, one row per mark."""
        return pa.table(self.over_time)

    def worker_table(self) -> pa.Table:
        """Return one row per worker."""
        return pa.table(self.by_worker)

    def to_json(self) -> str:
        """Return row and tables as JSON; NaN and infinity become null."""
        tables = {name: getattr(self, name) for name in ("over_time", "by_worker", "rescales", "periods")}
        return json.dumps(plain({"row": self.row(), **tables}))

    def write_csv(self, path: str | Path) -> None:
        """Write the table over time as CSV."""
        pyarrow.csv.write_csv(self.table(), Path(path))


def plain(value: Any) -> Any:
    """Convert arrays and numpy numbers to JSON values; NaN and infinity become None."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in (value.tolist() if isinstance(value, np.ndarray) else value)]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def results_table(results: Sequence[Result]) -> pa.Table:
    """Return the rows of several results as one table, with null for missing metrics."""
    rows = [plain(result.row()) for result in results]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: [row.get(name) for row in rows] for name in names})


def write_table(table: pa.Table, path: str | Path) -> None:
    """Write a table in the format of the file suffix: .csv, .json (a list of rows), .parquet or .arrow."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    elif suffix == ".json":
        path.write_text(json.dumps(plain(table.to_pylist())) + "\n")
    elif suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    elif suffix == ".arrow":
        pyarrow.feather.write_feather(table, path, compression="uncompressed")
    else:
        raise EvenflowError(
            f"cannot write a table to {str(path)!r}; end it with .csv, .json, .parquet or .arrow."
        )
