"""A script of these tests on Spark Connect, in a process of its own: a process has one kind of session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PATIENCE = 500  # seconds


def run_on_connect(script: str, *arguments: object) -> str:
    """Run ``spark.SCRIPT`` to its end; return the last line that it printed."""
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", f"spark.{script}", *map(str, arguments)],
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
    return done.stdout.strip().splitlines()[-1]
