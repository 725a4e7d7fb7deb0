"""Draws have nothing in common with the user's columns, however these were made."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from pyspark.sql import functions as F

from evenflow import hash_keys
from evenflow.plan import bucket_of, make_plan
from evenflow.spark import balance
from evenflow.spark.routing import key_counts
from evenflow.spark.routing.draws import FIRST_SAMPLE, HOME, SECOND_SAMPLE, draw_by_position

pytestmark = pytest.mark.spark

ROWS = 64_000
WORKERS = 8  # 8,000 rows each: chance alone is 1.1 percent
SEEDS = range(51)
# like Zipf with z = 1.4: the hottest key brings a third of the rows and has several homes
SKEWED = "cast(least(1e4, pow(1 - {}, -2.5D)) as long)"
STREAMS = {
    "sorted": "cast(sqrt(id) / 16 as long)",
    "repeated": "id - id % 7 * (id % 7)",
    "periodic": "if(id % 16 < 9, 0, id % 16)",
    "one key": "0L",
    "position": "if(monotonically_increasing_id() % 3 = 0, 0, id)",
    "hashed position": "if(xxhash64(monotonically_increasing_id()) % 3 = 0, 0, id)",
}


def max_by_mean(loads: Any) -> float:
    return float(loads.max() / loads.mean())


@pytest.mark.parametrize("purpose", [HOME, FIRST_SAMPLE, SECOND_SAMPLE])
def test_keys_made_by_rand_of_any_seed(spark: Any, purpose: str) -> None:
    """What `balance` does, with all keys in one query: the tables are those that Spark reads."""
    drawn = [f"{draw_by_position(seed, purpose)} as draw_{seed}" for seed in (0, 1)]
    rands = [f"rand({seed}L) as rand_{seed}" for seed in SEEDS]
    got = spark.range(0, ROWS, 1, 2).selectExpr(*drawn, *rands).toPandas()
    for seed in SEEDS:
        ids = np.minimum(1e4, (1 - got[f"rand_{seed}"].to_numpy()) ** -2.5).astype(np.uint64)
        hashes = hash_keys(ids.astype(np.int64))
        keys, counts = np.unique(hashes, return_counts=True)
        hot = counts * 64 * WORKERS >= ROWS
        buckets = np.bincount(bucket_of(hashes, 64 * WORKERS), minlength=64 * WORKERS)
        plan = make_plan(WORKERS, keys[hot], counts[hot], ROWS, buckets)
        assert plan.splits
        for draw in ("draw_0", "draw_1"):
            draws = got[draw].to_numpy()
            assert 0 <= draws.min() <= draws.max() < 1
            homes = np.bincount(plan.route(hashes, draws), minlength=WORKERS)
            hottest = np.bincount((draws[ids == 1] * WORKERS).astype(int), minlength=WORKERS)
            assert max_by_mean(hottest) < 1.1, (seed, draw)
            assert max_by_mean(homes) < 1.1, (seed, draw)


def loads_of(df: Any) -> Any:
    counted = dict(df.groupBy(F.spark_partition_id()).count().collect())
    return np.array([counted.get(worker, 0) for worker in range(WORKERS)])


@pytest.mark.parametrize("seed", [0, 1, 50])
def test_balance_of_keys_made_by_rand(spark: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    df = spark.range(0, ROWS, 1, 2).selectExpr(f"{SKEWED.format(f'rand({seed})')} as k", "id")
    assert max_by_mean(loads_of(df.transform(balance("k", WORKERS)))) < 1.05
    # few rows are counted, so the counting sample is drawn too
    monkeypatch.setattr(key_counts, "SAMPLED_ROWS_PER_WORKER", 2500)
    monkeypatch.setattr(key_counts, "FIRST_ROWS", 50)
    assert max_by_mean(loads_of(df.transform(balance("k", WORKERS, seed=seed)))) < 1.1


@pytest.mark.parametrize("stream", sorted(STREAMS))
def test_balance_of_regular_keys(spark: Any, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_counts, "SAMPLED_ROWS_PER_WORKER", 2500)
    monkeypatch.setattr(key_counts, "FIRST_ROWS", 50)
    df = spark.range(0, ROWS, 1, 2).selectExpr(f"{STREAMS[stream]} as k", "id")
    assert max_by_mean(loads_of(df.transform(balance("k", WORKERS)))) < 1.1


def test_stored_keys_made_by_rand(spark: Any, tmp_path: Any) -> None:
    made = spark.range(0, ROWS, 1, 2).selectExpr(f"{SKEWED.format('rand(0)')} as k")
    made.write.parquet(str(tmp_path / "stored"))
    stored = spark.read.parquet(str(tmp_path / "stored"))
    assert max_by_mean(loads_of(stored.transform(balance("k", WORKERS)))) < 1.05


@pytest.mark.usefixtures("compiled")
def test_a_streams_draws_are_in_code_that_is_compiled_once(
    spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark gives rand a new seed in every micro-batch; code with the seed would be compiled for each."""
    rows = spark.range(0, ROWS, 1, 2)
    drawn = draw_by_position(0, HOME, streaming=True)
    for draw, texts in (("rand({}L)", 2), (re.sub(r"rand\(\d+L\)", "rand({}L)", drawn), 1)):
        written = set()
        for seed in (1, 2):
            rows.selectExpr(f"{draw.format(seed)} as draw").explain("codegen")
            written.add(capsys.readouterr().out.partition("Generated code:")[2])
        assert "" not in written, "at least the range is compiled"
        assert len(written) == texts, draw
    draws = rows.selectExpr(f"{drawn} as draw").toPandas()["draw"]
    assert draws.nunique() == ROWS
    assert 0 <= draws.min() < draws.max() < 1
    assert max_by_mean(np.histogram(draws, WORKERS, (0, 1))[0]) < 1.05
