"""Throughput of streams in CPU time: every generator and file format, first and second pass.

Messages per second, and the ratio to routing the same number of messages with ``key``, measured in
interleaved runs: at 20 M messages/s or more, a generator must not slow down the schemes it feeds. Files are
read twice: in the first pass every key is new, in the second all are known.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

import evenflow as ef
from evenflow.bench.measure import Measured, Prepare, Progress, Row, against, silent
from evenflow.bench.subjects import Subject, routing, zipf
from evenflow.report.tables import Table
from evenflow.streams import GENERATORS, Stream, Zipf, open_stream

GENERATED = 1 << 23
ROWS = 1 << 20
WORKERS = 100


def run(quick: bool = False, progress: Progress = silent) -> list[Row]:
    """Return one row per generator and file format."""
    generated, rows = (GENERATED >> 3, ROWS >> 3) if quick else (GENERATED, ROWS)
    rounds = 3 if quick else 5
    opened = [open_stream(f"{name}:messages={generated},seed=1") for name in GENERATORS]
    drains = {name: _again(stream) for name, stream in zip(GENERATORS, opened, strict=True)}
    measured = against(_routing(generated), drains, rounds, progress)
    found = [_row(name, generated, measured[name]) for name in GENERATORS]
    with tempfile.TemporaryDirectory() as folder:
        paths = _write_files(Path(folder), rows)
        first = against(_routing(rows), {path.name: _first(path) for path in paths}, rounds, progress)
        again = {path.name: _again(open_stream(_spelled(path))) for path in paths}
        second = against(_routing(rows), again, rounds, progress)
    for path in paths:
        row = _row(path.name, rows, first[path.name])
        found.append(row | {"messages_per_second_again": rows / second[path.name].seconds})
    return found


def _routing(messages: int) -> Prepare:
    return routing(Subject(ef.scheme("key")), WORKERS, zipf(1.4, 10**5, messages))


def _row(name: str, messages: int, measured: Measured) -> Row:
    return {
        "stream": name,
        "messages": messages,
        "messages_per_second": messages / measured.seconds,
        "times_routing_by_key": measured.ratio,
    }


def _again(stream: Stream) -> Prepare:
    """Return the task of reading a stream with known keys."""
    _drain(stream)
    return lambda: lambda: _drain(stream)


def _first(path: Path) -> Prepare:
    """Return the task of reading a file for the first time."""
    _drain(open_stream(_spelled(path)))  # compiles the kernels

    def prepare() -> Callable[[], int]:
        stream = open_stream(_spelled(path))
        return lambda: _drain(stream)

    return prepare


def _spelled(path: Path) -> str:
    return str(path) if path.suffix == ".txt" else f"{path}#key"


def _drain(stream: Stream) -> int:
    return sum(chunk.ids.size for chunk in stream.chunks())


def _write_files(folder: Path, rows: int) -> list[Path]:
    """Write the same words in every file format."""
    ids = next(Zipf(z=1.0, keys=10**5, messages=rows, seed=1).chunks(rows)).ids
    words = np.char.add("word-", np.arange(10**5).astype(str))[ids]
    table = pa.table({"key": words, "number": ids, "value": np.arange(rows) / 7})
    pa.parquet.write_table(table, folder / "words.parquet")
    pa.parquet.write_table(pa.table({"key": ids}), folder / "numbers.parquet")
    pa.csv.write_csv(table, folder / "words.csv")
    (folder / "words.csv.gz").write_bytes(gzip.compress((folder / "words.csv").read_bytes(), 1))
    with pa.ipc.new_file(folder / "words.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=1 << 16)
    with pa.ipc.new_stream(folder / "words.arrows", table.schema) as stream:
        stream.write_table(table, max_chunksize=1 << 16)
    pairs = zip(words.tolist(), ids.tolist(), strict=True)
    lines = (json.dumps({"key": word, "number": number}) for word, number in pairs)
    (folder / "words.jsonl").write_text("\n".join(lines))
    (folder / "words.txt").write_text(" ".join(words.tolist()))
    return sorted(folder.iterdir())


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return one table."""
    cells = [
        (
            row["stream"],
            row["messages"],
            row["messages_per_second"] / 1e6,
            row["messages_per_second_again"] / 1e6 if "messages_per_second_again" in row else None,
            row["times_routing_by_key"],
        )
        for row in rows
    ]
    columns = ("stream", "messages", "M messages/s", "second pass", "x routing by key")
    return [Table("Reading streams", columns, cells, "CPU time of all threads; the keys of files are words.")]
