"""stateful on Spark Connect, where batches are committed by another process than the one that asks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark.on_connect import run_on_connect


@pytest.mark.spark
def test_stateful_on_connect(tmp_path: Path) -> None:
    found = json.loads(run_on_connect("connect_stateful", tmp_path))
    assert "another query works on the state" in found.pop("refused")
    assert found.pop("moved") > 0
    assert found == {"workers": 3, "rows": 100, "state": True, "outputs": True}
