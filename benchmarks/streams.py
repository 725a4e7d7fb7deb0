"""How fast streams flow, in CPU time: every generator, every kind of file, first and second reading.

Beside the messages per second stands the ratio to routing the same number of messages by ``key``, measured in
the same run: a generator at 20 M messages/s or more must not hold up the schemes that it feeds. A file is
read twice: the first reading meets every key as new, the second knows them all.
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
from evenflow.bench.measure import Measured, Prepare, Row, Say, against, silent
from evenflow.bench.subjects import Subject, routing, zipf
from evenflow.report.tables import Table
from evenflow.streams import GENERATORS, Stream, Zipf, open_stream

GENERATED = 1 << 23
ROWS = 1 << 20
WORKERS = 100


def run(quick: bool = False, say: Say = silent) -> list[Row]:
    """Return one row per generator and per kind of file."""
    generated, rows = (GENERATED >> 3, ROWS >> 3) if quick else (GENERATED, ROWS)
    rounds = 3 if quick else 5
    opened = [open_stream(f"{name}:messages={generated},seed=1") for name in GENERATORS]
    drains = {name: _again(stream) for name, stream in zip(GENERATORS, opened, strict=True)}
    measured = against(_routing(generated), drains, rounds, say)
    found = [_row(name, generated, measured[name]) for name in GENERATORS]
    with tempfile.TemporaryDirectory() as folder:
        paths = _write_files(Path(folder), rows)
        first = against(_routing(rows), {path.name: _first(path) for path in paths}, rounds, say)
        again = {path.name: _again(open_stream(_spelled(path))) for path in paths}
        second = against(_routing(rows), again, rounds, say)
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
    """Return the task of reading a stream whose keys are known."""
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
    """Write the same words to every kind of file."""
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
    columns = ("stream", "messages", "M messages/s", "read again", "x routing by key")
    return [Table("Reading streams", columns, cells, "All threads' CPU time; keys of files are words.")]
