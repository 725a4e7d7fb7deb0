"""stateful on Spark Connect, where batches are committed by another process than the one that asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.spark
def test_stateful_on_connect(tmp_path: Path) -> None:
    tests = Path(__file__).parents[1]
    path = [str(tests), str(tests.parent / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_TESTING": "1",  # any free port, so that two servers may run at once
    }
    done = subprocess.run(
        [sys.executable, "-m", "spark.connect_stateful", str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert "another query works on the state" in found.pop("refused")
    assert found.pop("moved") > 0
    assert found == {"workers": 3, "rows": 100, "state": True, "outputs": True}
