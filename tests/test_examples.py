"""Every example runs as it stands, prints something, and is short enough to be copied."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from extent import long

EXAMPLES = Path(__file__).parents[1] / "examples"
SCHEMES = ("own_scheme", "jump_hash")  # imported by who uses them, not run
SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if path.stem not in SCHEMES)
# apps, which have tests of their own
LONG = (
    "decision_tree",
    "heavy_hitters",
    "kafka_totals",
    "naive_bayes",
    "star_join",
    "trending",
    "vwap",
    "windowed_join",
)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_at_most_30_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 30


@pytest.mark.spark
@pytest.mark.parametrize(
    "path",
    [(long if path.stem in LONG else pytest.param)(path, id=path.stem) for path in SCRIPTS],
)
@pytest.mark.usefixtures("compiled")
def test_it_runs(
    spark: Any,
    request: pytest.FixtureRequest,
    path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(type(spark), "stop", lambda self: None)  # the session of all tests stays
    monkeypatch.setattr(sys, "argv", [str(path)])
    if path.stem.startswith("kafka"):
        request.getfixturevalue("spark_kafka")
        monkeypatch.setattr(sys, "argv", [str(path), request.getfixturevalue("broker").servers])
    runpy.run_path(str(path), run_name="__main__")
    assert capfd.readouterr().out.strip()


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param([], id="core"),
        long(["spark"], id="spark"),
    ],
)
def test_the_notebook_runs(tags: list[str]) -> None:
    notebook = nbformat.read(EXAMPLES / "compare_schemes.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    notebook.cells = [cell for cell in notebook.cells if cell.metadata.get("tags", tags) == tags]
    assert not any(cell.get("outputs") for cell in notebook.cells), "commit it without outputs"
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(EXAMPLES))
    shown_data = [
        output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])
    ]  # Spark also writes to standard error
    assert any("image/png" in data for data in shown_data)
    shown = "".join(data.get("text/html", "") for data in shown_data)
    assert shown.count("Key key on 32 workers: fill") == 1 + len(tags)  # advice on a file, and on a frame
    for text in ("planned fill", "rows on 32 workers") if tags else ():
        assert text in shown
    for text in ("fill on 32 workers", "fill(split=False)", "32 workers: fill", "expected maximum load"):
        assert text in shown
    assert shown.count("<svg") >= 4
    assert "<progress" in shown
