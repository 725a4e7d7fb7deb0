"""What `advise` predicts is what the line that it prints does on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenflow as ef
from evenflow.spark import loads
from evenflow.streams import open_stream

STREAMS = {
    "one hot key": "zipf:z=2,keys=1e4,messages=3e5",
    "some hot keys": "zipf:z=1.2,keys=1e4,messages=3e5",
    "many warm keys": "zipf:z=0.8,keys=1e4,messages=3e5",
    "drifting": "drift:keys=1e4,messages=3e5",
    "few keys": "uniform:keys=20,messages=3e5",
}
WORKERS = 12


@pytest.mark.spark
@pytest.mark.parametrize("work", ["mergeable", "one-owner"])
@pytest.mark.parametrize("name", sorted(STREAMS))
def test_the_pasted_line_does_what_was_predicted(spark: Any, tmp_path: Path, name: str, work: str) -> None:
    stream = open_stream(STREAMS[name])
    keys = [f"user {key}" for chunk in stream.chunks() for key in chunk.ids.tolist()]
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table({"user": keys, "row": range(len(keys))}), path, row_group_size=50_000)
    advice = ef.advise(f"{path}#user", WORKERS, work)
    names: dict[str, Any] = {"df": spark.read.parquet(str(path))}
    exec(advice.recommendation.code, names)
    found = loads(names["df"], "user", workers=WORKERS)
    outcome = advice.recommendation.outcome
    assert found.max_over_mean == pytest.approx(outcome.max_over_mean, rel=0.03)
    assert found.memory == pytest.approx(outcome.memory, rel=0.03)
