"""balance and loads on Spark Connect, batch and streaming."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.spark
def test_balance_and_loads_on_connect(tmp_path: Path) -> None:
    tests = Path(__file__).parents[1]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [str(tests), str(tests.parent / "src"), os.environ.get("PYTHONPATH", "")]
        ),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_TESTING": "1",  # any free port, so that two servers may run at once
    }
    done = subprocess.run(
        [sys.executable, "-m", "spark.connect_balance", str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found["same"]
    assert found["batch"] < 1.2
    assert found["online"] < 1.2
    assert found["stream"] < 1.35  # 250 rows each
    assert found["rows"] == 4000
    assert found["fallbacks"] == 0
