"""stateful: one owner per key, state in a Delta table, batches that can be done again."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException

from evenflow.errors import EvenflowError
from evenflow.owners import AutoWorkers
from evenflow.spark import KeyedProcessor, loads, read_state, stateful
from evenflow.spark.state.table import history
from evenflow.spark.versions import known
from evenflow.storage import open_storage
from evenflow.testing import wait_for
from extent import in_make_faults, long
from spark.processors import OUTPUT, STREAM, Adding, Everything, Late, Sessions
from spark.stateful_runs import ROWS, Sunk, cut, finish, held, numbers, start, totals
from spark.stream_files import read_batches, write_batches

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def test_state_moves_and_batches_can_be_done_again(spark: Any, tmp_path: Path) -> None:
    table = numbers(4)
    write_batches(tmp_path / "in", cut(table)[:2])
    sunk = Sunk()
    query = start(spark, tmp_path, sunk, scheme="explicit:algorithm=redist")
    query.processAllAvailable()
    with pytest.raises(EvenflowError, match="in use by another query"):
        start(spark, tmp_path, Sunk())
    query.rescale(workers=5)
    write_batches(tmp_path / "in", cut(table)[2:3], first=2)
    query.processAllAvailable()
    assert query.isActive
    assert query.exception() is None
    carried = query.loads()
    assert (carried.batch, carried.workers, sum(carried.rows)) == (2, 5, ROWS)
    assert carried.state_keys == len(totals(table.slice(0, 3 * ROWS)))
    assert sum(carried.keys) == len(totals(cut(table)[2]))
    assert loads(tmp_path / "state" / "_evenflow").rows == carried.rows
    moved = query.migrations()[-1]
    assert (moved["batch"], moved["from"], moved["to"]) == (2, 3, 5)
    held_before = len(totals(table.slice(0, 2 * ROWS)))
    assert moved["state_keys"] == held_before
    assert 0.2 < moved["part"] < 0.8  # two of five workers joined: 0.4 is the least
    assert moved["ideal"] == pytest.approx(0.4)
    assert moved["relative_migration"] == pytest.approx(moved["part"] / 0.4)
    assert moved["bytes"] > 0
    assert query.decisions()[0]["batch"] == 0
    query.stop()
    assert sunk.last() == totals(table.slice(0, 3 * ROWS))
    assert held(read_state(spark, tmp_path / "state")) == totals(table.slice(0, 3 * ROWS))
    assert held(read_state(spark, tmp_path / "state", batch=0)) == totals(cut(table)[0])
    with pytest.raises(EvenflowError, match="batch is 7"):
        read_state(spark, tmp_path / "state", batch=7)

    # Spark forgets that batch 2 was done: it comes again, changes nothing, and the outputs are the same
    for path in (tmp_path / "state" / "_checkpoint" / "commits").glob("*2*"):
        path.unlink()
    version = DeltaTable(str(tmp_path / "state")).version()
    again = Sunk()
    finish(start(spark, tmp_path, again, scheme="explicit:algorithm=redist"))
    assert again.calls == sunk.calls[-1:]
    assert DeltaTable(str(tmp_path / "state")).version() == version

    # the workers are those asked for last, not those of the call
    write_batches(tmp_path / "in", cut(table)[3:], first=3)
    query = start(spark, tmp_path, again, scheme="explicit:algorithm=redist")
    finish(query)
    assert query.loads().workers == 5
    assert held(read_state(spark, tmp_path / "state")) == totals(table)
    assert again.last() | sunk.last() | again.last() == totals(table)
    with pytest.raises(EvenflowError, match=r"is at batch 3 of query .* is new and starts with batch 0"):
        start(spark, tmp_path, Sunk(), checkpoint=tmp_path / "other")


def test_a_processor_that_fails(spark: Any, tmp_path: Path) -> None:
    table = numbers(2)
    write_batches(tmp_path / "in", cut(table)[:1])
    bad = tmp_path / "bad"
    using, sunk = Adding(bad), Sunk()
    finish(start(spark, tmp_path, sunk, using, scheme="consistent-hash"))
    bad.write_text("k1")
    write_batches(tmp_path / "in", cut(table)[1:], first=1)
    query = start(spark, tmp_path, sunk, using, scheme="consistent-hash")
    with pytest.raises(StreamingQueryException, match=r"Adding.process failed for key key='k1': KeyError"):
        finish(query)
    assert held(read_state(spark, tmp_path / "state")) == totals(cut(table)[0])
    bad.unlink()
    # the one that failed let the lock go; another number of workers in the call is a request, too
    query = start(spark, tmp_path, sunk, using, scheme="consistent-hash", workers=2)
    finish(query)
    assert query.loads().workers == 2
    assert held(read_state(spark, tmp_path / "state")) == totals(table)
    assert [batch for batch, _ in sunk.calls] == [0, 1]


@pytest.mark.parametrize("kind", ["folder", long("store")])
def test_damaged_and_missing_files_are_refused(
    spark: Any, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    table = numbers(3)
    root = tmp_path / "state" if kind == "folder" else request.getfixturevalue("s3").bucket() / "state"
    options: dict[str, Any] = {"state": root, "checkpoint": tmp_path / "checkpoint"}
    storage = open_storage(root)

    def contents() -> dict[str, bytes]:
        return {entry.name: storage.read(entry.name) for entry in storage.entries("data")}

    write_batches(tmp_path / "in", cut(table)[:2])
    finish(start(spark, tmp_path, Sunk(), **options))
    victim = next(name for name in contents() if name.startswith("data/0000000001"))
    content = storage.read(victim)
    write_batches(tmp_path / "in", cut(table)[2:], first=2)
    storage.put(victim, content[:40] + bytes(len(content) // 3) + content[40 + len(content) // 3 :])
    before = contents()
    version = next(history(storage))[0]
    with pytest.raises((StreamingQueryException, EvenflowError)) as refused:
        finish(start(spark, tmp_path, Sunk(), **options))
    assert str(storage.location / victim) in str(refused.value)
    assert "batch 0 is the last intact one" in str(refused.value)
    storage.delete([victim])
    with pytest.raises(EvenflowError, match=r"it is missing.*batch 0 is the last"):
        start(spark, tmp_path, Sunk(), **options)
    with pytest.raises(EvenflowError, match="damaged or missing"):
        read_state(spark, root)
    assert held(read_state(spark, root, batch=0)) == totals(cut(table)[0])
    storage.put(victim, content)
    assert next(history(storage))[0] == version
    assert contents() == before | {victim: content}
    finish(start(spark, tmp_path, Sunk(), **options))
    assert held(read_state(spark, root)) == totals(table)


def test_keys_and_states_of_many_types(spark: Any, tmp_path: Path) -> None:
    nan, moment = float("nan"), datetime(2024, 5, 1, 12, tzinfo=UTC)
    rows = [
        (nan, "a", moment + timedelta(seconds=5), Decimal("1.50"), "late"),
        (nan, "a", moment, Decimal("2.50"), "early"),
        (0.0, None, moment, Decimal("-1.00"), "zero"),
        (-0.0, None, moment + timedelta(seconds=1), Decimal("-2.00"), "minus"),
        (None, "a", moment, Decimal("9.99"), "none"),
    ]
    schema = pa.schema(
        [
            ("x", pa.float64()), ("user", pa.string()), ("ts", pa.timestamp("us", "UTC")),
            ("price", pa.decimal128(9, 2)), ("word", pa.string()),
        ]
    )  # fmt: skip
    batch = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    write_batches(tmp_path / "in", [batch, batch])
    from pyspark.sql import functions as F

    stream = read_batches(
        spark, tmp_path / "in", "x double, user string, ts timestamp, price decimal(9,2), word string"
    )
    query = stateful(
        stream, ["x", F.struct("user").alias("who"), F.to_date("ts").alias("day_of")], Everything(),
        "words string, n long, small int", tmp_path / "state", 2, "fill:split=no", order_by="ts",
    ).start(str(tmp_path / "out"), "json")  # fmt: skip
    finish(query)
    out = spark.read.json(str(tmp_path / "out"))
    expected = [
        (0, "early,late", 2),
        (0, "zero,minus", 2),
        (0, "none", 1),
        (1, "early,late", 4),
        (1, "zero,minus", 4),
        (1, "none", 2),
    ]
    assert sorted((row["batch"], row["words"], row["n"]) for row in out.collect()) == sorted(expected)
    found = {str(row["x"]): row for row in read_state(spark, tmp_path / "state").collect()}
    assert set(found) == {"nan", "0.0", "None"}
    row = found["nan"]
    assert row["who"]["user"] == "a"
    assert row["words"] == {"early": 2, "late": 2}
    assert [one["at"].replace(tzinfo=UTC) for one in row["seen"]][:2] == [
        moment,
        moment + timedelta(seconds=5),
    ]
    assert (row["best"], bytes(row["raw"]), row["small"], row["flag"], row["a.b"]) == (
        Decimal("2.50"),
        b"latelate",
        2,
        False,
        2.0,
    )
    assert row["day"] == moment.date() == row["day_of"]


def test_silent_keys_expire_while_the_stream_is_silent(spark: Any, tmp_path: Path) -> None:
    write_batches(tmp_path / "in", [pa.table({"key": ["a", "b", "a"], "number": [1, 2, 3]})])
    sunk = Sunk()
    query = start(spark, tmp_path, sunk, Sessions(0.5), heartbeat="1 second", scheme="key")
    try:
        wait_for(lambda: sunk.last() == {"a": (2, -1), "b": (1, -1)}, "the time-outs", 120)
        assert query.exception() is None
    finally:
        query.stop()
    assert read_state(spark, tmp_path / "state").count() == 0


@pytest.mark.parametrize("late", ["drop", "process"])
def test_late_rows(spark: Any, tmp_path: Path, late: str) -> None:
    def at(*rows: tuple[str, int]) -> pa.Table:
        moments = [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=second) for _, second in rows]
        return pa.table({"key": [key for key, _ in rows], "ts": pa.array(moments, pa.timestamp("us", "UTC"))})

    write_batches(
        tmp_path / "in", [at(("a", 10), ("b", 100)), at(("a", 20), ("c", 96)), at(("c", 300)), at(("d", 300))]
    )
    stream = read_batches(spark, tmp_path / "in", "key string, ts timestamp")
    sunk = Sunk()
    workers: Any = AutoWorkers(least=2, most=3) if late == "drop" else 2
    query = stateful(
        stream,
        "key",
        Late(50),
        OUTPUT,
        tmp_path / "state",
        workers,
        event_time="ts",
        delay="5 seconds",
        late=late,
    ).start(sunk, availableNow=True)
    query.awaitTermination()
    by_batch = [{row[0]: row[1:] for row in rows} for _, rows in sunk.calls]
    # the watermark of batch 1 is 95: a's row is late; where it is dropped, a expires (10 + 50 <= 95)
    assert by_batch[0] == {"a": (1, 0), "b": (1, 0)}
    assert by_batch[1] == ({"a": (1, -1), "c": (1, 0)} if late == "drop" else {"a": (2, 0), "c": (1, 0)})
    # of batch 2 it is still 95; of batch 3 it is 295, and what is older by 50 seconds goes, but not c
    assert by_batch[2] == {"c": (2, 0)} | ({} if late == "drop" else {"a": (2, -1)})
    assert by_batch[3] == {"d": (1, 0), "b": (1, -1)}
    committed = [note for note in query_notes(tmp_path) if note["event"] == "batch"]
    assert [sum(note["loads"]["late"]) for note in committed] == [0, 1, 0, 0]


@pytest.mark.faults
@in_make_faults
@pytest.mark.skipif(
    known.CLIENT < known.HAS_STOPPING_SOURCES, reason="Spark then reads all sources in one batch"
)
def test_a_heartbeat_leaves_the_limits_of_the_other_source_alone(spark: Any, tmp_path: Path) -> None:
    """A source that knows nothing of availableNow has Spark read the whole input in one batch."""
    table = numbers(6)
    write_batches(tmp_path / "in", cut(table)[:5])
    sunk = Sunk()
    for _ in range(2):
        query = start(
            spark,
            tmp_path,
            sunk,
            heartbeat="1 second",
            scheme="key",
            files=2,
            order_by="number",
            trigger={"availableNow": True},
        )
        query.awaitTermination()  # though time goes on
    by_batch = [sum(note["rows"]) for note in query_notes(tmp_path) if note["event"] == "batch"]
    assert [rows for rows in by_batch if rows] == [2 * ROWS, 2 * ROWS, ROWS]
    assert held(read_state(spark, tmp_path / "state")) == totals(table.slice(0, 5 * ROWS))


def query_notes(folder: Path) -> list[Any]:
    from evenflow.control.directory import Control

    return list(Control(folder / "state" / "_evenflow").notes())


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"using": Adding}, "pass an instance"),
    ({"using": object()}, "not a KeyedProcessor"),
    ({"using": KeyedProcessor()}, "declares no state"),
    ({"workers": 0}, "workers is 0"),
    ({"workers": "many"}, "workers is 'many'"),
    ({"scheme": "w-choices"}, "w-choices gives a key several workers"),
    ({"scheme": "explicit:algoritm=redist"}, "algorithm"),
    ({"order_by": "nmber"}, "order_by names 'nmber'"),
    ({"event_time": "number"}, "cast it to a timestamp"),
    ({"late": "ignore"}, "late is 'ignore'"),
    ({"keep": "a while"}, "keep is 'a while'"),
    ({"heartbeat": "0 seconds"}, "heartbeat is '0 seconds'"),
    ({"using": Late(1)}, "event_time is None"),
    ({"state": "hdfs://name/state"}, "state is 'hdfs://name/state'; hdfs is not supported"),
    ({"schema": "n interval day"}, "staged output"),
    ({"key": "kye"}, "'kye'"),
]


@pytest.mark.parametrize(("change", "sentence"), WRONG, ids=[sentence for _, sentence in WRONG])
def test_what_cannot_be_is_refused(spark: Any, tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    (tmp_path / "in").mkdir()
    stream = read_batches(spark, tmp_path / "in", STREAM)
    given = {"key": "key", "using": Adding(), "schema": OUTPUT, "state": tmp_path / "state", **change}
    with pytest.raises(EvenflowError, match=sentence):
        stateful(stream, **given)
    assert not (tmp_path / "state").exists()
