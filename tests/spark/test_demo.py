"""`evenflow demo` compares hashing with evenflow and writes a page and a picture."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.spark


def test_demo(tmp_path: Path) -> None:
    words = pa.table({"key": ["the"] * 1500 + [f"w{number}" for number in range(1500)]})
    pq.write_table(words, tmp_path / "words.parquet")
    command = [sys.executable, "-c", "from evenflow.cli import main; main()", "demo", "--json"]
    options = ["--words=words.parquet", "--workers=3", "--rows=600", "--work=0", "--figure=loads.png"]
    # a process of its own: it stops its session
    done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert [(one["stream"][:5], one["scheme"]) for one in found] == [
        ("words", "key"), ("words", "fill"), ("a dri", "key"), ("a dri", "fill"),
    ]  # fmt: skip
    assert all(sum(one["rows_per_worker"]) == 3000 for one in found)
    assert found[1]["max_over_mean"] < 1.1 < found[0]["max_over_mean"]
    page = (tmp_path / "demo" / "index.html").read_text()
    assert page.count("<svg") == 2
    assert "http:" not in page.replace("http://www.w3.org", "")
    assert (tmp_path / "loads.png").stat().st_size > 1000
