"""`choices`: what its figures measure, and that every rule tells right from wrong."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from evenflow.papers import find
from evenflow.papers.choices import EXPERIMENTS, head_size, probabilities
from evenflow.papers.data import GENERATED
from evenflow.papers.experiment import DIFFERS, DIRECTION, HOLDS, UNTESTED, Judgement, Row, RunConfig, judge

FIGURES = [experiment.figure for experiment in EXPERIMENTS]


def _judged(figure: str, beginning: str, rows: list[Row]) -> Judgement:
    claims = [claim for claim in find([f"choices/{figure}"])[0].claims if claim.text.startswith(beginning)]
    assert len(claims) == 1, f"{len(claims)} claims begin with {beginning!r}"
    return judge(claims[0], rows)


def _verdict(figure: str, beginning: str, rows: list[Row]) -> str:
    return _judged(figure, beginning, rows).verdict


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("scale", ["small", "paper"])
def test_points_are_plain_and_differ(figure: str, scale: str) -> None:
    points = find([f"choices/{figure}"])[0].points(RunConfig(scale, GENERATED))
    spelled = [json.dumps(point, sort_keys=True) for point in points]
    assert len(set(spelled)) == len(spelled) > 0
    assert [json.loads(text) for text in spelled] == points


def test_paper_scale_has_the_paper_s_messages() -> None:
    for figure in ("fig7", "fig10"):
        points = find([f"choices/{figure}"])[0].points(RunConfig("paper", GENERATED))
        assert all("messages=10000000," in point["stream"] for point in points)


def test_heads_of_the_exact_law() -> None:
    """The numbers of the authors' simulator with its sketch repaired."""
    for z, sizes in ((1.0, (5, 25, 51)), (1.4, (7, 23, 38)), (2.0, (5, 12, 17))):
        assert tuple(head_size(z, 1 / (5 * n)) for n in (10, 50, 100)) == sizes
    assert probabilities(2.0).sum() == pytest.approx(1)


def test_formula_and_counted_pairs() -> None:
    (row,) = find(["choices/fig5"])[0].measure(workers=50, z=1.4, pairs=10**5)
    assert (row["choices"], row["choices_distinct"]) == (22, 18)  # as computed from the law by hand
    assert 0 < row["d-choices_over_pkg"] <= row["w-choices_over_pkg"] <= 0.30
    assert row["d-choices_over_shuffle"] < -0.79
    assert row["w-choices_over_pkg_measured"] > row["d-choices_over_pkg_measured"] > 0
    assert row["w-choices_over_shuffle_measured"] < 0


def test_least_choices_of_a_short_stream() -> None:
    (row,) = find(["choices/fig9"])[0].measure(workers=50, z=2.0, messages=50_000, distinct=True, seed=0)
    assert row["solved"] == pytest.approx(row["least"], abs=1)


def test_head_and_tail_fill_the_workers() -> None:
    experiment = find(["choices/fig8"])[0]
    rows = [
        row
        for name in ("partial-key", "w-choices", "round-robin-head")
        for row in experiment.measure(name, 50_000)
    ]
    assert sum(row["head"] + row["tail"] for row in rows) == pytest.approx(3)
    assert _verdict("fig8", "PKG overloads", rows) == HOLDS
    assert _verdict("fig8", "W-C is balanced;", rows) == HOLDS
    names = {"partial-key": "w-choices", "w-choices": "partial-key"}
    swapped = [{**row, "scheme": names.get(row["scheme"], row["scheme"])} for row in rows]
    assert _verdict("fig8", "PKG overloads", swapped) == DIFFERS
    assert _verdict("fig8", "W-C is balanced;", swapped) == DIFFERS


def _real(change: dict[str, float]) -> list[Row]:
    """Return rows as the paper has them, with the imbalance of some schemes changed."""
    usual = {"partial-key": 0.1, "d-choices": 1e-4, "w-choices": 1e-5} | change
    return [
        {"data": data, "workers": n, "scheme": name, "imbalance_mean": value}
        for data in ("WP", "TW", "CT", "CT-drift", "CT-made")
        for n in (5, 10, 20, 50, 100)
        for name, value in usual.items()
    ]


def test_rules_of_growth() -> None:
    def rows(pkg: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 4e-2, 0.1), other: float = 1e-4) -> list[Row]:
        return [
            {"data": data, "workers": n, "scheme": name, "imbalance_mean": value}
            for data in ("WP", "WP-made")
            for n, two in zip((5, 10, 20, 50, 100), pkg, strict=True)
            for name, value in (("partial-key", two), ("d-choices", other), ("w-choices", other))
        ]

    grows, close = "PKG's imbalance grows", "PKG's imbalance gets"
    flat, falls = (0.1,) * 5, (0.1, 0.05, 0.04, 0.03, 0.02)
    assert [_verdict("fig1", grows, own) for own in (rows(), rows(other=2e-3), rows(flat), rows(falls))] == [
        HOLDS, DIRECTION, DIFFERS, DIFFERS]  # fmt: skip
    last = [rows((1e-5, 1e-4, 1e-3, 2e-3, at)) for at in (0.12, 0.035, 0.004, 0.9)]
    assert [_verdict("fig1", close, own) for own in last] == [HOLDS, DIRECTION, DIFFERS, DIRECTION]


def test_heads_are_counted() -> None:
    experiment = find(["choices/fig3"])[0]
    (row,) = experiment.measure(workers=50, threshold="1/(5n)", z=1.4, messages=50_000)
    assert row["head"] == 23
    assert abs(row["counted"] - 23) <= 2
    (few,) = experiment.measure(workers=50, threshold="2/n", z=1.4, messages=50_000)
    assert few["counted"] < row["counted"]

    def rows(counted: int) -> list[Row]:
        return [{"workers": 100, "threshold": "1/(5n)", "z": 1.4, "head": 38, "counted": counted}]

    law, small = "the head is that of the law", "in skewed streams"
    assert [_verdict("fig3", law, rows(x)) for x in (40, 95, 12)] == [HOLDS, DIFFERS, DIFFERS]
    assert [_verdict("fig3", small, rows(x)) for x in (95, 200)] == [HOLDS, DIFFERS]


@pytest.mark.parametrize(
    ("figure", "beginning", "change", "verdict"),
    [
        ("fig1", "D-C and W-C stay", {}, HOLDS),
        ("fig1", "D-C and W-C stay", {"d-choices": 5e-3}, DIRECTION),
        ("fig1", "D-C and W-C stay", {"d-choices": 5e-2}, DIFFERS),
        ("fig11", "all perform", {"partial-key": 4e-4}, HOLDS),
        ("fig11", "all perform", {"partial-key": 4e-3}, DIRECTION),
        ("fig11", "all perform", {"partial-key": 4e-2}, DIFFERS),
        ("fig11", "so it is at n = 20", {}, HOLDS),
        ("fig11", "so it is at n = 20", {"partial-key": 1e-4}, DIFFERS),
        ("fig11", "at larger scales", {}, HOLDS),
        ("fig11", "at larger scales", {"partial-key": 1e-4}, DIFFERS),
        ("fig11", "W-C is better", {}, HOLDS),
        ("fig11", "W-C is better", {"w-choices": 2e-4}, DIFFERS),
        ("fig11", "W-C is better", {"w-choices": 1e-4}, DIFFERS),
        ("fig11", "D-C stays", {}, HOLDS),
        ("fig11", "D-C stays", {"d-choices": 9e-4}, DIRECTION),
        ("fig11", "D-C stays", {"d-choices": 2e-3}, DIFFERS),
        *(
            ("fig11", f"the same on {data},", change, verdict)
            for data in ("CT", "CT-drift", "CT-made")
            for change, verdict in (
                ({}, HOLDS),
                ({"d-choices": 1e-2}, DIRECTION),
                ({"d-choices": 3e-2}, DIFFERS),
                ({"d-choices": 4e-3, "partial-key": 5e-3}, DIFFERS),
                ({"d-choices": 4e-3, "partial-key": 3e-3}, DIFFERS),
            )
        ),
    ],
)
def test_rules_of_real_streams(figure: str, beginning: str, change: dict[str, float], verdict: str) -> None:
    found = _judged(figure, beginning, _real(change))
    assert found.verdict == verdict
    assert found.note or verdict != DIFFERS


def test_rules_of_the_formulas() -> None:
    def rows(over: float, less: float, fraction: float = 0.5) -> list[Row]:
        row: Row = {"workers": 100, "fraction": fraction, "choices_distinct": 35, "head": 38, "z": 1.4}
        row["choices"] = 100 * fraction
        for name, counted in (("d-choices", over / 2), ("w-choices", over)):
            row |= {f"{name}_over_pkg": over, f"{name}_over_shuffle": -less, f"{name}_over_pkg_same": 0.2}
            row |= {f"{name}_over_pkg_measured": counted, f"{name}_over_shuffle_measured": -less}
        return [row]

    assert _verdict("fig4", "at n = 50", rows(0, 0)) == HOLDS
    assert _verdict("fig4", "at n = 50", rows(0, 0, fraction=1.0)) == DIFFERS
    assert _verdict("fig4", "at n = 50", rows(0, 0, fraction=0.2)) == DIFFERS, "p1 is 0.32"
    graded = [HOLDS, DIRECTION, DIFFERS]
    for beginning in ("D-C and", "the same"):
        assert [_verdict("fig5", beginning, rows(x, 0)) for x in (0.3, 0.5, 0.7)] == graded
        assert [_verdict("fig5", beginning, rows(x, 0)) for x in (0.2, 0.12, 0.05)] == graded
        assert [_verdict("fig6", beginning, rows(0, x)) for x in (0.79, 0.6, 0.4)] == graded
        assert [_verdict("fig6", beginning, rows(0, x)) for x in (0.8, 0.9)] == [HOLDS, DIRECTION]
    found = [_verdict("fig5", "counted pairs are", rows(x, 0)) for x in (0.2, 0.9, 2.0)]
    assert found == [HOLDS, DIRECTION, DIFFERS]
    assert _verdict("fig5", "D-C needs", rows(0.2, 0)) == HOLDS
    alike = rows(0.2, 0)[0] | {"d-choices_over_pkg_measured": 0.2}
    assert _verdict("fig5", "D-C needs", [alike]) == DIFFERS


def test_rules_of_measured_heads() -> None:
    def rows(spread: int = 38, widest: int = 35, wide: int = 100) -> list[Row]:
        same: Row = {"workers": 100, "z": 1.4, "law": 38, "solved": 35, "spread": spread}
        names = {"d-choices": widest, "w-choices": wide, "round-robin-head": wide}
        return [{**same, "scheme": name, "widest": workers} for name, workers in names.items()]

    above, few = "the keys above", "D-C sends"
    assert [_verdict("head", above, rows(spread=x)) for x in (40, 65, 12)] == [HOLDS, DIFFERS, DIFFERS]
    assert [_verdict("head", few, rows(widest=x)) for x in (36, 100, 2)] == [HOLDS, DIFFERS, DIFFERS]
    assert [_verdict("head", "W-C and RR", rows(wide=x)) for x in (100, 35)] == [HOLDS, DIFFERS]


def test_rules_of_thresholds() -> None:
    def rows(w: float, round_robin: float) -> list[Row]:
        return [
            {"scheme": name, "workers": n, "threshold": threshold, "z": 2.0, "imbalance": value}
            for n in (10, 100)
            for threshold in ("2/n", "1/n", "0.125/n")
            for name, value in (("w-choices", w), ("round-robin-head", round_robin))
        ]

    assert [_verdict("fig7", "W-C is ideally", rows(w, 1)) for w in (1e-6, 5e-3, 0.1)] == [
        HOLDS,
        DIRECTION,
        DIFFERS,
    ]
    better = [_verdict("fig7", "W-C is better", rows(w, 1e-3)) for w in (1e-6, 1e-3, 1e-2)]
    assert better == [HOLDS, DIFFERS, DIFFERS]
    low = [row | {"z": 0.4, "imbalance": 1e-5} for row in rows(1e-6, 1e-2)]
    falling = [row | {"imbalance": row["imbalance"] * (10 if row["threshold"] == "2/n" else 1)}
               for row in rows(1e-6, 1e-2)]  # fmt: skip
    flat = rows(1e-6, 1e-2)
    expected = [_verdict("fig7", "a lower threshold", [*own, *low]) for own in (falling, flat)]
    assert expected == [HOLDS, DIFFERS]


def test_rules_of_the_least_choices() -> None:
    def rows(distinct: int, printed: list[int], n: int = 50) -> list[Row]:
        return [
            {"workers": n, "z": 1.4, "distinct": alone, "seed": seed, "solved": 40, "least": least,
             "matched": least}
            for alone, seed, least in ((True, 0, distinct), *((False, *each) for each in enumerate(printed)))
        ]  # fmt: skip

    near, printed, larger = "the computed d is very", "the same with candidates", "the computed d is slightly"
    assert _verdict("fig9", near, rows(39, [40] * 5)) == HOLDS
    assert _verdict("fig9", near, rows(37, [40] * 5)) == DIFFERS
    assert _verdict("fig9", printed, rows(40, [30, 30, 50, 50, 20])) == HOLDS  # 36 on average
    assert _verdict("fig9", printed, rows(40, [30, 30, 40, 40, 20])) == DIFFERS
    assert _verdict("fig9", larger, rows(40, [40])) == HOLDS
    assert _verdict("fig9", larger, rows(41, [40])) == DIFFERS
    assert _verdict("fig9", larger, rows(30, [40])) == DIFFERS, "d is far above the smallest"
    assert [_verdict("fig9", "the same for", rows(x, [40])) for x in (45, 50)] == [HOLDS, DIFFERS]
    few = [_verdict("fig9", "the same with 10", rows(x, [40], n=10)) for x in (38, 41, 35)]
    assert few == [HOLDS, DIFFERS, DIFFERS]


def test_rules_of_skew() -> None:
    bound = float(probabilities(2.0)[0]) / 2 - 0.01

    def rows(pkg: float = bound, w: float = 1e-7, d: float = 1e-4, more_keys: float = 1.0) -> list[Row]:
        usual = {"partial-key": pkg, "w-choices": w, "d-choices": d, "round-robin-head": d}
        return [
            {"scheme": name, "workers": 100, "z": 2.0, "keys_in_law": keys, "imbalance": value,
             "imbalance_mean": value * (more_keys if keys > 10**4 else 1)}
            for keys in (10**4, 10**5)
            for name, value in usual.items()
        ]  # fmt: skip

    assert [_verdict("fig10", "W-C's", rows(w=w, d=0.02)) for w in (1e-5, 1e-4, 1e-2)] == [
        HOLDS, DIRECTION, DIFFERS]  # fmt: skip
    assert [_verdict("fig10", "W-C's", rows(w=1e-5, d=d)) for d in (2e-5, 1.5e-5, 1e-5)] == [
        HOLDS, DIRECTION, DIFFERS]  # fmt: skip
    found = [_verdict("fig10", "PKG's", rows(pkg=bound * factor)) for factor in (1.029, 1.09, 1.2)]
    assert found == [HOLDS, DIRECTION, DIFFERS]
    assert [_verdict("fig10", "the number", rows(more_keys=f)) for f in (1.5, 3.0)] == [HOLDS, DIFFERS]
    assert [_verdict("fig10", "D-C and RR stay", rows(d=d)) for d in (0.05, 0.2)] == [HOLDS, DIFFERS]
    apart = [[row | {"imbalance_mean": row["imbalance_mean"] * (times if row["scheme"] == "d-choices" else 1)}
              for row in rows()] for times in (2, 4, 11)]  # fmt: skip
    assert [_verdict("fig10", "D-C and RR perform", own) for own in apart] == [HOLDS, DIRECTION, DIFFERS]


def test_rules_of_time() -> None:
    def rows(last: float) -> list[Row]:
        return [
            {"scheme": scheme, "data": data, "workers": 100, "imbalance": value}
            for scheme in ("partial-key", "d-choices", "w-choices")
            for data in ("TW", "TW-made", "WP", "WP-made", "CT", "CT-drift", "CT-made")
            for value in (0.5, 0.1, 0.1, last)
        ]

    for name in ("PKG", "D-C", "W-C"):
        other = f"the same for {name} on other streams like"
        for beginning in (f"{name}'s imbalance", f"{other} WP and TW", f"{other} CT"):
            assert [_verdict("fig12", beginning, rows(last)) for last in (0.2, 0.4)] == [HOLDS, DIFFERS]


def test_rules_of_the_cluster() -> None:
    def rows(pkg: float = 1000.0, key: float = 650.0, ours: float = 1500.0, late: float = 0.1,
             half: float = 0.5) -> list[Row]:  # fmt: skip
        usual = {"key": key, "partial-key": pkg, "d-choices": ours, "w-choices": ours, "shuffle": 1500.0}
        return [
            {"scheme": name, "z": z, "throughput": value, "latency_p99": late if value == ours else 1.0,
             "latency_worst_mean": {"key": 1.0, "partial-key": half, "shuffle": 0.1}.get(name, late),
             "latency_p50": 1.0, "latency_p95": 1.0}
            for z in (1.4, 1.7, 2.0)
            for name, value in usual.items()
        ]  # fmt: skip

    assert _verdict("fig13", "D-C and", rows()) == HOLDS
    assert _verdict("fig13", "D-C and", rows(ours=1300.0)) == DIFFERS
    assert [_verdict("fig13", "up to 1.5", rows(pkg=p)) for p in (1000.0, 100.0, 1500.0)] == [
        HOLDS, DIRECTION, DIFFERS,
    ]  # fmt: skip
    assert [_verdict("fig13", "up to 2.3", rows(key=k)) for k in (650.0, 100.0)] == [HOLDS, DIRECTION]
    found = [_verdict("fig14", "up to 60", rows(late=s)) for s in (0.4, 0.7, 0.001, 0.8)]
    assert found == [HOLDS, DIRECTION, DIRECTION, DIFFERS]
    found = [_verdict("fig14", "up to 75", rows(late=s)) for s in (0.25, 0.5, 0.001, 0.8)]
    assert found == [HOLDS, DIRECTION, DIRECTION, DIFFERS]
    found = [_verdict("fig14", "PKG has about half", rows(half=s)) for s in (0.5, 0.75, 0.9)]
    assert found == [HOLDS, DIRECTION, DIFFERS]
    found = [_verdict("fig14", "PKG never matches", rows(half=s)) for s in (0.5, 0.9, 0.1)]
    assert found == [HOLDS, DIRECTION, DIFFERS]
    found = [_verdict("fig14", "D-C and W-C have", rows(late=s)) for s in (0.1, 0.2, 0.5)]
    assert found == [HOLDS, DIRECTION, DIFFERS]


def test_the_streams_are_told_from_the_paper_s_own() -> None:
    own = {"WP": (22e6, 2.9e6, 0.0932), "TW": (1.2e9, 31e6, 0.0267), "CT": (690e3, 2.9e3, 0.0329)}
    rows: list[Row] = [
        {"data": name, "messages": int(messages), "keys": int(keys), "p1": p1}
        for name, (messages, keys, p1) in own.items()
    ]
    assert _verdict("table1", "sizes and skew", rows) == HOLDS
    rows[2]["messages"] = 243_149
    assert _verdict("table1", "sizes and skew", rows) == UNTESTED


@pytest.mark.parametrize(
    "figure", [experiment.figure for experiment in EXPERIMENTS if experiment.plot is not None]
)
def test_figures_can_be_drawn(figure: str) -> None:
    """From rows with every column that a plot may ask for."""
    from matplotlib.figure import Figure

    experiment = find([f"choices/{figure}"])[0]
    point = experiment.points(RunConfig("small", GENERATED))[0]
    if "stream" in point:
        point = {**point, "stream": "zipf:z=1.4,keys=100,messages=2000,seed=1"}
    point = {**point, **{name: 2000 for name in ("messages",) if name in point}}
    point = {**point, **{name: 2000 for name in ("pairs",) if point.get(name)}}
    drawn: Any = Figure(layout="constrained")
    assert experiment.plot is not None
    experiment.plot(drawn, experiment.rows(point))
    assert drawn.axes
    assert all(np.isfinite(axes.get_ylim()).all() for axes in drawn.axes)
