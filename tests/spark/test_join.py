"""`join` equals Spark's own join for every kind, whatever the plan, and its work is even."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from evenflow import EvenflowError
from evenflow.plan import JoinPlan, make_join_plan, make_plan
from evenflow.plan.counted import Counted
from evenflow.plan.join_build import KINDS
from evenflow.spark import aggregate, apply, join
from evenflow.spark.joining import hash_side
from evenflow.spark.joining.join_keys import key_on_worker, partition_of
from evenflow.spark.routing.plan_sql import CellNames, with_cells
from extent import ALL
from spark.aggregators import SCHEMA, Profile, plain
from spark.explained import exchanges, explained
from spark.tables import rows_of, tables

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("no_broadcast")]

FORMS = ("names", "two names", "condition", "condition and rest", "names and rest")


def plan_for(left: Any, right: Any, keys: list[str], workers: int, seed: int) -> JoinPlan:
    """Return a plan of these keys with counts that are anything, for any kind: wrong, as a stale one is."""
    rng = np.random.default_rng(seed)
    hashed = f"xxhash64({', '.join(keys)}) as h"
    rows = left.selectExpr(hashed).union(right.selectExpr(hashed)).distinct().collect()
    hashes = np.array([row["h"] for row in rows] + [5], np.int64).view(np.uint64)
    ours, theirs = (Counted(hashes, rng.choice([1.0, 50.0, 3000.0], hashes.size), 1e4) for _ in range(2))
    return make_join_plan(workers, ours, theirs, str(rng.choice(KINDS)))


def both_ways(left: Any, right: Any, form: str, how: str, **options: Any) -> tuple[Any, Any]:
    """Return our join and Spark's, of frames with the columns k, user, word, x and ts."""
    if form.endswith("names"):
        on = "k" if form == "names" else ["k", "word"]
        return join(left, right, on, how, **options), left.join(right, on, how)
    renamed = right.select(*(F.col(name).alias(f"r_{name}") for name in right.columns))
    keys, rest = left["k"] == renamed["r_k"], left["x"] < renamed["r_x"]
    if form == "condition":
        return join(left, renamed, keys, how, **options), left.join(renamed, keys, how)
    if form == "condition and rest":
        return join(left, renamed, keys & rest, how, **options), left.join(renamed, keys & rest, how)
    ours = join(left, right, "k", how, condition=left["x"] < right["x"], **options)
    wanted = left.join(renamed, keys & rest, how)
    if how in ("left_semi", "left_anti"):
        return ours, wanted
    key = {"right": F.col("r_k"), "full": F.coalesce("k", "r_k")}.get(how, F.col("k"))
    others = [name for name in left.columns if name != "k"]
    return ours, wanted.select(key.alias("k"), *others, *(F.col(f"r_{name}").alias(name) for name in others))


def check(ours: Any, wanted: Any) -> None:
    assert ours.columns == wanted.columns
    assert [field.nullable for field in ours.schema] == [field.nullable for field in wanted.schema]
    assert [field.dataType for field in ours.schema] == [field.dataType for field in wanted.schema]
    assert rows_of(ours.collect()) == rows_of(wanted.collect())


@pytest.mark.faults
@pytest.mark.timeout(1800)
@settings(max_examples=150 if ALL else 14, phases=[Phase.explicit, Phase.generate])  # shrinking is too slow
@given(
    left=tables(most=80),
    right=st.integers(0, 2**32),
    rows=st.sampled_from([0, 3, 50]),
    skew=st.sampled_from([0.0, 2.0, 50.0]),
    form=st.sampled_from(FORMS),
    how=st.sampled_from(KINDS),
    workers=st.sampled_from([1, 2, 7, 200]) | st.integers(1, 200 if ALL else 9),
    planned=st.booleans(),
    sorts=st.booleans(),
)
def test_equal_to_spark(
    spark: Any,
    left: Any,
    right: int,
    rows: int,
    skew: float,
    form: str,
    how: str,
    workers: int,
    planned: bool,
    sorts: bool,
) -> None:
    from spark.tables import table

    kind, rows_left = left
    ours = spark.createDataFrame(rows_left)
    theirs = spark.createDataFrame(table(kind, rows, skew, right))
    options: dict[str, Any] = {"workers": workers}
    if planned:
        keys = ["k", "word"] if form == "two names" else ["k"]
        options["plan"] = plan_for(ours, theirs, keys, workers, right)
    with pytest.MonkeyPatch.context() as patch:
        if sorts:
            patch.setattr(hash_side, "task_memory", lambda spark: 0.0)
        check(*both_ways(ours, theirs, form, how, **options))


def skewed(spark: Any, rows: int, hot: float, seed: int) -> Any:
    """Return rows of which a share has the key 7, and a few have none."""
    rng = np.random.default_rng(seed)
    keys = np.where(rng.random(rows) < hot, 7, rng.integers(0, 500, rows))
    nulls = rng.random(rows) < 0.03
    return spark.createDataFrame(
        pa.table({"k": pa.array(keys, mask=nulls), "x": rng.random(rows), "row": np.arange(rows)})
    )


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize(("hot_left", "hot_right"), [(0.4, 0.0), (0.0, 0.4), (0.2, 0.2)])
def test_hot_keys(spark: Any, how: str, hot_left: float, hot_right: float) -> None:
    left, right = (
        skewed(spark, 1200, hot_left, 1),
        skewed(spark, 300, hot_right, 2).withColumnRenamed("row", "r"),
    )
    got: list[Any] = []
    ours = join(left, right, "k", how, workers=6, on_placed=got.append)
    check(ours, left.join(right, "k", how))
    assert f"{how} join on 6 workers" in got[0].explain()
    if how in ("left_semi", "left_anti") and not hot_left:
        assert got[0].plan is None  # a key of the right needs to be there once: nothing is hot
        return
    assert got[0].plan.splits > 0
    assert got[0].plan.max_over_mean < 1.1
    rest = join(left, right, (left["k"] == right["k"]) & (left["x"] < right["x"]), how, plan=got[0].plan)
    check(rest, left.join(right, (left["k"] == right["k"]) & (left["x"] < right["x"]), how))


def test_rows_out_are_even(spark: Any) -> None:
    """The rows that each partition writes, where most of the work is."""
    left = skewed(spark, 24_000, 0.4, 1)
    for how, right in {
        "inner": skewed(spark, 1000, 0.0, 2),
        "full": skewed(spark, 1000, 0.0, 2),
        "left": left.groupBy("k").agg(F.max("x").alias("most")),
        "left_semi": skewed(spark, 1000, 0.0, 2),
    }.items():
        plain, ours = (
            [row["count"] for row in frame.groupBy(F.spark_partition_id()).count().collect()]
            for frame in (left.join(right, "k", how), join(left, right, "k", how, workers=4))
        )
        assert sum(ours) == sum(plain)
        assert max(plain) / (sum(plain) / 4) > 1.6
        assert max(ours) / (sum(ours) / 4) < 1.2


def test_rows_without_a_key_are_spread(spark: Any) -> None:
    """Half of the left; Spark sends all of them to one partition."""
    left = spark.range(0, 12_000, 1, 4).selectExpr("if(id % 2 = 0, null, id % 900) as k", "id as row")
    right = skewed(spark, 600, 0.4, 2).select("k", F.col("x").alias("y"))
    for how in ("left", "full", "left_anti") if ALL else ("left_anti",):
        ours = join(left, right, "k", how, workers=4)
        rows = [row["count"] for row in ours.groupBy(F.spark_partition_id()).count().collect()]
        assert sum(rows) == left.join(right, "k", how).count()
        assert max(rows) / (sum(rows) / 4) < 1.2


def test_sql_sends_rows_where_the_plan_says(spark: Any) -> None:
    rng = np.random.default_rng(4)
    hashes = rng.integers(0, 2**64, 40, np.uint64)
    ours, theirs = (Counted(hashes[:30], rng.choice([1.0, 900.0], 30), 1e5) for _ in range(2))
    plan = make_join_plan(9, ours, theirs)
    assert max(plan.left_pieces) > 1
    assert max(plan.right_pieces) > 1
    draws = np.concatenate([rng.random(78), [0.0, np.nextafter(1, 0)]])
    rows = np.resize(hashes, 80)
    df = spark.createDataFrame(pa.table({"i": np.arange(80), "h": rows.view(np.int64), "u": draws}))
    for side in (plan.left, plan.right):
        keys = key_on_worker(np.repeat(plan.keys, np.diff(plan.starts)), side.homes)
        names = CellNames("key", "copies", "copy", "draw")
        cells, _ = with_cells(df, plan, side, keys, "h", F.col("u"), names)
        moved = cells.repartition(9, "key").select("*", F.spark_partition_id().alias("worker")).collect()
        workers: dict[int, set[int]] = {}
        for row in moved:
            workers.setdefault(row["i"], set()).add(row["worker"])
        for number, (hash_, draw) in enumerate(zip(rows, draws, strict=True)):
            found = np.flatnonzero(plan.keys == hash_)
            if not found.size:
                assert len(workers[number]) == 1
                continue
            [key] = found
            first = side.starts[key] + int(draw * side.pieces[key]) * side.copies[key]
            assert workers[number] == set(side.homes[first : first + side.copies[key]].tolist())


def test_a_key_for_every_worker(spark: Any) -> None:
    """Spark's own partitioning sends the chosen keys where they should go, for any number of workers."""
    rng = np.random.default_rng(1)
    for workers in (1, 2, 7, 64, 1000):
        wanted = rng.integers(0, workers, 500).astype(np.int32)
        keys = key_on_worker(rng.integers(0, 2**64, 500, np.uint64), wanted)
        assert partition_of(keys, workers).tolist() == wanted.tolist()
        frame = spark.createDataFrame(pa.table({"i": np.arange(500), "key": keys}))
        if workers == 1000:  # a thousand tasks take long: the expression that Spark partitions by
            found = frame.selectExpr("i", f"pmod(hash(key), {workers}) as p").orderBy("i")
        else:
            found = frame.repartition(workers, "key").select("i", F.spark_partition_id().alias("p"))
            found = found.orderBy("i")
        assert [row["p"] for row in found.collect()] == wanted.tolist()


def test_shuffles(spark: Any) -> None:
    """Each side once. Semi and anti joins first make the right side's keys distinct.

    The right rows of the hot key are copied: a kind that keeps them also looks for those without a match.
    """
    left, right = skewed(spark, 3000, 0.4, 1), skewed(spark, 600, 0.0, 2)
    got: list[Any] = []
    join(left, right, "k", workers=6, on_placed=got.append)
    plan = got[0].plan
    wanted = {"inner": 2, "left": 2, "right": 4, "full": 4, "left_semi": 3, "left_anti": 3}
    assert set(wanted) == set(KINDS)
    for how, count in wanted.items():
        assert (how, exchanges(join(left, right, "k", how, plan=plan))) == (how, (count, 0))


def test_a_side_is_hashed_only_if_a_task_could_hold_it(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = skewed(spark, 3000, 0.4, 1), skewed(spark, 600, 0.0, 2)
    counted = Counted(np.array([7], np.uint64), np.ones(1), 3000.0), Counted(total=600.0)
    plan, swapped = make_join_plan(6, *counted), make_join_plan(6, *counted[::-1])
    got: list[Any] = []
    text = explained(join(left, right, "k", plan=plan, on_placed=got.append))
    assert "ShuffledHashJoin" in text
    assert "BuildRight" in text
    assert "hash tables of the right" in got[0].explain()
    assert "BuildLeft" in explained(join(right, left, "k", plan=swapped))
    assert "BuildRight" in explained(join(right, left, "k", "left_semi", plan=swapped))  # the only way
    size = hash_side.bytes_in_memory(right, 600)
    assert size > 600 * 72
    monkeypatch.setattr(hash_side, "task_memory", lambda spark: size - 1)
    assert "SortMergeJoin" in explained(join(left, right, "k", plan=plan))
    many = replace(JoinPlan.from_json(plan.to_json()), totals=(1e12, 1e12))
    monkeypatch.setattr(hash_side, "task_memory", lambda spark: 1e12)
    assert "SortMergeJoin" in explained(join(left, right, "k", plan=many))  # however well they compress


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"spark.master": "local[2]", "spark.driver.memory": "4g"}, (4096 - 300) * 2**20 * 0.6 / 4),
        ({"spark.master": "local"}, (1024 - 300) * 2**20 * 0.6 / 2),
        (
            {"spark.master": "yarn", "spark.executor.memory": "8192m", "spark.executor.cores": "4"},
            (8192 - 300) * 2**20 * 0.6 / 8,
        ),
        ({"spark.master": "spark://a:7077", "spark.executor.memory": "200m"}, 0.0),
    ],
)
def test_what_a_task_is_granted(settings: dict[str, str], wanted: float) -> None:
    class Session:
        conf = settings

    session: Any = Session()
    assert hash_side.task_memory(session) == pytest.approx(wanted)


def test_an_aggregate_follows_without_another_exchange(spark: Any) -> None:
    left = skewed(spark, 3000, 0.4, 1).withColumnRenamed("row", "x2")
    right = skewed(spark, 600, 0.0, 2).select("k", F.col("row").alias("r"))
    got: list[Any] = []
    joined = join(left, right, "k", workers=6, on_placed=got.append)
    counted = joined.selectExpr(
        "k", "x2 as user", "string(r) as word", "double(x2 % 16) as x", "timestamp_seconds(r) as ts"
    )
    placed: list[Any] = []
    here = aggregate(counted, "k", Profile(), SCHEMA, plan=got[0].plan, on_placed=placed.append)
    assert "stay where the join has put them" in placed[0].explain()
    again = aggregate(counted, "k", Profile(), SCHEMA, workers=6)
    assert exchanges(here)[0] == exchanges(joined)[0] + 1  # to merge
    assert exchanges(again)[0] == exchanges(joined)[0] + 2
    assert rows_of(here.collect()) == rows_of(plain(counted.groupBy("k")).collect())
    with pytest.raises(EvenflowError, match="plan of a join"):  # whole groups have to be placed again
        apply(counted, "k", lambda rows: rows, "k long", plan=got[0].plan)


def test_numbers_of_different_types_meet(spark: Any) -> None:
    """Keys are hashed in the type in which Spark compares them."""
    left, right = skewed(spark, 120, 0.5, 1), skewed(spark, 80, 0.5, 2)
    plan = plan_for(left, right, ["k"], 5, 3)
    for kind in ("int", "smallint", "double", "decimal(12,2)"):
        narrow = right.withColumn("k", F.col("k").cast(kind))
        check(join(left, narrow, "k", "full", plan=plan), left.join(narrow, "k", "full"))
        swapped = narrow["k"] == left["k"]
        check(join(left, narrow, swapped, "left", plan=plan), left.join(narrow, swapped, "left"))


def test_a_struct_of_nulls_is_not_null(spark: Any) -> None:
    """Both have one hash; only the struct has copies, and only its rows are looked for a second time."""
    rows = [(None, 1.0), ({"a": None}, 2.0), ({"a": None}, 3.0), ({"a": 5}, 4.0)] * 5
    right = spark.createDataFrame(rows, "k struct<a: int>, x double")
    hashes = np.array([42, 7], np.int64).view(np.uint64)
    counted = Counted(hashes, np.array([500.0, 1.0]), 600.0)
    plan = make_join_plan(6, counted, counted)
    assert right.selectExpr("xxhash64(k) as h").where("h = 42").count() == 15
    kept = ("right", "full")  # that keep rows of the right side without a match
    some = KINDS if ALL else ("full", "left_anti")
    for left, kinds in ((right.limit(0), kept), (right.where("k.a = 5"), kept[1:]), (right, some)):
        for how in kinds:
            check(join(left, right, "k", how, plan=plan), left.join(right, "k", how))


def test_left_to_spark(spark: Any) -> None:
    left, right = skewed(spark, 3000, 0.4, 1), skewed(spark, 600, 0.0, 2)
    got: list[Any] = []
    plain = left.join(right, "k")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "10MB")
    ours = join(left, right, "k", workers=6, on_placed=got.append)
    assert exchanges(ours) == exchanges(plain)
    assert "broadcast" in got[0].explain()
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    even = skewed(spark, 3000, 0.0, 1)
    ours = join(even, right, "k", workers=6, on_placed=got.append)
    assert exchanges(ours)[0] == 2
    assert "no key is hot" in got[1].explain()
    assert got[1].plan is None
    assert rows_of(ours.collect()) == rows_of(even.join(right, "k").collect())


def test_bad_arguments_are_a_sentence(spark: Any) -> None:
    left, right = skewed(spark, 50, 0.4, 1), skewed(spark, 50, 0.0, 2)
    text = right.withColumn("k", F.col("k").cast("string"))
    plan: Any = make_plan(2, np.zeros(0, np.uint64), np.zeros(0))
    other = make_join_plan(2, Counted(), Counted())
    stream = spark.readStream.format("rate").load()
    refused: dict[str, Any] = {
        "how is 'cross'; choose one of inner": lambda: join(left, right, "k", "cross"),
        "left has no column 'key'": lambda: join(left, right, "key"),
        "k.*bigint on the left and string": lambda: join(left, text, "k"),
        "on is \\[\\]": lambda: join(left, right, []),
        "no equality": lambda: join(left, right, left["x"] < right["x"]),
        "eqNullSafe": lambda: join(left, right, left["k"].eqNullSafe(right["k"])),
        "plan is a Plan": lambda: join(left, right, "k", plan=plan),
        "plan is for 2 workers but workers is 3": lambda: join(left, right, "k", workers=3, plan=other),
        "sample is 0.5, but plan is given": lambda: join(left, right, "k", plan=other, sample=0.5),
        "sample is 2": lambda: join(left, right, "k", sample=2),
        "order is 'sort'": lambda: join(left, right, "k", order="sort"),
        "condition is 'x'": lambda: join(left, right, "k", condition="x"),  # type: ignore[arg-type]
        "Spark joins a stream on the left": lambda: join(
            stream, right, stream["value"] == right["k"], "full"
        ),
        "workers is 0": lambda: join(left, right, "k", workers=0),
        "mixes the name 'k'": lambda: join(left, right, ["k", left["x"] == right["x"]]),
    }
    for said, call in refused.items():
        with pytest.raises(EvenflowError, match=said):
            call()
