"""balance, planned, against plain Spark: the same rows, even, where the plan says, with one exchange."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

import evenflow as ef
from arrow_samples import SPARK_TYPES, sample
from evenflow.plan import Plan
from evenflow.schemes.registry import list_schemes
from evenflow.spark import balance
from evenflow.spark.operators.place import place
from evenflow.spark.routing import key_counts
from evenflow.spark.routing.key_columns import key_hash, with_keys
from evenflow.spark.routing.options import PlacementOptions
from evenflow.spark.routing.placed import Placed
from evenflow.spark.versions import known
from spark.explained import exchanges, explained

pytestmark = pytest.mark.spark

PLANNABLE = [name for name, kind in list_schemes().items() if kind.plannable]
KEY_TYPES = [
    *(pa.string(), pa.binary(), pa.int32(), pa.float64(), pa.bool_(), pa.date32(), pa.list_(pa.int32())),
    *(pa.decimal128(38, 18), pa.decimal128(7, 2), pa.timestamp("us", "UTC"), pa.timestamp("us")),
    SPARK_TYPES["struct<p: struct<name: string, x: int32, y: double>, n: int64>"],
]


def workers_of(df: Any, *columns: str) -> list[tuple[Any, ...]]:
    """Rows as (partition, columns...)."""
    return [tuple(row) for row in df.select(F.spark_partition_id(), *columns).collect()]


def loads_of(df: Any, workers: int) -> np.ndarray:
    counted = df.groupBy(F.spark_partition_id().alias("worker")).count().collect()
    loads = np.zeros(workers, np.int64)
    for row in counted:
        loads[row["worker"]] = row["count"]
    return loads


@settings(max_examples=12)
@given(
    kinds=st.lists(st.sampled_from(KEY_TYPES), min_size=1, max_size=3),
    scheme=st.sampled_from(PLANNABLE),
    rows=st.sampled_from([0, 1, 50, 400]),
    skew=st.sampled_from([0.0, 1.5, 50.0]),
    workers=st.sampled_from([1, 3, 16]),
    split=st.booleans(),
    order=st.sampled_from(["auto", "sort", "content"]),
    seed=st.integers(0, 2**31),
)
def test_the_same_rows_where_the_plan_says(
    spark: Any,
    kinds: list[Any],
    scheme: str,
    rows: int,
    skew: float,
    workers: int,
    split: bool,
    order: str,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    weights = np.arange(1.0, 21) ** -skew
    chosen = pa.array(rng.choice(20, rows, p=weights / weights.sum()))
    columns = {f"k{i}": sample(kind, 20, rng).take(chosen) for i, kind in enumerate(kinds)}
    table = pa.table({**columns, "row": pa.array(range(rows), pa.int64())})
    df = spark.createDataFrame(table)
    got: list[Placed] = []
    out = df.transform(
        balance(list(columns), workers, scheme, split=split, order=order, seed=seed, on_placed=got.append)
    )
    assert out.schema == df.schema
    placed = [tuple(row) for row in workers_of(out, "row")]
    assert sorted(row for _, row in placed) == list(range(rows))
    assert sorted(map(str, out.collect())) == sorted(map(str, df.collect()))
    plan = got[0].plan
    assert plan is not None
    hashes = ef.hash_keys(*(table[name] for name in columns))
    for worker, row in placed:
        assert worker in plan.homes_of(int(hashes[row]))
    if not split:
        homes: dict[int, set[int]] = {}
        for worker, row in placed:
            homes.setdefault(int(hashes[row]), set()).add(worker)
        assert all(len(some) == 1 for some in homes.values())


def test_a_skewed_frame_is_even_with_one_exchange(spark: Any) -> None:
    skewed = "cast(least(1e6, pow(1 - rand(5), -2.5D)) as long)"  # like Zipf with z = 1.4
    df = spark.range(0, 40_000, 1, 2).selectExpr(f"cast({skewed} as string) as word", "id")
    got: list[Placed] = []
    out = df.transform(balance("word", workers=16, on_placed=got.append))
    load = loads_of(out, 16)
    assert load.max() / load.mean() <= 1.1  # 2,500 rows each: chance alone is 2 percent, four times over
    plain = loads_of(df.repartition(16, "word"), 16)
    assert plain.max() / plain.mean() > 3
    assert exchanges(out) == (1, 0) == exchanges(df.repartition(16, "word"))
    assert "hot keys with" in got[0].explain()
    counts = {row["word"]: row["count"] for row in df.groupBy("word").count().collect()}
    hottest = sorted(counts, key=lambda word: -counts[word])[:3]
    assert all(f"  key {word!r} " in got[0].explain() for word in hottest)  # by value, not by hash
    assert "auto chose planned: fill can be planned" in got[0].explain()
    # the plan can be used again, without a look at the rows
    again = df.transform(balance("word", workers=16, plan=got[0].plan, on_placed=got.append))
    assert not any("counted" in reason for reason in got[1].reasons)
    assert sorted(workers_of(again, "id")) == sorted(workers_of(out, "id"))


@pytest.mark.parametrize("shape", ["scan", "shuffled"])
def test_one_column_and_one_key_is_even(spark: Any, shape: str) -> None:
    df = spark.createDataFrame(pa.table({"k": ["only"] * 8000}))
    if shape == "shuffled":
        df = df.repartition(3)
    got: list[Placed] = []
    load = loads_of(df.transform(balance("k", workers=8, on_placed=got.append)), 8)
    assert load.max() / load.mean() < 1.12
    assert any(
        ("position: the input is a plain scan" if shape == "scan" else "sorted") in reason
        for reason in got[0].reasons
    )


def test_a_shuffled_frame_routes_again_as_before(spark: Any) -> None:
    rows = pa.table({"k": ["hot"] * 3000 + [str(i) for i in range(1000)], "v": np.arange(4000)})
    runs = []
    for salt in (1, 2):  # the same rows in another order
        df = (
            spark.createDataFrame(rows)
            .repartition(3, "v")
            .sortWithinPartitions((salt * 7919 * F.col("v")) % 4001)
        )
        got: list[Placed] = []
        out = df.transform(balance("k", workers=5, on_placed=got.append))
        assert any("drawn by content" in reason for reason in got[0].reasons)
        runs.append(sorted(workers_of(out, "k", "v")))
    assert runs[0] == runs[1]
    load = Counter(worker for worker, _, _ in runs[0])
    assert max(load.values()) / 800 < 1.15


def test_a_hot_day_is_written_by_several_tasks(spark: Any, tmp_path: Path) -> None:
    df = spark.range(4000).selectExpr("if(id % 10 < 8, 'hot', string(id % 10)) as day", "id")
    df.transform(balance("day", workers=8)).write.partitionBy("day").parquet(str(tmp_path / "days"))
    files = {folder.name: len(list(folder.glob("*.parquet"))) for folder in (tmp_path / "days").glob("day=*")}
    assert files["day=hot"] >= 6
    assert files["day=8"] + files["day=9"] <= 3  # a day that fits is not scattered
    written = spark.read.parquet(str(tmp_path / "days")).select("day", "id")
    assert written.exceptAll(df).isEmpty()
    assert written.count() == 4000


def test_few_equal_keys_are_placed_one_by_one(spark: Any) -> None:
    df = spark.createDataFrame(pa.table({"series": np.repeat(np.arange(100), 10), "t": np.arange(1000)}))
    load = loads_of(df.transform(balance("series", workers=100, split=False)), 100)
    assert load.tolist() == [10] * 100


def test_many_rows_are_sampled_and_stay_even(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_counts, "SAMPLED_ROWS_PER_WORKER", 2000)
    monkeypatch.setattr(key_counts, "FIRST_ROWS", 500)
    df = spark.range(100_000).selectExpr("case when id % 4 = 0 then 0 else id % 5000 end as k", "id")
    got: list[Placed] = []
    load = loads_of(df.transform(balance("k", workers=8, on_placed=got.append)), 8)
    assert "keys were counted in" in got[0].explain()
    assert "% of about" in got[0].explain()
    assert load.max() / load.mean() < 1.08
    whole: list[Placed] = []
    df.transform(balance("k", workers=8, sample=1.0, on_placed=whole.append))
    assert "counted in all 100000 rows" in whole[0].explain()


def test_more_workers_than_spark_can_schedule_are_refused(spark: Any) -> None:
    with pytest.raises(ef.EvenflowError, match="workers is 1000000; pass at most 100000, since Spark runs a"):
        spark.range(10).transform(balance("id", workers=10**6))


def test_grouping_by_hash_counts_as_sketches_do(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second pass groups few keys, here of one and two frames, and sketches many."""
    monkeypatch.setattr(key_counts, "FIRST_ROWS", 500)
    few = spark.range(30_000).selectExpr("if(id % 3 = 0, 0, id % 700) as k")
    other = spark.range(20_000).selectExpr("id % 60 as k")
    grouped: list[int] = []
    real = key_counts._grouped

    def recorded(sides: Any, *arguments: Any) -> Any:
        grouped.append(len(sides))
        return real(sides, *arguments)

    monkeypatch.setattr(key_counts, "_grouped", recorded)
    for frames in ([few], [few, other]):
        pairs = [(frame, "xxhash64(k)") for frame in frames]
        options: dict[str, Any] = {"workers": 4, "sample": None, "seed": 0}
        exact = key_counts.count_frequent_keys(pairs, buckets=256, **options)
        assert grouped.pop() == len(frames)
        monkeypatch.setattr(key_counts, "_MAX_GROUPED", 0)
        sketched = key_counts.count_frequent_keys(pairs, buckets=256, **options)
        assert not grouped
        monkeypatch.setattr(key_counts, "_MAX_GROUPED", 1_000_000)
        for (ours, all_rows), (theirs, fraction) in zip(exact, sketched, strict=True):
            assert all_rows == fraction == 1.0
            assert ours.total == theirs.total
            assert dict(zip(ours.keys, ours.counts, strict=True)) == dict(
                zip(theirs.keys, theirs.counts, strict=True)
            )
            assert ours.buckets is not None
            assert theirs.buckets is not None
            assert ours.buckets.tolist() == theirs.buckets.tolist()
        distinct = [
            found.distinct for found, _ in key_counts.count_frequent_keys(pairs, buckets=0, **options)
        ]
        assert distinct == [float(frame.distinct().count()) for frame in frames]
        assert grouped.pop() == len(frames)
    many = spark.range(30_000).selectExpr("id as k")
    key_counts.count_frequent_keys([(many, "xxhash64(k)")], buckets=256, workers=4, sample=None, seed=0)
    assert not grouped  # the first sample cannot list all of its keys


def test_nulls_are_one_key_and_nan_another(spark: Any) -> None:
    table = pa.table({"k": pa.array([None] * 40 + [float("nan")] * 40 + [0.0] * 40 + [-0.0] * 40)})
    df = spark.createDataFrame(table)
    out = workers_of(df.transform(balance("k", workers=3, split=False)), "k")
    homes: dict[str, set[int]] = {}
    for worker, key in out:
        homes.setdefault(str(key + 0.0 if key is not None else key), set()).add(worker)
    assert sorted(homes) == ["0.0", "None", "nan"]
    assert sorted(len(some) for some in homes.values()) == [1, 1, 1]
    assert len(set.union(*homes.values())) == 3
    assert len(out) == 160


def test_names_that_collide_dots_and_duplicates(spark: Any) -> None:
    df = spark.createDataFrame(
        [(1, "x", 5, 7)], "`a.b` int, __ef_worker string, __EF_hash int, __ef_key_0 int"
    )
    out = df.transform(balance(["a.b", F.col("__ef_worker")], workers=2))
    assert out.collect() == df.collect()
    assert out.columns == df.columns
    twice = df.select("`a.b`", F.col("__EF_hash").alias("x"), F.col("__ef_key_0").alias("x"))
    assert twice.transform(balance("a.b", workers=2)).columns == ["a.b", "x", "x"]
    with pytest.raises(ef.EvenflowError, match="2 columns have that name"):
        twice.transform(balance("x", workers=2))
    with pytest.raises(ef.EvenflowError, match=r"'a\.b' twice"):
        df.transform(balance(["a.b", "a.b"], workers=2))


def test_keys_may_be_nested_fields_and_expressions(spark: Any) -> None:
    df = spark.createDataFrame(
        [((i % 3, "x"), i) for i in range(30)], "who struct<id: int, name: string>, v int"
    )
    keys: list[Any] = ["who.id", F.col("v") % 3, "who", ["who.id", F.col("v") % 3]]
    for key in keys:
        out = df.transform(balance(key, workers=4, split=False))
        assert out.schema == df.schema
        groups: dict[int, set[int]] = {}
        for worker, v in workers_of(out, "v"):
            groups.setdefault(v % 3, set()).add(worker)
        assert all(len(some) == 1 for some in groups.values())


def test_hashes_are_those_of_evenflow(spark: Any) -> None:
    table = pa.table({"a": ["x", None, "z"], "b": [1, 2, None]})
    keyed, keys = with_keys(spark.createDataFrame(table), ["a", "b"])
    hashed = [row[0] for row in keyed.selectExpr(key_hash(keys)).collect()]
    assert np.array(hashed).view(np.uint64).tolist() == ef.hash_keys(table).tolist()


def bad(df: Any, match: str, *args: Any, **options: Any) -> None:
    with pytest.raises(ef.EvenflowError, match=match):
        df.transform(balance(*args, **options))


def test_bad_input_gets_a_sentence(spark: Any) -> None:
    df = spark.createDataFrame(
        [("a", {"x": 1}, "b")], "user string, m map<string,int>, c string collate UTF8_LCASE"
    )
    bad(df, "there is no column 'usr'; did you mean 'user'?", "usr", 4)
    bad(df, "cannot resolve", F.col("nope"), 4)
    bad(df, "key is empty", [], 4)
    bad(df, "key contains 3", [3], 4)
    bad(df, "expands to 3 columns", F.col("*"), 4)
    bad(df, "contains a map.*to_json", "m", 4)
    bad(df.select(F.parse_json(F.lit("1")).alias("v")), "contains a variant", "v", 4)
    bad(df.select(F.struct("m").alias("s")), "contains a map", "s", 4)
    bad(df, "collation UTF8_LCASE", "c", 4)
    bad(df, "workers is 0", "user", 0)
    bad(df, "workers is 2.5", "user", 2.5)
    bad(df, "no scheme 'fil'; did you mean 'fill'", "user", 4, "fil")
    bad(df, "cannot be planned", "user", 4, "d-choices", "planned")
    bad(df, "mode is 'fast'", "user", 4, mode="fast")
    bad(df, "order is 'x'", "user", 4, order="x")
    bad(df, "sample is 2", "user", 4, sample=2)
    timed = df.select(F.current_timestamp().alias("ts"), "user")
    bad(timed, "a time window", [F.window("ts", "1 minute"), "user"], 4)
    made: list[Placed] = []
    df.transform(balance("user", 4, on_placed=made.append))
    plan = made[0].plan
    assert isinstance(plan, Plan)
    bad(df, "plan is for 4 workers but workers is 5", "user", 5, plan=plan)


def test_the_counting_job_says_what_it_is_and_leaves_the_users_description(spark: Any) -> None:
    context = spark.sparkContext
    store = context._jsc.sc().statusStore()

    def described() -> dict[int, str]:
        jobs = store.jobsList(None)
        found = [jobs.apply(index) for index in range(jobs.size())]
        return {job.jobId(): job.description().get() for job in found if job.description().isDefined()}

    before = described()
    context.setJobDescription("mine")
    try:
        df = spark.range(1000).selectExpr("id % 7 as k", "id")
        even = df.transform(balance("k", workers=3))
        context._jsc.sc().listenerBus().waitUntilEmpty()
        counting = {job: text for job, text in described().items() if job not in before}
        assert counting
        assert all("evenflow: count the keys (k)" in text for text in counting.values())
        assert context.getLocalProperty("spark.job.description") == "mine"
        even.collect()
        context._jsc.sc().listenerBus().waitUntilEmpty()
        texts = {text for job, text in described().items() if job not in before and job not in counting}
        assert texts == {"mine"}
    finally:
        context.setLocalProperty("spark.job.description", None)


def test_settings_that_would_undo_it_are_refused(spark: Any) -> None:
    setting = "spark.sql.requireAllClusterKeysForDistribution"
    spark.conf.set(setting, "true")
    try:
        bad(spark.range(3), f"{setting} is true", "id", 4)
    finally:
        spark.conf.unset(setting)


@pytest.mark.skipif(
    known.CLIENT < known.HAS_REPARTITION_BY_ID, reason="Spark only knows a hash of the worker"
)
def test_grouping_on_worker_and_key_afterwards_adds_no_shuffle(spark: Any) -> None:
    placed = place(spark.range(100).selectExpr("id % 7 as k", "id"), "k", PlacementOptions(4))
    grouped = placed.moved().groupBy(placed.worker, "k").count()
    assert exchanges(grouped) == (1, 0)


def test_columns_that_cannot_be_hashed_may_ride_along(spark: Any) -> None:
    rows = [("hot" if i % 2 else str(i), {"x": i}, str(i)) for i in range(400)]
    df = spark.createDataFrame(rows, "k string, m map<string,int>, c string collate UTF8_LCASE").repartition(
        2
    )
    out = df.transform(balance("k", workers=4, order="content"))
    load = loads_of(out, 4)
    assert load.sum() == 400
    assert load.max() < 150


def test_the_explained_plan_is_short_however_many_keys_are_hot(spark: Any, tmp_path: Path) -> None:
    rows = spark.range(20_000).selectExpr(
        "if(id % 3 = 0, 'ACME', concat('c', id % 300)) as customer", "id as amount", "'DE' as country",
        "0.5 as price",
    )  # fmt: skip
    rows.write.csv(str(tmp_path / "rows"), header=True)
    stored = spark.read.csv(str(tmp_path / "rows"), header=True, inferSchema=True)
    text = explained(stored.transform(balance("customer", workers=64))).replace(str(tmp_path), "/data")
    assert "__ef_draw" in text  # a key is split
    assert len(re.sub(r"#\d+", "#100", text)) < 3_000  # numbers grow with the age of a session


def test_the_baseline_is_sparks_own_repartition(spark: Any) -> None:
    df = spark.range(3000).selectExpr("if(id % 3 = 0, 'hot', cast(id % 200 as string)) as k", "id")
    even = balance(df, "k", workers=7, scheme="key", mode="repartition")
    assert sorted(workers_of(even, "k", "id")) == sorted(workers_of(df.repartition(7, "k"), "k", "id"))
