"""What stands in for features that older versions of Spark lack; on a new Spark, it is forced."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from evenflow.errors import EvenflowError
from evenflow.spark import balance, loads
from evenflow.spark.murmur3 import hash_of_int, int_with_hash
from evenflow.spark.replanning.batch_stats import plain
from evenflow.spark.routing.key_counts import count_frequent_keys
from evenflow.spark.versions import arrow, frequent, known, placement

pytestmark = pytest.mark.spark

HOT = "if(id % 2 = 0, 7, if(id % 8 = 1, 8, id))"  # half of the rows, and an eighth of them


@pytest.fixture
def oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest Spark that is supported, as far as evenflow knows."""
    monkeypatch.setattr(known, "CLIENT", known.OLDEST)


def test_hash_of_ints_is_the_one_of_spark(spark: Any) -> None:
    numbers = np.array([0, 1, -1, 2**31 - 1, -(2**31), 12345], np.int32)
    frame = spark.createDataFrame([(int(number),) for number in numbers], "n int")
    assert [row[0] for row in frame.selectExpr("hash(n)").collect()] == hash_of_int(numbers).tolist()


@pytest.mark.parametrize("workers", [1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_rows_are_on_the_partition_of_their_worker(
    spark: Any, oldest: None, same_settings: None, workers: int, adaptive: str
) -> None:
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    rows = spark.range(0, 3 * workers, 1, 2).selectExpr("id", f"int(id % {workers}) as worker")
    placed = placement.on_workers(rows, workers, F.col("worker"))
    assert placed.rdd.getNumPartitions() == workers
    wrong = placed.where(F.spark_partition_id() != F.col("worker")).count()
    assert (placed.count(), wrong) == (3 * workers, 0)


def test_every_worker_has_a_number_of_its_own() -> None:
    numbers = int_with_hash(np.arange(1000, dtype=np.int32))
    for workers in range(1, 1001):
        chosen = hash_of_int(numbers[:workers]) % workers
        assert (chosen == np.arange(workers)).all()


def test_keys_are_counted_exactly_without_top_k(spark: Any, oldest: None) -> None:
    rows = spark.range(0, 8000, 1, 3).selectExpr(f"xxhash64({HOT}) as h")
    other = spark.range(0, 300, 1, 2).selectExpr("xxhash64(id % 3) as h")
    for buckets in (64, 0):
        found = count_frequent_keys(
            [(rows, "h"), (other, "h")], workers=4, buckets=buckets, sample=None, seed=1
        )
        for (counted, fraction), frame in zip(found, (rows, other), strict=True):
            exact = Counter(row.h % 2**64 for row in frame.collect())
            assert (fraction, counted.total) == (1.0, exact.total())
            listed = dict(zip(counted.keys.tolist(), counted.counts.tolist(), strict=True))
            assert len(listed) == min(1000, len(exact))
            assert all(exact[key] == count for key, count in listed.items())
            assert {key for key, _ in exact.most_common(2)} <= set(listed)
            if buckets:
                assert counted.buckets is not None
                assert counted.buckets.sum() == counted.total
            else:
                assert counted.distinct == len(exact)


def test_a_balanced_frame_without_top_k(spark: Any, oldest: None) -> None:
    rows = spark.range(0, 20_000, 1, 4).selectExpr(f"{HOT} as user")
    found = loads(rows.transform(balance("user", workers=8)), "user", workers=8)
    assert sum(found.rows) == 20_000
    assert max(found.rows) < 1.1 * 20_000 / 8


def test_frequent_hashes_of_a_stream_without_top_k(spark: Any, oldest: None) -> None:
    rows = spark.range(0, 40_000, 1, 3).selectExpr(f"xxhash64({HOT}) as h")
    exact = Counter(row.h % 2**64 for row in rows.collect())
    found = rows.agg(frequent.frequent_hashes(spark, F.col("h"), 1000, 16_384).alias("found")).collect()
    keys, counts = frequent.read_frequent_hashes(plain(found[0]["found"]), exact.total())
    for rank, (key, count) in enumerate(exact.most_common(2)):
        assert keys[rank] == key
        assert abs(counts[rank] - count) <= 2 * exact.total() / 16_384 + 1
    assert all(key in exact for key in keys.tolist())
    none = rows.where("false").agg(frequent.frequent_hashes(spark, F.col("h"), 1000, 16_384).alias("found"))
    assert frequent.read_frequent_hashes(plain(none.collect()[0]["found"]), 0)[0].size == 0


def test_few_values_are_counted_exactly_without_top_k(spark: Any, oldest: None) -> None:
    for most in (1, 5, 300):
        rows = spark.range(0, 5000, 1, 4).selectExpr(f"int(id * id % {most}) as worker")
        [found] = rows.agg(frequent.counts_of_few(spark, F.col("worker"), most, 16_384)).collect()
        counts: Counter[int] = Counter()
        for item, count in frequent.counts_in(plain(found[0])):
            counts[item] += count
        assert counts == Counter(row.worker for row in rows.collect())


def test_a_value_whose_bins_were_merged_is_itself(spark: Any, oldest: None) -> None:
    # worker 1 has one row in a partition and five in the other; the mean of its bins is 0.9999999999999999
    rows = spark.range(0, 10, 1, 2).selectExpr("if(id = 0 or id >= 5, 1, 0) as worker")
    [found] = rows.agg(frequent.counts_of_few(spark, F.col("worker"), 2, 16_384)).collect()
    assert dict(frequent.counts_in(plain(found[0]))) == {0: 4, 1: 6}


def test_frequent_texts_without_top_k(spark: Any, oldest: None) -> None:
    rows = spark.range(0, 2000, 1, 2).select(F.expr(f"string({HOT})").alias("text"), "id")
    counted = frequent.text_to_count(spark, F.col("text"), F.col("id") / 2000)
    [found] = rows.agg(frequent.frequent_texts(spark, counted, 200, 2048)).collect()
    items = [pair["item"] for pair in found[0]]
    assert "7" in items
    assert len(set(items)) == len(items) <= 32


@pytest.mark.parametrize("forced", [False, True])
def test_a_function_over_arrow_arrays(spark: Any, monkeypatch: pytest.MonkeyPatch, forced: bool) -> None:
    if forced:
        monkeypatch.setattr(known, "CLIENT", known.OLDEST)
    kind = pa.struct(
        {"n": pa.int64(), "at": pa.timestamp("us", "UTC"), "m": pa.map_(pa.string(), pa.int64())}
    )

    def make(values: pa.Array) -> pa.Array:
        def row(value: int | None) -> dict[str, Any]:
            return {"n": None if value is None else value + 2**60, "at": value, "m": [("a", value)]}

        return pa.array([row(value) for value in values.to_pylist()], kind)

    made = arrow.arrow_function(make, "struct<n: bigint, at: timestamp, m: map<string, bigint>>", pa.int64())
    rows = spark.range(0, 4, 1, 1).select(F.when(F.col("id") != 2, F.col("id")).alias("v"))
    found = (
        rows.select(made(F.col("v")).alias("s")).selectExpr("s.n", "unix_micros(s.at)", "s.m['a']").collect()
    )
    assert [tuple(row) for row in found] == [
        (None if value is None else value + 2**60, value, value) for value in (0, 1, None, 3)
    ]


def test_online_mode_names_the_version_that_has_it(spark: Any, oldest: None) -> None:
    with pytest.raises(EvenflowError, match=r"needs Spark 4\.2 or newer"):
        balance(spark.range(10), "id", workers=2, mode="online")
