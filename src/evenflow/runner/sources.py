"""Inputs of `evenflow run`: files, generators or Spark's rate source, as a stream and as a table.

* a file, folder or glob pattern of .parquet, .orc, .csv, .tsv, .json(l) or text; the rows of a text are its
  words;
* a generator, with the usual spec: ``zipf:z=1.4,keys=1e5,messages=1e6``. Row i is a pure function of i, so a
  restarted query reads the same rows. ``documents``, ``points`` and ``trades`` generate rows with more
  columns than a key (:mod:`evenflow.apps.generated`);
* ``rate``: Spark's rate source, with keys that follow Zipf's law (z = 1.4, 1e5 keys);
* a topic of Kafka: ``kafka://HOST:PORT/TOPIC``, with options as in :mod:`evenflow.kafka.address`.
"""

from __future__ import annotations

import glob
import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from evenflow.apps.generated import ROWS, RowGenerator, open_rows
from evenflow.errors import EvenflowError, nearest
from evenflow.kafka.address import KafkaAddress, is_kafka
from evenflow.kafka.avro import read_schema
from evenflow.kafka.topic import newest_offsets, partitions_of
from evenflow.spark.kafka.source import REFUSE, Records, decode, load, value_fields
from evenflow.spark.versions.arrow import arrow_function
from evenflow.streams import Zipf
from evenflow.streams.generator import Generator
from evenflow.streams.spelling import GENERATORS, open_stream

MOST_PER_BATCH = 100_000  # default for generators
RATE = "rate"
FORMATS = {"parquet": "parquet", "orc": "orc", "csv": "csv", "tsv": "csv", "json": "json", "jsonl": "json"}
_PACKED = {"gz", "bz2", "zst", "lz4", "snappy"}
_CLOCK = 1e4  # rows per second of a generator without a rate
_START = 1_600_000_000  # Unix time of a generator's first row


@dataclass(frozen=True)
class Input:
    """A streaming frame, the key columns, and the number of batches (None if unknown).

    ``table`` has all current rows as a batch frame; None for unbounded sources. ``recent`` has as many of
    them as a first plan needs, ``bad`` the records that cannot be decoded, as a stream.
    """

    frame: DataFrame
    key: list[str]
    batches: int | None = None
    endless: bool = False
    table: DataFrame | None = None
    recent: DataFrame | None = None
    bad: DataFrame | None = None


def open_input(
    spark: SparkSession,
    source: str,
    key: list[str],
    *,
    rate: int = 10_000,
    rows_per_batch: int | None = None,
    follow: bool = False,
    keys: tuple[str, ...] = ("key",),
    bad_records: str = REFUSE,
) -> Input:
    """Open a source; with ``follow``, wait for more files or records after all have been read.

    ``rows_per_batch`` applies to generators, where None is a tenth of the rows, so that plans have batches to
    learn from, and to topics. ``keys`` are the default key columns; () for apps that make their own keys.
    ``bad_records`` is "refuse", or a folder if records that cannot be decoded are kept aside.
    """
    if is_kafka(source):
        return _topic(spark, KafkaAddress.parse(source), key, rows_per_batch, follow, keys, bad_records)
    if bad_records != REFUSE:
        raise EvenflowError(
            f"--bad-records is {bad_records!r}, but {source} is not a topic of Kafka; omit it."
        )
    if source == RATE:
        frame = spark.readStream.format("rate").option("rowsPerSecond", rate).load()
        keyed = frame.select("timestamp", "value", keys_at(F.col("value"), Zipf()).alias("key"))
        return Input(keyed, _chosen(key, keyed, source, keys), endless=True)
    if _is_generated(source):
        return _generated(spark, source, key, rows_per_batch, keys)
    path, column = _path_and_column(source)
    if column and key:
        raise EvenflowError(f"the key is given twice, as {column!r} after # and as {key[0]!r}; choose one.")
    frame, table = _files(spark, path)
    named = column.split("+") if column else key
    return Input(frame, _chosen(named, frame, path, keys), endless=follow, table=table)


def check_source(source: str) -> None:
    """Reject a missing source before starting Spark."""
    if source == RATE:
        return
    if is_kafka(source):
        address = KafkaAddress.parse(source)
        if address.is_avro:
            read_schema(address.value)
        partitions_of(address)
    elif _is_generated(source):
        open_rows(source) or open_stream(source)
    else:
        _first_file(_path_and_column(source)[0])


def _is_generated(source: str) -> bool:
    word = source.partition(":")[0].strip().lower()
    return word in (*GENERATORS, *ROWS) and not os.path.exists(source)


def _path_and_column(source: str) -> tuple[str, str]:
    if "#" not in source or os.path.exists(source):
        return source, ""
    path, _, column = source.rpartition("#")
    return path, column


def keys_at(position: Column, stream: Generator) -> Column:
    """Return the keys of a generated stream at the given positions, which wrap around at its end."""

    def make(positions: pa.Array) -> pa.Array:
        wanted = positions.to_numpy(zero_copy_only=False) % stream.messages
        if not wanted.size:
            return pa.array([], pa.int64())
        first, last = int(wanted.min()), int(wanted.max())
        if last - first > 64 * wanted.size:  # positions wrap around
            return pa.array(
                [int(stream.generate(at, at + 1).ids[0]) + 1 for at in wanted.tolist()], pa.int64()
            )
        return pa.array(stream.generate(first, last + 1).ids[wanted - first].astype(np.int64) + 1)

    return arrow_function(make, "long", pa.int64())(position)


def rows_at(position: Column, generator: RowGenerator) -> Column:
    """Return the rows of a generator at the given positions, as a struct."""

    def make(positions: pa.Array) -> pa.Array:
        return generator.make(positions.to_numpy(zero_copy_only=False))

    return arrow_function(make, generator.ddl, pa.int64())(position)


def _generated(
    spark: SparkSession, source: str, key: list[str], rows_per_batch: int | None, keys: tuple[str, ...]
) -> Input:
    stream = open_rows(source) or open_stream(source)
    if not isinstance(stream, Generator | RowGenerator):
        raise EvenflowError(f"{source} is not a generator; use one such as {Zipf().name}.")
    a_batch = rows_per_batch or min(MOST_PER_BATCH, math.ceil(stream.messages / 10))
    batches = math.ceil(stream.messages / a_batch)
    numbers = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", min(a_batch, stream.messages))
        .load()
        .where(F.col("value") < stream.messages)
    )
    table = spark.range(stream.messages).withColumnRenamed("id", "value")
    frame, table = (_made(numbers, stream), _made(table, stream))
    return Input(frame, _chosen(key, frame, source, keys), batches, table=table)


def _made(numbers: DataFrame, stream: Generator | RowGenerator) -> DataFrame:
    """Return the rows of a generated stream for a frame of row numbers."""
    number = F.col("value").alias("number")
    if isinstance(stream, RowGenerator):
        return numbers.select(number, rows_at(F.col("value"), stream).alias("row")).select("number", "row.*")
    time = F.timestamp_seconds(F.lit(_START) + F.col("value") / F.lit(stream.rate or _CLOCK))
    return numbers.select(number, time.alias("time"), keys_at(F.col("value"), stream).alias("key"))


def _topic(
    spark: SparkSession,
    address: KafkaAddress,
    key: list[str],
    rows_per_batch: int | None,
    follow: bool,
    keys: tuple[str, ...],
    bad_records: str,
) -> Input:
    newest = newest_offsets(address, MOST_PER_BATCH)  # asks the broker first, which has the better sentences
    fields = value_fields(spark, address)

    def read(streaming: bool, **options: Any) -> Records:
        records = load(spark, address, streaming=streaming, options=options)
        return decode(records, address, fields, bad_records)

    stream = read(
        True, **{"maxOffsetsPerTrigger": rows_per_batch or MOST_PER_BATCH, **address.spark_options()}
    )
    return Input(
        stream.rows,
        _chosen(key, stream.rows, address.name, keys),
        endless=follow,
        table=read(False).rows,
        recent=read(False, startingOffsets=newest).rows,
        bad=stream.bad,
    )


def _files(spark: SparkSession, path: str) -> tuple[DataFrame, DataFrame]:
    first = _first_file(path)
    ending = [part.lower() for part in os.path.basename(first).split(".")[1:] if part.lower() not in _PACKED]
    kind = FORMATS.get(ending[-1] if ending else "", "text")
    options = {"header": "true"} if kind == "csv" else {}
    if ending and ending[-1] == "tsv":
        options["sep"] = "\t"
    table = spark.read.options(**options).format(kind).load(path)
    reader = spark.readStream.options(**options).option("maxFilesPerTrigger", 1).format(kind)
    reader = reader.schema(table.schema)
    if os.path.isfile(path):  # streaming file sources read folders and patterns
        frame = reader.option("pathGlobFilter", os.path.basename(path)).load(os.path.dirname(path) or ".")
    else:
        frame = reader.load(path)
    return (_words(frame), _words(table)) if kind == "text" else (frame, table)


def _words(lines: DataFrame) -> DataFrame:
    words = F.explode(F.split(F.lower(F.col("value")), r"[^\p{L}\p{N}']+"))
    return lines.select(words.alias("word")).where("word != ''")


def _first_file(path: str) -> str:
    """Return the first file that ``path`` stands for; like Spark, ignore names that begin with _ or ."""
    if "://" in path:
        return path
    inside = glob.glob(os.path.join(glob.escape(path), "**", "*"), recursive=True)
    found = inside if os.path.isdir(path) else glob.glob(path)
    files = [name for name in sorted(found) if os.path.isfile(name) and os.path.basename(name)[0] not in "_."]
    if not files:
        words = [*GENERATORS, *ROWS, RATE]
        raise EvenflowError(
            f"there is no file {path!r}; use a path, 'rate', or a generator such as {Zipf().name}"
            + (f" ({guess})." if (guess := nearest(path.partition(":")[0], words)).startswith("did") else ".")
        )
    return files[0]


def _chosen(key: list[str], frame: DataFrame, source: str, keys: tuple[str, ...]) -> list[str]:
    """Return the key columns: those given, else a default, else the only column."""
    names = frame.columns
    if not keys:
        if key:
            raise EvenflowError(f"the key is {key[0]!r}, but this app makes its own keys; omit it.")
        return []
    if key:
        for name in key:
            if name.partition(".")[0] not in names:
                raise EvenflowError(f"{source} has no column {name!r}; {nearest(name, names)}")
        return key
    usual = [name for name in keys if name in names]
    if usual:
        return usual[:1]
    if len(names) == 1:
        return list(names)
    raise EvenflowError(f"{source} has the columns {', '.join(names)}; name the key column with --key.")
