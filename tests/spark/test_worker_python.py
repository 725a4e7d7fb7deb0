"""A Python without the packages is named before the first job that needs it, in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark.needs import HAS_ONLINE

SCRIPT = """
import sys
from evenflow import EvenflowError
from evenflow.spark import apply, balance
from evenflow.spark.session import local_session

spark = local_session("local[1]")
df = spark.range(100).selectExpr("id % 7 as k", "id")
df.transform(balance("k", workers=2)).count()  # no Python worker is needed
uses = [lambda: apply(df, "k", lambda group: group, "k long, id long", workers=2),
        lambda: df.transform(balance("k", workers=2, mode="online"))]
for use in uses[:int(sys.argv[1])]:
    try:
        use()
        print("passed")
    except EvenflowError as error:
        print(error)
spark.stop()
"""


@pytest.mark.spark
def test_a_python_without_the_packages_is_named(tmp_path: Path) -> None:
    """-S leaves out site-packages; Spark itself adds what its workers import of PySpark."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys._base_executable} -S "$@"\n')  # type: ignore[attr-defined]
    bare.chmod(0o755)
    environment = {**os.environ, "PYSPARK_PYTHON": str(bare), "PYSPARK_DRIVER_PYTHON": sys.executable}
    source = environment.pop("PYTHONPATH", None)
    script = (
        SCRIPT if source is None else f"import sys; sys.path[:0] = {source.split(os.pathsep)!r}\n{SCRIPT}"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(1 + HAS_ONLINE)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr  # Spark logs that of a task that fails
    sentences = done.stdout.strip().splitlines()
    assert len(sentences) == 1 + HAS_ONLINE, done.stdout
    for sentence in sentences:
        assert "evenflow, numba, numpy, pyarrow cannot be imported by Spark's Python workers" in sentence
        assert f"export PYSPARK_PYTHON={sys.executable}" in sentence
