"""`join` with streams equals Spark's own join, whatever the plans are and whatever happens to them."""

from __future__ import annotations

import itertools
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from evenflow import EvenflowError, hash_keys
from evenflow.blob import read_blob
from evenflow.control.directory import Control
from evenflow.plan import JoinPlan, make_join_plan
from evenflow.plan.counted import Counted
from evenflow.plan.join_build import KINDS
from evenflow.spark import join
from evenflow.spark.joining import stream_static, stream_stream
from evenflow.spark.joining.hot_keys import LOOK_UP, MicroBatch
from evenflow.spark.joining.join_replanner import StreamsReplanner
from evenflow.spark.joining.on import resolve_on
from evenflow.spark.joining.plan_versions import KIND, PlanVersions
from evenflow.spark.joining.sides import JoinSides
from evenflow.spark.joining.stream_plans import StreamPlans
from evenflow.spark.joining.streamed_side import streamed_side
from evenflow.spark.joining.time_range import TimeRange, time_range
from evenflow.spark.replanning.plan_source import current_look_up
from evenflow.storage import open_storage
from extent import ALL, in_make_faults
from spark.stream_files import read_batches, run_to_end, write_batches
from spark.tables import rows_of
from storage.s3_server import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.faults, pytest.mark.usefixtures("no_broadcast")]

ROWS = "k long, x double, row long, ts timestamp"
START = datetime(2024, 3, 10, 6, tzinfo=UTC)
NUMBER = itertools.count()
OTHERS = ["k", "y", "r", "until"]
PARTITIONS = 4
MANY = 60 if ALL else 0
BATCHES = 5 if ALL else 3


def table(rows: int, hot: float, seed: int, minute: float = 0.0, keys: int = 40) -> pa.Table:
    """Return rows of which a share has the key 7, and a few have none; some are an hour late."""
    rng = np.random.default_rng(seed)
    ids = np.where(rng.random(rows) < hot, 7, rng.integers(0, keys, rows))
    seconds = 60 * minute + rng.uniform(0, 120, rows) - np.where(rng.random(rows) < 0.05, 3600, 0)
    times = [START + timedelta(seconds=round(second)) for second in seconds]
    return pa.table(
        {
            "k": pa.array(ids, mask=rng.random(rows) < 0.05),
            "x": rng.integers(0, 9, rows).astype(float),
            "row": np.arange(rows),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


def any_plan(workers: int, seed: int) -> JoinPlan:
    """Return a plan of hot keys that may be hot or not, for any kind of join: wrong, as a stale one is."""
    rng = np.random.default_rng(seed)
    hashes = hash_keys(pa.array([7, 0, 1, 2, 99], pa.int64()))
    ours, theirs = (Counted(hashes, rng.choice([1.0, 50.0, 3000.0], hashes.size), 1e4) for _ in range(2))
    return make_join_plan(workers, ours, theirs, str(rng.choice(KINDS)))


def result(frame: Any, folder: Path) -> list[str]:
    """Return the rows that a query of this frame writes, as sorted texts."""
    name = f"joined_{next(NUMBER)}"
    return rows_of(run_to_end(frame, "append", name, folder / name))


@pytest.mark.timeout(3600)
@settings(max_examples=MANY or 2, phases=[Phase.explicit, Phase.generate])
@given(
    how=st.sampled_from([(side, kind) for side, kinds in stream_static.KINDS.items() for kind in kinds]),
    hot=st.sampled_from([0.0, 0.6, 1.0]),
    sizes=st.sampled_from([(60, 30), (60, 30), (60, 0), (0, 30)]),
    rest=st.booleans(),
    workers=st.sampled_from([1, 3, 7]),
    planned=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_a_stream_and_a_table(
    spark: Any, tmp_path_factory: Any, how: Any, hot: float, sizes: Any, rest: bool, workers: int,
    planned: bool, seed: int,
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("join")
    write_batches(folder / "in", [table(sizes[0], hot, seed + number) for number in range(3)])
    write_batches(folder / "table", [table(sizes[1], 0.3, seed + 9).rename_columns(OTHERS)])
    side, kind = how
    plan = any_plan(workers, seed) if planned else None

    def both(left: Any) -> tuple[Any, Any, Any]:
        right = spark.read.parquet(str(folder / "table"))
        given = (left, right) if side == "left" else (right, left)
        return *given, left["x"] < right["y"] if rest else None

    left, right, condition = both(read_batches(spark, folder / "in", ROWS))
    ours = join(left, right, "k", kind, workers, plan=plan, condition=condition)
    wanted = plain(*both(spark.read.schema(ROWS).parquet(str(folder / "in"))), kind)
    assert ours.columns == wanted.columns
    assert result(ours, folder) == rows_of(wanted.collect())


@pytest.mark.timeout(3600)
@settings(max_examples=MANY or 1, phases=[Phase.explicit, Phase.generate])
@given(
    how=st.sampled_from(stream_stream.KINDS),
    hot=st.sampled_from([(0.0, 0.0), (0.6, 0.0), (0.0, 0.6), (0.4, 0.4), (1.0, 1.0)]),
    sizes=st.sampled_from([(60, 30), (60, 30), (60, 0), (0, 30)]),
    by_name=st.booleans(),
    minutes=st.sampled_from([1, 2, 4]),
    changing=st.booleans() if ALL else st.just(True),
    seed=st.integers(0, 2**32),
)
def test_two_streams(
    spark: Any, tmp_path_factory: Any, how: str, hot: Any, sizes: Any, by_name: bool, minutes: int,
    changing: bool, seed: int,
) -> None:  # fmt: skip
    """Late rows, rows that wait for a match in a later batch and rows that never find one included.

    ``changing`` plans are others, and wrong, after every batch; rows of many batches may match each other.
    """
    folder = tmp_path_factory.mktemp("join")
    for name, share, rows in zip(("left", "right"), hot, sizes, strict=True):
        write_batches(folder / name, [table(rows, share, seed + 7 * n, minutes * n) for n in range(BATCHES)])
    plan = any_plan(PARTITIONS, seed)
    found = []
    for mine in (True, False):
        left, right, near = near_streams(spark, folder)
        on = "k" if by_name else left["k"] == right["k"]
        if mine:
            with pytest.MonkeyPatch.context() as patched:
                if changing:
                    patched.setattr(stream_stream, "StreamsReplanner", Restless)
                frame = join(left, right, on, how, plan=plan, condition=near, control=str(folder / "control"))
        elif by_name:
            frame = plain(left, right, near, how)
        else:
            frame = left.join(right, on & near, how)
        found.append((frame.columns, [field.nullable for field in frame.schema], result(frame, folder)))
    assert found[0] == found[1]
    if changing and min(sizes):
        assert len(versions_of(folder / "control")[-1]) > 1


class Restless(StreamsReplanner):
    """Replaces the plan after every batch."""

    def learn(self, side: str, stats: Any) -> None:
        plan = self.plans.usable(any_plan(self.plans.workers, stats.batch))
        known = {"query": stats.query, "batch": stats.batch, "watermark": stats.watermark}
        self.plans.write(stats.batch, plan, **known)


def versions_of(control: Path) -> list[list[int]]:
    """Return the plans of each batch of the only query in a control directory."""
    claims = sorted(control.glob("*/*/*.claim"), key=lambda path: int(path.stem))
    return [read_blob(KIND, path.read_bytes())[0]["versions"] for path in claims]


def plain(left: Any, right: Any, condition: Any, how: str) -> Any:
    """Return Spark's join on k and a condition, with the columns of a join on the name k."""
    if condition is None:
        return left.join(right, "k", how)
    joined = left.join(right, (left["k"] == right["k"]) & condition, how)
    if how in ("left_semi", "left_anti"):
        return joined
    key = (right if how == "right" else left)["k"].alias("k")
    others = [frame[name] for frame in (left, right) for name in frame.columns if name != "k"]
    return joined.select(key, *others)


def shifted(workers: int, serial: int) -> JoinPlan:
    """Return a plan with one home for the key 7, which moves from plan to plan."""
    home = np.array([serial % workers], np.int32)
    one, rows = np.ones(1, np.int32), np.array([1000.0])
    return JoinPlan(
        workers, hash_keys(pa.array([7], pa.int64())), np.ones(1), rows, np.ones(1), one, one, home,
        np.full(workers, 1 / workers), (1000.0, 1.0),
    )  # fmt: skip


@contextmanager
def disturbed(plans: StreamPlans, kind: str) -> Iterator[None]:
    """Replace or delete the plan all the time."""
    ends = Event()

    def disturb() -> None:
        serial = 1
        while not ends.wait(0.002):
            serial += 1
            if kind == "lost" and serial % 4 == 0:
                shutil.rmtree(plans.folder, ignore_errors=True)
            with suppress(OSError):
                plans.write_for_look_up(serial, shifted(plans.workers, serial))

    thread = Thread(target=disturb)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


@pytest.mark.parametrize("kind", ["replaced", "lost"])
def test_both_sides_use_one_plan(spark: Any, tmp_path: Path, compiled: None, kind: str) -> None:
    """Plans that change or vanish all the time cost no row."""
    batches = 3 + 9 * ALL
    write_batches(tmp_path / "in", [table(60, 0.6, number) for number in range(batches)])
    right = spark.createDataFrame(table(30, 0.3, 9).rename_columns(OTHERS))
    stream = read_batches(spark, tmp_path / "in", ROWS)
    control = tmp_path / "control"
    ours = join(stream, right, "k", "left", plan=shifted(4, 0), control=str(control))
    batch = spark.read.schema(ROWS).parquet(str(tmp_path / "in"))
    wanted = rows_of(batch.join(right, "k", "left").collect())
    [plan] = control.glob("*.plan")
    with disturbed(StreamPlans(str(control), plan.stem, 4, "left"), kind):
        assert result(ours, tmp_path) == wanted


@pytest.mark.parametrize("checked", [True, False])
def test_sides_with_two_plans_fail(spark: Any, tmp_path: Path, monkeypatch: Any, checked: bool) -> None:
    """Were the plan read for each side, rows would be lost; so that fails the batch instead."""
    write_batches(tmp_path / "in", [table(60, 0.6, 1)])
    right = spark.createDataFrame(table(30, 0.3, 9).rename_columns(OTHERS))
    ours, other = StreamPlans(str(tmp_path / "0"), "join", 4), StreamPlans(str(tmp_path / "1"), "join", 4)
    look_ups = []
    for number, plans in enumerate((ours, other)):
        assert plans.write_for_look_up(1, shifted(4, number))
        look_ups.append(current_look_up(spark, plans.control, plans.file, 4, LOOK_UP))

    def with_its_own(*arguments: Any) -> Any:
        given = list(arguments)
        given[3] = look_ups[given[4] == "right"]
        given[6] = replace(given[6], tells_plan=checked)
        return streamed_side(*given)

    monkeypatch.setattr(stream_static, "streamed_side", with_its_own)
    stream = read_batches(spark, tmp_path / "in", ROWS)
    frame = join(stream, right, "k", "left", plan=shifted(4, 0), control=str(tmp_path / "control"))
    if checked:
        with pytest.raises(StreamingQueryException, match="read different plans in one micro-batch"):
            result(frame, tmp_path)
    else:
        batch = spark.read.schema(ROWS).parquet(str(tmp_path / "in"))
        assert result(frame, tmp_path) != rows_of(batch.join(right, "k", "left").collect())


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_a_plan_is_read_once(spark: Any, tmp_path: Path, adaptive: str) -> None:
    """Spark plans one subquery in a batch of each kind."""
    write_batches(tmp_path / "in", [table(60, 0.6, number) for number in range(2)])
    right = spark.createDataFrame(table(30, 0.3, 9).rename_columns(OTHERS))
    stream = read_batches(spark, tmp_path / "in", ROWS)
    before = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        for side, kinds in stream_static.KINDS.items():
            sides = (stream, right) if side == "left" else (right, stream)
            for kind in kinds:
                frame = join(*sides, "k", kind, plan=shifted(4, 0))
                name = f"joined_{next(NUMBER)}"
                writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / name))
                query = writer.trigger(availableNow=True).start()
                assert query.awaitTermination(500)
                text = query._jsq.explainInternal(False)
                final = next((line for line in text.splitlines() if "== Final Plan ==" in line), "")
                text = text.partition(f"\n{final.replace('Final', 'Initial') or None}\n")[0]
                own = re.findall(r"^[ :+-]*Subquery .*subquery#\d+", text, re.MULTILINE)
                assert len(own) == 1, text
                assert "ReusedSubquery" in text
        spark.conf.set("spark.sql.execution.reuseSubquery", "false")
        with pytest.raises(EvenflowError, match=r"reuseSubquery is off, .* set it to true"):
            join(stream, right, "k", plan=shifted(4, 0))
    finally:
        spark.conf.unset("spark.sql.execution.reuseSubquery")
        spark.conf.set("spark.sql.adaptive.enabled", before)


def test_plans_in_an_object_store(spark: Any, tmp_path: Path, moto: S3Server) -> None:
    """The plan of a stream with a table is read once in a batch; two streams are bound to theirs."""
    write_batches(tmp_path / "in", [table(60, 0.6, number) for number in range(2)])
    right = spark.createDataFrame(table(30, 0.3, 9).rename_columns(OTHERS))
    place = moto.bucket() / "control"
    ours = join(
        read_batches(spark, tmp_path / "in", ROWS), right, "k", "left", plan=shifted(4, 0), control=place
    )
    batch = spark.read.schema(ROWS).parquet(str(tmp_path / "in"))
    moto.requests.clear()
    assert result(ours, tmp_path) == rows_of(batch.join(right, "k", "left").collect())
    asked = [method for method, path in moto.requests if path.split("?")[0].endswith(".plan")]
    assert asked.count("GET") == 2
    assert not list(Control(place).notes("fallback"))
    storage = open_storage(place)
    first = MicroBatch("query", 0)
    versions = [PlanVersions(StreamPlans(place, "join-x", 4), shifted(4, n), "left", None) for n in (1, 2)]
    assert [found.serial for found in versions[0].of_batch(first)] == [0]
    later = first._replace(batch=3)
    assert versions[1].of_batch(later)[0].plan.to_json() == shifted(4, 1).to_json()
    storage.put("join-x/query/0.claim", b"damaged")
    with pytest.raises(EvenflowError, match=r"s3://.*query/0.claim is missing or damaged"):
        versions[0].of_batch(later)


def near_streams(spark: Any, folder: Path) -> tuple[Any, Any, Any]:
    """Return two streams with watermarks, and how far apart rows that match may be."""
    left = read_batches(spark, folder / "left", ROWS).withWatermark("ts", "1 minute")
    right = read_batches(spark, folder / "right", ROWS).toDF(*OTHERS).withWatermark("until", "2 minutes")
    return left, right, F.expr("until between ts - interval 1 minute and ts + interval 3 minutes")


def write_streams(folder: Path, batches: range, rows: int = 60) -> None:
    for seed, name in enumerate(("left", "right")):
        write_batches(folder / name, [table(rows, 0.5, seed + 2 * n, 2 * n) for n in batches], batches.start)


def run_on(frame: Any, folder: Path, name: str) -> list[str]:
    """Run a query over all files there are, from its checkpoint on, and return all rows written so far."""
    writer = frame.writeStream.format("parquet").option(
        "checkpointLocation", str(folder / f"{name}-checkpoint")
    )
    query = writer.trigger(availableNow=True).start(str(folder / name))
    query.awaitTermination()
    return rows_of(frame.sparkSession.read.parquet(str(folder / name)).collect())


@in_make_faults
def test_two_streams_go_on_with_their_first_plan(spark: Any, tmp_path: Path) -> None:
    """Rows wait in the pieces of the first plan, so a restart uses it whatever it is given, or refuses."""
    found = []
    for seed, batches in enumerate((range(2), range(2, 4))):
        write_streams(tmp_path, batches)
        left, right, near = near_streams(spark, tmp_path)
        plan = [any_plan(PARTITIONS, 1), shifted(PARTITIONS, 3)][seed]
        control = str(tmp_path / "control")
        ours = join(left, right, "k", "left", plan=plan, condition=near, control=control)
        found = [run_on(ours, tmp_path, "ours"), run_on(plain(left, right, near, "left"), tmp_path, "plain")]
    assert len(found[0]) > 200
    assert found[0] == found[1]
    shutil.rmtree(tmp_path / "control")
    write_streams(tmp_path, range(4, 5))
    with pytest.raises(StreamingQueryException, match="put it back, or start with a new checkpoint"):
        run_on(ours, tmp_path, "ours")


@in_make_faults
def test_full_joins_of_streams_cannot_be_divided(spark: Any, tmp_path: Path) -> None:
    """A copy without a match comes out as unmatched once per copy: why `join` refuses them."""
    write_streams(tmp_path, range(4), rows=30)
    left, right, near = near_streams(spark, tmp_path)
    with pytest.raises(EvenflowError, match="once per copy"):
        join(left, right, "k", "full", plan=any_plan(PARTITIONS, 1), condition=near, control=str(tmp_path))
    left, right = left.where("k is not null"), right.where("k is not null")
    on = left["k"] == right["k"]
    sides = JoinSides(left, right, resolve_on(left, right, on, near))
    hot = Counted(hash_keys(pa.array([7], pa.int64())), np.array([3000.0]), 3100.0)
    plan = make_join_plan(PARTITIONS, hot, Counted(hot.keys, np.ones(1), 100.0))
    assert plan.left_pieces.tolist() == [PARTITIONS]
    control = str(tmp_path / "control")
    copied, _ = stream_stream.joined_streams(sides, "full", PARTITIONS, plan, control, "auto", 0, [])
    rows, wanted = (result(frame, tmp_path) for frame in (copied, left.join(right, on & near, "full")))
    extra = Counter(rows) - Counter(wanted)
    assert not Counter(wanted) - Counter(rows)
    assert extra.total() > 0
    assert all(
        "'row': None" in row for row in extra
    )  # right rows, also such as have a match in another piece


@pytest.mark.faults
@in_make_faults
def test_rows_out_are_even(spark: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """In the last micro-batch, whose plan was learned from the ones before.

    The control directory is relative to the folder of this process, which is not that of Python workers.
    """
    monkeypatch.chdir(tmp_path)
    batches = [table(4000, 0.6, n, 2 * n, 3000) for n in range(4)]
    batches = [t.set_column(2, "row", pa.array(np.full(4000, n))) for n, t in enumerate(batches)]
    write_batches(tmp_path / "left", batches)
    write_batches(tmp_path / "right", [table(400, 0.02, 50 + n, 2 * n, 3000) for n in range(4)])
    names = pa.table({"k": np.arange(3000), "y": np.arange(3000)})
    left, right, near = near_streams(spark, tmp_path)
    control = "control"
    frames = {
        1.2: join(left, spark.createDataFrame(names), "k", control=control),
        1.1: join(left, right, "k", condition=near, control=control),
    }
    for most, frame in frames.items():
        placed = frame.select("row", F.spark_partition_id().alias("partition"))
        found = run_to_end(placed, "append", f"placed_{next(NUMBER)}", tmp_path / f"checkpoint-{most}")
        counted = [row["partition"] for row in found if row["row"] == 3]
        counts = np.bincount(counted, minlength=PARTITIONS)
        assert counts.sum() > 2500
        assert counts.max() * PARTITIONS / counts.sum() < most


def test_ranges_of_times(spark: Any, tmp_path: Path) -> None:
    """They are those of the condition, or unknown; the first plan is needed and stays then."""
    write_streams(tmp_path, range(1))
    left, right, near = near_streams(spark, tmp_path)
    minute = 60_000_000
    found: list[tuple[Any, Any]] = [
        (near, (-3 * minute, minute)),
        (F.expr("until >= ts and until < ts + interval 1 hour and x < 3"), (-60 * minute, 0)),
        (F.expr("until >= ts"), "no range of times in both directions"),
        (F.expr("until between ts - interval 1 month and ts"), "no range of times in both directions"),
        (left["ts"] == right["until"], "no range of times in both directions"),
        (None, "no condition limits the time"),
    ]
    for condition, wanted in found:
        got = time_range(JoinSides(left, right, resolve_on(left, right, "k", condition)))
        if isinstance(wanted, str):
            assert wanted in str(got)
        else:
            assert isinstance(got, TimeRange)
            assert (got.left, got.right) == ("ts", "until")
            assert abs(got.least - wanted[0]) < 100_000
            assert abs(got.most - wanted[1]) < 100_000
            assert got.least <= wanted[0] <= wanted[1] <= got.most
    without = spark.readStream.schema(ROWS).parquet(str(tmp_path / "left"))
    assert "the left has no columns with a watermark" in str(
        time_range(JoinSides(without, right, resolve_on(without, right, "k", near)))
    )


def test_bad_arguments_are_a_sentence(spark: Any, tmp_path: Path) -> None:
    write_streams(tmp_path, range(1))
    left, right, near = near_streams(spark, tmp_path)
    still = spark.createDataFrame(table(5, 0.1, 1))
    plan, other, here = any_plan(PARTITIONS, 1), any_plan(5, 1), str(tmp_path)
    refused: dict[str, Any] = {
        "how is 'full', but Spark joins a stream on the left": lambda: join(left, still, "k", "full"),
        "how is 'left', but Spark joins a stream on the right": lambda: join(still, left, "k", "left"),
        "how is 'left_anti', but Spark joins two streams only as": lambda: join(
            left, right, "k", "left_anti"
        ),
        "workers is 5, but Spark keeps": lambda: join(left, right, "k", plan=other, control=here),
        "no condition limits the time between two rows that match, so .* pass plan, such as": lambda: join(
            left, right, "k", control=here
        ),
        "pass control, such as": lambda: join(left, right, "k", plan=plan, condition=near),
        "neither side is a stream": lambda: join(still, still, "k", control=here),
        "'ts' is the time of the watermark": lambda: join(
            left, right, left["ts"] == right["until"], plan=plan, control=here
        ),
    }
    for said, call in refused.items():
        with pytest.raises(EvenflowError, match=said):
            call()
