"""`heterogeneous`: its measurements against numbers, and each rule on rows that keep and that break it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import evenflow as ef
from evenflow.papers import find
from evenflow.papers.data import data_sets
from evenflow.papers.experiment import DIFFERS, DIRECTION, HOLDS, UNTESTED, Row, RunConfig, judge
from evenflow.papers.heterogeneous import EXPERIMENTS
from evenflow.papers.heterogeneous.applications import measure_bound, measure_hitters, measure_tree
from evenflow.papers.heterogeneous.loads import bound, homes_of_hottest, measure_loads, measure_table
from evenflow.papers.heterogeneous.queues import (
    BINARY,
    measure_cluster,
    recovery,
    scaled_changes,
    settled_at,
)
from evenflow.papers.heterogeneous.seeds import measure_seed
from evenflow.papers.table import Table
from evenflow.streams import open_stream

SHORT = "zipf:z=1.0,keys=5000,messages=100000,seed=3"
FIGURES = [*(f"fig{number}" for number in range(4, 15)), "table1", "table2", "bound", "tree", "hitters",
           "seeds"]  # fmt: skip


def _config(stream: str = SHORT, scale: str = "small", joining: tuple[str, ...] = ()) -> RunConfig:
    return RunConfig(
        scale, data_sets(given=dict.fromkeys(("WP", "WP-made", "TW", "TW-made"), stream)), joining
    )


def _verdict(figure: str, beginning: str, rows: list[Row], made: bool = False) -> str:
    (claim,) = (
        claim
        for claim in find([f"heterogeneous/{figure}"])[0].claims
        if claim.text.startswith(beginning) and claim.text.endswith("(TW-made)") == made
    )
    return judge(claim, rows).verdict


def test_every_figure_and_table_is_there_and_has_claims() -> None:
    assert sorted(experiment.figure for experiment in EXPERIMENTS) == sorted(FIGURES)
    assert all(experiment.claims for experiment in EXPERIMENTS)


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("scale", ["small", "paper"])
def test_points_are_plain_and_differ(figure: str, scale: str) -> None:
    points = find([f"heterogeneous/{figure}"])[0].points(_config(scale=scale))
    spelled = [json.dumps(point, sort_keys=True) for point in points]
    assert len(set(spelled)) == len(spelled) > 0
    assert [json.loads(text) for text in spelled] == points


def test_a_joining_scheme_is_in_the_comparisons() -> None:
    for figure in ("fig4", "fig7", "fig8", "fig9", "fig12", "fig13", "fig14"):
        points = find([f"heterogeneous/{figure}"])[0].points(_config(joining=("fill",)))
        assert any(point["symbol"] == "fill" for point in points)


def test_loads_are_those_of_the_router() -> None:
    stream = open_stream(SHORT)
    keys = np.concatenate([chunk.ids for chunk in stream.chunks()])
    workers = ef.scheme("random-choices", epsilon=0.3).router(20).route(stream.hashes[keys])
    (row,) = measure_loads("PoRC", SHORT, 20, epsilon=0.3)
    assert row["normalised"] == pytest.approx(np.bincount(workers).max() / 5000 - 1)
    assert row["memory"] == pytest.approx(np.unique(keys * 20 + workers).size / np.unique(keys).size)
    assert row["bins"] == 20
    assert measure_loads("CG", SHORT, 20)[0]["bins"] == 200


def test_an_allocation_works_inside_the_virtual_workers() -> None:
    (outside,) = measure_loads("KG", SHORT, 10)
    (inside,) = measure_loads("KG", SHORT, 10, inside=True)
    assert inside["memory"] == outside["memory"] == 1
    assert inside["normalised"] != outside["normalised"]  # 100 virtual workers hash otherwise
    assert (
        measure_loads("PoRC", SHORT, 10, inside=True)[0]["memory"]
        == measure_loads("CG", SHORT, 10)[0]["memory"]
    )


def test_the_hottest_key_overflows_to_as_many_as_it_fills() -> None:
    only_one = "zipf:z=0,keys=1,messages=1000,seed=1"
    assert homes_of_hottest(only_one, 4, 0.5) == 3  # 375, 375, 250
    assert homes_of_hottest(only_one, 4, 3.0) == 1


def test_key_grouping_is_as_uneven_as_its_hottest_key() -> None:
    rows = measure_table("WP", SHORT, 1000, ["KG", "PKG"])
    p1 = rows[0]["p1"]
    assert p1 == pytest.approx(1 / sum(1 / rank for rank in range(1, 5001)), rel=0.03)
    assert rows[0]["normalised"] == pytest.approx(1000 * p1 - 1, abs=2)
    assert _verdict("table1", "KG's imbalance", rows) == HOLDS
    broken = [{**row, "normalised": row["normalised"] + 5} for row in rows]
    assert _verdict("table1", "KG's imbalance", broken) == DIFFERS


def test_fig9_holds_on_a_small_stream_gates_included() -> None:
    experiment = find(["heterogeneous/fig9"])[0]
    points = experiment.points(_config("zipf:z=1.0,keys=20000,messages=200000,seed=5"))
    rows = [row for point in points for row in experiment.rows(point)]
    for beginning in ("KG has the", "PKG is", "PoTC and", "CH is", "CG is bounded", "CG needs less"):
        assert _verdict("fig9", beginning, rows) == HOLDS
    assert experiment.plot is not None
    figure: Any = Figure(layout="constrained")
    experiment.plot(figure, rows)
    assert [axes.get_yscale() for axes in figure.axes if axes.lines] == ["log"] * 4  # WP and WP-made
    assert _verdict("fig9", "with queues CG needs less", rows) == HOLDS


def test_fig12_on_a_small_stream_queues_recover_and_ten_virtual_workers_are_too_coarse() -> None:
    experiment = find(["heterogeneous/fig12"])[0]
    points = experiment.points(_config("zipf:z=1.0,keys=10000,messages=1100000,seed=5"))
    rows = [row for point in points if point["virtual_workers"] == 10 for row in experiment.rows(point)]
    assert {tuple(row["changed_at"]) for row in rows} == {(300_000, 600_000)}
    claims = ("CG adapts", "CG's last")
    assert [_verdict("fig12", beginning, rows) for beginning in claims] == [DIFFERS, HOLDS]
    late = [row for row in rows if row["symbol"] == "CG" and row["messages"] % 300_000 > 250_000]
    assert max(row["utilisation_spread"] for row in late) < 0.35  # 4 or 5 virtual workers: 0.70 or 0.88
    assert max(row["queue_spread"] for row in late) < 100
    assert experiment.plot is not None
    figure: Any = Figure(layout="constrained")
    experiment.plot(figure, rows)
    assert [axes.get_yscale() for axes in figure.axes] == ["log", "log", "linear"] * 2


def test_a_longer_stream_changes_at_the_paper_s_messages() -> None:
    assert scaled_changes([[6_000_000, "10x1"]], 30_000_000) == [(6_000_000, "10x1")]
    assert scaled_changes([[6_000_000, "10x1"]], 11_000_000) == [(3_000_000, "10x1")]


def _run(spreads: list[float], **more: Any) -> list[Row]:
    """Return a run with a mark every 100 slots (of ten workers)."""
    return [
        {"messages": 100_000 * (place + 1), "utilisation_spread": spread, **more}
        for place, spread in enumerate(spreads)
    ]


def test_when_a_run_has_settled() -> None:
    assert settled_at(Table.of_rows(_run([0.1, 0.1]))) == 100_000
    assert settled_at(Table.of_rows(_run([0.5, 0.1, 0.2, 0.1, 0.1]))) == 400_000
    assert settled_at(Table.of_rows(_run([0.1, 0.2]))) == float("inf")


def test_recovery_looks_at_marks_that_begin_after_twenty_alpha_slots() -> None:
    spreads = [0.1, 0.9, 0.5, 0.3, 0.14, 0.1]
    run = Table.of_rows(_run(spreads, changed_at=[100_000], virtual_workers=10))
    assert recovery(run) == [
        (400.0, 0.3)
    ]  # the deadline is message 300,000, the mark at 400,000 begins there
    assert recovery(
        Table.of_rows(_run([*spreads[:3], 0.1, 0.1], changed_at=[100_000], virtual_workers=10))
    ) == [(300.0, 0.1)]
    two = _run([0.1, 0.9, 0.5, 0.1, 0.1, 0.1, 0.1], changed_at=[100_000, 250_000], virtual_workers=10)
    assert recovery(Table.of_rows(two)) == [
        (float("inf"), 0.9),  # its deadline lies beyond the next change: the last mark before that counts
        (150.0, 0.1),
    ]


def test_fig12_differs_if_the_spread_stays_or_the_queue_does() -> None:
    def rows(late: float, queue: float) -> list[Row]:
        more = {"data": "WP", "changed_at": [100_000], "virtual_workers": 10, "latency_spread": 1.0}
        mine = _run([0.1, 0.9, 0.1, late, late], symbol="CG", series="CG", queue_spread=queue, **more)
        others = [
            _run([0.7] * 5, symbol=name, series=name, queue_spread=100.0, **more) for name in ("KG", "SG")
        ]
        return [*mine, *others[0], *others[1]]

    assert _verdict("fig12", "CG adapts", rows(0.1, 20)) == HOLDS
    assert _verdict("fig12", "CG adapts", rows(0.16, 20)) == DIFFERS
    assert _verdict("fig12", "CG's last", rows(0.1, 20)) == HOLDS
    assert _verdict("fig12", "CG's last", rows(0.1, 79)) == DIRECTION
    assert _verdict("fig12", "CG's last", rows(0.1, 99)) == DIFFERS


def test_queues_over_time() -> None:
    """KG and CG on unequal workers: the rules of Fig. 7 and 8 see the difference, and a swap of the two."""
    experiment = find(["heterogeneous/fig8"])[0]
    made = experiment.points(_config("zipf:z=1.0,keys=5000,messages=400000,seed=3"))
    rows = [
        row
        for point in made
        if point["capacity"] == "3x5,7x1"
        for row in experiment.rows({**point, "marks": 20})
    ]
    beginnings = ("queue and latency", "CG's are", "CG's utilisation")
    assert [_verdict("fig8", beginning, rows) for beginning in beginnings] == [HOLDS, HOLDS, DIRECTION]
    names = {"KG": "CG", "CG": "KG", "SG": "SG"}
    swapped = [{**row, "series": names[row["series"]], "symbol": names[row["symbol"]]} for row in rows]
    assert [_verdict("fig8", beginning, swapped) for beginning in beginnings[1:]] == [DIFFERS, DIFFERS]


def test_the_cluster_loses_what_its_slowest_worker_cannot_do() -> None:
    def run(symbol: str, delay: float, capacity: str = "24x1") -> Row:
        return measure_cluster(symbol, SHORT, 50_000, capacity, delay)[0]

    assert run("SG", 0.1)["throughput"] == pytest.approx(19_200, rel=1e-3)
    assert run("SG", 1.0)["latency_mean"] == pytest.approx(0.001, rel=0.3)
    slow = run("SG", 1.0, "2x0.3,22x1")  # 24 workers share evenly, two have 300 messages per second
    assert slow["throughput"] == pytest.approx(24 * 300, rel=0.01)
    assert run("PKG", 1.0)["throughput"] > 1.5 * run("KG", 1.0)["throughput"]


def _cluster(better: float, memory: float = 1.2) -> list[Row]:
    """Return rows in which CG is ``better`` times as good as all others in both respects."""
    rows = []
    for delay in (0.1, 1.0, 1.25):
        for symbol, held in (
            ("KG", 1.0),
            ("PKG", 1.3),
            ("CG", memory),
            ("SG", 4.0),
            *((name, 1.2) for name in BINARY),
        ):
            factor = better if symbol == "CG" and delay == 1.0 else 1.0
            rows.append(
                {
                    "data": "TW",
                    "symbol": symbol,
                    "delay": delay,
                    "throughput": 1000 * factor,
                    "latency_mean": 0.1 / factor,
                    "memory": held,
                }
            )
    return rows


@pytest.mark.parametrize(
    ("figure", "beginning", "rows", "verdict"),
    [
        ("fig14", "throughput", _cluster(2.1), HOLDS),
        ("fig14", "throughput", _cluster(1.5), DIRECTION),
        ("fig14", "throughput", _cluster(1.0), DIFFERS),
        ("fig14", "latency", _cluster(2.1), HOLDS),
        ("fig14", "latency", _cluster(900.0), DIRECTION),
        ("fig14", "latency", _cluster(0.9), DIFFERS),
        ("fig14", "CG outperforms", _cluster(1.2), HOLDS),
        ("fig14", "CG outperforms", _cluster(1.0), DIFFERS),
        ("fig14", "CG outperforms", _cluster(0.9), DIFFERS),
        ("fig13", "memory", _cluster(1.0), HOLDS),
        ("fig13", "memory", _cluster(1.0, memory=1.8), DIRECTION),
        ("fig13", "memory", _cluster(1.0, memory=2.5), DIFFERS),
        ("fig13", "PKG, SG and CG", _cluster(1.0), DIFFERS),
    ],
)
def test_rules_of_the_cluster(figure: str, beginning: str, rows: list[Row], verdict: str) -> None:
    assert _verdict(figure, beginning, rows) == verdict
    assert _verdict(figure, beginning, rows, made=True) == UNTESTED, "of the other stream"
    made = [row | {"data": "TW-made"} for row in rows]
    assert _verdict(figure, beginning, [*_cluster(1.7), *made], made=True) == verdict


def _loads(change: Callable[[str, int], dict[str, float]]) -> list[Row]:
    """Return rows of the schemes as the paper has them, with ``change(symbol, workers)`` applied."""
    rows = []
    for workers in (5, 10, 50, 100):
        typical = {
            "KG": (0.09 * workers, 1.0),
            "PKG": (0.045 * workers if workers >= 50 else 1e-4, 1.5),
            "PoTC": (1e-4, 9.0),
            "PoRC": (0.01, 1.6),
            "CH": (0.01, 3.0),
            "SG": (1e-5, 9.0),
            "CG": (0.01, 2.0),
        }
        for symbol, (normalised, memory) in typical.items():
            row: Row = {"symbol": symbol, "data": "WP", "workers": workers, "sources": 1, "epsilon": 0.01}
            row |= {"bins": 10 * workers, "messages": 10**6, "normalised": normalised, "memory": memory}
            rows.append(row | change(symbol, workers))
    return rows


def _same(symbol: str, workers: int) -> dict[str, float]:
    return {}


@pytest.mark.parametrize(
    ("figure", "beginning", "symbol", "changes", "verdict"),
    [
        ("fig6", "KG and PKG", "PKG", {"normalised": 0.1}, DIFFERS),
        ("fig6", "PoRC's", "PoRC", {"normalised": 0.0201}, DIFFERS),
        ("fig6", "PoRC's", "PoRC", {"normalised": 0.004}, DIFFERS),
        ("fig6", "CH's", "CH", {"normalised": 0.0201}, DIFFERS),
        ("fig6", "KG's and PKG's", "KG", {"normalised": 1.0}, DIFFERS),
        ("fig6", "PoRC needs", "PoRC", {"memory": 4.0}, DIRECTION),
        ("fig6", "PoRC needs", "PoRC", {"memory": 5.0}, DIFFERS),
        ("fig9", "KG has the", "KG", {"memory": 1.1}, DIFFERS),
        ("fig9", "PKG is", "PKG", {"normalised": 0.2}, DIFFERS),
        ("fig9", "PoTC and", "SG", {"memory": 1.5}, DIFFERS),
        ("fig9", "CH is", "CH", {"memory": 9.5}, DIFFERS),
        ("fig9", "CG is bounded", "CG", {"normalised": 0.0201}, DIFFERS),
        ("fig9", "CG needs less", "CG", {"memory": 3.1}, DIFFERS),
    ],
)
def test_rules_of_loads(
    figure: str, beginning: str, symbol: str, changes: dict[str, float], verdict: str
) -> None:
    kept = _loads(_same)
    if beginning == "KG's and PKG's":
        kept = [row for row in kept if row["symbol"] != "PKG"] + [
            {**row, "normalised": 0.5 * row["normalised"]} for row in _pkg_as_key(kept)
        ]
    assert _verdict(figure, beginning, kept) == HOLDS
    broken = [row | (changes if row["symbol"] == symbol else {}) for row in kept]
    assert _verdict(figure, beginning, broken) == verdict


def _pkg_as_key(rows: list[Row]) -> list[Row]:
    return [{**row, "symbol": "PKG"} for row in rows if row["symbol"] == "KG"]


def test_the_bound_counts_a_message_per_bin_and_source() -> None:
    row = {"epsilon": 0.01, "bins": 1000, "sources": 10, "messages": 10**6}
    assert bound(row) == pytest.approx(0.02)


def test_fig5_trades_imbalance_for_memory() -> None:
    def rows(memories: tuple[float, ...], hottest: int = 20) -> list[Row]:
        same = {"data": "WP", "bins": 100, "sources": 1, "messages": 10**6}
        found: list[Row] = [
            {**same, "symbol": "KG", "epsilon": 0.001, "normalised": 0.9, "memory": 1.0},
            {**same, "symbol": "SG", "epsilon": 0.001, "normalised": 0.0, "memory": 5.0},
        ]
        for epsilon, memory in zip((0.001, 0.01, 0.1, 1.0), memories, strict=True):
            more = {"epsilon": epsilon, "normalised": 0.9 * epsilon, "memory": memory, "hottest_on": hottest}
            found.append({**same, "symbol": "CG", **more})
        return found

    good = rows((3.0, 2.0, 1.5, 1.0))
    for beginning in ("epsilon trades", "CG lies", "CG's imbalance", "with epsilon"):
        assert _verdict("fig5", beginning, good) == HOLDS
    assert _verdict("fig5", "epsilon trades", rows((1.0, 2.0, 3.0, 4.0))) == DIFFERS
    assert _verdict("fig5", "CG lies", rows((6.0, 2.0, 1.5, 1.2))) == DIFFERS
    assert _verdict("fig5", "with epsilon", rows((3.0, 2.0, 1.5, 1.0), hottest=100)) == DIFFERS


def test_fig10_and_fig11_rules() -> None:
    def sources(factor: float) -> list[Row]:
        return [
            {
                "symbol": "CG",
                "data": "WP",
                "workers": workers,
                "sources": many,
                "normalised": 0.01,
                "memory": factor if many > 1 else 1.0,
            }
            for workers in (5, 100)
            for many in (1, 100)
        ]

    found = [_verdict("fig10", "more sources", sources(factor)) for factor in (2.0, 10.0, 50.0)]
    assert found == [HOLDS, DIRECTION, DIFFERS]

    def virtual(queues: dict[int, float]) -> list[Row]:
        rows = []
        for alpha, queue in queues.items():
            spreads = [0.5, 0.1, 0.1, 0.1] if alpha < 1000 else [0.5, 0.5, 0.5, 0.1]
            more = {"data": "WP", "series": str(alpha), "virtual_workers": alpha, "queue_spread": queue}
            rows += _run(spreads, **more)
        return rows

    good = virtual({5: 40.0, 10: 15.0, 20: 12.0, 100: 10.0, 1000: 900.0})
    for beginning in ("5 virtual", "10 and 20", "100 are", "1000 take"):
        assert _verdict("fig11", beginning, good) == HOLDS
    bad = virtual({5: 10.0, 10: 150.0, 20: 12.0, 100: 100.0, 1000: 900.0})
    for beginning in ("5 virtual", "10 and 20", "100 are"):
        assert _verdict("fig11", beginning, bad) == DIFFERS
    never = [{**row, "data": "WP-made", "utilisation_spread": 0.5} for row in good]
    assert _verdict("fig11", "1000 take", [*good, *never]) == DIRECTION
    assert _verdict("fig11", "1000 take", never) == DIFFERS, "neither settles"


THREE = [HOLDS, DIRECTION, DIFFERS]


def test_rules_of_figures_with_queues() -> None:
    def epsilons(memory: list[float], imbalance: list[float]) -> list[Row]:
        own = zip((0.001, 0.01, 0.1, 1.0, 10.0), imbalance, memory, strict=True)
        ends = [("KG", 0.001, 1.0, 1.0), ("SG", 0.001, 0.0, 5.0)]
        rows = [*ends, *(("CG, queues", *values) for values in own)]
        return [{"data": "WP", "symbol": symbol, "epsilon": epsilon, "normalised": uneven, "memory": pairs}
                for symbol, epsilon, uneven, pairs in rows]  # fmt: skip

    falling, rising = [2.3, 2.0, 1.5, 1.1, 1.0], [0.001, 0.01, 0.1, 0.4, 0.9]
    good, back = epsilons(falling, rising), epsilons(falling[::-1], rising)
    steady = epsilons([2.3, 2.0, 1.5, 1.4, 2.5], rising)
    trades = "the same with queues: epsilon trades"
    assert [_verdict("fig5", trades, rows) for rows in (good, steady, back)] == [HOLDS, DIRECTION, DIFFERS]
    between = "the same with queues: CG lies"
    assert [_verdict("fig5", between, rows) for rows in (good, steady)] == [HOLDS, DIFFERS]

    def allocations(evened: float, memory: float) -> list[Row]:
        values = {"KG": (1.0, 1.0), "KG, queues": (evened, 1.4), "PKG": (0.5, 1.3),
                  "PKG, queues": (evened / 2, 1.5), "PoRC, queues": (0.01, memory)}  # fmt: skip
        return [{"data": "WP", "symbol": symbol, "workers": 10, "normalised": uneven, "memory": pairs}
                for symbol, (uneven, pairs) in values.items()]  # fmt: skip

    evens = "with queues CG evens out"
    assert [_verdict("fig6", evens, allocations(x, 1.5)) for x in (0.01, 0.9)] == [HOLDS, DIFFERS]
    little = "with queues PoRC needs"
    assert [_verdict("fig6", little, allocations(0.01, x)) for x in (1.6, 3.0, 9.0)] == THREE

    def compared(uneven: float, memory: float, other: float = 1.0) -> list[Row]:
        return [{"data": "WP", "symbol": symbol, "workers": n, "normalised": uneven, "memory": pairs}
                for n, mine in ((5, memory), (10, other))
                for symbol, pairs in (("CG, queues", mine), ("CH", 2.0))]  # fmt: skip

    bounded, less = "with queues CG is bounded", "with queues CG needs less"
    assert [_verdict("fig9", bounded, compared(x, 1.0)) for x in (0.015, 0.05, 0.3)] == THREE
    assert [_verdict("fig9", less, compared(0.01, x)) for x in (1.5, 2.5, 4.0)] == THREE

    def sources(last: float) -> list[Row]:
        return [{"symbol": "CG, queues", "data": "WP", "workers": 10, "sources": count, "memory": memory,
                 "normalised": 0.01} for count, memory in ((1, 1.0), (10, 1.5), (100, last))]  # fmt: skip

    many = "with queues more sources"
    assert [_verdict("fig10", many, sources(last)) for last in (2.0, 9.0, 20.0)] == THREE


def test_queues_let_virtual_workers_move() -> None:
    (still,), (moving,) = (
        measure_loads("CG", SHORT, 10, epsilon=10.0, queues=queues) for queues in (False, True)
    )
    assert moving["symbol"] == "CG, queues"
    assert moving["normalised"] < 0.2 * still["normalised"]
    assert moving["memory"] > still["memory"]


def test_the_bound_of_virtual_workers() -> None:
    rows = measure_bound("zipf:z=1.0,keys=10000,messages=200000,seed=1", "3x5,7x1", 0.01)
    assert len(rows) > 20
    assert {row["optimal"] for row in rows} <= {500 / 22, 100 / 22}
    claim = "an overloaded worker"
    assert _verdict("bound", claim, rows) == HOLDS
    assert _verdict("bound", claim, rows[:5]) == DIFFERS, "a few signals prove nothing"
    shares = (1.0, 0.93, 0.7)  # of what the least has
    found = [_verdict("bound", claim, [{**row, "ratio": row["ratio"] * share} for row in rows])
             for share in shares]  # fmt: skip
    assert found == THREE


def test_histograms_are_those_of_leaf_feature_and_class() -> None:
    (shuffle,), (key,), (ours,) = (measure_tree(symbol, 10, 100_000) for symbol in ("SG", "KG", "CG"))
    assert shuffle["full"] == 10 * 11 * 3 * 30
    assert key["held"] == 11 * 3 * 30
    assert key["merged"] == key["merged_least"] == 11 * 3
    assert key["merged"] < ours["merged_least"] < ours["merged"] <= shuffle["full_split"]
    assert key["held"] < ours["held"] < shuffle["held"] <= shuffle["full"]

    def rows(
        sg: float = 1.0, cg: float = 0.5, last: float = 0.3, key_times: int = 1, mine: float = 0.01
    ) -> list[Row]:
        found = []
        for n in (5, 10, 20, 50):
            full = 990 * n
            share = {"SG": sg, "CG": last if n == 50 else cg, "KG": key_times / n}
            for symbol, part in share.items():
                row = {"symbol": symbol, "workers": n, "held": part * full, "full": full, "of_full": part}
                row |= dict.fromkeys(("merged", "merged_least"), part * 33 * n) | {"full_split": 33 * n}
                found.append(row | {"normalised": mine if symbol == "CG" else 2.0})
        return found

    all_held, merges = "under SG the workers keep", "a split merges"
    assert [_verdict("tree", all_held, rows(sg=x)) for x in (1.0, 0.95, 0.5)] == THREE
    assert [_verdict("tree", merges, rows(sg=x)) for x in (1.0, 0.5)] == [HOLDS, DIFFERS]
    assert [_verdict("tree", "under KG", rows(key_times=x)) for x in (1, 2)] == [HOLDS, DIFFERS]
    parts = ((0.5, 0.3), (0.95, 0.85), (1.0, 1.0))
    assert [_verdict("tree", "CG reduces", rows(cg=cg, last=last)) for cg, last in parts] == THREE
    assert [_verdict("tree", "and of merges", rows(cg=x, last=x)) for x in (0.7, 0.85, 1.0)] == THREE
    assert [_verdict("tree", "while its load", rows(mine=x)) for x in (0.01, 0.1, 1.9)] == THREE


def test_summaries_add_up() -> None:
    stream = "zipf:z=1.0,keys=5000,messages=100000,seed=1"
    (shuffle,), (key,) = (measure_hitters(symbol, stream, 10) for symbol in ("SG", "KG"))
    assert shuffle["summaries"] == 10
    assert key["summaries"] == 1
    assert shuffle["bound"] > 3 * key["bound"]
    assert shuffle["within"]
    assert key["within"]

    def rows(
        sg: float = 10.0, kg: float = 1.0, bound: float = 0.5, cg: float = 5.0, within: bool = True
    ) -> list[Row]:
        values = {"SG": (sg, 10.0), "KG": (kg, bound), "CG": (3.0, cg)}
        return [{"symbol": symbol, "workers": 10, "summaries": count, "bound": most, "alone": 1.0,
                 "within": within} for symbol, (count, most) in values.items()]  # fmt: skip

    assert [_verdict("hitters", "the error is", rows(within=x)) for x in (True, False)] == [HOLDS, DIFFERS]
    assert [_verdict("hitters", "under SG", rows(sg=x)) for x in (10, 5)] == [HOLDS, DIFFERS]
    assert [_verdict("hitters", "under KG", rows(kg=x)) for x in (1, 2)] == [HOLDS, DIFFERS]
    assert [_verdict("hitters", "KG's bound", rows(bound=x)) for x in (0.9, 1.2, 2.0)] == THREE
    assert [_verdict("hitters", "CG's bound", rows(cg=x)) for x in (7.0, 9.0, 10.0)] == THREE


def test_rules_of_other_seeds() -> None:
    def rows(mine: float = 2.0, binary: float = 3.1, late: int = 60_000, fast: float = 19.0) -> list[Row]:
        found: list[Row] = []
        for seed in (0, 11, 12):
            memory = {"PKG": 1.4, "CG": 2.0 if seed != 12 else mine, "CG, binary": binary, "SG": 4.8}
            found += [{"shown": "fig13", "symbol": symbol, "seed": seed, "memory": pairs}
                      for symbol, pairs in memory.items()]  # fmt: skip
            found += [{"shown": "fig14", "symbol": symbol, "seed": seed, "throughput": speed}
                      for symbol, speed in (("SG", 7.0), ("CG", fast))]  # fmt: skip
            found.append({"shown": "fig12", "symbol": "CG", "seed": seed, "of": 480_000,
                          "recovery": 50_000 if seed == 0 else late})  # fmt: skip
        return found

    assert [_verdict("seeds", "memory on", rows(mine=x)) for x in (2.05, 2.2, 3.0)] == THREE
    assert [_verdict("seeds", "CG's memory", rows(mine=x)) for x in (2.0, 2.9, 3.2)] == THREE
    assert [_verdict("seeds", "CG recovers", rows(late=x)) for x in (60_000, 200_000, 480_000)] == THREE
    assert [_verdict("seeds", "CG is faster", rows(fast=x)) for x in (19.0, 10.0, 7.0)] == THREE


def test_recovery_is_counted_from_the_change() -> None:
    stream = "zipf:z=1.0,keys=5000,messages=300000,seed=3"
    (ours,), (never,) = (measure_seed("fig12", symbol, stream, 1) for symbol in ("CG", "KG"))
    assert 0 < ours["recovery"] < ours["of"]
    assert never["recovery"] >= never["of"], "key grouping never recovers"
