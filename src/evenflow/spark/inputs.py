"""What `evenflow run` reads: files, generated streams, or rows at a rate, each as a streaming frame.

* a file, folder or pattern of .parquet, .orc, .csv, .tsv, .json(l) or text; of text the rows are its words;
* a generator, spelled as everywhere in evenflow: ``zipf:z=1.4,keys=1e5,messages=1e6``. The i-th row is a pure
  function of i, so a query that starts again reads the same rows;
* ``rate``: Spark's rate source, so many rows a second, with keys by Zipf's law (z = 1.4, 1e5 keys).
"""

from __future__ import annotations

import glob
import math
import os
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from evenflow.errors import EvenflowError, nearest
from evenflow.streams import Zipf
from evenflow.streams.generator import Generator
from evenflow.streams.spelling import GENERATORS, open_stream

RATE = "rate"
FORMATS = {"parquet": "parquet", "orc": "orc", "csv": "csv", "tsv": "csv", "json": "json", "jsonl": "json"}
_PACKED = {"gz", "bz2", "zst", "lz4", "snappy"}


@dataclass(frozen=True)
class Input:
    """A streaming frame, the key's columns, and in how many batches it ends (None: it does not say)."""

    frame: DataFrame
    key: list[str]
    batches: int | None = None
    endless: bool = False


def open_input(
    spark: SparkSession, source: str, key: list[str], *, rate: int, rows_per_batch: int, follow: bool
) -> Input:
    """Return what ``source`` spells; ``follow``: wait for more files when all are read."""
    if source == RATE:
        frame = spark.readStream.format("rate").option("rowsPerSecond", rate).load()
        keyed = frame.select("timestamp", "value", keys_at(F.col("value"), Zipf()).alias("key"))
        return Input(keyed, _chosen(key, keyed, source), endless=True)
    if source.partition(":")[0].strip().lower() in GENERATORS and not os.path.exists(source):
        return _generated(spark, source, key, rows_per_batch)
    path, _, column = (
        source.rpartition("#") if "#" in source and not os.path.exists(source) else (source, "", "")
    )
    if column and key:
        raise EvenflowError(f"the key is given twice, as {column!r} after # and as {key[0]!r}; choose one.")
    frame = _files(spark, path)
    return Input(frame, _chosen(column.split("+") if column else key, frame, path), endless=follow)


def keys_at(position: Column, stream: Generator) -> Column:
    """Return the keys of a generated stream at some positions (those beyond its end begin again)."""

    def make(positions: pa.Array) -> pa.Array:
        wanted = positions.to_numpy(zero_copy_only=False) % stream.messages
        if not wanted.size:
            return pa.array([], pa.int64())
        first, last = int(wanted.min()), int(wanted.max())
        if last - first > 64 * wanted.size:  # the end and the beginning in one go
            return pa.array(
                [int(stream.generate(at, at + 1).ids[0]) + 1 for at in wanted.tolist()], pa.int64()
            )
        return pa.array(stream.generate(first, last + 1).ids[wanted - first].astype(np.int64) + 1)

    make.__annotations__ = {"positions": pa.Array, "return": pa.Array}
    return F.arrow_udf(make, "long")(position)


def _generated(spark: SparkSession, source: str, key: list[str], rows_per_batch: int) -> Input:
    stream = open_stream(source)
    if not isinstance(stream, Generator):
        raise EvenflowError(f"{source} is no generator.")
    batches = math.ceil(stream.messages / rows_per_batch)
    frame = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", min(rows_per_batch, stream.messages))
        .load()
        .where(F.col("value") < stream.messages)
    )
    keyed = frame.select(F.col("value").alias("number"), keys_at(F.col("value"), stream).alias("key"))
    return Input(keyed, _chosen(key, keyed, source), batches)


def _files(spark: SparkSession, path: str) -> DataFrame:
    first = _first_file(path)
    ending = [part.lower() for part in os.path.basename(first).split(".")[1:] if part.lower() not in _PACKED]
    kind = FORMATS.get(ending[-1] if ending else "", "text")
    options = {"header": "true"} if kind == "csv" else {}
    if ending and ending[-1] == "tsv":
        options["sep"] = "\t"
    schema = spark.read.options(**options).format(kind).load(path).schema
    reader = spark.readStream.options(**options).option("maxFilesPerTrigger", 1).schema(schema).format(kind)
    if os.path.isfile(path):  # a stream of files reads folders and patterns
        frame = reader.option("pathGlobFilter", os.path.basename(path)).load(os.path.dirname(path) or ".")
    else:
        frame = reader.load(path)
    if kind == "text":
        words = F.explode(F.split(F.lower(F.col("value")), r"[^\p{L}\p{N}']+"))
        return frame.select(words.alias("word")).where("word != ''")
    return frame


def _first_file(path: str) -> str:
    """Return a file that ``path`` stands for; one that starts with _ or . is not data to Spark."""
    if "://" in path:
        return path
    inside = glob.glob(os.path.join(glob.escape(path), "**", "*"), recursive=True)
    found = inside if os.path.isdir(path) else glob.glob(path)
    files = [name for name in sorted(found) if os.path.isfile(name) and os.path.basename(name)[0] not in "_."]
    if not files:
        words = [*GENERATORS, RATE]
        raise EvenflowError(
            f"there is no file {path!r}; give a path, 'rate', or a generator such as {Zipf().name}"
            + (f" ({guess})." if (guess := nearest(path.partition(":")[0], words)).startswith("did") else ".")
        )
    return files[0]


def _chosen(key: list[str], frame: DataFrame, source: str) -> list[str]:
    """Return the key's columns: those named, else ``key``, else the only one there is."""
    names = frame.columns
    if key:
        for name in key:
            if name.partition(".")[0] not in names:
                raise EvenflowError(f"{source} has no column {name!r}; {nearest(name, names)}")
        return key
    if "key" in names:
        return ["key"]
    if len(names) == 1:
        return list(names)
    raise EvenflowError(f"{source} has the columns {', '.join(names)}; say which is the key with --key.")
