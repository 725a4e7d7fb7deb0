"""How fast streams flow on one core: every generator, every kind of file, first and second reading.

Beside the messages per second stands the ratio to routing the same number of messages by ``key``, measured in
the same run: a generator at 20 M messages/s or more must not hold up the schemes that it feeds. A file is
read twice: the first reading meets every key as new, the second knows them all.
"""

from __future__ import annotations

import gzip
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

import evenflow as ef
from evenflow.streams import GENERATORS, Stream, Zipf, open_stream

GENERATED = 1 << 23
ROWS = 1 << 20


def run() -> list[dict[str, Any]]:
    """Return one row per generator and per kind of file."""
    routing = _routing_seconds()
    rows = [_generator(name, routing) for name in GENERATORS]
    with tempfile.TemporaryDirectory() as folder:
        for path in _write_files(Path(folder)):
            rows.append(_file(path, routing))
    return rows


def _routing_seconds() -> float:
    """Seconds per message of the simplest scheme, n = 100."""
    stream = Zipf(messages=GENERATED, seed=1)
    keys = stream.hashes[next(stream.chunks(GENERATED)).ids]
    router = ef.scheme("key").router(100)
    return _best(lambda: router.route(keys)) / GENERATED


def _generator(name: str, routing: float) -> dict[str, Any]:
    stream = open_stream(f"{name}:messages={GENERATED},seed=1")
    _drain(stream)  # compiles the kernel and builds the table
    seconds = _best(lambda: _drain(stream)) / GENERATED
    return {
        "stream": name,
        "messages": GENERATED,
        "messages_per_second": 1 / seconds,
        "times_routing_by_key": seconds / routing,
    }


def _file(path: Path, routing: float) -> dict[str, Any]:
    spelled = str(path) if path.suffix == ".txt" else f"{path}#key"
    _drain(open_stream(spelled))  # compiles the kernels
    stream = open_stream(spelled)
    begin = time.perf_counter()
    messages = _drain(stream)
    first = (time.perf_counter() - begin) / messages
    again = _best(lambda: _drain(stream)) / messages
    return {
        "stream": path.name,
        "messages": messages,
        "messages_per_second": 1 / first,
        "messages_per_second_again": 1 / again,
        "times_routing_by_key": first / routing,
    }


def _drain(stream: Stream) -> int:
    return sum(chunk.ids.size for chunk in stream.chunks())


def _best(work: Callable[[], Any], tries: int = 3) -> float:
    seconds = []
    for _ in range(tries):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def _write_files(folder: Path) -> list[Path]:
    """Write the same words to every kind of file."""
    ids = next(Zipf(z=1.0, keys=10**5, messages=ROWS, seed=1).chunks(ROWS)).ids
    words = np.char.add("word-", np.arange(10**5).astype(str))[ids]
    table = pa.table({"key": words, "number": ids, "value": np.arange(ROWS) / 7})
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


if __name__ == "__main__":
    for row in run():
        print(json.dumps(row))
