"""`stateful` on Spark: cost per batch as the state grows, and throughput compared with Spark's own state.

Every query reads files, one per micro-batch; its time is the trigger time reported by Spark, after some
warm-up batches. All queries of a run read the same files.

* ``moved``: a running query is scaled out by one worker; the bytes that workers fetched for their new keys,
  and the migration computed from the two partitioning functions.
* ``cost``: batches that touch 10^4 of 10^5 and of 10^6 keys. Memory is the peak resident size of the Python
  worker processes, which they report with their outputs.
* ``uniform``, ``skew``: rows per key by `stateful`, `applyInPandasWithState` and
  `transformWithStateInPandas`, with almost no work on a uniform stream, and with 10 ms per hundred rows on a
  Zipf stream with z = 1.4. Work is sleep, so that eight workers run in parallel on fewer cores.
* ``slow``: two of eight workers are slowed to 30 percent; key grouping compared with speed-aware schemes.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import evenflow as ef
from evenflow.bench.measure import Progress, Row, silent
from evenflow.bench.on_spark import NOT_COALESCED, batches_of, drain, folder, reported, session
from evenflow.bench.results import Columns
from evenflow.kernels import Int64Array
from evenflow.spark.state.processor import KeyedProcessor
from evenflow.streams.sampling import zipf_weights

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PER_ROW = 1e-4  # seconds: 10 ms per hundred rows
SLOWED = (1, 5)
SPEED = 0.3
SLOW_ROW = 1e-3  # seconds
OUTPUT = "k long, n long"
APPLY, TRANSFORM = "applyInPandasWithState", "transformWithStateInPandas"
PEERS = (APPLY, TRANSFORM)
COLUMNS: dict[str, Columns] = {
    "moved": (
        "Scaling out a running query by one worker: relative migration in bytes fetched, and expected",
        ("scheme", "from", "to", "keys", "expected_keys", "bytes", "relative_migration", "expected"),
    ),
    "cost": (
        "Batches that touch a part of the state",
        ("keys", "touched", "ms", "ratio", "loading_ms", "peak_worker_mib", "read_bytes"),
    ),
    "uniform": (
        "Uniform stream, almost no work, 4 workers on 2 cores",
        ("what", "rows_per_second", *(f"of_{peer}" for peer in PEERS), "adopted"),
    ),
    "skew": (
        "Zipf z = 1.4, 10 ms of work per hundred rows, 8 workers",
        ("what", "rows_per_second", *(f"of_{peer}" for peer in PEERS), "adopted"),
    ),
    "slow": (
        "Two of eight workers at 30 percent, Zipf z = 0.5, 1 ms of work per row",
        ("what", "rows_per_second", "of_key_grouping", "slow_share", "all_rows_per_second", "adopted"),
    ),
}


class Count(KeyedProcessor):
    """Count the rows of a key; subclasses add work per row."""

    state = "n long"

    def start(self, key: Any) -> dict[str, Any]:
        """Start at zero."""
        return {"n": 0}

    def process(self, key: Any, state: dict[str, Any], rows: Any) -> tuple[Any, ...]:
        """Work and count."""
        self.work(len(rows))
        state["n"] += len(rows)
        return state, [{"k": key, "n": state["n"]}]

    def work(self, rows: int) -> None:
        """Do nothing."""


class Working(Count):
    """10 ms per hundred rows."""

    def work(self, rows: int) -> None:
        """Sleep."""
        time.sleep(rows * PER_ROW)


class Slowed(Count):
    """Rows take longer on some workers."""

    def work(self, rows: int) -> None:
        """Sleep, longer on slow workers."""
        from evenflow.spark.task import current_worker

        slow = current_worker() in SLOWED
        time.sleep(rows * SLOW_ROW / (SPEED if slow else 1.0))


class Weighing(Count):
    """Count rows and output the peak size of the process."""

    def process(self, key: Any, state: dict[str, Any], rows: Any) -> tuple[Any, ...]:
        """Count the rows; ``n`` of the output is in KiB."""
        state["n"] += len(rows)
        return state, [{"k": key, "n": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}]


class Window(KeyedProcessor):
    """Keep all values of a key: state that grows with the key's frequency."""

    state = "recent array<long>"

    def start(self, key: Any) -> dict[str, Any]:
        """Start without values."""
        return {"recent": []}

    def process(self, key: Any, state: dict[str, Any], rows: Any) -> tuple[Any, ...]:
        """Keep the values; output nothing."""
        state["recent"] += rows["v"].to_pylist()
        return state, []


class QueryRun(NamedTuple):
    """A finished query: Spark's progress of every batch and, of `stateful`, more."""

    batches: list[dict[str, Any]]
    shares: list[float] | None = None  # of rows per worker in the last batch
    adopted: int = 0  # plans
    bytes_read: int = 0  # in the last batch
    requests: int = 0  # to the storage, in a usual batch

    @property
    def milliseconds(self) -> list[float]:
        """The time of every batch."""
        return [float(batch["durationMs"]["triggerExecution"]) for batch in self.batches]

    def speed(self, skip: int) -> float:
        """Return rows per second of the batches after the first ``skip``."""
        rows = sum(batch["numInputRows"] for batch in self.batches[skip:])
        return float(rows / sum(self.milliseconds[skip:]) * 1000)


def run(*, quick: bool = False, progress: Progress = silent, only: Sequence[str] = ()) -> list[Row]:
    """Measure all parts, or those of ``only``; ``quick`` uses a tenth of the rows and fewer batches."""
    rows: list[Row] = []
    for master, workers, parts in (("local[2]", 4, (moved, cost, uniform)), ("local[8]", 8, (skew, slow))):
        chosen = [part for part in parts if part.__name__ in (only or COLUMNS)]
        if chosen:
            with session(master, workers, **NOT_COALESCED) as spark:
                for measure in chosen:
                    rows += measure(spark, quick=quick, progress=progress)
    return rows


def moved(
    spark: SparkSession, *, quick: bool = False, progress: Progress = silent, sizes: Sequence[int] = (2, 4, 8)
) -> list[Row]:
    """Return the migration when a running query is scaled out by one worker: as fetched and as expected."""
    from evenflow.owners import Ownership
    from evenflow.spark import stateful
    from evenflow.spark.state.table import history
    from evenflow.storage import open_storage

    distinct, rows = (5000, 20_000) if quick else (50_000, 300_000)
    keys = zipf_parts(1.0, distinct, rows, 1, seed=4)[0]
    known, counts = np.unique(keys, return_counts=True)
    hashes, found = ef.hash_keys(known), []
    for index, workers in enumerate(sizes):
        progress(index, len(sizes), f"moved, {workers} -> {workers + 1} workers")
        scheme = ef.scheme("explicit", algorithm="redist", domain=distinct)
        with folder() as path:
            state, parts = path / "state", path / "parts"
            write_part(parts, 0, keys)
            query = stateful(stream(spark, parts), "k", Window(), OUTPUT, state, workers, scheme).start(drain)
            query.processAllAvailable()
            held, whole = next(history(open_storage(state)))[1].ownership, sum(query.loads().written)
            query.rescale(workers + 1)
            write_part(parts, 1, known[:1])
            query.processAllAvailable()
            migration = query.migrations()[-1]
            query.stop()
        own = Ownership.from_json(held, scheme)
        before = own.plan.route(hashes, np.zeros(hashes.size))
        own.rescale(workers + 1)
        gone = before != own.plan.route(hashes, np.zeros(hashes.size))
        found.append(
            {
                "part": "moved",
                "scheme": "redist",
                "from": workers,
                "to": workers + 1,
                "bytes": migration["bytes"],
                "keys": migration["keys"],
                "expected_keys": int(gone.sum()),
                "relative_migration": migration["bytes"] / whole * (workers + 1),
                "expected": float(counts[gone].sum() / counts.sum()) * (workers + 1),
            }
        )
    return found


def cost(spark: SparkSession, *, quick: bool = False, progress: Progress = silent) -> list[Row]:
    """Return the time of batches that touch a part of a small and of a large state."""
    sizes, touched, batches = ((10**4, 10**5), 10**3, 4) if quick else ((10**5, 10**6), 10**4, 9)
    found: list[Row] = []
    with files(spark, [np.arange(touched)] * 4) as source:
        stateful_query(source, Weighing(), 4, "key")  # warm up Spark
    for index, size in enumerate(sizes):
        progress(index, len(sizes), f"cost, {size} keys of state")
        random = np.random.default_rng(size)
        parts = [np.arange(size)] + [random.choice(size, touched, replace=False) for _ in range(batches)]
        peak: list[int] = []

        def keep_peak(df: DataFrame, batch: int, peak: list[int] = peak) -> None:
            peak.append(int(df.agg({"n": "max"}).collect()[0][0]))

        with files(spark, parts) as source:
            done = stateful_query(source, Weighing(), 4, "key", keep_peak)
        times = done.milliseconds[3:]  # the first loads the state, two are warm-up
        found.append(
            {
                "part": "cost",
                "keys": size,
                "touched": touched,
                "ms": statistics.median(times),
                "loading_ms": done.milliseconds[0],
                "peak_worker_mib": max(peak) / 1024,
                "read_bytes": done.bytes_read,
            }
        )
    for row in found:
        row["ratio"] = row["ms"] / found[0]["ms"]
    return found


def uniform(spark: SparkSession, *, quick: bool = False, progress: Progress = silent) -> list[Row]:
    """Return throughput on a uniform stream with almost no work."""
    rows, keys, batches = (5000, 500, 4) if quick else (50_000, 5000, 8)
    random = np.random.default_rng(1)
    parts = [random.integers(0, keys, rows) for _ in range(batches)]
    ways = {"stateful": lambda source: stateful_query(source, Count(), 4, "explicit")} | peers()
    with files(spark, parts) as source:
        return throughput("uniform", source, ways, skip=2, rounds=1 if quick else 2, progress=progress)


def skew(spark: SparkSession, *, quick: bool = False, progress: Progress = silent) -> list[Row]:
    """Return throughput on Zipf z = 1.4 with work per row."""
    rows, batches = (4000, 5) if quick else (40_000, 9)
    parts = zipf_parts(1.4, 10_000, rows, batches, seed=2)
    ways = {
        "stateful, explicit": lambda source: stateful_query(source, Working(), 8, "explicit"),
        "stateful, fill": lambda source: stateful_query(source, Working(), 8, "fill", split=False),
    } | peers(PER_ROW)
    with files(spark, parts) as source:
        return throughput("skew", source, ways, skip=4, rounds=1, progress=progress)


def slow(spark: SparkSession, *, quick: bool = False, progress: Progress = silent) -> list[Row]:
    """Return throughput and row shares when two of eight workers are slow."""
    rows, batches = (4000, 6) if quick else (30_000, 6)
    parts = zipf_parts(0.5, 5000, rows, batches, seed=3)
    longer = zipf_parts(
        0.5, 5000, rows, batches + 7, seed=3
    )  # moving one virtual worker per batch takes time
    ways: dict[str, tuple[list[Int64Array], int, dict[str, Any]]] = {
        "key": (parts, 3, {}),
        "fill": (parts, 3, {"split": False}),
        "explicit": (parts, 3, {}),
        "consistent": (longer, 10, {"allocation": "key"}),
    }
    found: list[Row] = []
    for index, (name, (some, skip, parameters)) in enumerate(ways.items()):
        progress(index, len(ways), f"slow, {name}")
        with files(spark, some) as source:
            done = stateful_query(source, Slowed(), 8, name, **parameters)
        shares = np.array(done.shares)
        others = float(np.delete(shares, SLOWED).mean())
        found.append(
            {
                "part": "slow",
                "what": name,
                "rows_per_second": done.speed(skip),
                "all_rows_per_second": done.speed(0),
                "slow_share": float(shares[list(SLOWED)].mean()) / others,
                "adopted": done.adopted,
            }
        )
    for row in found:
        row["of_key_grouping"] = row["rows_per_second"] / found[0]["rows_per_second"]
    return found


def zipf_parts(z: float, keys: int, rows: int, batches: int, seed: int) -> list[Int64Array]:
    """Return the keys of each micro-batch."""
    heat = np.asarray(zipf_weights(keys, z), np.float64)
    random = np.random.default_rng(seed)
    return [random.choice(keys, rows, p=heat / heat.sum()).astype(np.int64) for _ in range(batches)]


def throughput(
    part: str,
    source: DataFrame,
    ways: dict[str, Callable[[DataFrame], QueryRun]],
    *,
    skip: int,
    rounds: int,
    progress: Progress,
) -> list[Row]:
    """Run all queries, interleaved; return rows per second, also relative to Spark's faster operator."""
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    adopted = dict.fromkeys(ways, 0)
    for turn in range(rounds):
        for index, (name, way) in enumerate(ways.items()):
            progress(turn * len(ways) + index, rounds * len(ways), f"{part}, {name}")
            done = way(source)
            speeds[name].append(done.speed(skip))
            adopted[name] = done.adopted
    median = {name: statistics.median(some) for name, some in speeds.items()}
    fastest = max(median[name] for name in PEERS)
    return [
        {
            "part": part,
            "what": name,
            "rows_per_second": median[name],
            "of_faster_peer": median[name] / fastest,
            **{f"of_{peer}": median[name] / median[peer] for peer in PEERS},
            "adopted": adopted[name],
        }
        for name in ways
    ]


@contextmanager
def files(spark: SparkSession, parts: Sequence[Int64Array]) -> Iterator[DataFrame]:
    """Yield a stream of a key and a number, one file per micro-batch."""
    with folder() as path:
        for number, keys in enumerate(parts):
            write_part(path, number, keys)
        yield stream(spark, path)


def write_part(folder: Path, number: int, keys: Int64Array) -> None:
    """Write one micro-batch atomically."""
    folder.mkdir(exist_ok=True)
    table = pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(np.arange(keys.size))})
    pq.write_table(table, folder / f".{number:04}")
    (folder / f".{number:04}").rename(folder / f"{number:04}.parquet")


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the files of a folder as a stream, one per micro-batch."""
    reader = spark.readStream.schema("k long, v long").option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


def stateful_query(
    source: DataFrame,
    using: KeyedProcessor,
    workers: int,
    scheme: str,
    sink: Callable[[DataFrame, int], None] = drain,
    state: str | Path | None = None,
    checkpoint: Path | None = None,
    **parameters: Any,
) -> QueryRun:
    """Run `stateful` over all files, by default with its state in a temporary folder."""
    from evenflow.spark import stateful
    from evenflow.spark.state.table import history
    from evenflow.storage import open_storage

    with folder() as path:
        place = state or path
        writer = stateful(
            source, "k", using, OUTPUT, place, workers, ef.scheme(scheme, **parameters), checkpoint=checkpoint
        )
        query = writer.start(sink, availableNow=True)
        query.awaitTermination()
        loads, batches = query.loads(), reported(query)
        adopted = sum(bool(decision["adopted"]) for decision in query.decisions())
        query.stop()
        asked = [committed.loads["requests"] for _, committed in history(open_storage(place))]
    shares = [own / sum(loads.rows) for own in loads.rows]
    return QueryRun(batches, shares, adopted, sum(loads.read), int(statistics.median(asked)))


def peers(per_row: float = 0.0) -> dict[str, Callable[[DataFrame], QueryRun]]:
    """Return the same processor with Spark's own operators."""
    return {
        APPLY: lambda source: QueryRun(batches_of(apply_in_pandas(source, per_row))),
        TRANSFORM: lambda source: QueryRun(batches_of(transform_in_pandas(source, per_row))),
    }


def counted(key: Any, frames: Iterable[Any], total: int, per_row: float) -> tuple[int, Any]:
    """Work and count as `Count` does; return the total and the output."""
    import pandas as pd

    for frame in frames:
        if per_row:
            time.sleep(len(frame) * per_row)
        total += len(frame)
    return total, pd.DataFrame({"k": [key[0]], "n": [total]})


def apply_in_pandas(source: DataFrame, per_row: float) -> DataFrame:
    """Count with `applyInPandasWithState`."""
    from pyspark.sql.streaming.state import GroupStateTimeout

    def count(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        [total] = state.get if state.exists else (0,)
        total, output = counted(key, frames, total, per_row)
        state.update((total,))
        yield output

    return source.groupBy("k").applyInPandasWithState(
        count, OUTPUT, "n long", "update", GroupStateTimeout.NoTimeout
    )


def transform_in_pandas(source: DataFrame, per_row: float) -> DataFrame:
    """Count with `transformWithStateInPandas`."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Counter(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.total = handle.getValueState("n", "n long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            total = self.total.get()[0] if self.total.exists() else 0
            total, output = counted(key, rows, total, per_row)
            self.total.update((total,))
            yield output

        def close(self) -> None:
            pass

    return source.groupBy("k").transformWithStateInPandas(Counter(), OUTPUT, "update", "none")
