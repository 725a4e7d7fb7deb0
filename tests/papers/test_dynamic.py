"""`dynamic`: what its figures measure, and that every rule tells right from wrong."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import evenflow as ef
from evenflow.papers import find
from evenflow.papers.data import GENERATED
from evenflow.papers.dynamic import EXPERIMENTS, METRICS, SCHEMES, countries, election
from evenflow.papers.experiment import DIFFERS, DIRECTION, HOLDS, Judgement, Row, RunConfig, judge
from evenflow.streams import open_stream

FIGURES = [experiment.figure for experiment in EXPERIMENTS]


def _judged(figure: str, beginning: str, rows: list[Row]) -> Judgement:
    (claim,) = (
        experiment
        for experiment in find([f"dynamic/{figure}"])[0].claims
        if experiment.text.startswith(beginning)
    )
    return judge(claim, rows)


def _verdict(figure: str, beginning: str, rows: list[Row]) -> str:
    return _judged(figure, beginning, rows).verdict


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("scale", ["small", "paper"])
def test_points_are_plain_and_differ(figure: str, scale: str) -> None:
    points = find([f"dynamic/{figure}"])[0].points(RunConfig(scale, GENERATED))
    spelled = [json.dumps(point, sort_keys=True) for point in points]
    assert len(set(spelled)) == len(spelled) > 0
    assert [json.loads(text) for text in spelled] == points


def test_a_user_s_election_is_the_one_that_is_used() -> None:
    mine = RunConfig("paper", {**GENERATED, "twitter-election": "mine.csv#tag"})
    assert election(mine) == "mine.csv#tag"
    assert election(RunConfig("paper", GENERATED)) == "election:messages=5000000,seed=18"
    assert mine.asked == ["twitter-election"]


def test_table1_is_as_printed_and_an_error_is_seen() -> None:
    experiment = find(["dynamic/table1"])[0]
    rows = [row for point in experiment.points(RunConfig()) for row in experiment.rows(point)]
    assert _verdict("table1", "thresholds", rows) == HOLDS
    assert _verdict("table1", "thresholds", [{**row, "widest": 9} for row in rows]) == DIFFERS


def test_a_country_stream_has_its_skew() -> None:
    stream = open_stream(countries(30, 50_000))
    counts = np.bincount(np.concatenate([chunk.ids for chunk in stream.chunks()]))
    assert counts.max() / counts.sum() == pytest.approx(0.30, abs=0.01)
    assert np.sort(counts)[-2] / counts.sum() < 0.01


def test_neighbours_of_the_hot_key_s_workers_are_caught_under_dynamic_key() -> None:
    """Why DKG is less even than PKG at low skew: a tenth of the others has just the hot key's two workers."""
    keys = np.arange(2000, dtype=np.uint64)
    hashes = np.array([(int(key) * 0x9E3779B97F4A7C15) % 2**64 for key in keys], np.uint64)
    hot = hashes[:1].repeat(400)
    homes = set(ef.scheme("dynamic-key").router(10).route(hot).tolist())
    first = sorted(homes)[0] if sorted(homes) != [0, 9] else 9
    assert homes == {first, (first + 1) % 10}, "index and index + 1 (4.2, Eq. 5)"
    caught = 0
    for key in hashes[1:]:
        caught += set(ef.scheme("dynamic-key").router(10).route(key.repeat(2)).tolist()) == homes
    assert caught / 1999 == pytest.approx(0.1, abs=0.03)


def _skews(dkg: dict[int, float], **change: Any) -> list[Row]:
    """Return rows with DKG's throughput relative to PKG's, by skew."""
    rows = []
    for skew, factor in dkg.items():
        speed = {
            "shuffle": 1000.0,
            "key": 900.0 - 8 * skew,
            "partial-key": 500.0,
            "dynamic-key": 500.0 * factor,
        }
        cost = {"shuffle": 10.0, "key": 1.0, "partial-key": 2.0, "dynamic-key": 2.5} | change.get("cost", {})
        if "shuffle" in change:
            speed["shuffle"] += change["shuffle"] * skew
        for name in SCHEMES:
            rows.append(
                {
                    "scheme": name,
                    "skew": skew,
                    "throughput": speed[name],
                    "makespan": 1e6 / speed[name],
                    "distribution_cost": cost[name],
                    "standard_deviation": 1.0,
                }
            )
    return rows


GOOD = {0: 0.99, 20: 1.0, 30: 1.08, 50: 1.4, 80: 1.9, 100: 2.0}


@pytest.mark.parametrize(
    ("figure", "beginning", "rows", "verdict"),
    [
        ("fig10", "skew does not", _skews(GOOD), HOLDS),
        ("fig10", "skew does not", _skews(GOOD, shuffle=2.0), DIFFERS),
        ("fig10", "KG's throughput falls steadily above 30 percent", _skews(GOOD), HOLDS),
        ("fig10", "at 30 percent DKG's latency", _skews(GOOD), HOLDS),
        ("fig10", "at 30 percent DKG's latency", _skews({**GOOD, 30: 1.5}), DIRECTION),
        ("fig10", "at 30 percent DKG's latency", _skews({**GOOD, 30: 0.9}), DIFFERS),
        ("fig10", "at 30 percent DKG's throughput", _skews(GOOD), HOLDS),
        ("fig10", "at 30 percent DKG's throughput", _skews({**GOOD, 30: 1.5}), DIRECTION),
        ("fig10", "at 30 percent DKG's throughput", _skews({**GOOD, 30: 0.9}), DIFFERS),
        ("fig10", "above 80 percent DKG's latency", _skews(GOOD), HOLDS),
        ("fig10", "above 80 percent DKG's latency", _skews({**GOOD, 80: 1.3}), DIRECTION),
        ("fig10", "above 80 percent DKG's latency", _skews({**GOOD, 80: 1.2}), DIFFERS),
        ("fig10", "above 80 percent DKG's throughput", _skews(GOOD), HOLDS),
        ("fig10", "above 80 percent DKG's throughput", _skews({**GOOD, 80: 1.3}), DIRECTION),
        ("fig10", "above 80 percent DKG's throughput", _skews({**GOOD, 80: 1.2}), DIFFERS),
        ("fig11", "DKG is ahead of PKG from 30", _skews(GOOD), HOLDS),
        ("fig11", "DKG is ahead of PKG from 30", _skews({**GOOD, 50: 0.9}), DIRECTION),
        ("fig11", "DKG is ahead of PKG from 30", _skews({**GOOD, 50: 0.9, 80: 0.9}), DIFFERS),
        ("fig10", "DKG is second", _skews(GOOD), HOLDS),
        ("fig10", "DKG is second", _skews({**GOOD, 80: 0.9}), DIFFERS),
        ("fig11", "below 30", _skews(GOOD), HOLDS),
        ("fig11", "below 30", _skews({**GOOD, 20: 1.1}), DIFFERS),
        ("fig11", "below 26", _skews(GOOD), HOLDS),
        ("fig11", "below 26", _skews({**GOOD, 0: 0.95}), DIRECTION),
        ("fig11", "below 26", _skews({**GOOD, 20: 0.8}), DIFFERS),
        ("fig11", "SG has", _skews(GOOD), HOLDS),
        ("fig11", "SG has", _skews(GOOD, cost={"key": 11.0}), DIFFERS),
    ],
)
def test_rules_of_skew(figure: str, beginning: str, rows: list[Row], verdict: str) -> None:
    found = _judged(figure, beginning, rows)
    assert found.verdict == verdict
    assert found.note or verdict != DIFFERS


def _curves(columns: dict[str, dict[str, tuple[float, ...]]]) -> list[Row]:
    """Return rows of metrics by scheme at skews of 0, 20, 30, 60, 90 and 100 percent."""
    return [{"scheme": scheme, "skew": skew, **{name: own[scheme][at] for name, own in columns.items()}}
            for at, skew in enumerate((0, 20, 30, 60, 90, 100)) for scheme in SCHEMES]  # fmt: skip


_SPEEDS: dict[str, tuple[float, ...]] = {
    "shuffle": (10, 10, 10, 10, 10, 10), "key": (10, 10, 9.5, 3, 1.1, 1),
    "partial-key": (10, 10, 9, 6, 2.2, 2), "dynamic-key": (10, 10, 10, 9, 8, 8),
}  # fmt: skip
_UNEVEN: dict[str, tuple[float, ...]] = {
    "shuffle": (0, 0, 0, 0, 0, 0), "key": (1, 4, 6, 18, 27, 30),
    "partial-key": (0.1, 0.2, 4, 9, 12, 15), "dynamic-key": (0.1, 0.2, 2, 3, 4, 4),
}  # fmt: skip
_PAIRS: dict[str, tuple[float, ...]] = {
    "shuffle": (10, 10, 10, 10, 10, 10), "key": (1, 1, 1, 1, 1, 1),
    "partial-key": (2, 2, 2, 2, 2, 2), "dynamic-key": (2, 2, 2.1, 2.1, 2.2, 8),
}  # fmt: skip


@pytest.mark.parametrize(
    ("figure", "beginning", "change", "verdict"),
    [
        ("fig10", "up to 30 percent KG", {}, HOLDS),
        ("fig10", "up to 30 percent KG", {"key": (10, 9, 7, 3, 1.1, 1)}, DIRECTION),
        ("fig10", "up to 30 percent KG", {"key": (10, 5, 3.3, 1.6, 1.1, 1)}, DIFFERS),
        ("fig10", "PKG degrades", {}, HOLDS),
        ("fig10", "PKG degrades", {"partial-key": (10, 8, 9, 6, 2.2, 2)}, DIRECTION),
        ("fig10", "PKG degrades", {"partial-key": (10, 8, 8, 8, 8, 8)}, DIFFERS),
        ("fig10", "up to 60 percent PKG", {"key": (10, 8, 5, 3, 1.1, 1)}, HOLDS),
        ("fig10", "up to 60 percent PKG", {"key": (10, 10, 9.5, 5, 1.1, 1)}, DIFFERS),
        ("fig10", "DKG is more predictable", {}, HOLDS),
        ("fig10", "DKG is more predictable", {"dynamic-key": (10, 10, 10, 6, 4, 3.7)}, HOLDS),
        ("fig10", "DKG is more predictable", {"dynamic-key": (10, 10, 10, 6, 4, 2.5)}, DIRECTION),
        ("fig10", "DKG is more predictable", {"dynamic-key": (10, 10, 10, 6, 2.2, 2)}, DIFFERS),
    ],
)
def test_rules_of_throughput_by_skew(
    figure: str, beginning: str, change: dict[str, tuple[float, ...]], verdict: str
) -> None:
    assert _verdict(figure, beginning, _curves({"throughput": _SPEEDS | change})) == verdict


@pytest.mark.parametrize(
    ("beginning", "uneven", "pairs", "verdict"),
    [
        ("KG's and PKG's latency", {}, {}, HOLDS),
        ("KG's and PKG's latency", {"key": (30, 30, 30, 18, 9, 3)}, {}, DIRECTION),
        ("above 30 percent SG's", {}, {}, HOLDS),
        ("above 30 percent SG's", {"dynamic-key": (0, 0, 3, 6, 4, 4)}, {}, DIRECTION),
        ("above 30 percent SG's", {"dynamic-key": (0, 0, 3, 10, 14, 20)}, {}, DIFFERS),
        ("the others' DistCost", {}, {}, HOLDS),
        ("the others' DistCost", {}, {"dynamic-key": (2, 2, 3, 4, 5, 8)}, DIRECTION),
        ("the others' DistCost", {}, {"partial-key": (2, 2, 3, 4, 6, 8)}, DIFFERS),
        ("DKG's DistCost has its peak", {}, {}, HOLDS),
        ("DKG's DistCost has its peak", {}, {"dynamic-key": (2, 2, 2, 2, 2, 2.2)}, DIRECTION),
        ("DKG's DistCost has its peak", {}, {"dynamic-key": (2, 2, 2, 3, 2, 2)}, DIFFERS),
    ],
)
def test_rules_of_latency_and_pairs_by_skew(
    beginning: str, uneven: dict[str, tuple[float, ...]], pairs: dict[str, tuple[float, ...]], verdict: str
) -> None:
    spans = {scheme: tuple(100 / speed for speed in own) for scheme, own in _SPEEDS.items()}
    rows = _curves({"makespan": spans, "standard_deviation": _UNEVEN | uneven,
                    "distribution_cost": _PAIRS | pairs})  # fmt: skip
    assert _verdict("fig11", beginning, rows) == verdict


def test_key_grouping_that_rises_with_skew_is_seen() -> None:
    rows = [
        {**row, "throughput": row["skew"] + 1.0} if row["scheme"] == "key" else row for row in _skews(GOOD)
    ]
    assert _verdict("fig10", "KG's throughput falls steadily above 30 percent", rows) == DIFFERS


PRINTED = {
    "shuffle": (9511, 0.0001, 2.4491),
    "dynamic-key": (4529, 4.0972, 1.2414),
    "partial-key": (2739, 12.3513, 1.1647),
    "key": (1344, 20.3202, 1.0),
}


def _election(change: dict[str, tuple[float, float, float]], **more: Any) -> list[Row]:
    names = ("throughput", "standard_deviation", "distribution_cost")
    return [
        {"scheme": scheme, "data": "twitter-election", "makespan": 1e6 / values[0], **more}
        | dict(zip(names, values, strict=True))
        for scheme, values in (PRINTED | change).items()
    ]


def test_rules_of_the_election() -> None:
    for beginning in ("throughput", "StdDev", "DistCost"):
        assert _verdict("table3", beginning, _election({})) == HOLDS
        other = _election({"dynamic-key": (3500, 8.0, 1.5)})
        assert _verdict("table3", beginning, other) == DIRECTION
        assert _verdict("table3", beginning, _election({"dynamic-key": (900, 21.0, 3.0)})) == DIFFERS
    assert _verdict("fig9", "on twitter-election", _election({})) == HOLDS
    for speed, verdict in ((3300, DIRECTION), (7000, DIRECTION), (2900, DIFFERS), (2500, DIFFERS)):
        rows = _election({"dynamic-key": (speed, 8.0, 1.5)})
        assert _verdict("fig9", "on twitter-election", rows) == verdict


def test_rules_of_widths() -> None:
    def rows(first: int = 3, most: int = 8, last: int = 2, wide: int = 4, found: int = 4) -> list[Row]:
        half = {"data": "country-half-skew-r80", "wide": wide}
        widths = ((100.0, first), (500.0, most), (1000.0, last))
        zipf = {"data": "Zipf", "seconds": 1000.0, "hottest": 18, "wide": 4, "found": found, "due": 4}
        return [*({**half, "seconds": at, "hottest": width} for at, width in widths), zipf]

    one, back, every, only = "a hot key gets one more", "when the key is back", "every key", "only keys in"
    three = [HOLDS, DIRECTION, DIFFERS]
    assert [_verdict("widths", one, rows(most=width)) for width in (8, 6, 10)] == three
    assert _verdict("widths", one, rows(first=8)) == DIFFERS
    assert [_verdict("widths", back, rows(last=width)) for width in (2, 3, 8)] == three
    assert _verdict("widths", back, rows(most=2, first=2)) == DIFFERS
    assert [_verdict("widths", every, rows(found=count)) for count in (4, 3, 1)] == three
    assert [_verdict("widths", only, rows(wide=count)) for count in (10, 12, 60)] == three


def test_rules_of_other_streams() -> None:
    def rows(factor: float) -> list[Row]:
        return [
            {"data": data, "scheme": scheme, "throughput": value}
            for data in ("twitter-ticker", "wikipedia-clickstream", "wikipedia-pageviews")
            for scheme, value in (("partial-key", 100.0), ("dynamic-key", 100.0 * factor))
        ]

    assert [_verdict("fig9", "on the other", rows(f)) for f in (0.95, 0.8, 1.2)] == [HOLDS, DIFFERS, DIFFERS]


def test_rules_of_more_workers_and_sources() -> None:
    def rows(by: str, values: tuple[int, ...], **change: tuple[float, float, float]) -> list[Row]:
        return [row for place, value in enumerate(values)
                for row in _election(change if place else {}, **{by: value})]  # fmt: skip

    worse = {"dynamic-key": (1000.0, 30.0, 1.2)}
    for figure, by, values in (("fig12", "workers", (10, 50, 100)), ("fig13", "sources", (5, 10, 15, 20))):
        assert _verdict(figure, "DKG is better than", rows(by, values)) == HOLDS
        assert _verdict(figure, "DKG is better than", rows(by, values, **worse)) == DIFFERS
    slower = {"partial-key": (1000.0, 12.0, 1.2)}
    assert _verdict("fig12", "more workers", rows("workers", (10, 50, 100))) == HOLDS
    assert _verdict("fig12", "more workers", rows("workers", (10, 50, 100), **slower)) == DIFFERS
    assert _verdict("fig13", "the number", rows("sources", (5, 10))) == HOLDS
    costly = [rows("sources", (5, 10), **{"dynamic-key": (4529.0, 4.1, cost)}) for cost in (1.24, 1.4, 2.0)]
    assert [_verdict("fig13", "the DistCost", own) for own in costly] == [HOLDS, DIRECTION, DIFFERS]
    assert _verdict("fig13", "the number", rows("sources", (5, 10), **slower)) == DIFFERS


def test_rule_of_the_streams() -> None:
    def rows(share: float) -> list[Row]:
        found = {"twitter-election": 0.68, "twitter-ticker": share, "wikipedia-pageviews": 0.09}
        found |= {"wikipedia-clickstream": 0.1, "wikipedia-pageviews-by-lang": 0.27}
        return [{"data": name, "p1": p1} for name, p1 in found.items()]

    found = [_verdict("table2", "skew of the streams", rows(s)) for s in (0.09, 0.06, 0.01)]
    assert found == [HOLDS, DIRECTION, DIFFERS]
    measure = find(["dynamic/table2"])[0].measure
    made = [*measure("country-skew-r30", countries(30, 2e4))]
    made += measure("country-half-skew-r80", f"{countries(80, 2e4)},then=0")
    assert _verdict("table2", "skew of the country", made) == HOLDS
    made[1]["p1"] = 0.8
    assert _verdict("table2", "skew of the country", made) == DIFFERS


@pytest.mark.parametrize(
    "figure", [experiment.figure for experiment in EXPERIMENTS if experiment.plot is not None]
)
def test_figures_can_be_drawn(figure: str) -> None:
    from matplotlib.figure import Figure

    experiment = find([f"dynamic/{figure}"])[0]
    points = [
        {**point, "stream": countries(30, 2000)}
        for point in experiment.points(RunConfig("small", GENERATED))[:2]
    ]
    rows = [row for point in points for row in experiment.rows(point)]
    assert all(row[name] >= 0 for row in rows for name in METRICS if figure != "widths")
    drawn: Any = Figure(layout="constrained")
    assert experiment.plot is not None
    experiment.plot(drawn, rows)
    assert drawn.axes


def _workers(**change: Any) -> list[Row]:
    """Return rows of Fig. 12 as the paper tells them; ``change``: values by scheme at 10, 50, 100 workers."""
    shown: dict[str, dict[str, tuple[float, float, float]]] = {
        "makespan": {"shuffle": (10, 10, 10), "dynamic-key": (20, 21, 22), "partial-key": (34, 34, 34),
                     "key": (70, 70, 69)},
        "standard_deviation": {"shuffle": (0, 0, 0), "dynamic-key": (4, 2, 1), "partial-key": (12, 7, 5),
                               "key": (20, 9, 7)},
        "distribution_cost": {"shuffle": (2.4, 4, 4.4), "dynamic-key": (1.24, 1.25, 1.26),
                              "partial-key": (1.16, 1.2, 1.2), "key": (1, 1, 1)},
        "throughput": {"shuffle": (9.5, 9.5, 9.5), "dynamic-key": (4.5, 4.5, 4.5),
                       "partial-key": (2.7, 2.7, 2.7), "key": (1.3, 1.3, 1.3)},
    }  # fmt: skip
    shown = {metric: own | change.get(metric, {}) for metric, own in shown.items()}
    return [{"scheme": scheme, "workers": n, **{metric: own[scheme][at] for metric, own in shown.items()}}
            for at, n in enumerate((10, 50, 100)) for scheme in SCHEMES]  # fmt: skip


@pytest.mark.parametrize(
    ("beginning", "change", "verdict"),
    [
        ("DKG's latency rises", {}, HOLDS),
        ("DKG's latency rises", {"makespan": {"dynamic-key": (20, 25, 30)}}, DIRECTION),
        ("DKG's latency rises", {"makespan": {"dynamic-key": (20, 19, 18)}}, DIFFERS),
        ("DKG's latency rises", {"makespan": {"dynamic-key": (20, 30, 60)}}, DIFFERS),
        ("KG has the highest latency", {}, HOLDS),
        ("KG has the highest latency", {"makespan": {"key": (30, 30, 30)}}, DIRECTION),
        ("KG has the highest latency", {"makespan": {"key": (5, 5, 5)}}, DIFFERS),
        ("StdDev falls", {}, HOLDS),
        ("StdDev falls", {"standard_deviation": {"key": (1, 2, 3)}}, DIFFERS),
        ("DKG's StdDev is much", {}, HOLDS),
        ("DKG's StdDev is much", {"standard_deviation": {"dynamic-key": (8, 5, 3)}}, DIRECTION),
        ("DKG's StdDev is much", {"standard_deviation": {"dynamic-key": (12, 7, 5)}}, DIFFERS),
        ("SG's DistCost", {}, HOLDS),
        ("SG's DistCost", {"distribution_cost": {"dynamic-key": (2.4, 4, 4.4)}}, DIFFERS),
        ("SG's throughput is the highest", {}, HOLDS),
        ("SG's throughput is the highest", {"throughput": {"shuffle": (4, 4, 4)}}, DIFFERS),
    ],
)
def test_rules_of_more_workers(beginning: str, change: dict[str, Any], verdict: str) -> None:
    assert _verdict("fig12", beginning, _workers(**change)) == verdict


def test_rules_of_fig9c_and_of_the_half_skewed_stream() -> None:
    def rows(data: str, speed: dict[str, float], deviation: float = 0.1) -> list[Row]:
        return [{"scheme": name, "data": data, "skew": None, "throughput": speed.get(name, 1.0),
                 "distribution_cost": 1.0 if name == "key" else 1.5,
                 "standard_deviation": deviation if name == "dynamic-key" else 1.0}
                for name in SCHEMES]  # fmt: skip

    clicks, half = "wikipedia-clickstream", "country-half-skew-r80"
    assert _verdict("fig9", "on wikipedia-clickstream", rows(clicks, {"key": 1.2})) == HOLDS
    assert _verdict("fig9", "on wikipedia-clickstream", rows(clicks, {"key": 0.5})) == DIFFERS
    assert "shuffle 2.00x" in _judged("fig9", "on wikipedia-clickstream", rows(clicks, {"key": 0.5})).measured
    ahead = "on country-half-skew-r80"
    assert _verdict("fig11", ahead, rows(half, {"dynamic-key": 1.5})) == HOLDS
    assert _verdict("fig11", ahead, rows(half, {"dynamic-key": 1.05})) == DIRECTION
    assert _verdict("fig11", ahead, rows(half, {"dynamic-key": 1.5}, 2.0)) == DIRECTION
    assert _verdict("fig11", ahead, rows(half, {})) == DIFFERS
