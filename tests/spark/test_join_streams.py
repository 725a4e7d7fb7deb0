"""`join` with streams equals Spark's own join, whatever the plans are and whatever happens to them."""

from __future__ import annotations

import itertools
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from evenflow.plan import JoinPlan, make_join_plan
from evenflow.plan.counted import Counted
from evenflow.plan.join_build import KINDS
from evenflow.spark import join
from evenflow.spark.joining import stream_static, stream_stream
from spark.stream_files import read_batches, run_to_end, write_batches
from spark.tables import rows_of

pytestmark = pytest.mark.spark

ROWS = "k long, x double, row long, ts timestamp"
START = datetime(2024, 3, 10, 6, tzinfo=UTC)
NUMBER = itertools.count()
OTHERS = ["k", "y", "r", "until"]
PARTITIONS = 4
MANY = 25 if os.environ.get("EVENFLOW_FAULTS") == "all" else 0


@pytest.fixture(autouse=True)
def _no_broadcast(spark: Any) -> Any:
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    yield
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)


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
    from evenflow import hash_keys

    rng = np.random.default_rng(seed)
    hashes = hash_keys(pa.array([7, 0, 1, 2, 99], pa.int64()))
    ours, theirs = (Counted(hashes, rng.choice([1.0, 50.0, 3000.0], hashes.size), 1e4) for _ in range(2))
    return make_join_plan(workers, ours, theirs, str(rng.choice(KINDS)))


def result(frame: Any, folder: Path) -> list[str]:
    """Return the rows that a query of this frame writes, as sorted texts."""
    name = f"joined_{next(NUMBER)}"
    return rows_of(run_to_end(frame, "append", name, folder / name))


@settings(max_examples=MANY or 3, phases=[Phase.explicit, Phase.generate])
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


@settings(max_examples=MANY or 3, phases=[Phase.explicit, Phase.generate])
@given(
    how=st.sampled_from(stream_stream.KINDS),
    hot=st.sampled_from([(0.0, 0.0), (0.6, 0.0), (0.0, 0.6), (0.4, 0.4), (1.0, 1.0)]),
    sizes=st.sampled_from([(60, 30), (60, 30), (60, 0), (0, 30)]),
    by_name=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_two_streams(
    spark: Any, tmp_path_factory: Any, how: str, hot: Any, sizes: Any, by_name: bool, seed: int
) -> None:
    """Late rows, rows that wait for a match in a later batch and rows that never find one included."""
    folder = tmp_path_factory.mktemp("join")
    for name, share, rows in zip(("left", "right"), hot, sizes, strict=True):
        write_batches(folder / name, [table(rows, share, seed + 7 * n, 4 * n) for n in range(4)])
    plan = any_plan(PARTITIONS, seed)
    found = []
    for mine in (True, False):
        left = read_batches(spark, folder / "left", ROWS).withWatermark("ts", "1 minute")
        right = read_batches(spark, folder / "right", ROWS).toDF(*OTHERS).withWatermark("until", "2 minutes")
        near = F.expr("until between ts - interval 1 minute and ts + interval 3 minutes")
        on = "k" if by_name else left["k"] == right["k"]
        if mine:
            frame = join(left, right, on, how, plan=plan, condition=near, control=str(folder / "control"))
        elif by_name:
            frame = plain(left, right, near, how)
        else:
            frame = left.join(right, on & near, how)
        found.append((frame.columns, [field.nullable for field in frame.schema], result(frame, folder)))
    assert found[0] == found[1]


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
