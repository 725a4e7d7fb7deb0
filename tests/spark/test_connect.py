"""On Spark Connect: aggregate, apply, balance, join, loads and stateful, batch and streaming.

``make test`` tries some kinds of joins, ``make faults`` all, apps, and states that do not fit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from extent import ALL
from spark import connect_join
from spark.connect_aggregate import STREAMED
from spark.needs import HAS_ONLINE

PATIENCE = 1500  # seconds


@pytest.mark.spark
@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_everything_on_connect(tmp_path: Path) -> None:
    """One test, since starting a server is most of the time that each part would take."""
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "spark.on_connect", str(tmp_path)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(tests), os.environ.get("PYTHONPATH", "")]),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_TESTING": "1",  # any free port, so that two servers may run at once
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    for part, seen in found.items():
        assert isinstance(seen, dict), f"{part}: {seen}"

    aggregated = found["aggregate"]
    streamed = [f"stream, {name}" for name in STREAMED] if ALL else []
    assert not ALL or aggregated["rows"] > 0
    assert aggregated["same"] == dict.fromkeys(
        ["batch, Profile", "batch, Declared", "apply", *streamed], True
    )

    balanced = found["balance"]
    assert balanced["same"]
    assert balanced["batch"] < 1.2
    assert not HAS_ONLINE or balanced["online"] < 1.2
    assert balanced["tags"] == [["count; then plan"], []]
    assert balanced["order"]
    assert balanced["stream"] < 1.35  # 250 rows each
    assert balanced["rows"] == 4000
    assert balanced["fallbacks"] == 0

    assert found["join"] == {what: [True, True] for what in connect_join.TRIED}

    stateful = found["stateful"]
    assert "in use by another query" in stateful.pop("refused")
    assert stateful.pop("moved") > 0
    if ALL:
        assert "continues with batch 3, so batches 0 to 2 would be missing" in stateful.pop("no state")
        assert "is new and starts with batch 0" in stateful.pop("new checkpoint")
    assert stateful == {"workers": 3, "rows": 100, "state": True, "outputs": True}
    if ALL:
        assert found["apps"] == dict.fromkeys(
            ["count, stream", "count, at once", "heavy-hitters, stream", "heavy-hitters, at once"], True
        )
