"""`python -m benchmarks`: every study runs, as tables and as JSON, and measures what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import benchmarks
import evenflow as ef
from benchmarks import causes_functions, hashing, peers_choices, peers_porc, simulator, sketches, streams
from benchmarks.__main__ import main
from evenflow.schemes.cost_model import Costs
from evenflow.schemes.key_placement import place

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, list(arguments))


def run_json(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (hashing, "KEYS", 10**4),
        (sketches, "MESSAGES", 10**4),
        (simulator, "MESSAGES", 10**4),
        (simulator, "QUEUED", ("partial-key",)),
        (streams, "GENERATED", 2**13),
        (streams, "ROWS", 2**13),
        (peers_choices, "MESSAGES", dict.fromkeys(peers_choices.MESSAGES, 10**4)),
        (peers_porc, "MESSAGES", 10**4),
    ):
        monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize("name", ["sketches", "hashing", "streams", "peers"])
def test_a_study(name: str, tiny: None) -> None:
    rows = run_json(name, "--quick")
    assert rows
    assert all(
        isinstance(row, dict) and all(value > 0 for key, value in row.items() if key.endswith("_per_second"))
        for row in rows
    )
    table = run(name, "--quick").stdout
    assert table.startswith("### ")
    assert table.count("\n| ") >= len(rows)


def test_the_simulator(tiny: None) -> None:
    rows = run_json("simulator", "--quick")
    assert [row["scheme"] for row in rows if row["what"] == "simulated over key"] == list(ef.list_schemes())
    assert all((row["ok"] is None) == (row["limit"] is None) for row in rows)


def test_sketches_error_is_what_was_promised(tiny: None) -> None:
    rows = [row for row in run_json("sketches") if "largest_error" in row]
    assert {row["sketch"] for row in rows} == {"SpaceSaving", "DataSketches items"}
    assert all(row["largest_error"] <= row["promised_error"] for row in rows)
    assert max(row["largest_error"] for row in rows) > 0


def test_all_of_them(monkeypatch: pytest.MonkeyPatch, tiny: None) -> None:
    folder = Path(str(benchmarks.__file__)).parent
    assert {folder / f"{name}.py" for name in benchmarks.STUDIES} <= set(folder.iterdir())
    monkeypatch.setattr(benchmarks, "STUDIES", ("hashing", "sketches"))
    assert list(run_json("all", "--quick")) == ["hashing", "sketches"]
    assert run("all", "--quick").stdout.count("### ") == 2


def test_it_runs_as_a_module_of_a_checkout_and_every_study_has_a_command() -> None:
    command = [sys.executable, "-m", "benchmarks", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert "Usage: python -m benchmarks" in shown
    assert all(name in shown for name in (*benchmarks.STUDIES, "all"))


def test_a_cause_is_shown_and_written_to_a_page(tmp_path: Path) -> None:
    page = tmp_path / "causes.md"
    rows = run_json("causes", "own-layout", "--page", str(page))
    assert rows[0] == {
        "cause": "own-layout",
        "setting": "redist, U^A",
        "measured": "n 1.14, c 1.23, migration 10",
    }
    assert page.read_text().count("\n### own-layout\n") == 1
    assert "there is no cause 'own-layou'; " in run("causes", "own-layou").stderr


def test_an_edit_of_the_algorithms_leaves_the_package_alone() -> None:
    counts = np.array([5.0, 3.0, 2.0])
    home = np.zeros(3, np.int32)
    given = ("redist", "APM", Costs("LCL"), 2, counts / counts.sum(), home, home, 0.0, 0.5)
    broken = causes_functions.edited("redist", ("    return rho + gamma\n", "    return gamma\n"))
    assert broken.place(*given).tolist() == [0, 0, 0]
    assert place(*given).tolist() != [0, 0, 0]


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    result = run("fill", "--quick", "--data", str(tmp_path))
    assert result.exit_code == 2
    assert "no Parquet file" in result.stderr
    assert "Traceback" not in result.stderr
