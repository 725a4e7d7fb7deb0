"""`evolving`: what its figures measure, and that every rule tells right from wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evenflow.papers import find
from evenflow.papers.data import GENERATED
from evenflow.papers.evolving import EXPERIMENTS, TOGETHER, evolving
from evenflow.papers.experiment import (
    DIFFERS,
    DIRECTION,
    HOLDS,
    UNTESTED,
    Judgement,
    Row,
    RunConfig,
    judge,
    measured,
)
from evenflow.papers.figures import relative
from evenflow.papers.table import Table

FIGURES = [experiment.figure for experiment in EXPERIMENTS if experiment.figure != "fig4"]


def _judged(figure: str, beginning: str, rows: list[Row]) -> Judgement:
    (claim,) = (
        experiment
        for experiment in find([f"evolving/{figure}"])[0].claims
        if experiment.text.startswith(beginning)
    )
    return judge(claim, rows)


def _verdict(figure: str, beginning: str, rows: list[Row]) -> str:
    return _judged(figure, beginning, rows).verdict


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("scale", ["small", "paper"])
def test_points_are_plain_and_differ(figure: str, scale: str) -> None:
    points = find([f"evolving/{figure}"])[0].points(RunConfig(scale, GENERATED))
    spelled = [json.dumps(point, sort_keys=True) for point in points]
    assert len(set(spelled)) == len(spelled) > 0
    assert [json.loads(text) for text in spelled] == points


def test_paper_scale_is_ten_runs_of_five_million() -> None:
    points = find(["evolving/fig10"])[0].points(RunConfig("paper", GENERATED))
    assert {point["stream"] for point in points if point["labels"]["z"] == 1.0} == {
        evolving(1.0, 5e6, seed) for seed in range(1, 11)
    }


def test_variants_are_measured_on_as_many_workers_as_the_captions_name() -> None:
    for scale, most in (("small", {64}), ("paper", {16, 32, 64, 128})):
        for figure, workers in (("fig12", most), ("fig13", most), ("fig14", most), ("fig15", {64, 128})):
            points = find([f"evolving/{figure}"])[0].points(RunConfig(scale, GENERATED))
            assert {point["workers"] for point in points} == workers


def test_the_usual_fish_is_measured_once_for_all_figures() -> None:
    """Decay 0.2, threshold 1/(4n), epochs, CHK: the same scheme under five names."""
    setting = RunConfig("small", GENERATED)
    usual = []
    for figure, label in (("fig12", "0.2"), ("fig13", "0.25/n"), ("fig14", "w/ epoch"), ("fig15", "CHK")):
        points = find([f"evolving/{figure}"])[0].points(setting)
        usual.append([measured(point) for point in points
                      if point["labels"]["label"] == label and point["workers"] == 64])  # fmt: skip
    assert usual[0] == usual[1] == usual[2] == usual[3]
    assert "parameters" not in usual[0][0]


def test_an_engine_s_speed_is_not_simulated() -> None:
    found = _judged("fig4", "the same work", [])
    assert (found.verdict, found.note) == (
        UNTESTED,
        "a simulation cannot show how an engine's speed fluctuates",
    )
    changes = [_verdict("fig4", "the same work", [{"change": change}]) for change in (0.04, 0.08, 0.2)]
    assert changes == [HOLDS, DIRECTION, DIFFERS]


def test_relative_to_another_scheme_over_seeds() -> None:
    rows = [
        {"label": label, "workers": 16, "makespan": value}
        for label, values in (("shuffle", (1.0, 3.0)), ("fish", (2.0, 4.0)))
        for value in values
    ]
    assert relative(Table.of_rows(rows), "makespan", "shuffle", "workers").to_dict("records") == [
        {"label": "shuffle", "workers": 16, "relative": 1.0},
        {"label": "fish", "workers": 16, "relative": 1.5},
    ]


def _times(**change: float) -> list[Row]:
    """Return execution times and pairs as the paper has them, relative to SG and FG."""
    times = {
        "shuffle": 1.0,
        "fish": 1.05,
        "key": 40.0,
        "partial-key": 10.0,
        "d-choices": 14.0,
        "w-choices": 13.0,
    }
    pairs = {"shuffle": 80.0, "fish": 2.4, "key": 1.0, "partial-key": 1.5, "d-choices": 3.0, "w-choices": 4.0}
    times |= {name: value for name, value in change.items() if name in times}
    pairs |= {name[len("pairs_") :]: value for name, value in change.items() if name.startswith("pairs_")}
    same = {"workers": 128, "z": 1.0}
    rows: list[Row] = [
        {**same, "data": data, "label": name, "makespan": times[name], "replicas": pairs[name]}
        for name in times
        for data in ("AM", "AM-many", "AM-made", "MT", "MT-made")
    ]
    together = [{**same, "label": f"{name}{TOGETHER}", "replicas": pairs[name]} for name in pairs]
    least = change.get("least", 15.5)  # what shuffle needs at the highest skew
    for name, value in (("key", 1.0), ("shuffle", least), ("fish", change.get("fish_least", 1.1))):
        together.append({**same, "z": 2.0, "label": f"{name}{TOGETHER}", "replicas": value})
    return [*rows, *together]


@pytest.mark.parametrize(
    ("figure", "beginning", "change", "verdict"),
    [
        ("fig9", "FISH is within", {}, HOLDS),
        ("fig9", "FISH is within", {"fish": 1.2}, DIRECTION),
        ("fig9", "FISH is within", {"fish": 2.2}, DIFFERS),
        ("fig9", "up to 7.31", {}, DIRECTION),
        ("fig9", "up to 7.31", {"partial-key": 7.5}, HOLDS),
        ("fig9", "up to 7.31", {"partial-key": 1.9}, DIFFERS),
        ("fig9", "up to 8.32", {}, HOLDS),
        ("fig9", "up to 8.32", {"partial-key": 2.2}, DIRECTION),
        ("fig9", "up to 8.32", {"partial-key": 2.0}, DIFFERS),
        ("fig9", "up to 7.44", {"d-choices": 8.0}, HOLDS),
        ("fig9", "up to 7.44", {}, DIRECTION),
        ("fig9", "up to 7.44", {"d-choices": 1.0}, DIFFERS),
        ("fig9", "up to 6.95", {"w-choices": 7.0}, HOLDS),
        ("fig9", "up to 6.95", {}, DIRECTION),
        ("fig9", "up to 6.95", {"w-choices": 1.0}, DIFFERS),
        ("fig10", "FISH is within", {"fish": 1.35}, HOLDS),
        ("fig10", "FISH is within", {"fish": 1.36}, DIRECTION),
        ("fig10", "FISH is within", {"fish": 3.0}, DIFFERS),
        ("fig10", "PKG is the slowest", {}, DIFFERS),
        ("fig10", "PKG is the slowest", {"partial-key": 20.0}, DIFFERS),
        ("fig10", "PKG is the slowest", {"partial-key": 26.5}, DIRECTION),
        ("fig10", "PKG is the slowest", {"partial-key": 30.0}, HOLDS),
        ("fig10", "up to 13.57", {}, HOLDS),
        ("fig10", "up to 13.57", {"d-choices": 1.0}, DIFFERS),
        ("fig10", "up to 12.05", {}, HOLDS),
        ("fig10", "up to 12.05", {"w-choices": 2.5}, DIRECTION),
        ("fig10", "up to 12.05", {"w-choices": 2.2}, DIFFERS),
        ("fig11", "FISH's memory", {}, HOLDS),
        ("fig11", "FISH's memory", {"pairs_fish": 3.5}, DIRECTION),
        ("fig11", "FISH's memory", {"pairs_fish": 1.6}, DIRECTION),
        ("fig11", "FISH's memory", {"pairs_fish": 1.3}, DIFFERS),
        ("fig11", "FISH's memory", {"pairs_fish": 5.3}, DIFFERS),
        ("fig11", "the same with", {}, HOLDS),
        ("fig11", "the same with", {"pairs_fish": 3.5}, DIRECTION),
        ("fig11", "the same with", {"pairs_fish": 6.1}, DIFFERS),
        ("fig11", "at high skew", {}, HOLDS),
        ("fig11", "at high skew", {"fish_least": 1.6}, DIRECTION),
        ("fig11", "at high skew", {"fish_least": 1.02}, HOLDS),
        ("fig11", "at high skew", {"fish_least": 0.7}, DIFFERS),
        ("fig11", "at high skew", {"fish_least": 2.3}, DIFFERS),
        ("fig11", "PKG, D-C and W-C", {"pairs_d-choices": 2.5, "pairs_w-choices": 2.6}, HOLDS),
        ("fig11", "PKG, D-C and W-C", {}, DIRECTION),
        ("fig11", "PKG, D-C and W-C", {"pairs_d-choices": 5.3}, DIFFERS),
        ("fig11", "SG's is", {}, HOLDS),
        ("fig11", "SG's is", {"pairs_shuffle": 30.0}, DIRECTION),
        ("fig11", "SG's is", {"least": 8.0}, DIRECTION),
        ("fig11", "SG's is", {"least": 2.0}, DIFFERS),
        ("fig20", "at z = 1.0", {}, HOLDS),
        ("fig20", "at z = 1.0", {"pairs_fish": 8.0}, DIRECTION),
        ("fig20", "at z = 1.0", {"pairs_fish": 1.5}, DIRECTION),
        ("fig20", "at z = 1.0", {"pairs_fish": 30.0}, DIFFERS),
        ("fig20", "FISH's memory is always", {"pairs_fish": 12.0}, HOLDS),
        ("fig20", "FISH's memory is always", {"pairs_fish": 30.0}, DIRECTION),
        ("fig20", "FISH's memory is always", {"pairs_fish": 50.0}, DIFFERS),
    ],
)
def test_rules_of_time_and_memory(
    figure: str, beginning: str, change: dict[str, float], verdict: str
) -> None:
    rows = _times(**change)
    if figure in ("fig9", "fig10"):
        rows = [row for row in rows if "makespan" in row]
    assert _verdict(figure, beginning, rows) == verdict


def _variants(first: str, second: str, time: float, memory: float = 1.0, workers: int = 128) -> list[Row]:
    """Return rows in which ``first`` takes ``time`` times as long and ``memory`` times the memory."""
    return [
        {
            "label": label,
            "workers": workers,
            "z": 1.0,
            "makespan": times,
            "memory": held,
            "latency_p99": times,
        }
        for label, times, held in ((first, time, memory), (second, 1.0, 1.0))
    ]


@pytest.mark.parametrize(
    ("figure", "beginning", "rows", "verdict"),
    [
        ("fig12", "without decay", _variants("1", "0.2", 11.0), HOLDS),
        ("fig12", "without decay", _variants("1", "0.2", 2.4), DIRECTION),
        ("fig12", "without decay", _variants("1", "0.2", 2.2), DIFFERS),
        ("fig12", "forgetting", _variants("0", "0.2", 1.0, 2.5), HOLDS),
        ("fig12", "forgetting", _variants("0", "0.2", 1.0, 1.4), DIRECTION),
        ("fig12", "forgetting", _variants("0", "0.2", 1.0, 1.3), DIFFERS),
        ("fig12", "0.2 is best", [*_variants("1", "0.2", 1.4), *_variants("0", "0.2", 1.0, 1.1)], HOLDS),
        ("fig12", "0.2 is best", [*_variants("1", "0.2", 1.0), *_variants("0", "0.2", 1.0, 1.0)], DIFFERS),
        ("fig13", "a large", _variants("2/n", "0.25/n", 3.0, 0.9), HOLDS),
        ("fig13", "a large", _variants("2/n", "0.25/n", 1.0, 1.0), DIFFERS),
        ("fig13", "only the", _variants("2/n", "0.25/n", 1.2), HOLDS),
        ("fig13", "only the", _variants("2/n", "0.25/n", 1.04), DIRECTION),
        ("fig13", "only the", _variants("2/n", "0.25/n", 1.02), DIFFERS),
        ("fig13", "1/(4n) needs", _variants("0.25/n", "2/n", 1.0, 1.05), HOLDS),
        ("fig13", "1/(4n) needs", _variants("0.25/n", "2/n", 1.0, 1.4), DIRECTION),
        ("fig13", "1/(4n) needs", _variants("0.25/n", "2/n", 1.0, 1.6), DIFFERS),
        ("fig13", "1/(8n) needs", _variants("0.125/n", "0.25/n", 1.0, 1.1), HOLDS),
        ("fig13", "1/(8n) needs", _variants("0.125/n", "0.25/n", 1.0, 1.02), DIRECTION),
        ("fig13", "1/(8n) needs", _variants("0.125/n", "0.25/n", 1.0, 1.01), DIFFERS),
        ("fig13", "and takes", _variants("0.125/n", "0.25/n", 0.97), HOLDS),
        ("fig13", "and takes", _variants("0.125/n", "0.25/n", 1.1), DIRECTION),
        ("fig13", "and takes", _variants("0.125/n", "0.25/n", 0.7), DIFFERS),
        ("fig14", "epochs", _variants("w/o epoch", "w/ epoch", 12.0), HOLDS),
        ("fig14", "epochs", _variants("w/o epoch", "w/ epoch", 2.4), DIRECTION),
        ("fig14", "epochs", _variants("w/o epoch", "w/ epoch", 2.2), DIFFERS),
        ("fig15", "CHK needs", _variants("w/ W-C", "CHK", 1.0, 2.0), HOLDS),
        ("fig15", "CHK needs", _variants("w/ W-C", "CHK", 1.0, 1.0), DIFFERS),
        ("fig15", "CHK saves up to 25", _variants("w/ W-C", "CHK", 1.0, 1.3, workers=64), HOLDS),
        ("fig15", "CHK saves up to 25", _variants("w/ W-C", "CHK", 1.0, 2.0, workers=64), DIRECTION),
        ("fig15", "CHK saves up to 25", _variants("w/ W-C", "CHK", 1.0, 1.05, workers=64), DIFFERS),
        ("fig15", "CHK saves up to 45", _variants("w/ W-C", "CHK", 1.0, 1.8), HOLDS),
        ("fig15", "CHK saves up to 45", _variants("w/ W-C", "CHK", 1.0, 1.3), DIRECTION),
        ("fig15", "CHK saves up to 45", _variants("w/ W-C", "CHK", 1.0, 1.2), DIFFERS),
        (
            "fig15",
            "the more workers",
            [*_variants("w/ W-C", "CHK", 1.0, 1.3, workers=64), *_variants("w/ W-C", "CHK", 1.0, 1.8)],
            HOLDS,
        ),
        (
            "fig15",
            "the more workers",
            [*_variants("w/ W-C", "CHK", 1.0, 1.3, workers=64), *_variants("w/ W-C", "CHK", 1.0, 1.4)],
            DIRECTION,
        ),
        (
            "fig15",
            "the more workers",
            [*_variants("w/ W-C", "CHK", 1.0, 1.3, workers=64), *_variants("w/ W-C", "CHK", 1.0, 1.36)],
            DIFFERS,
        ),
        ("fig15", "D-C's", _variants("w/ D-C", "CHK", 1.1), HOLDS),
        ("fig15", "D-C's", _variants("w/ D-C", "CHK", 1.02), DIRECTION),
        ("fig15", "D-C's", _variants("w/ D-C", "CHK", 1.01), DIFFERS),
        ("fig15", "D-C's", _variants("w/ D-C", "CHK", 0.9), DIFFERS),
        ("fig16", "inferring", _variants("w/o hwa", "w/ hwa", 2.5), HOLDS),
        ("fig16", "inferring", _variants("w/o hwa", "w/ hwa", 1.4), DIRECTION),
        ("fig16", "inferring", _variants("w/o hwa", "w/ hwa", 1.3), DIFFERS),
        ("fig16", "to infer", _variants("w/ hwa", "told the backlog", 1.0), HOLDS),
        ("fig16", "to infer", _variants("w/ hwa", "told the backlog", 1.2), DIRECTION),
        ("fig16", "to infer", _variants("w/ hwa", "told the backlog", 1.5), DIFFERS),
        ("fig16", "it copes", _variants("w/ hwa, changing", "told the backlog, changing", 1.0), HOLDS),
        ("fig16", "it copes", _variants("w/ hwa, changing", "told the backlog, changing", 1.5), DIFFERS),
        ("epochs", "epochs of", [{"label": "fish", "since": 750, "used": 0.8}], HOLDS),
        ("epochs", "epochs of", [{"label": "fish", "since": 1500, "used": 0.8}], DIRECTION),
        ("epochs", "epochs of", [{"label": "fish", "since": 750, "used": 0.5}], DIFFERS),
    ],
)
def test_rules_of_variants(figure: str, beginning: str, rows: list[Row], verdict: str) -> None:
    found = _judged(figure, beginning, rows)
    assert found.verdict == verdict
    assert found.note or verdict != DIFFERS


def test_rule_of_churn_and_a_real_ring() -> None:
    def rows(ratio: float) -> list[Row]:
        return [
            {"label": label, "z": 1.0, "workers": 64, "change": "add", "memory": memory}
            for label, memory in (("w/ CH", 1.0), ("w/o CH", ratio))
        ]

    assert [_verdict("fig17", "without", rows(r)) for r in (2.0, 1.3, 1.2)] == [HOLDS, DIRECTION, DIFFERS]
    skewed = [[row | {"z": 2.0} for row in rows(r)] for r in (1.2, 2.0)]
    found = [_verdict("fig17", "at high skew", [*rows(2.0), *high]) for high in skewed]
    assert found == [HOLDS, DIFFERS]
    measure = find(["evolving/fig17"])[0].measure
    with_ring, without = (measure(16, 1, 1.0, ring, 500_000, 1)[0]["memory"] for ring in (True, False))
    assert without > 1.08 * with_ring, "most keys move when n changes under mod n"


def test_rules_of_counters_and_latency() -> None:
    def rows(**memory: float) -> list[Row]:
        usual = {
            "FG": 1.0,
            "PKG": 1.5,
            "SG": 23.0,
            "D-C100": 20.0,
            "W-C100": 20.0,
            "D-C1000": 2.0,
            "W-C1000": 2.0,
        }
        late = {"FG": memory.pop("late", 4.0), "W-C1000": memory.pop("head", 0.1), "SG": 0.001}
        late |= {"D-C100": memory.pop("few", 0.05), "PKG": 0.1, "D-C1000": 0.1}
        fewer = memory.pop("fewer", 1.0)  # workers: a share of the memory and of the latency
        return [
            {
                "label": label,
                "workers": n,
                "memory": share * value,
                "latency_p99": share * late.get(label, 0.05),
            }
            for n, share in ((16, fewer), (128, 1.0))
            for label, value in (usual | memory).items()
        ]

    three = [HOLDS, DIRECTION, DIFFERS]
    some, few = ({"D-C100": value, "W-C100": value} for value in (4.0, 2.0))

    def verdicts(figure: str, beginning: str, *tables: list[Row]) -> list[str]:
        """Judge tables of AM-made; AM and AM-many, which do not stress, decide nothing."""
        found = []
        for table in tables:
            others = [{**row, "data": data} for row in rows() for data in ("AM", "AM-many")]
            found.append(
                _verdict(figure, beginning, [*others, *({**row, "data": "AM-made"} for row in table)])
            )
        return found

    high = "one or two workers per key lead to a high p99"
    assert verdicts("fig2", high, *(rows(late=s) for s in (4.0, 0.005, 0.002))) == three
    far = "PKG's p99 is not far below FG's"
    assert verdicts("fig2", far, *(rows(late=s) for s in (0.14, 0.3, 4.0))) == three
    like = "with 100 counters D-C and W-C cost nearly what SG costs"
    assert verdicts("fig3", like, rows(), rows(**some), rows(**few)) == three
    counters = "with 1000 counters D-C's and W-C's p99 is almost PKG's"
    assert verdicts("fig2", counters, *(rows(head=value) for value in (0.1, 0.06, 0.01))) == three
    assert verdicts("fig2", counters, *(rows(head=value) for value in (0.1, 0.15, 0.3))) == three
    lower = "with 100 counters D-C's and W-C's p99 is lower than PKG's"
    assert verdicts("fig2", lower, *(rows(few=value) for value in (0.05, 0.095, 0.097))) == three
    rises = [rows(fewer=share) for share in (0.4, 0.7, 1.0)]
    assert verdicts("fig2", "with more workers their p99 rises significantly", *rises) == three
    more = "with more workers that of SG, D-C100 and W-C100 rises significantly"
    assert verdicts("fig3", more, *rises) == three
    costs = "SG costs up to 23 times FG at 128 workers"
    assert verdicts("fig3", costs, *(rows(SG=value) for value in (20.0, 5.0, 0.5))) == three


def test_rules_of_the_cluster() -> None:
    def rows(latency: float = 0.1, speed: float = 1.5) -> list[Row]:
        return [
            {"label": label, "data": data, "latency_mean": late, "latency_p99": late, "throughput": speed_}
            for data in ("MT", "AM-made")
            for label, late, speed_ in (
                ("fish", latency, speed), ("w-choices", 1.0, 1.0), ("d-choices", 1.0, 1.0)
            )
        ]  # fmt: skip

    for beginning, printed in (("FISH's mean", 0.13), ("FISH's p99", 0.24)):
        found = [_verdict("fig18", beginning, rows(latency=x)) for x in (printed, 0.45, 0.01, 0.7)]
        assert found == [HOLDS, DIRECTION, DIRECTION, DIFFERS]
    for beginning in ("FISH's throughput is 1.32", "FISH's throughput is 1.48"):
        found = [_verdict("fig19", beginning, rows(speed=x)) for x in (1.4, 2.5, 1.05)]
        assert found == [HOLDS, DIRECTION, DIFFERS]

    def beside(**change: float) -> list[Row]:
        usual = {"key": 1.0, "partial-key": 2.0, "d-choices": 3.0, "w-choices": 3.0, "fish": 4.0}
        return [
            {"label": label, "data": "MT", "throughput": value,
             **dict.fromkeys(("latency_mean", "latency_p50", "latency_p99"), 1 / value)}
            for label, value in (usual | {"shuffle": 4.0} | change).items()
        ]  # fmt: skip

    found = [_verdict("fig18", "FISH's median", beside(fish=x)) for x in (4.0, 2.0, 1.0)]
    assert found == [HOLDS, DIRECTION, DIFFERS]
    found = [_verdict("fig18", "FISH outperforms", beside(fish=x)) for x in (4.0, 3.1, 2.5)]
    assert found == [HOLDS, DIFFERS, DIFFERS]
    assert [_verdict("fig19", "FG has", beside(key=x)) for x in (1.0, 2.0)] == [HOLDS, DIRECTION]
    assert _verdict("fig19", "FG has", beside(key=3.0)) == DIFFERS
    between = [beside(), beside(**{"w-choices": 4.0}), beside(**{"partial-key": 3.0})]
    assert [_verdict("fig19", "D-C and W-C do", rows_) for rows_ in between] == [HOLDS, DIFFERS, DIFFERS]
    found = [_verdict("fig19", "FISH's throughput is almost", beside(fish=x)) for x in (4.0, 3.5, 3.0)]
    assert found == [HOLDS, DIRECTION, DIFFERS]


def test_rules_of_more_workers_and_more_skew() -> None:
    def rows(key: str, **last: float) -> list[Row]:
        return [
            {"label": label, "data": data, "workers": 16, "z": 1.0, key: at, "makespan": value}
            for data in ("MT", "AM-made")
            for label in ("fish", "partial-key", "d-choices", "w-choices")
            for at, value in ((1.0, 1.0), (2.0, last.get(label, 1.0)))
        ]

    more = "the more workers, the more it gains"
    found = [_verdict("fig9", more, rows("workers", **{"partial-key": x})) for x in (6.5, 2.0, 1.8, 400.0)]
    assert found == [HOLDS, DIRECTION, DIFFERS, DIFFERS]
    found = [_verdict("fig10", "PKG becomes", rows("z", **{"partial-key": x})) for x in (3.0, 1.5, 1.0)]
    assert found == [HOLDS, DIRECTION, DIFFERS]
    late = "D-C and W-C become"
    found = [
        _verdict("fig10", late, rows("z", **{"d-choices": 3.0, "w-choices": x})) for x in (3.0, 1.5, 1.0)
    ]
    assert found == [HOLDS, DIRECTION, DIFFERS]


def test_the_streams_are_told_from_the_paper_s_own() -> None:
    rows: list[Row] = [
        {"data": "MT", "messages": 49_210_000, "keys": 390_000, "p1": 0.01},
        {"data": "AM", "messages": 7_910_000, "keys": 250_000, "p1": 0.01},
    ]
    assert _verdict("table2", "sizes", rows) == HOLDS
    rows[1]["messages"] = 541_909
    assert _verdict("table2", "sizes", rows) == UNTESTED


@pytest.mark.parametrize(
    "figure", [experiment.figure for experiment in EXPERIMENTS if experiment.plot is not None]
)
def test_figures_can_be_drawn(figure: str) -> None:
    from matplotlib.figure import Figure

    experiment = find([f"evolving/{figure}"])[0]
    points = experiment.points(RunConfig("small", {**GENERATED, "AM": SHORT, "MT": SHORT}))
    if "stream" in points[0]:
        changes: dict[str, Any] = {"changes": [[500, "32x1,32x2"]]}
        points = [{**point, "stream": SHORT, **(changes if "changes" in point else {})} for point in points]
    else:
        points = [{**point, "messages": 1000} for point in points[:2]]
    first = [point for point in points if point["workers"] == points[0]["workers"]]
    rows = [row for point in first[:7] for row in experiment.rows(point)]
    drawn: Any = Figure(layout="constrained")
    assert experiment.plot is not None
    experiment.plot(drawn, rows)
    assert drawn.axes


SHORT = evolving(1.4, 1000, keys=50)
