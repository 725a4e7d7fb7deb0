"""balance and loads on Spark Connect, batch and streaming."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark.on_connect import run_on_connect


@pytest.mark.spark
def test_balance_and_loads_on_connect(tmp_path: Path) -> None:
    found = json.loads(run_on_connect("connect_balance", tmp_path))
    assert found["same"]
    assert found["batch"] < 1.2
    assert found["online"] < 1.2
    assert found["stream"] < 1.35  # 250 rows each
    assert found["rows"] == 4000
    assert found["fallbacks"] == 0
