"""Deployments without Spark: arithmetic of throughput and latency, predictions, feedback, rules, the page."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import evenflow as ef
from evenflow.cli import main
from evenflow.errors import EvenflowError
from evenflow.owners import Ownership
from evenflow.papers import find
from evenflow.papers.data import data_sets
from evenflow.papers.deployments.capacity import RESOLUTION, highest_stable
from evenflow.papers.deployments.cluster import Cluster, Messages
from evenflow.papers.deployments.common import (
    best_cut,
    little_overhead,
    near_prediction,
    near_shuffle,
    no_growth,
)
from evenflow.papers.deployments.flow import Batch, Timing
from evenflow.papers.deployments.lanes import Lanes
from evenflow.papers.deployments.pace import Pace, write_keys
from evenflow.papers.deployments.prediction import predicted_rates
from evenflow.papers.deployments.serving import Served, read_service, write_service
from evenflow.papers.deployments.session import slots_for
from evenflow.papers.deployments.streamed import LOADS, Level, Phase, Trial
from evenflow.papers.experiment import DIFFERS, DIRECTION, HOLDS, UNTESTED, RunConfig, judge
from evenflow.papers.page import gates, write_deployments
from evenflow.papers.reproduce import Outcome, claim_row
from evenflow.papers.rules import best_times
from evenflow.papers.table import Table
from evenflow.schemes.spelling import as_scheme


def test_messages_have_the_hashes_of_their_keys() -> None:
    messages = Messages.of("zipf:z=1.2,keys=500,messages=1000,seed=3")
    keys = np.arange(1, messages.keys_upper_bound() + 1)
    assert messages.hashes.tolist() == ef.hash_keys(keys).tolist()
    assert (messages.keys == messages.ids + 1).all()


def test_clusters_that_cannot_be_are_refused() -> None:
    with pytest.raises(EvenflowError, match="one above 0 for each"):
        Cluster(3, 1, 0.001, (1.0, 0.0, 1.0))


def test_windows_of_a_lane_end_a_part_of_an_interval_after_those_of_the_one_before() -> None:
    for seconds, lanes in ((2.5, 3), (1.0, 1), (0.7, 2)):
        timings = [Timing(seconds, lane, lanes) for lane in range(lanes)]
        assert {timing.interval for timing in timings} == {timings[0].interval}
        assert timings[0].interval == pytest.approx(seconds, abs=0.002)
        for lane, timing in enumerate(timings):
            start = timing.start(1e9)
            assert start >= 1e9
            assert round(1000 * start) % timing.tick == 0, "at a trigger of Spark's"
            assert round(1000 * (start - timings[0].start(1e9))) == lane * timing.tick


def test_lanes_run_all_trials_and_hand_on_the_first_ones_rates() -> None:
    lanes, seen = Lanes(5, most=2, phases=1, shares=True, stop=print), list[Any]()

    def trial(number: int, lane: int) -> None:
        lanes.teller(number)(0, 40.0 + number)
        seen.append((number, lane, lanes.told(0)))

    lanes.run(trial)
    assert sorted(number for number, *_ in seen) == list(range(5))
    assert {lane for _, lane, _ in seen} <= {0, 1}
    assert {rate for *_, rate in seen} == {40.0}
    assert Lanes(1, most=3, phases=1, shares=False, stop=print).told(0) is None


def test_a_trial_that_fails_ends_those_that_wait_for_it() -> None:
    began, stopped = list[int](), list[int]()
    lanes = Lanes(3, most=2, phases=1, shares=True, stop=lambda: stopped.append(1))

    def trial(number: int, lane: int) -> None:
        began.append(number)
        if number == 0:
            while 1 not in began:
                time.sleep(0.001)
            raise EvenflowError("the first one failed")
        with pytest.raises(EvenflowError):
            lanes.told(0)
        raise EvenflowError("the query was stopped")

    with pytest.raises(EvenflowError, match="the first one failed"):
        lanes.run(trial)
    assert sorted(began) == [0, 1], "the third one does not begin"
    assert stopped == [1]


def test_the_highest_stable_rate_is_found_from_any_guess() -> None:
    for limit in (0.7, 10.0, 31_415.0):
        for error in (0.3, 0.94, 0.97, 1.0, 1.01, 1.03, 1.06, 4.0):
            tried = list[tuple[float, ...]]()

            def stable(*rates: float, limit: float = limit, tried: Any = tried) -> list[bool]:
                tried.append(rates)
                return [rate <= limit for rate in rates]

            found = highest_stable(stable, error * limit)
            assert any(found in rates for rates in tried)
            assert limit / RESOLUTION <= found <= limit
            assert all(list(rates) == sorted(rates) for rates in tried)
            assert len(tried) <= (1 if abs(error - 1) < 0.04 else 8)


def test_a_stall_at_the_lower_of_some_rates_is_not_their_limit() -> None:
    tried = list[tuple[float, ...]]()

    def stable(*rates: float) -> list[bool]:
        tried.append(rates)
        return [False, True, False, False]

    assert highest_stable(stable, 100.0) == tried[0][1]


@pytest.mark.parametrize("answer", [True, False])
def test_a_rate_without_a_limit_is_one_sentence(answer: bool) -> None:
    with pytest.raises(EvenflowError, match="no limit was found near 100 messages per second"):
        highest_stable(lambda *rates: [answer for _ in rates], 100.0)


def test_messages_come_at_the_rate_of_their_window(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from evenflow.papers.deployments.paced_source import PacedReader, Part

    pace = Pace(1000.0, 2.0, (0, 5, 0, 3))
    pace.write(tmp_path)
    write_keys(tmp_path, np.array([7, 8, 9]))
    reader = PacedReader(tmp_path, sources=2)
    read = [pa.Table.from_batches(reader.read(Part(source, 0, 8))) for source in range(2)]
    assert read[0]["number"].to_pylist() == [0, 2, 4, 6]
    assert read[1]["number"].to_pylist() == [1, 3, 5, 7]
    assert read[1]["k"].to_pylist() == [8, 7, 9, 8]
    assert read[0]["created"].to_pylist() == pytest.approx([1002.2, 1003.0, 1003.8, 1007.0])
    whole = [pa.Table.from_batches(reader.read(Part(0, first, end))) for first, end in ((0, 3), (3, 8))]
    assert pa.concat_tables(whole) == read[0], "cut into two micro-batches"
    assert list(reader.read(Part(1, 6, 7))) == []
    assert [pace.created_by(1000 + seconds) for seconds in (0, 3.9, 4, 7.9, 8, 99)] == [0, 0, 5, 5, 8, 8]


def test_predicted_rates_follow_skew_speed_and_reports() -> None:
    """Two phases: equal workers, then one at a quarter of the speed; a scheme that hears leaves it."""
    pytest.importorskip("pyspark")
    messages = Messages.of("zipf:z=1.4,keys=1000,messages=20000,seed=1")
    share = np.bincount(messages.ids).max() / messages.messages
    phases = [[1.0] * 5, [0.25, 1.0, 1.0, 1.0, 1.0]]
    found = {
        name: predicted_rates(ef.scheme(name), messages, Cluster(5, 2, 0.01), 4.0, phases)
        for name in ("key", "shuffle", "fill", "consistent")
    }
    assert found["key"][0] <= 1.05 * 100 / share
    assert found["shuffle"] == pytest.approx([500, 125], rel=0.02)
    for name in ("fill", "consistent"):
        assert 430 < found[name][0] <= 500
        assert 300 < found[name][1] <= 425


def test_a_stream_is_compared_on_the_same_messages() -> None:
    """Two workers, of which one is twice as late; pairs and loads are those of the first messages alone."""
    messages = Messages(np.array([0, 0, 1, 0], np.int32))
    trial = Trial(Cluster(2, 1, 0.01), messages, 2.0, {"": [1.0, 1.0]}, "PKG", "partial-key", {})
    numbers = np.arange(12)
    workers = numbers % 2
    trial.served = Served(
        numbers // 4, workers, numbers % 3, numbers, numbers / 4.0, numbers / 4.0 + 1 + workers + numbers // 8
    )
    trial.empty_seconds, trial.empty = 0.2, Level(0.0, "own", 2.0, 0, 4)
    levels = [Level(0.95, "own", 142.5, 6, 12, windows=2), Level(0.5, "own", 75.0, 0, 6)]
    trial.phases = [Phase("", 150.0, 160.0, levels, 12)]
    high, low = trial.rows(same=6)
    assert (high["pairs"], high["keys"], high["memory"], high["max_over_mean"]) == (6, 3, 2, 1)
    assert (high["empty_share"], high["floor_mean"], high["throughput"]) == (0.1, 1.5, 150)
    assert (low["load"], low["latency_mean"], low["latency_worker"]) == (0.5, 1.5, 2)
    assert low["late"] == 0
    assert high["latency_mean"] == pytest.approx((1 + 2 + 4 * 2.5) / 6)
    assert high["late"] == pytest.approx((5.75 - (2.75 + 1 / 3 + 2)) / 2), "two windows of 3 messages"


class PacedFlow:
    """A stream without Spark: its micro-batches take ``empty`` and so many seconds per message, or stall.

    ``stalls`` are seconds more, by the number of the micro-batch.
    """

    def __init__(self, pace: float, stalls: dict[int, float], empty: float = 0.2, interval: float = 2.0):
        self.pace, self.stalls, self.empty, self.interval = pace, stalls, empty, interval
        self.batches: list[Batch] = []
        self.sent = 0
        self._parts: list[tuple[Any, ...]] = []

    def run(self, *counts: int) -> list[Batch]:
        delay, known = 0.0, len(self.batches)
        for messages in counts:
            number = len(self.batches)
            seconds = self.empty + self.pace * messages + self.stalls.get(number, 0.0)
            numbers = self.sent + np.arange(messages)
            part = (np.arange(messages) + 0.5) / messages
            start = 100.0 * (known + 1) + self.interval * (number - known)
            end = start + self.interval + delay
            self._parts.append((numbers, start + part * self.interval, end + part * seconds))
            delay = max(0.0, delay + seconds - self.interval)
            self.sent += messages
            self.batches.append(Batch(number, seconds, messages, messages, self.sent, delay or -0.1))
        return self.batches[known:]

    def served(self) -> Served:
        numbers, created, finished = map(np.concatenate, zip(*self._parts, strict=True))
        zeros = np.zeros(numbers.size, np.int64)
        return Served(zeros, zeros, zeros, numbers, created, finished)


def _latencies(flow: PacedFlow, rates: list[tuple[float, str, float]]) -> list[dict[str, Any]]:
    """Let messages come at these rates as a trial does, whose micro-batches took 0.01 s per message."""
    trial = _trial(flow)
    levels = trial._levels(flow, rates)  # type: ignore[arg-type]
    trial.phases, trial.served = [Phase("", 90.0, 90.0, levels, flow.sent)], flow.served()
    return trial.rows(flow.sent)


def _trial(flow: PacedFlow) -> Trial:
    """Return a trial whose micro-batches took 0.01 s per message, after two windows without work."""
    messages = Messages(np.array([0, 1], np.int32))
    trial = Trial(Cluster(1, 1, 0.01), messages, 2.0, {"": [1.0]}, "PKG", "partial-key", {}, predicted=[90.0])
    flow.run(10, 10)
    trial.empty, trial.empty_seconds, trial.least = Level(0.0, "own", 5.0, 10, 20), 0.2, 0.01
    return trial


_RATES = [(0.5, "own", 45.0), (0.8, "own", 72.0), (0.95, "own", 85.5)]


def test_a_rate_that_a_stall_made_late_is_measured_again_and_then_counts() -> None:
    for stalled, again in (
        ({}, [0, 0, 0]),
        ({3: 2.0}, [0, 1, 2]),
        ({4: 1.0}, [0, 0, 2]),
        ({5: 1.0}, [0, 0, 2]),
    ):
        rows = _latencies(PacedFlow(0.01, stalled), _RATES)
        assert [row["again"] for row in rows] == again, "with what waited behind it"
        assert [row["late"] for row in rows] == [0, 0, 0]
        found = judge(no_growth(), rows)
        assert found.verdict == HOLDS
        assert f"{sum(windows > 0 for windows in again)} of 3 rates measured again" in found.measured


def test_a_rate_above_the_capacity_is_late_however_often_it_is_measured() -> None:
    """Twice as slow as the paces so far: all get more chances, and latency grows in them as well."""
    rows = _latencies(PacedFlow(0.02, {}), _RATES)
    assert [row["again"] for row in rows] == [0, 1, 2]
    assert [row["late"] > 0.2 for row in rows] == [False, True, True]
    found = judge(no_growth(), rows)
    assert (found.verdict, "2 of 3 rates measured again" in found.measured) == (DIFFERS, True)
    for stalls, verdict in ((2, HOLDS), (3, DIFFERS)):
        rows = _latencies(PacedFlow(0.01, {4 + 2 * stall: 1.0 for stall in range(stalls)}), _RATES)
        assert judge(no_growth(), rows).verdict == verdict, "there are three chances"


def test_a_throughput_that_later_messages_are_too_hard_for_is_lowered() -> None:
    """When latency is measured, a message takes twice the time: another key of the stream heats up."""
    flow = PacedFlow(0.01, {})
    trial = _trial(flow)
    flow.pace = 0.02
    found = trial._phase(flow, 0, "", 90.0, LOADS, 150.0)  # type: ignore[arg-type]
    assert found.lowered == 1
    assert found.capacity == pytest.approx(45.0)
    assert [(level.load, level.of) for level in found.levels] == [
        (0.5, "own"),
        (0.8, "own"),
        (0.95, "own"),
        (0.95, "KG"),
    ]
    trial.phases, trial.served = [found], flow.served()
    rows = trial.rows(flow.sent)
    assert [row["late"] > 0 for row in rows] == [False, False, False, True], "KG's rate stays what it was"
    assert judge(no_growth(), rows).verdict == HOLDS
    assert "1 throughputs lowered" in judge(no_growth(), rows).measured


def test_a_rate_that_is_late_as_the_paces_explain_is_not_measured_again() -> None:
    """Key grouping's rate may be above a scheme's own: it is shown as late, and not of its throughput."""
    rows = _latencies(PacedFlow(0.01, {}), [*_RATES[:2], (0.95, "KG", 120.0)])
    assert [row["again"] for row in rows] == [0, 0, 0]
    assert rows[-1]["late"] > 0.2
    assert judge(no_growth(), rows).verdict == HOLDS
    assert "of 2 rates" in judge(no_growth(), rows).measured


def test_all_queries_that_began_at_once_wait_for_each_other() -> None:
    lanes, found = Lanes(5, most=3, phases=1, shares=False, stop=print), list[float]()

    def trial(number: int, lane: int) -> None:
        lanes.largest(number)
        found.append(lanes.largest(number, float(number)))

    lanes.run(trial)
    assert sorted(found) == [2, 2, 2, 3, 4], "those that begin later have their own"


def test_a_trial_that_fails_ends_those_that_wait_for_all() -> None:
    lanes = Lanes(2, most=2, phases=1, shares=False, stop=print)

    def trial(number: int, lane: int) -> None:
        if number:
            raise EvenflowError("the second one failed")
        with pytest.raises(EvenflowError, match="another one failed"):
            lanes.largest(number)

    with pytest.raises(EvenflowError, match="the second one failed"):
        lanes.run(trial)


def test_an_interval_does_not_follow_one_slow_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty micro-batch of 24 s doubles the interval; the queries then find it as it is."""
    pytest.importorskip("pyspark")
    from evenflow.papers.deployments import lanes, streamed

    monkeypatch.setattr(lanes, "_EMPTY", [])
    lanes.remember(Cluster(8, 4, 0.01), 24.0)
    used = list[float]()

    def run_all(spark: Any, trials: list[Trial], count: int, last: bool) -> None:
        used.append(trials[0].interval)
        empty = 24.0 if len(used) == 1 else 0.33
        for trial in trials:
            trial.empty_seconds = empty
        if (longer := lanes.longer_interval(trials[0].interval, empty)) is not None and not last:
            raise streamed.ShortIntervalError(longer)
        raise EvenflowError("far enough")

    monkeypatch.setattr(streamed, "_run_all", run_all)
    monkeypatch.setattr(streamed, "active_session", lambda: None)
    monkeypatch.setattr(streamed, "room", lambda spark, cluster: 1)
    with pytest.raises(EvenflowError, match="far enough"):
        streamed.deployed(Messages(np.array([0], np.int32)), Cluster(8, 4, 0.01), 2.5, [("KG", "key", {})])
    assert used == [5.0, 10.0]
    lanes.remember(Cluster(8, 4, 0.01), 0.36)
    assert lanes.first_interval(None, None, Cluster(16, 4, 0.01), 2.5, 1) == pytest.approx(5.0)  # type: ignore[arg-type]
    assert lanes.first_interval(None, None, Cluster(8, 4, 0.01), 2.5, 1) == pytest.approx(3.0)  # type: ignore[arg-type]


def test_messages_cost_what_was_set_for_their_number(tmp_path: Path) -> None:
    write_service(tmp_path, {0: np.zeros(2), 300: np.array([0.1, 0.2]), 500: np.array([3.0, 4.0])})
    found = [read_service(tmp_path, 1, number) for number in (0, 299, 300, 499, 500, 900)]
    assert found == [0, 0, 0.2, 0.2, 4, 4]


def test_queries_with_owners_are_judged_by_what_they_measured() -> None:
    """Consistent hashing is out of tolerance, placed keys are not; every plan gained more than it moved."""
    claims = {claim.text: claim for claim in find(["functions/fig6"], "spark")[0].claims}
    even = {"state": 1.1, "computation": 1.2, "communication": 1.1, "adopted": 1, "gain": 0.3, "missed": 0.4}
    rows: list[dict[str, Any]] = []
    for approach, imbalance, migration in (
        ("key", 1.2, 3.0), ("consistent-hash", 1.3, 0.8), ("scan", 0.9, 1.1), ("redist", 0.9, 1.0),
        ("readj", 0.95, 1.2), ("fill", 0.92, 0.9),
    ):  # fmt: skip
        for workers in (4, 5, 6):
            moved = {"migration": migration} if workers > 4 else {}
            rows.append({"approach": approach, "z": 0.5, "workers": workers, "imbalance": imbalance, **even,
                         "paid": 0.2, **moved})  # fmt: skip
    assert {judge(claim, rows).verdict for claim in claims.values()} == {HOLDS}
    for column, value, text in (
        ("paid", 0.5, "a new function is adopted if it gains more than it migrates"),
        ("migration", 4.0, "the others are close to the ideal migration up to z = 0.8"),
        ("imbalance", 0.8, "consistent hashing is the first to violate the balance constraint"),
        ("communication", 2.0, "where keys are placed one by one, all three resources are within tolerance"),
    ):
        worse = [row | ({column: value} if column in row else {}) for row in rows]
        assert judge(claims[text], worse).verdict == DIFFERS, text


def test_apps_are_judged_by_what_they_hold_and_how_right_they_are() -> None:
    claims = {claim.text: claim for claim in find(["heterogeneous/section8"], "spark")[0].claims}
    rows = [
        {"app": app, "label": label, "load": 0.95, "of": "own", "throughput": throughput, "held": held}
        | ({"error": held / 1e4} if app == "heavy-hitters" else {"right": 0.9})
        for app in ("naive-bayes", "decision-tree", "heavy-hitters")
        for label, throughput, held in (("KG", 30.0, 10), ("CG", 95.0, 30), ("SG", 100.0, 100))
    ]
    kept = [text for text in claims if text.startswith(("CG", "while", "classifiers"))]
    assert len(kept) == 4
    assert {judge(claims[text], rows).verdict for text in kept} == {HOLDS}
    worse = [
        row | {"held": 100, "error": 0.02, "throughput": 30.0} if row["label"] == "CG" else row
        for row in rows
    ]
    worse[0] = worse[0] | {"right": 0.8}
    assert HOLDS not in {judge(claims[text], worse).verdict for text in kept}


def _rows(**throughput: float) -> list[dict[str, Any]]:
    unit = throughput["KG"]
    return [
        {
            "label": label,
            "scheme": "key" if label == "KG" else label,
            "z": 2.0,
            "throughput": value,
            "latency_p99": 1 / value,
            "of_key": value / unit,
            "predicted_of_key": 1.0 if label == "KG" else 10.0,
        }
        for label, value in throughput.items()
    ]


def test_what_must_hold_is_judged_at_its_limit() -> None:
    near = near_shuffle("FISH")
    assert judge(near, _rows(KG=1.0, SG=10.0, FISH=9.1)).verdict == HOLDS
    assert judge(near, _rows(KG=1.0, SG=10.0, FISH=8.9)).verdict == DIFFERS
    assert judge(near, _rows(KG=1.0, SG=10.0)).verdict == UNTESTED
    assert judge(near_prediction(), _rows(KG=1.0, SG=10.0, FISH=7.1)).verdict == HOLDS
    found = judge(near_prediction(), _rows(KG=1.0, SG=10.0, FISH=6.9))
    assert (found.verdict, "0.69" in found.measured, "FISH" in found.measured) == (DIFFERS, True, True)
    assert judge(near_prediction(), _rows(KG=1.0, SG=10.0, FISH=14.2)).verdict == HOLDS
    found = judge(near_prediction(), _rows(KG=1.0, SG=10.0, FISH=14.4))
    assert (found.verdict, "1.44" in found.measured) == (DIFFERS, True), "too good is no prediction, either"
    assert judge(little_overhead(), [{"empty_share": 0.149}, {"empty_share": 0.01}]).verdict == HOLDS
    assert judge(little_overhead(), [{"empty_share": 0.151}, {"empty_share": 0.01}]).verdict == DIFFERS
    at = {"rate": 95.0, "throughput": 100.0, "again": 0}
    assert judge(no_growth(), [at | {"late": 0.049}, at | {"late": 0.0}]).verdict == HOLDS
    assert judge(no_growth(), [at | {"late": 0.051}, at | {"late": 0.0}]).verdict == DIFFERS
    above = at | {"rate": 99.0, "late": 0.5, "of": "KG"}
    assert judge(no_growth(), [at | {"late": 0.0}, above]).verdict == HOLDS, "it is not of the throughput"


def test_papers_best_cases_are_claims_with_margins() -> None:
    table = Table.of_rows(_rows(KG=1.0, SG=2.3))
    assert best_times("throughput", "SG", "KG", "z", paper=2.3)(table).verdict == HOLDS
    assert best_times("throughput", "SG", "KG", "z", paper=1.5)(table).verdict == DIRECTION
    assert best_times("throughput", "KG", "SG", "z", paper=1.5)(table).verdict == DIFFERS
    assert best_cut("latency_p99", "SG", "KG", "z", 0.6)(table).verdict == HOLDS
    assert best_cut("latency_p99", "SG", "KG", "z", 0.9)(table).measured == "-57%"


def test_a_workers_speed_is_judged_by_its_slowest_and_fastest_batch() -> None:
    rows = [{"worker": 0, "batch": b, "seconds": s} for b, s in enumerate((1.0, 1.02, 0.99))]
    (claim,) = find(["evolving/fig4"], "spark")[0].claims
    assert judge(claim, rows).verdict == HOLDS
    assert judge(claim, [*rows, {"worker": 0, "batch": 3, "seconds": 2.0}]).verdict == DIFFERS


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_every_deployment_can_be_run(scale: str) -> None:
    setting = RunConfig(scale, data_sets(), ("two-choices",), master="local[3]")
    for experiment in find([], "spark"):
        assert experiment.on == "spark"
        for point in experiment.points(setting):
            json.dumps(point)
            assert point["master"] == "local[3]"
            if "subjects" in point:
                schemes = [ef.scheme(name, **parameters) for _, name, parameters in point["subjects"]]
                names = [scheme.name for scheme in schemes]
                assert {"fill", "shuffle", "key", "two-choices"} <= set(names), experiment.name
            for _, text in point.get("approaches", []):
                assert Ownership.start(as_scheme(text), 4).workers == 4, text
    assert slots_for(find([], "spark"), setting) == (120 if scale == "small" else 150)
    assert [experiment.name for experiment in find(["choices/fig13"], "spark")] == ["choices/fig13"]
    with pytest.raises(EvenflowError, match="there is no figure 'functions/fig1'"):
        find(["functions/fig1"], "spark")


def test_the_page_shows_gates_claims_and_numbers(tmp_path: Path) -> None:
    [experiment] = find(["choices/fig13"], "spark")
    rows = []
    same = {"workers": 8, "sources": 2, "empty_seconds": 0.5, "empty_share": 0.1, "late": 0.06}
    same |= {"machine_load": 1.26, "interval": 5.0, "rate": 0.5, "again": 0, "attempts": 2}
    for row in _rows(KG=1.0, PKG=2.0, SG=10.0, **{"D-C": 9.9, "W-C": 9.9}, FISH=9.8, fill=9.7):
        rows += [row | same | {"z": z} for z in (1.4, 1.7, 2.0)]
    outcome = Outcome(rows={experiment.name: rows})
    outcome.claims = [claim_row(experiment, claim, rows) for claim in experiment.claims]
    assert {claim["on"] for claim in outcome.claims} == {"spark"}
    assert [claim["verdict"] for claim in gates(outcome.claims)] == [HOLDS, DIFFERS, HOLDS, DIFFERS]
    write_deployments(outcome, [experiment], tmp_path / "page.md", "small")
    page = (tmp_path / "page.md").read_text()
    assert "fill 0.970" in page
    assert (
        "z = 1.7, 8 workers, 2 sources; interval 5.00 s, after 1 that was too short, empty run 0.50 to "
        "0.50 s, at most 10.0% of it; load of the machine 1.3 to 1.3:" in page
    )


def test_options_that_do_not_fit_are_refused() -> None:
    runner = CliRunner()
    for options, words in (
        (["--on", "storm"], "--on is 'storm'"),
        (["--master", "local[2]"], "add --on spark"),
        (["nothing/fig1", "--on", "spark"], "there is no figure"),
    ):
        found = runner.invoke(main, ["reproduce", *options])
        assert found.exit_code != 0
        assert words in str(found.exception) + found.output
    listed = runner.invoke(main, ["reproduce", "--on", "spark", "--list", "--json"])
    assert len(json.loads(listed.output)) == len(find([], "spark"))


def test_a_setting_of_the_simulator_has_no_master() -> None:
    assert find(["choices/fig13"])[0].on == "simulator"
    point = find(["evolving/fig4"], "spark")[0].points(RunConfig())[0]
    assert point["master"] is None


def test_the_figures_of_dynamic_exist_from_topic_to_topic_too() -> None:
    on_topics, on_files = find(["dynamic"], "topics"), find(["dynamic"], "spark")
    assert [figure.name for figure in on_topics] == [figure.name for figure in on_files]
    config = RunConfig(data=data_sets(given={}))
    for here, there in zip(on_topics, on_files, strict=True):
        assert [claim.text for claim in here.claims] == [claim.text for claim in there.claims]
        assert here.measure is not there.measure, "their points are kept apart"
        assert len(here.points(config)) == len(there.points(config))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--kafka", "localhost:9092"], "--kafka is 'localhost:9092' without a deployment; add --on spark"),
        (["--on", "spark", "--packages", "a:b:1"], "--packages is 'a:b:1' without a deployment"),
        (["choices", "--on", "spark", "--kafka", "localhost:9092"], "there is no figure 'choices'"),
        (["--on", "spark", "--kafka", "localhost"], "'localhost' is not a broker; write HOST:PORT"),
    ],
)
def test_a_broker_for_what_is_not_deployed_is_refused(options: list[str], sentence: str) -> None:
    done = CliRunner().invoke(main, ["reproduce", *options])
    assert done.exit_code == 2
    assert sentence in done.output
