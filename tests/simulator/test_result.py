"""Results as tables, JSON and CSV."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import evenflow as ef
from evenflow.simulator import Aggregation, Queueing, Rescale, Result, results_table, simulate, write_table
from simulator.fakes import ListStream


@pytest.fixture(scope="module")
def result() -> Result:
    stream = ListStream([0, 1, 2, 0] * 100)
    return simulate(
        "consistent-hash",
        stream,
        12,
        2,
        queueing=Queueing(),
        events=[Rescale(200, 13)],
        aggregation=Aggregation(50),
        head=0.5,
    )


def test_tables(result: Result) -> None:
    assert result.table().num_rows == 100
    assert result.table().column("messages").to_pylist()[-1] == 400
    assert result.worker_table().column("messages").to_pylist() == result.loads.tolist()
    assert result.rescales["workers"].tolist() == [13]
    assert result.periods["messages"].size == 8


def test_json_is_strict_and_has_everything(result: Result) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    content = json.loads(result.to_json(), parse_constant=refuse)
    assert content["row"]["scheme"] == "consistent-hash"
    assert content["row"]["keys"] == 3
    assert content["by_worker"]["messages"] == result.loads.tolist()
    assert None in content["by_worker"]["latency_mean"]  # a worker without messages has no latency
    assert len(content["over_time"]["imbalance"]) == 100


def test_csv(result: Result, tmp_path: Path) -> None:
    result.write_csv(tmp_path / "run.csv")
    read = pyarrow.csv.read_csv(tmp_path / "run.csv")
    assert read.column("imbalance").to_pylist() == result.over_time["imbalance"].tolist()


def test_rows_of_several_runs(result: Result, tmp_path: Path) -> None:
    plain = simulate("key", ListStream([0, 1]), 2, 1)
    table = results_table([result, plain])
    assert table.column("scheme").to_pylist() == ["consistent-hash", "key"]
    assert table.column("latency_mean").to_pylist()[1] is None
    readers = {
        "csv": pyarrow.csv.read_csv,
        "parquet": pyarrow.parquet.read_table,
        "arrow": pyarrow.feather.read_table,
        "json": lambda path: pa.Table.from_pylist(json.loads(Path(path).read_text())),
    }
    for suffix, read in readers.items():
        write_table(table, tmp_path / f"rows.{suffix}")
        assert read(str(tmp_path / f"rows.{suffix}")).column("imbalance").to_pylist() == pytest.approx(
            table.column("imbalance").to_pylist()
        )
    with pytest.raises(ef.EvenflowError, match=r"end it with \.csv, \.json, \.parquet or \.arrow"):
        write_table(table, tmp_path / "rows.xlsx")
