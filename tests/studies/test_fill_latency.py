"""The studies of fill: latency and the bound of all schemes, the search's generators, theorems, scale."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks import fill_latency, fill_scale, fill_sources, fill_theorems
from benchmarks.__main__ import main
from benchmarks.fill_latency import adversary, describe, latency, least_memory, memory, tables
from benchmarks.fill_theorems import fewest_homes, zipf_shares


@pytest.mark.parametrize("late", [1.0, 1.5, 3.0])
def test_no_assignment_of_a_short_stream_beats_the_bound(late: float) -> None:
    """Every way to send seven rows to two workers: at most one row is late only with that memory."""
    ids, n, load = np.array([0, 0, 0, 1, 0, 0, 1], np.int32), 2, 0.9
    least = np.inf
    for chosen in itertools.product(range(n), repeat=ids.size):
        free, missed = [0.0] * n, 0
        for i, worker in enumerate(chosen):
            free[worker] = max(free[worker], i / n) + load
            missed += free[worker] - i / n > late + 1e-9
        if missed <= 1:
            least = min(least, memory(ids, np.array(chosen, np.int32), n))
    assert 1 <= least_memory(ids, n, load, late, share=1 / ids.size) <= least


def test_a_burst_needs_as_many_homes_as_it_has_rows_beyond_the_limit() -> None:
    ids = np.zeros(60, np.int32)  # 60 rows at once for 60 workers, of which none may wait
    assert least_memory(ids, 60, 0.9, 0.9, share=0.0) == pytest.approx(55, abs=1)
    assert least_memory(ids, 60, 0.9, 1e9, share=0.0) == 1


def test_the_search_makes_streams_and_names_them() -> None:
    genes = np.array([0.3, 0.5, 0.5, 0.5, 0.2])
    ids = adversary(genes, 5000)
    assert ids.size == 5000
    assert np.bincount(ids).max() > 1
    assert "bursts of 31" in describe(genes)


def test_tables_have_every_stream() -> None:
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 200, 5000).astype(np.int32)
    hashes = rng.integers(0, 2**64, 200, dtype=np.uint64)
    rows = latency("uniform", ids, hashes)
    first = tables(rows)[0]
    assert "uniform" in first.plain()
    bounds = {row["p99_0.9"]: row["memory"] for row in rows if row["part"] == "bound"}
    for row in (row for row in rows if row["part"] == "latency"):  # no scheme is below the bound
        allowed = [least for late, least in bounds.items() if late >= row["p99_0.9"]]
        assert row["memory"] >= min(allowed, default=1)


def test_the_fewest_homes_of_a_zipf_stream() -> None:
    assert fewest_homes(zipf_shares(2.0, 1), 10) == 9
    assert fewest_homes(zipf_shares(0.0, 100), 10) == 0


def test_the_theorems_hold_where_they_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    check = fill_theorems.check
    monkeypatch.setattr(fill_theorems, "check", lambda z, _keys, n, _rows, q: check(z, 500, n, 20_000, q))
    shown = CliRunner().invoke(main, ["fill_theorems", "--quick", "--json"])
    rows = json.loads(shown.stdout)
    assert len(rows) == 14
    for row in rows:
        assert 1 <= row["max/mean"] <= row["bound of max/mean"]
        assert 0 < row["longest wait, rows"] <= row["bound of the wait"]
        assert row["homes beyond the first"] >= row["fewest of any even scheme"]
    assert "### Fill's theorems" in CliRunner().invoke(main, ["fill_theorems", "--quick"]).stdout


def test_scale_counts_the_pairs_of_some_keys(tmp_path: Path) -> None:
    drawn = tmp_path / "scale.png"
    options = ["--rows", "3e5", "--keys", "2e4", "--workers", "4,40", "--figure", str(drawn)]
    shown = CliRunner().invoke(main, ["fill_scale", *options, "--json"])
    rows = json.loads(shown.stdout)
    assert [row["workers"] for row in rows] == [4, 40]
    for row in rows:
        assert row["max_over_mean"] <= row["bound"]
        assert 1 <= row["memory"] <= 1.5
        assert row["nanoseconds_per_row"] > 0
    assert drawn.stat().st_size > 5_000


def test_pairs_are_distinct_pairs_per_key() -> None:
    pairs = fill_scale.Pairs(1000)
    for _ in range(120):
        pairs.add(np.array([128, 128, 256, 7], np.uint64), np.array([1, 2, 1, 3], np.int32))
    assert pairs.memory() == 1.5


def test_latency_is_a_study_with_a_figure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spec = "zipf:z=1.2,messages=3000,keys="
    for name, value in {"GENERATED": [f"{spec}200", f"{spec}300"], "HELD_OUT": ()}.items():
        monkeypatch.setattr(fill_latency, name, value)
    search = fill_latency.adversaries
    monkeypatch.setattr(fill_latency, "adversaries", lambda progress: search(progress, 2, 2000))
    unequal = fill_latency.unequal
    monkeypatch.setattr(fill_latency, "unequal", lambda most, progress: unequal(3000, progress))
    drawn = tmp_path / "latency.png"
    shown = CliRunner().invoke(main, ["fill_latency", "--quick", "--figure", str(drawn)])
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.count("### ") == 4
    assert drawn.stat().st_size > 5_000


def test_sources_are_compared_with_one_and_with_an_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENFLOW_DATA", raising=False)
    for name, value in {"GENERATED": (), "HELD_OUT": (), "SOURCES": (4,), "EXCHANGES": (0, 50)}.items():
        monkeypatch.setattr(fill_sources, name, value)
    news = fill_sources.news
    monkeypatch.setattr(fill_sources, "news", lambda _rows: news(30_000, 500))
    shown = CliRunner().invoke(main, ["fill_sources", "--quick", "--json"])
    alone, silent, talking = json.loads(shown.stdout)
    assert alone["max_over_mean"] <= 1.03
    assert 1 < talking["memory"] < silent["memory"]
    assert 0 == silent["bytes"] < talking["bytes"] <= 300
    assert silent["excess"] == pytest.approx((silent["memory"] - 1) / (alone["memory"] - 1))
    table = CliRunner().invoke(main, ["fill_sources", "--quick"]).stdout
    assert "### Sources that do not talk" in table
    assert "Homes exchanged every 50 rows per worker" in table
