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
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(
    ("name", "work"),
    [
        *((name, "mergeable") for name in sorted(STREAMS)),
        ("many warm keys", "one-owner"),
        ("few keys", "one-owner"),
    ],
)
def test_the_pasted_line_does_what_was_predicted(spark: Any, tmp_path: Path, name: str, work: str) -> None:
    stream = open_stream(STREAMS[name])
    keys = [f"user {key}" for chunk in stream.chunks() for key in chunk.ids.tolist()]
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table({"user": keys, "row": range(len(keys))}), path, row_group_size=50_000)
    advice = ef.advise(f"{path}#user", workers=WORKERS, work=work)
    names: dict[str, Any] = {"df": spark.read.parquet(str(path))}
    exec(advice.recommendation.code, names)
    found = loads(names["df"], "user", workers=WORKERS)
    outcome = advice.recommendation.outcome
    assert found.max_over_mean == pytest.approx(outcome.max_over_mean, rel=0.03)
    assert found.memory == pytest.approx(outcome.memory, rel=0.03)


@pytest.mark.spark
def test_a_spark_frame_is_advised_on_as_its_file_is(spark: Any, tmp_path: Path) -> None:
    keys = [f"user {key % 7 if key % 3 else 0}" for key in range(30_000)]
    path = str(tmp_path / "events.parquet")
    pq.write_table(pa.table({"user": keys, "row": range(len(keys))}), path)
    frame = spark.read.parquet(path)
    of_file = ef.advise(path, "user", workers=4).to_dict()
    of_frame = ef.advise(frame, "user", workers=4).to_dict()
    assert of_frame["stream"].pop("name") == "a DataFrame#user"
    of_file["stream"].pop("name")
    assert of_frame["recommendation"] == of_file["recommendation"]
    assert of_frame["stream"] == of_file["stream"]
    some = ef.advise(frame, "user", workers=4, sample=6000).to_dict()["stream"]
    assert some["total"] == 30_000
    assert some["messages"] <= 6000
    assert some["top_1"] == pytest.approx(of_file["stream"]["top_1"], abs=0.03)
    with pytest.raises(ef.EvenflowError, match="is a stream"):
        ef.advise(spark.readStream.format("rate").load(), "value", workers=4)
