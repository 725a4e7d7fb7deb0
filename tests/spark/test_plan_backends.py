"""One way from plan to worker: numpy, the SQL of `balance` and that of its streams choose the same one."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from evenflow.control.directory import Control
from evenflow.plan import Plan, make_plan
from evenflow.spark.replanning.plan_source import current_plan, write_plan
from evenflow.spark.routing.plan_sql import STEPS, bucket_home, is_compiled, with_current_worker, with_worker
from evenflow.spark.state.owner_lookup import Owners
from evenflow.spark.versions.placement import on_workers
from plan.plans import plans, rows_for

pytestmark = pytest.mark.spark
STEPS_AS = {step: f"step_{step}" for step in STEPS} | {"draw": "u", "serial": "serial"}


def on_spark(spark: Any, folder: Path, plan: Plan, hashes: Any, draws: Any) -> dict[str, list[int]]:
    """Return the workers that each back end on Spark chooses, in one job."""
    control = Control(folder)
    assert write_plan(control, "op", 7, plan)
    rows = pa.table({"i": np.arange(hashes.size), "h": hashes.view(np.int64), "u": draws})
    df = with_worker(spark.createDataFrame(rows), plan, "h", F.col("u"), "sql")
    df = with_worker(df, plan, "h", None, "undrawn")
    look_up = current_plan(spark, control, "op", plan.workers)
    df = with_current_worker(df, look_up, "h", bucket_home(df, plan, "h"), "stream", STEPS_AS)
    found = df.orderBy("i").select("serial", "sql", "undrawn", "stream").toArrow()
    assert set(found["serial"].to_pylist()) == {7}
    assert {found[name].type for name in ("sql", "undrawn", "stream")} == {pa.int32()}
    return {name: found[name].to_pylist() for name in ("sql", "undrawn", "stream")}


@settings(max_examples=8, phases=[Phase.explicit, Phase.generate])  # shrinking would be hundreds of jobs
@given(plan=plans(), seed=st.integers(0, 2**32))
def test_all_back_ends_choose_the_same_worker(
    spark: Any, tmp_path_factory: pytest.TempPathFactory, plan: Plan, seed: int
) -> None:
    hashes, draws = rows_for(plan, 2000, seed)
    found = on_spark(spark, tmp_path_factory.mktemp("control"), plan, hashes, draws)
    expected = plan.route(hashes, draws).tolist()
    assert found["sql"] == expected
    assert found["stream"] == expected
    assert found["undrawn"] == plan.route(hashes, np.zeros(hashes.size)).tolist()
    if not plan.splits:
        assert Owners.of(plan).of_hashes(hashes.view(np.int64)).tolist() == expected


def test_a_plan_that_a_planner_makes(spark: Any, tmp_path: Path, compiled: None) -> None:
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 2**64, 3000, np.uint64)
    tail = rng.integers(1, 30, 64 * 50)  # buckets that move
    plan = make_plan(50, keys, 1e4 * np.arange(1, 3001) ** -1.3, bucket_counts=tail * 40)
    assert plan.splits > 4
    assert (np.diff(plan.buckets) < 0).any()
    hashes, draws = rows_for(plan, 20_000, 5)
    found = on_spark(spark, tmp_path, plan, hashes, draws)
    assert found["sql"] == found["stream"] == plan.route(hashes, draws).tolist()


@pytest.mark.parametrize("columns", [2, 120])
def test_frames_that_spark_compiles_and_wider_ones(
    spark: Any, tmp_path: Path, compiled: None, columns: int
) -> None:
    """Spark compiles up to 100 columns; beyond, it would copy a column with the plan into every row."""
    plan = make_plan(5, np.array([1 << 60, 3 << 60, 5 << 61], np.uint64), [60, 30, 20], total=200)
    control = Control(tmp_path)
    assert write_plan(control, "op", 1, plan)
    hashes, draws = rows_for(plan, 500, 1)
    rows = spark.createDataFrame(pa.table({"h": hashes.view(np.int64), "u": draws}))
    rows = rows.select("*", *(F.col("u").alias(f"c{number}") for number in range(2, columns)))
    assert is_compiled(rows) == (columns == 2)
    look_up = current_plan(spark, control, "op", plan.workers)
    df = with_current_worker(rows, look_up, "h", bucket_home(rows, plan, "h"), "worker", STEPS_AS)
    assert ("step_plan" in df.columns) == (columns == 2)
    found = df.select("worker", "serial").toArrow()
    assert found["worker"].to_pylist() == plan.route(hashes, draws).tolist()
    assert set(found["serial"].to_pylist()) == {1}


def test_an_explained_frame_stays_short(spark: Any) -> None:
    keys = np.random.default_rng(3).integers(0, 2**64, 5000, np.uint64)
    plan = make_plan(100, keys, 1e4 * np.arange(1, 5001) ** -1.3)
    df = with_worker(
        spark.range(10).selectExpr("id as user_id", "id as v"), plan, "xxhash64(user_id)", F.rand(1), "w"
    )
    text = io.StringIO()
    with redirect_stdout(text):
        on_workers(df, 100, F.col("w")).drop("w").explain()
    assert len(text.getvalue()) < 3500
