"""`evenflow demo` compares hashing with evenflow and writes a page and a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from typer.testing import CliRunner

from evenflow.cli import main
from evenflow.commands.demo import Run, _fastest
from evenflow.runner.pipeline import Progress

pytestmark = pytest.mark.spark


@pytest.mark.usefixtures("same_settings")
def test_demo(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = pa.table({"key": ["the"] * 1500 + [f"w{number}" for number in range(1500)]})
    pq.write_table(words, tmp_path / "words.parquet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(type(spark), "stop", lambda self: None)  # the session of all tests stays
    monkeypatch.setattr("evenflow.commands.demo.BATCHES", 2)
    options = ["--words=words.parquet", "--workers=3", "--rows=1500", "--work=0", "--figure=loads.png"]
    done = CliRunner().invoke(main, ["demo", "--json", *options])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [(one["stream"][:5], one["scheme"]) for one in found] == [
        ("words", "key"), ("words", "fill"), ("a dri", "key"), ("a dri", "fill"),
    ]  # fmt: skip
    assert all(sum(one["rows_per_worker"]) == 3000 for one in found)
    assert found[1]["max_over_mean"] < 1.1 < found[0]["max_over_mean"]
    by_spark = spark.createDataFrame(words.to_pandas()).repartition(3, "key").groupBy(F.spark_partition_id())
    assert sorted(found[0]["rows_per_worker"]) == sorted(row["count"] for row in by_spark.count().collect())
    page = (tmp_path / "demo" / "index.html").read_text()
    assert "Spark&#39;s own, as in repartition(n, key)" in page
    assert page.count("data-chart=") == 2 + 1  # two charts, and the script that draws them
    assert "http:" not in page.replace("http://www.w3.org", "")
    assert (tmp_path / "loads.png").stat().st_size > 1000


def test_the_fastest_round_counts() -> None:
    runs = [Run("key", Progress(2), seconds) for seconds in (3.0, 2.0, 4.0)]
    best = None
    for run in runs:
        best = _fastest(best, run)
    assert best is runs[1]
