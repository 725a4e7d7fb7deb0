"""Online mode: every partition is a source whose router decides exactly as the scheme does, retry or not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

import evenflow as ef
from evenflow.spark import balance
from evenflow.spark.routing.online import online_worker
from evenflow.spark.routing.online_task import OnlineRouting
from evenflow.spark.versions.known import CHECKSUM, require_online
from evenflow.streams import Zipf
from spark.explained import exchanges
from spark.needs import needs_online
from spark.stream_files import read_batches, write_batches
from spark.tables import rows_of, tables

pytestmark = pytest.mark.spark

ROWS = 40_000
FILES = 4


@pytest.fixture(scope="module")
def rows(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Zipf 1.4 in a few files: a plain scan, one partition for each file."""
    folder = tmp_path_factory.mktemp("rows")
    ids = Zipf(z=1.4, keys=10_000, messages=ROWS, seed=1).generate(0, ROWS).ids
    for part in range(FILES):
        number = np.arange(part, ROWS, FILES)
        pq.write_table(pa.table({"key": ids[number], "number": number}), folder / f"{part}.parquet")
    spark.conf.set("spark.sql.files.openCostInBytes", 128 << 20)
    yield spark.read.parquet(str(folder))
    spark.conf.unset("spark.sql.files.openCostInBytes")


def partitions(frame: Any) -> list[int]:
    """Return the number of rows on each partition that has any."""
    return [row["count"] for row in frame.groupBy(F.spark_partition_id()).count().collect()]


@needs_online
def test_every_scheme_decides_as_its_routers_do(rows: Any) -> None:
    """Row by row the same as Router.route over each partition."""
    workers, few = 5, rows.where("number < 4000").select("key", F.spark_partition_id().alias("partition"))
    for scheme in map(ef.scheme, ef.list_schemes()):
        scheme.router(workers).route(np.zeros(1, np.uint64))  # compiled here, not by each Python worker
        online = OnlineRouting(scheme, workers, seed=3, sources=FILES)
        placed = few.select("*", online_worker(F.xxhash64("key"), online).alias("worker")).toArrow()
        assert placed.num_rows == 4000
        for partition in range(FILES):
            own = placed.filter(pa.compute.equal(placed["partition"], partition))
            router = scheme.router(workers, 3, source=partition, sources=FILES)
            expected = router.route(ef.hash_keys(own["key"].combine_chunks()))
            assert own["worker"].to_numpy().tolist() == expected.tolist(), scheme.name


@pytest.mark.parametrize("scan", [True, False], ids=["plain scan", "after a shuffle"])
def test_balanced(rows: Any, scan: bool) -> None:
    """Zipf 1.4 on 32 workers: 4 percent at most above the mean, every row once, the columns as they were."""
    given = rows if scan else rows.repartition(3)
    balanced = given.transform(balance("key", 32, mode="online"))
    assert balanced.columns == ["key", "number"]
    assert exchanges(balanced) == (1 if scan else 2, 0)
    counts = partitions(balanced)
    assert sum(counts) == ROWS
    assert max(counts) <= 1.04 * ROWS / 32
    assert balanced.groupBy("key").count().exceptAll(rows.groupBy("key").count()).isEmpty()


@settings(max_examples=8)
@given(
    given_table=tables(),
    scheme=st.sampled_from(sorted(ef.list_schemes())),
    workers=st.sampled_from([1, 3, 16]),
    shuffled=st.booleans(),
)
def test_the_same_rows_whatever_the_data(
    spark: Any, given_table: tuple[str, pa.Table], scheme: str, workers: int, shuffled: bool
) -> None:
    df = spark.createDataFrame(given_table[1])
    df = df.repartition(2, "user") if shuffled else df
    balanced = df.transform(balance(["k", "word"], workers, scheme, "online"))
    assert balanced.schema == df.schema
    assert rows_of(balanced.collect()) == rows_of(df.collect())


@needs_online
def test_a_filter_behind_it_sees_each_decision_once(rows: Any) -> None:
    placed = rows.select(
        "*", online_worker(F.xxhash64("key"), OnlineRouting(ef.scheme("fill"), 8)).alias("worker")
    )
    kept = placed.where("worker < 4 and worker >= 0").select("worker").distinct().collect()
    assert {row["worker"] for row in kept} == {0, 1, 2, 3}


def test_the_order_of_arrival_does_not_matter_where_rows_are_sorted(rows: Any) -> None:
    """What a shuffle brings in another order goes to the same workers."""

    def where(seed: int) -> list[Any]:
        shuffled = rows.where("number < 3000").repartition(2, "number").sortWithinPartitions(F.rand(seed))
        balanced = shuffled.transform(balance("key", 6, "d-choices", "online"))
        found = balanced.select(F.spark_partition_id().alias("worker"), "number").orderBy("number")
        return list(found.collect())

    assert where(1) == where(2)


def test_routers_start_from_a_snapshot(rows: Any) -> None:
    """Every partition starts with the hot keys and homes of the snapshot, and with loads of its own."""
    scheme, workers = ef.scheme("fill"), 4
    known = scheme.router(workers)
    known.route(
        np.array([row["h"] for row in rows.select(F.xxhash64("key").alias("h")).collect()]).view("u8")
    )
    online = OnlineRouting(scheme, workers, sources=2)
    for partition in (0, 1):
        router = online.router(partition, known)
        assert known.homes()  # type: ignore[attr-defined]
        assert router.homes().keys() >= known.homes().keys()  # type: ignore[attr-defined]
        assert not router.loads.any()
    assert not online.router(0).homes()  # type: ignore[attr-defined]


@needs_online
def test_refusals(spark: Any, rows: Any) -> None:
    for setting in CHECKSUM:
        spark.conf.set(setting, "false")
        try:
            with pytest.raises(ef.EvenflowError, match="Set it to true, or use mode='planned'") as said:
                rows.transform(balance("key", 4, mode="online"))
            assert setting in str(said.value)
        finally:
            spark.conf.unset(setting)
    old: Any = SimpleNamespace(version="4.1.2", conf=spark.conf)
    with pytest.raises(ef.EvenflowError, match=r"Spark 4.1.2; it needs Spark 4.2"):
        require_online(old)
    with pytest.raises(ef.EvenflowError, match="several owners"):
        rows.transform(balance("key", 4, mode="online", split=False))
    with pytest.raises(ef.EvenflowError, match="order is 'content'"):
        rows.transform(balance("key", 4, mode="online", order="content"))
    with pytest.raises(ef.EvenflowError, match="sources is 0"):
        rows.transform(balance("key", 4, mode="online", sources=0))
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ef.EvenflowError, match="Spark does not sort streams"):
        stream.dropDuplicates(["value"]).transform(balance("value", 4, mode="online"))


def test_one_owner_where_the_scheme_only_hashes(rows: Any) -> None:
    balanced = rows.transform(balance("key", 4, "consistent-hash", "online", split=False))
    pairs = balanced.select("key", F.spark_partition_id().alias("worker")).distinct()
    assert pairs.count() == rows.select("key").distinct().count()


def test_a_scheme_of_the_callers_own(rows: Any, tmp_path: Path) -> None:
    """A scheme that no module of a Python worker has is sent along."""
    own = tmp_path / "own_scheme.py"
    own.write_text(
        "from dataclasses import dataclass\n"
        "import evenflow as ef\n"
        "from evenflow.schemes.key import Key\n"
        "@ef.register\n"
        "@dataclass(frozen=True)\n"
        "class Own(Key):\n"
        "    name = 'own'\n"
        "    aliases = ()\n"
    )
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(own.read_text(), str(own), "exec"), namespace)
    from evenflow.schemes import registry

    try:
        counts = partitions(rows.transform(balance("key", 4, "own", "online")))
        same = partitions(rows.transform(balance("key", 4, "key", "online")))
        assert counts == same
    finally:
        del registry._SCHEMES["own"]


def test_a_key_of_a_stream_gets_as_many_workers_as_in_one_long_run(spark: Any, tmp_path: Path) -> None:
    """Under DKG a key with 60 percent of the rows gets one more worker per check, batch after batch."""
    rng = np.random.default_rng(3)
    rows = [np.where(rng.random(1000) < 0.6, 0, rng.integers(1, 500, 1000)) for _ in range(9)]
    write_batches(tmp_path / "rows", [pa.table({"key": ids}) for ids in rows])
    scheme = ef.scheme("dynamic-key", teenage_cycle=0.5, old_cycle=1, warm_up=1, check_every=1, rate=1000)
    stream = read_batches(spark, tmp_path / "rows", "key long")
    balanced = stream.transform(balance("key", 16, scheme, "online", sources=1))
    widths: list[int] = []

    def count(batch: Any, number: int) -> None:
        on = batch.where("key = 0").select(F.spark_partition_id())
        widths.append(on.distinct().count())

    writer = balanced.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.foreachBatch(count).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert widths[:7] == [2, 3, 4, 5, 6, 7, 8]
