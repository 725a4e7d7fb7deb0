"""Streaming balance: plans follow hot keys that change, broken plans cost a batch, loads can be watched."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import evenflow as ef
from evenflow.control.directory import Control
from evenflow.plan import Plan, bucket_of, make_plan
from evenflow.plan.counted import Counted
from evenflow.schemes.handover import STEADY_ROWS_PER_WORKER
from evenflow.spark import balance, loads
from evenflow.spark.replanning.batch_stats import BatchStats, plain
from evenflow.spark.replanning.plan_source import plan_file, read_plan
from evenflow.spark.replanning.replanner import Replanner
from evenflow.spark.routing.placed import Placed
from evenflow.testing import wait_for
from extent import long
from spark.explained import exchanges
from spark.stream_files import read_batches, write_batches
from storage.s3_server import SECRET, S3Server

WORKERS, ROWS = 8, 4000


def batch(number: int, hot: str) -> pa.Table:
    """Half of the rows are of one key, the rest of 500."""
    rng = np.random.default_rng(number)
    tail = rng.integers(0, 500, ROWS)
    keys = [hot if is_hot else f"k{key}" for is_hot, key in zip(rng.random(ROWS) < 0.5, tail, strict=True)]
    return pa.table({"k": keys, "v": np.arange(number * ROWS, (number + 1) * ROWS)})


class Feed:
    """A balanced stream that is given one batch after the other, each after the plan of the one before."""

    def __init__(self, spark: Any, folder: Path, control: str | Path | None = None, **options: Any):
        self.source, self.folder, self.batches = folder / "source", folder, 0
        self.source.mkdir()
        self.control = Control(control or folder / "control")
        self.placed: list[Placed] = []
        stream = read_batches(spark, self.source, "k string, v long")
        balanced = stream.transform(
            balance("k", WORKERS, control=self.control.location, on_placed=self.placed.append, **options)
        )
        assert balanced.columns == ["k", "v"]
        self.out = str(folder / "out")
        self.query = (
            balanced.select("*", F.spark_partition_id().alias("worker"))
            .writeStream.format("parquet")
            .option("path", self.out)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )

    def give(self, hot: str) -> None:
        """Add a batch, and wait until it has been learned from."""
        seen = len(list(self.control.notes("batch")))
        write_batches(self.folder / "new", [batch(self.batches, hot)])
        (self.folder / "new" / "0000.parquet").rename(self.source / f"{self.batches:04}.parquet")
        self.batches += 1
        self.query.processAllAvailable()
        wait_for(lambda: len(list(self.control.notes("batch"))) > seen, "the note of a batch")
        wait_for(lambda: not self.query.status["isTriggerActive"], "the end of a batch")

    def balance_of_batches(self, spark: Any) -> list[float]:
        """Check that every row arrived once, and return max / mean of each batch."""
        rows = spark.read.parquet(self.out).select("v", "worker").toPandas()
        assert sorted(rows["v"]) == list(range(self.batches * ROWS))
        return [
            float(part["worker"].value_counts().max() * WORKERS / ROWS)
            for _, part in rows.groupby(rows["v"] // ROWS)
        ]


@pytest.mark.spark
def test_a_hot_key_that_changes_is_followed_and_broken_plans_cost_one_batch(
    spark: Any, tmp_path: Path
) -> None:
    feed = Feed(spark, tmp_path)
    assert any("planned from the ones before it" in reason for reason in feed.placed[0].reasons)
    plan = feed.control.folder / plan_file(operator_of(feed.control.folder))
    try:
        for hot in ("first", "first", "second", "second"):
            feed.give(hot)
        watched = loads(feed.query)
        assert watched.rows == loads(feed.control.folder).rows
        assert sum(watched.rows) == ROWS
        assert watched.max_over_mean < 1.25
        assert watched.fallbacks == 0
        assert watched.hot[0].key == "second"
        assert watched.hot[0].hash == f"{int(ef.hash_keys(['second'])[0]):016x}"
        assert len(watched.hot[0].homes) >= 4
        assert 1 <= watched.memory < 1.2
        plan.write_bytes(plan.read_bytes()[:-40])
        feed.give("second")
        wait_for(lambda: loads(feed.query).fallbacks == 1, "the note of a fallback")
        wait_for(lambda: len(list(feed.control.notes("plan"))) == feed.batches, "the next plan")
        feed.give("second")
    finally:
        feed.query.stop()
    even = feed.balance_of_batches(spark)
    assert [value > 3 for value in even] == [True, False, True, False, True, False]
    assert max(even[1], even[3], even[5]) < 1.25  # 500 rows each: chance alone is 4.5 percent, twice over
    fallbacks = list(feed.control.notes("fallback"))
    assert fallbacks
    assert all("cannot be read" in note["why"] for note in fallbacks)
    assert all("hot" in note for note in feed.control.notes("plan"))
    assert sum(path.stat().st_size for path in feed.control.folder.rglob("*") if path.is_file()) < 1_000_000


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["planned", long("online")])
def test_control_in_an_object_store(spark: Any, tmp_path: Path, moto: S3Server, mode: str) -> None:
    place = moto.bucket() / "control"
    feed = Feed(spark, tmp_path, control=place, mode=mode)
    try:
        for number, hot in enumerate(("first", "second", "second")):
            moto.requests.clear()
            feed.give(hot)
            if mode == "planned":
                wait_for(lambda: len(list(feed.control.notes("plan"))) > number, "the next plan", 60)  # noqa: B023
        asked = [(method, path.split("/below/")[-1]) for method, path in moto.requests]
        watched = loads(place)
        assert watched.rows == loads(feed.query).rows
        plan = [entry.name for entry in feed.control.storage.entries("planned")]
        if mode == "planned":
            assert watched.hot[0].key == "second"
            assert watched.hot[0].hash == f"{int(ef.hash_keys(['second'])[0]):016x}"
            log = ("/log/", "list-type", "history.jsonl")  # which the test itself reads again and again
            own = [request for request in asked if not any(part in request[1] for part in log)]
            assert sorted(own) == [("GET", f"control/{plan[0]}"), ("PUT", f"control/{plan[0]}")]
            feed.control.storage.put(plan[0], feed.control.storage.read(plan[0])[:-40])
            feed.give("second")
            wait_for(lambda: any(feed.control.notes("fallback")), "the note of a fallback")
            assert all("cannot be read" in note["why"] for note in feed.control.notes("fallback"))
        else:
            assert plan == []
            assert list(feed.control.notes("fallback")) == []
            assert any(entry.name.endswith(".part") for entry in feed.control.storage.entries("online"))
        described = str(feed.placed[0].frame._jdf.queryExecution().toString())  # Spark's UI shows this
    finally:
        feed.query.stop()
    even = feed.balance_of_batches(spark)
    assert even[2] < 1.25
    assert SECRET not in described
    assert SECRET not in json.dumps(list(feed.control.notes()))


def operator_of(folder: Path) -> str:
    """The only operator whose plan is in a control directory."""
    (only,) = (folder / "planned").iterdir()
    return only.stem


@pytest.mark.spark
@pytest.mark.parametrize("scheme", ["key", "consistent-hash"])
def test_schemes_that_need_no_counts_are_watched_but_not_refreshed(
    spark: Any, tmp_path: Path, scheme: str
) -> None:
    feed = Feed(spark, tmp_path, scheme=scheme)
    try:
        feed.give("hot")
        assert loads(feed.query).max_over_mean > 3
    finally:
        feed.query.stop()
    feed.balance_of_batches(spark)
    assert list(feed.control.notes("plan")) == []


@pytest.mark.spark
def test_buckets_out_of_order_and_hot_keys_go_where_the_plan_says(spark: Any, tmp_path: Path) -> None:
    feed = Feed(spark, tmp_path, scheme="explicit")
    try:
        for _ in range(2):
            feed.give("hot")
        found, _ = read_plan(feed.control, operator_of(feed.control.folder), WORKERS)
    finally:
        feed.query.stop()
    feed.balance_of_batches(spark)
    assert found is not None
    plan = found[1]
    assert (np.diff(plan.buckets) < 0).any()
    tail = spark.read.parquet(feed.out).where("k != 'hot'").select("k", "worker").toPandas()
    hashes = ef.hash_keys(pa.array(tail["k"]))
    strangers = plan.table.find(hashes) < 0
    assert strangers.sum() > 1000
    assert (plan.table.route(hashes) == tail["worker"])[strangers].all()


@pytest.mark.spark
def test_a_stream_has_one_shuffle_and_no_broadcast(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    stream = read_batches(spark, tmp_path / "source", "k string, v long")
    assert exchanges(stream.transform(balance("k", 4, control=str(tmp_path / "control")))) == (1, 0)
    with pytest.raises(ef.EvenflowError, match="Spark does not sort streams"):
        stream.transform(balance("k", 4, order="sort"))
    with pytest.raises(ef.EvenflowError, match="pass the query"):
        loads(stream)
    unsteady = stream.dropDuplicates(["k", "v"])
    placed: list[Placed] = []
    unsteady.transform(balance("k", 4, on_placed=placed.append))
    assert any("drawn by content" in reason for reason in placed[0].reasons)


def seen(number: int, counts: dict[int, int], tail: int = 0) -> BatchStats:
    """A batch of keys with these hashes, and ``tail`` rows spread over all workers."""
    keys = np.array(list(counts), np.uint64)
    rows = np.full(WORKERS, tail // WORKERS)
    np.add.at(rows, (keys >> np.uint64(61)).astype(np.int64), list(counts.values()))
    return BatchStats(
        number, float(rows.sum()), keys, np.array(list(counts.values()), float), rows, rows, 9, 9, None
    )


def replanner(folder: Path, split: bool = True) -> Replanner:
    first = make_plan(WORKERS, np.zeros(0, np.uint64), [], 1.0)
    return Replanner(Control(folder), "op", ef.scheme("fill"), split, 0, first)


HOT, OTHER = 1 << 62, 3 << 62


def test_plans_pass_through_the_control_directory(tmp_path: Path) -> None:
    made = replanner(tmp_path)
    made.learn(replace(seen(0, {HOT: 50_000}, 50_000), serial=made.serial))
    found, why = read_plan(Control(tmp_path), "op", WORKERS)
    assert found is not None
    assert (found[0], found[1].homes_of(HOT), why) == (made.serial, made.plan.homes_of(HOT), "")
    again = replanner(tmp_path)  # as after a restart
    assert again.plan.homes_of(HOT) == made.plan.homes_of(HOT)
    assert again.serial > made.serial
    assert list(Control(tmp_path).notes("fallback")) == []


@pytest.mark.parametrize("steady", [True, False])
def test_it_is_said_if_plans_come_too_late(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, steady: bool
) -> None:
    made = replanner(tmp_path)
    made.learn(seen(0, {HOT: 50_000}, 50_000))
    caplog.clear()
    for number in range(1, 8):
        key = HOT + number
        rows = seen(number, {key: 50_000}, 50_000)
        if steady:  # the batch is as even as its plan said
            rows = replace(rows, rows=np.full(WORKERS, 100_000 // WORKERS))
        made.learn(replace(rows, serial=made.serial))
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == (0 if steady else 1)  # once, not in every batch
    assert steady or ("mode='online'" in warnings[0] and "4.50 of the mean" in warnings[0])


def test_a_plan_that_is_broken_or_of_others_is_none_and_counted(tmp_path: Path) -> None:
    made = replanner(tmp_path)
    control, path = Control(tmp_path), tmp_path / plan_file("op")
    assert read_plan(control, "op", 5) == (None, "the plan is for 8 workers, not 5")
    assert read_plan(control, "else", WORKERS) == (None, "planned/else.plan is missing")
    for content, word in ((b"evenflow?", "cannot be read"), (None, "missing"), (path.read_bytes(), "Spark")):
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        made.learn(seen(0, {HOT: 50_000}, 50_000))  # no row had the serial number of a plan
        assert word in [note["why"] for note in control.notes("fallback")][-1]
    made.learn(replace(seen(1, {HOT: 50_000}, 50_000), serial=made.serial))
    assert len(list(control.notes("fallback"))) == 3
    path.write_bytes(b"evenflow?")
    made.learn(seen(2, {}))  # a batch without rows mends it
    found, _ = read_plan(control, "op", WORKERS)
    assert found is not None
    assert found[1].keys.tolist() == [HOT]


def test_a_new_hot_key_is_known_after_one_large_batch(tmp_path: Path) -> None:
    made = replanner(tmp_path)
    made.learn(seen(0, {HOT: 50_000}, 50_000))
    homes = made.plan.homes_of(HOT)
    assert len(homes) >= WORKERS // 2
    made.learn(seen(1, {HOT: 50_300}, 50_000))
    assert made.plan.homes_of(HOT) == homes
    made.learn(seen(2, {OTHER: 50_000}, 50_000))
    assert len(made.plan.homes_of(HOT)) == 1
    assert len(made.plan.homes_of(OTHER)) >= WORKERS // 2
    assert made.plan.max_over_mean < 1.02


def test_small_batches_are_topped_up_from_the_past(tmp_path: Path) -> None:
    made = replanner(tmp_path)
    made.learn(seen(0, {HOT: 1504}, 1504))
    made.learn(seen(1, {OTHER: 504}, 504))
    weights = dict(zip(made.plan.keys.tolist(), made.plan.weights.tolist(), strict=True))
    enough = STEADY_ROWS_PER_WORKER * WORKERS
    assert weights[OTHER] == pytest.approx(504 / enough)
    assert weights[HOT] == pytest.approx((enough - 2 * 504) / 2 / enough)
    for batch in range(2, 20):
        made.learn(seen(batch, {OTHER: 504}, 504))
    assert len(made.plan.homes_of(HOT)) == 1  # what is over is forgotten


BATCHES = {"big": 50_000, "tiny": 8, "empty": 0}


@pytest.mark.parametrize(
    "order", sorted(set(itertools.permutations(["big", "big", "tiny", "tiny", "empty"])))
)
def test_a_plan_forgets_nothing_over_tiny_batches(tmp_path: Path, order: tuple[str, ...]) -> None:
    """A batch of 8 rows once made the plan forget a key with a third of all rows."""
    made = replanner(tmp_path)
    been = False
    for batch, size in enumerate([*order, "tiny"]):
        rows = BATCHES[size]
        made.learn(
            seen(batch, {HOT: rows // 4, OTHER: rows // 8} if rows else {}, rows - rows // 4 - rows // 8)
        )
        been = been or size == "big"
        if been:
            assert len(made.plan.homes_of(HOT)) > 1
            truth = seen(batch, {HOT: 12_500, OTHER: 6_250}, 31_250)
            assert fullest(made.plan, truth) < 1.05


def fullest(plan: Plan, stats: BatchStats) -> float:
    """Return the largest load over the mean if the rows of a batch follow a plan."""
    loads = stats.tail.astype(float)
    for key, count in zip(stats.keys, stats.counts, strict=True):
        loads[plan.buckets[bucket_of(np.array([key], np.uint64), plan.buckets.size)[0]]] -= count
        routed = plan.route(np.full(20_000, key, np.uint64), np.linspace(0, 1, 20_000, endpoint=False))
        loads += np.bincount(routed, minlength=plan.workers) * count / 20_000
    return float(loads.max() / loads.mean())


def test_the_tail_is_poured_around_and_buckets_stay(tmp_path: Path) -> None:
    made = replanner(tmp_path)
    uneven = seen(0, {HOT: 40_000}, 40_000)
    uneven.rows[0] += 4000
    made.learn(uneven)
    assert (made.plan.buckets == np.arange(512) // 64).all()
    assert made.plan.expected[0] == pytest.approx(1 / WORKERS, rel=0.03)
    assert 0 not in made.plan.homes_of(HOT) or made.plan.max_over_mean < 1.02


def test_split_false_keeps_one_home_each(tmp_path: Path) -> None:
    made = replanner(tmp_path, split=False)
    made.learn(seen(0, {HOT: 5000, HOT + 1: 5000, HOT + 2: 5000}, 25_000))
    assert made.plan.splits == 0
    assert len({made.plan.homes_of(HOT + i)[0] for i in range(3)}) == 3
    assert (made.plan.buckets == np.arange(512) // 64).all()


def test_observed_rows_of_every_form_are_read() -> None:
    from pyspark.sql import Row

    fields = (
        "rows", "hot_keys", "rows_by_worker", "rows_by_bucket_home", "keys", "key_worker_pairs", "plan",
        "workers", "rows_by_hash", "key_values",
    )  # fmt: skip
    items = [{"item": -1, "count": 7}]
    value = 'FFFFFFFFFFFFFFFF{"k":"the"}'
    shown: list[dict[str, Any]] = [{"item": None, "count": 6}, {"item": value, "count": 1}]
    values: tuple[Any, ...] = (7, items, [{"item": 2, "count": 7}], [], 1, 1, None, 4, [], shown)
    as_row = Row(*fields)(
        7, [Row(item=-1, count=7)], [Row(item=2, count=7)], [], 1, 1, None, 4, [],
        [Row(item=None, count=6), Row(item=value, count=1)],
    )  # fmt: skip
    schema = {"fields": [{"name": name} for name in fields]}
    inner = {"fields": [{"name": "item"}, {"name": "count"}]}
    items_inside = [[{"values": [-1, 7], "schema": inner}], [{"values": [2, 7], "schema": inner}], []]
    last = [{"values": list(one.values()), "schema": inner} for one in shown]
    inside = [7, *items_inside, 1, 1, None, 4, [], last]
    wrapped = json.loads(json.dumps({"values": inside, "schema": schema}))
    for form in (as_row, dict(zip(fields, values, strict=True)), wrapped, Row(**wrapped)):
        got = BatchStats.from_row(form, 3)
        assert (got.total, got.keys.tolist(), got.rows.tolist()) == (7.0, [2**64 - 1], [0, 0, 7, 0])
        assert got.values == {"f" * 16: "the"}
    assert plain(3) == 3
    assert Counted().total == 0
