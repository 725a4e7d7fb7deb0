"""``evenflow advise LEFT --join RIGHT``: what is predicted, and what is recommended when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import evenflow as ef
from evenflow.advisor import join_advice
from evenflow.cli import main

BIG = 10**9  # bytes: too large to broadcast


def table(rows: int, keys: int, hot: int, seed: int = 1) -> pa.Table:
    """Return rows of ``keys`` keys, of which the first ``hot`` have the key 7."""
    found = np.random.default_rng(seed).permutation(np.arange(rows) % keys)
    found[:hot] = 7
    return pa.table({"user": found})


def choose(monkeypatch: Any, left: pa.Table, right: pa.Table, how: str, workers: int = 16) -> Any:
    """Return the advice on tables that stand for ones that are too large to broadcast."""
    monkeypatch.setattr(join_advice, "ROW_BYTES", BIG)
    return ef.advise_join(left, right, "user", workers=workers, how=how)


@pytest.mark.parametrize(
    ("how", "left_hot", "right_hot", "choice"),
    [
        ("inner", 8000, 0, "adaptive"),
        ("left", 8000, 0, "adaptive"),
        ("right", 8000, 0, "join"),
        ("right", 0, 500, "adaptive"),
        ("left", 0, 500, "join"),
        ("full", 8000, 0, "join"),
        ("inner", 300, 300, "join"),
        ("inner", 0, 0, "plain"),
        ("left_anti", 8000, 0, "adaptive"),
        ("left_semi", 100, 500, "plain"),
    ],
)
def test_what_is_recommended(monkeypatch: Any, how: str, left_hot: int, right_hot: int, choice: str) -> None:
    advice = choose(monkeypatch, table(20_000, 2000, left_hot), table(2000, 2000, right_hot, 2), how)
    assert advice.choice == choice
    if choice != "plain":
        assert advice.plain > 1.5
        assert advice.plan.max_over_mean < 1.2
    assert ("evenflow.spark import join" in advice.code) == (choice == "join")
    assert ("skewedPartitionThresholdInBytes" in advice.code) == (choice == "adaptive")


@pytest.mark.parametrize("right", [10_000, 40])
def test_the_prediction_is_that_of_the_loads(monkeypatch: Any, right: int) -> None:
    """30 percent of the rows in and out are on one of 16 workers beside its share of the others.

    A full outer join returns every row of the left, matched or not.
    """
    left = table(100_000, 10_000, 30_000)
    advice = choose(monkeypatch, left, table(right, right, 0), "full")
    assert advice.left.rows == 100_000
    assert advice.left.share == pytest.approx(0.3, abs=0.001)
    loads = 2 * 30_000 / (2 * 100_000 + right)
    assert advice.plain == pytest.approx(loads * 16 + 1 - loads, rel=0.02)
    assert advice.plan.copied_rows == pytest.approx(15, abs=1)


@pytest.mark.parametrize(("how", "choice"), [("full", "join"), ("left", "adaptive"), ("inner", "plain")])
def test_nulls_match_nothing(monkeypatch: Any, how: str, choice: str) -> None:
    """Half of the left, and a fifth of the right: one partition's if the join keeps them, else no one's."""
    rng = np.random.default_rng(1)
    left, right = (
        pa.table({"user": pa.array(np.arange(rows) % 1000, mask=rng.random(rows) < nulls)})
        for rows, nulls in ((20_000, 0.5), (4000, 0.2))
    )
    advice = choose(monkeypatch, left, right, how)
    assert advice.choice == choice
    assert (advice.left.hottest == "null") == (how != "inner")
    assert advice.plan.copied_rows == 0
    if how == "inner":
        assert advice.plain < 1.5
    else:
        joined = 10_000 * 3200 / 1000
        nulls = 2 * (10_000 + (800 if how == "full" else 0))
        share = nulls / (nulls + 10_000 + 3200 + joined)
        assert advice.plain == pytest.approx(share * 16 + 1 - share, rel=0.05)


def test_a_small_side_is_broadcast(tmp_path: Path) -> None:
    pq.write_table(table(20_000, 2000, 8000), tmp_path / "left.parquet")
    pq.write_table(table(2000, 2000, 0), tmp_path / "right.parquet")
    run = CliRunner().invoke(
        main,
        ["advise", str(tmp_path / "left.parquet"), "--join", str(tmp_path / "right.parquet"), "--key", "user",
         "--workers", "8"],
    )  # fmt: skip
    assert run.exit_code == 0, run.output
    assert "Recommended: a broadcast" in run.output
    assert "Spark broadcasts a side below 10 MB by itself" in run.output
    assert 'left.join(right, "user", "inner")' in run.output


def test_json_and_the_lines_for_a_full_join(tmp_path: Path) -> None:
    pq.write_table(table(20_000, 2000, 8000), tmp_path / "left.parquet")
    pq.write_table(table(2000, 2000, 0), tmp_path / "right.parquet")
    command = ["advise", str(tmp_path / "left.parquet"), "--join", str(tmp_path / "right.parquet")]
    command += ["--key", "user", "--workers", "8", "--how", "full"]
    run = CliRunner().invoke(main, [*command, "--json"])
    found = json.loads(run.stdout)
    assert found["recommendation"]["choice"] == "join"
    assert found["join"]["max_over_mean"] < 1.1
    assert found["plain"]["max_over_mean"] > 2
    text = CliRunner().invoke(main, command).stdout
    assert 'join(left, right, on="user", how="full", workers=8)' in text
    assert "splits neither side of a full outer join" in text


def test_bad_options_are_a_sentence(tmp_path: Path) -> None:
    pq.write_table(table(200, 20, 80), tmp_path / "left.parquet")
    path = str(tmp_path / "left.parquet")
    start = ["advise", path, "--key", "user", "--workers", "8"]
    for given, said in {
        ("--join", path, "--stateless"): "--stateless says nothing about a join",
        ("--join", path, "--how", "cross"): "how is 'cross'; choose one of inner",
        ("--how", "left"): "--how is 'left', but there is no --join",
        ("--join", path, "--workers", "0"): "workers is 0",
    }.items():
        run = CliRunner().invoke(main, [*start, *given])
        assert run.exit_code != 0
        assert said in f"{run.exception} {' '.join(run.output.replace('│', ' ').split())}"
