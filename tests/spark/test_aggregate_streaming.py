"""`aggregate` on streams equals Spark's own aggregate: windows, watermarks, late rows, append and update."""

from __future__ import annotations

import re
import shutil
import sys
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from evenflow import EvenflowError
from evenflow.spark import Aggregator, aggregate
from evenflow.spark.grouped.streaming_merge import PROVIDER, ROCKS_DB
from extent import long
from spark.aggregators import SCHEMA, Declared, Profile, plain
from spark.stream_files import (
    ARROW,
    BATCHES,
    ROWS,
    START,
    late_batches,
    read_batches,
    run_to_end,
    write_batches,
)
from spark.tables import rows_of

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

ONE_MORE = pa.Table.from_pylist([{"ts": START, "user": "hot", "word": "z", "x": 1.0}], ARROW)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    path: Path = tmp_path_factory.mktemp("stream") / "in"
    write_batches(path, late_batches())
    return path


@pytest.fixture(scope="module")
def wanted(rocks: Any, folder: Path, tmp_path_factory: Any) -> dict[str, list[str]]:
    """What Spark's own aggregate gives, by output mode."""
    from pyspark.sql import functions as F

    stream = read_batches(rocks, folder, ROWS).withWatermark("ts", "4 minutes")
    frame = plain(stream.groupBy(F.window("ts", "5 minutes"), "user"))
    scratch = tmp_path_factory.mktemp("wanted")
    return {mode: rows_of(run_to_end(frame, mode, mode, scratch / mode)) for mode in ("append", "update")}


def test_late_rows_are_late(wanted: dict[str, list[str]]) -> None:
    assert len(wanted["update"]) > len(wanted["append"]) > 5
    assert not any(re.search(r"'total': 1\d\d\d", row) for row in wanted["update"])


@pytest.mark.parametrize(
    ("using", "mode"),
    [
        pytest.param(Declared(), "update", id="merged by Spark, update"),
        pytest.param(Profile(), "append", id="merged in Python, append"),
        long(Declared(), "append", id="merged by Spark, append"),
        long(Profile(), "update", id="merged in Python, update"),
    ],
)
def test_windows_with_late_rows(
    rocks: Any, folder: Path, tmp_path: Path, wanted: dict[str, list[str]], mode: str, using: Any
) -> None:
    from pyspark.sql import functions as F

    stream = read_batches(rocks, folder, ROWS).withWatermark("ts", "4 minutes")
    key = [F.window("ts", "5 minutes"), F.col("user")]
    ours = aggregate(
        stream, key, using, SCHEMA, workers=3, output_mode=mode, control=str(tmp_path / "control")
    )
    assert ours.columns == ["window", "user", "n", "total", "words", "last"]
    assert ours.schema["window"].metadata["spark.watermarkDelayMs"] == 240_000
    assert rows_of(run_to_end(ours, mode, "found", tmp_path / "checkpoint")) == wanted[mode]


@pytest.mark.parametrize(
    "using", [long(Declared(), id="merged by Spark"), pytest.param(Profile(), id="merged in Python")]
)
def test_keys_without_a_watermark_update_for_ever_and_restart(
    rocks: Any, folder: Path, tmp_path: Path, using: Any
) -> None:
    copied = tmp_path / "in"
    shutil.copytree(folder, copied)
    first = _updates(_by_user(rocks, copied, using, 2), tmp_path / "first", tmp_path / "checkpoint")
    last = {row["user"]: row for row in first}  # the last update of every user
    whole = plain(rocks.read.schema(ROWS).parquet(str(folder)).groupBy("user")).collect()
    assert rows_of(list(last.values())) == rows_of(whole)
    write_batches(copied, [ONE_MORE], first=BATCHES)
    again = _updates(_by_user(rocks, copied, using, 3), tmp_path / "again", tmp_path / "checkpoint")
    assert [(row["user"], row["n"]) for row in again] == [("hot", last["hot"]["n"] + 1)]


def test_a_float_as_key_comes_out_as_from_spark(rocks: Any, folder: Path, tmp_path: Path) -> None:
    """-0.0 comes out as 0.0, even from a constant key, which a batch returns as it was written."""
    for form, key in {"stored": "if(x < 5, -0.0D, x)", "constant": "-0.0D"}.items():
        stream = read_batches(rocks, folder, ROWS, files=2).selectExpr(f"named_struct('f', {key}) as k", "*")
        wanted = run_to_end(plain(stream.groupBy("k")), "update", "wanted", tmp_path / form / "wanted")
        ours = aggregate(stream, "k", Declared(), SCHEMA, workers=3)
        found = run_to_end(ours, "update", "found", tmp_path / form / "found")
        assert sorted(map(str, found)) == sorted(map(str, wanted))


def _by_user(spark: Any, folder: Path, using: Any, workers: int) -> Any:
    return aggregate(read_batches(spark, folder, ROWS), "user", using, SCHEMA, workers=workers, scheme="key")


def _updates(frame: Any, target: Path, checkpoint: Path) -> list[Any]:
    """Run a query that can be restarted; return what it wrote, in the order of its batches."""

    def write(batch: Any, number: int) -> None:
        batch.selectExpr("*", f"{number} as batch").write.mode("append").parquet(str(target))

    query = frame.writeStream.foreachBatch(write).outputMode("update").trigger(availableNow=True)
    assert query.option("checkpointLocation", str(checkpoint)).start().awaitTermination(500)
    return list(frame.sparkSession.read.parquet(str(target)).orderBy("batch").drop("batch").collect())


def test_a_time_as_key_is_done_when_the_watermark_has_passed_it(
    rocks: Any, folder: Path, tmp_path: Path
) -> None:
    from pyspark.sql import functions as F

    stream = read_batches(rocks, folder, ROWS).withWatermark("ts", "1 minute")
    shown = plain(stream.groupBy("ts")).select("ts", "n")
    found = aggregate(stream, "ts", Profile(), SCHEMA, workers=2, scheme="key").select("ts", "n")
    wanted = run_to_end(shown.filter(F.col("n") > 0), "append", "one", tmp_path / "one")
    assert rows_of(run_to_end(found, "append", "other", tmp_path / "other")) == rows_of(wanted)


class Latest(Aggregator):
    """Keeps the values of one row, of many types."""

    buffer = (
        "n long, d decimal(9,2), b binary, s struct<a: int, t: timestamp, m: map<string, date>>, "
        "l array<date>, f float, i interval day to second, z timestamp_ntz, o boolean"
    )

    def zero(self) -> Any:
        return (0, *[None] * 8)

    def reduce(self, state: Any, rows: Any) -> Any:
        day = date(2024, 3, 31)
        return (
            state[0] + rows.num_rows, Decimal("1.25"), b"\0\xff", {"a": 1, "t": START, "m": {"k": day}},
            [day, None], 0.5, timedelta(days=1, microseconds=1), datetime(2024, 3, 31, 2, 30), True,
        )  # fmt: skip

    def merge(self, a: Any, b: Any) -> Any:
        assert a[1:] == b[1:], (a, b)
        return (a[0] + b[0], *a[1:])

    def finish(self, state: Any) -> Any:
        return state


def test_a_state_of_any_type_comes_back_as_it_was(rocks: Any, folder: Path, tmp_path: Path) -> None:
    stream = read_batches(rocks, folder, ROWS).selectExpr("1 as k")
    frame = aggregate(stream, "k", Latest(), str(Latest.buffer), workers=2, scheme="key")
    rows = run_to_end(frame, "update", "types", tmp_path / "checkpoint")
    assert len(rows) == BATCHES
    [whole] = aggregate(
        rocks.read.schema(ROWS).parquet(str(folder)).selectExpr("1 as k"),
        "k",
        Latest(),
        str(Latest.buffer),
        workers=2,
    ).collect()
    assert max(rows, key=lambda row: row["n"]) == whole


def test_an_exception_fails_the_query_with_the_key_and_the_class(
    rocks: Any, folder: Path, tmp_path: Path
) -> None:
    class Poisoned(Profile):
        def merge(self, a: Any, b: Any) -> Any:
            raise ZeroDivisionError("poison")

    stream = read_batches(rocks, folder, ROWS)
    frame = aggregate(stream, "user", Poisoned(), SCHEMA, workers=2, scheme="key")
    with pytest.raises(Exception, match=r"Poisoned\.merge failed for key user=.*: ZeroDivisionError: poison"):
        run_to_end(frame, "update", "poisoned", tmp_path / "checkpoint")


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "complete": ({"output_mode": "complete"}, "output_mode is 'complete', which would write every key"),
    "unknown": ({"output_mode": "upsert"}, "output_mode is 'upsert'; choose one of append, update."),
    "append for ever": ({"output_mode": "append"}, "no column of the key has a watermark"),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_bad_input_is_a_sentence(rocks: Any, folder: Path, name: str) -> None:
    change, sentence = BAD[name]
    with pytest.raises(EvenflowError, match=sentence):
        aggregate(
            read_batches(rocks, folder, ROWS), "user", Profile(), SCHEMA, workers=2, scheme="key", **change
        )


def test_another_state_store_is_refused(rocks: Any, folder: Path) -> None:
    rocks.conf.unset(PROVIDER)  # the sentence shows Spark's default
    try:
        with pytest.raises(EvenflowError, match=r"HDFSBackedStateStoreProvider, .*needs RocksDB"):
            aggregate(read_batches(rocks, folder, ROWS), "user", Profile(), SCHEMA, workers=2, scheme="key")
    finally:
        rocks.conf.set(PROVIDER, ROCKS_DB)


@pytest.mark.parametrize("workers", [1, 2])
def test_many_partitions_of_the_state_are_named(
    rocks: Any, folder: Path, workers: int, caplog: pytest.LogCaptureFixture
) -> None:
    partitions = int(rocks.conf.get("spark.sql.shuffle.partitions"))
    rocks.conf.set("spark.sql.shuffle.partitions", 8)
    try:
        stream = read_batches(rocks, folder, ROWS)
        aggregate(stream, "user", Profile(), SCHEMA, workers=workers, scheme="key")
    finally:
        rocks.conf.set("spark.sql.shuffle.partitions", partitions)
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned == [] if workers == 2 else "spark.sql.shuffle.partitions is 8 for 1 workers" in warned[0]
