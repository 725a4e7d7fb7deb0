"""A scheme from outside on Spark: planned, online and as the owner of state, by what it declares."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import evenflow as ef
from evenflow.spark import balance, read_state, stateful
from evenflow.streams import Zipf
from schemes.own import Modular, Reserved, send_by_value
from spark.needs import needs_online
from spark.processors import OUTPUT, STREAM, Adding
from spark.stream_files import read_batches, write_batches

pytestmark = pytest.mark.spark
send_by_value()

ROWS, WORKERS = 8000, 5
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def rows(spark: Any) -> Any:
    ids = Zipf(z=1.3, keys=500, messages=ROWS, seed=2).generate(0, ROWS).ids
    return spark.createDataFrame(pa.table({"key": ids.astype(np.int64), "number": np.arange(ROWS)}))


def placed(frame: Any) -> tuple[Any, Any]:
    """Return the hash of every row's key and the partition that the row is on."""
    found = frame.select("key", F.spark_partition_id().alias("worker")).toArrow()
    assert found.num_rows == ROWS
    return ef.hash_keys(found["key"].combine_chunks()), found["worker"].to_numpy()


def test_it_is_planned(rows: Any) -> None:
    seen: list[Any] = []
    frame = rows.transform(
        balance("key", WORKERS, scheme=Modular(), mode="planned", seed=3, on_placed=seen.append)
    )
    hashes, workers = placed(frame)
    plan = Modular().plan(WORKERS, seed=3)
    assert workers.tolist() == plan.route(hashes, np.zeros(ROWS)).tolist()
    assert "modular is planned without counting keys" in seen[0].reasons


def test_its_plan_gets_the_counts_that_it_asks_for(rows: Any) -> None:
    seen: list[Any] = []
    hashes, workers = placed(
        rows.transform(balance("key", WORKERS, scheme=Reserved(), on_placed=seen.append))
    )
    keys, counts = np.unique(hashes, return_counts=True)
    hottest = keys[np.argmax(counts)]
    assert seen[0].mode == "planned"
    assert seen[0].plan.keys.tolist() == [int(hottest)]
    assert set(workers[hashes == hottest].tolist()) == {WORKERS - 1}
    assert set(hashes[workers == WORKERS - 1].tolist()) == {int(hottest)}


def test_it_runs_online(rows: Any) -> None:
    hashes, workers = placed(rows.transform(balance("key", WORKERS, scheme=Modular(), mode="online", seed=3)))
    assert workers.tolist() == Modular().router(WORKERS, 3).lookup(hashes).tolist()


@pytest.mark.parametrize("scheme", [Modular(), Reserved()], ids=str)
def test_it_owns_state(spark: Any, tmp_path: Path, scheme: ef.Scheme) -> None:
    ids = Zipf(z=1.3, keys=100, messages=900, seed=5).generate(0, 900).ids
    table = pa.table({"key": [f"k{key}" for key in ids.tolist()], "number": pa.array(range(900), pa.int64())})
    write_batches(tmp_path / "in", [table.slice(0, 300), table.slice(300, 300)])
    stream = read_batches(spark, tmp_path / "in", STREAM)
    query = stateful(
        stream, "key", Adding(), OUTPUT, state=tmp_path / "state", workers=3, scheme=scheme
    ).start(lambda df, batch: None)
    query.processAllAvailable()
    query.rescale(workers=4)
    write_batches(tmp_path / "in", [table.slice(600, 300)], first=2)
    query.processAllAvailable()
    loads, moved = query.loads(), query.migrations()
    query.stop()
    assert (loads.workers, sum(loads.rows)) == (4, 300)
    assert moved[-1]["to"] == 4
    state = {row["key"]: (row["n"], row["total"]) for row in read_state(spark, tmp_path / "state").collect()}
    assert state == {
        f"k{key}": (int((ids == key).sum()), int(np.flatnonzero(ids == key).sum()))
        for key in set(ids.tolist())
    }


@pytest.mark.parametrize("mode", ["planned", pytest.param("online", marks=needs_online)])
def test_a_script_of_30_lines_runs(tmp_path: Path, mode: str) -> None:
    """The scheme of the documents is in ``__main__`` then, which no Python worker can import."""
    script = tmp_path / "script.py"
    script.write_text(
        (EXAMPLES / "jump_hash.py").read_text()
        + """
import json, sys
from evenflow.spark import balance
from evenflow.spark.session import local_session
from pyspark.sql import functions as F

with local_session() as spark:
    rows = spark.range(3000).selectExpr("id % 700 AS key")
    placed = rows.transform(balance("key", 6, scheme=Jump(), mode=sys.argv[1]))
    placed = placed.select("key", F.spark_partition_id().alias("worker"))
    homes = placed.groupBy("key").agg(F.collect_set("worker")).collect()
    print(json.dumps([sorted(row[0] for row in homes), sorted({home for row in homes for home in row[1]}),
                      max(len(row[1]) for row in homes)]))
"""
    )
    done = subprocess.run(
        [sys.executable, str(script), mode], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    keys, homes, most = json.loads(done.stdout.splitlines()[-1])
    assert keys == list(range(700))
    assert homes == list(range(6))
    assert most == 1
