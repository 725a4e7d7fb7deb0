"""The history of a query: read as it grows, whatever is in the log, in bounded memory."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenflow as ef
from evenflow.charts.assets import as_json
from evenflow.control.directory import Control
from evenflow.control.notes import HISTORY, LOG, MAX_LOG_BYTES, ROTATED_LOG
from evenflow.control.record import MAX_EVENTS, MAX_RECORDS
from evenflow.history.query import BARS, POINTS, QueryHistory
from evenflow.history.tail import Tail
from evenflow.history.watch import Watched
from evenflow.plan import make_plan
from history.notes import batch_note, write_log


def only(watched: Watched) -> QueryHistory:
    (history,) = watched.histories()
    return history


def test_every_note_is_read_once_across_rotations(tmp_path: Path) -> None:
    control, tail, seen = Control(tmp_path), Tail(tmp_path), []
    for number in range(200):
        control.note("n", number=number, text="x" * 3000)
        if number % 7 == 0 or number > 190:
            seen += [note["number"] for note in tail.read()]
    assert (tmp_path / ROTATED_LOG).exists()
    assert seen == list(range(200))
    assert list(tail.read()) == []


def test_a_line_that_is_being_written_waits_and_damage_is_skipped(tmp_path: Path) -> None:
    tail = Tail(tmp_path)
    whole = json.dumps({"event": "n", "number": 1})
    (tmp_path / LOG).write_text('{"event": "cut\n[1, 2]\n\x00\x01\n' + whole[:10])
    assert list(tail.read()) == []
    with (tmp_path / LOG).open("a") as log:
        log.write(whole[10:] + "\n" + "[" * 100_000 + "\n")
    assert [note["number"] for note in tail.read()] == [1]
    (tmp_path / LOG).write_text(whole + "\n")  # replaced by a shorter one
    assert [note["number"] for note in tail.read()] == [1]


def test_what_is_rotated_away_is_kept_in_fewer_numbers(tmp_path: Path) -> None:
    control = Control(tmp_path)
    batches = 6000
    for number in range(batches):
        note = batch_note(number, workers=20)
        control.note(**{name: value for name, value in note.items() if name != "time"})
        if number % 1000 == 0:
            control.note("plan", operator="fill-1", batch=number, changed=True, reason="why", serial=number)
    kept = list(control.past())
    records = [note for note in kept if note["event"] == "past"]
    assert len(records) <= MAX_RECORDS
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 4 * MAX_LOG_BYTES
    watched = Watched(tmp_path)
    watched.poll()
    history = only(watched)
    assert history.totals["batches"] == batches  # none is lost, and none is there twice
    assert history.totals["rows"] == batches * 210
    assert history.records[-1]["batches"] == 1  # the recent past is fine
    assert history.records[0]["batches"] > 1  # the distant one is coarse
    assert {record["max_over_mean"] for record in history.records} == {round(20 * 20 / 210, 6)}
    assert [event.batch for event in history.events] == [0, 1000, 2000, 3000, 4000, 5000]


def test_events_are_bounded_too(tmp_path: Path) -> None:
    control = Control(tmp_path)
    for number in range(3000):
        control.note("plan", operator="a", batch=number, changed=True, reason="x" * 300)
    assert len(list(control.past())) <= MAX_EVENTS
    assert (tmp_path / HISTORY).stat().st_size < MAX_LOG_BYTES


@pytest.mark.parametrize(
    "damaged",
    [
        {"rows": "many"}, {"rows": [1, "x"]}, {"rows": []}, {"rows": None}, {"time": "noon"}, {"hot": 3},
        {"hot": [["a"]]}, {"hot": [{"key": 1}]}, {"hashed": [1]}, {"hashed": ["a"] * 4}, {"seconds": "long"},
        {"seconds": float("nan")}, {"busy": [1, None, 2, 3]}, {"keys": []}, {"batch": {}}, {"operator": []},
        {"late": 1e999}, {"state_bytes": True},
    ],
    ids=str,
)  # fmt: skip
def test_a_damaged_note_breaks_nothing(tmp_path: Path, damaged: dict[str, Any]) -> None:
    write_log(tmp_path, [batch_note(0), {**batch_note(1), **damaged}, batch_note(2)])
    watched = Watched(tmp_path)
    watched.poll()
    snapshot = only(watched).snapshot()
    assert json.loads(as_json(snapshot))["summary"]["batch"] == 2
    assert snapshot["summary"]["max_over_mean"] == 1.6
    assert snapshot["hot"][0]["home_count"] == 2
    write_log(tmp_path, [{**batch_note(3), **damaged}])  # the last one is damaged
    watched.poll()
    json.loads(as_json(only(watched).snapshot()))


def test_ten_megabytes_of_log_with_damage_are_read(tmp_path: Path) -> None:
    notes: list[Any] = [batch_note(number, workers=60) for number in range(20_000)]
    notes[10_000] = '{"event": "batch", "rows": [1, 2'
    notes[5_000] = "\ufffd" * 100
    write_log(tmp_path, notes)
    assert (tmp_path / LOG).stat().st_size > 10_000_000
    watched = Watched(tmp_path)
    watched.poll()
    assert only(watched).totals["batches"] == 20_000 - 2
    assert only(watched).summary()["batch"] == 19_999


def test_many_workers_and_batches_cost_a_page_no_more(tmp_path: Path) -> None:
    def snapshot_of(batches: int, workers: int) -> tuple[float, int, dict[str, Any]]:
        history = QueryHistory("q", "fill-1")
        note = batch_note(0)
        for number in range(batches - 1):
            history.add({**note, "batch": number})
        history.add(batch_note(batches - 1, workers=workers))
        taken = []
        for _ in range(5):
            start = time.process_time()
            snapshot = history.snapshot()
            taken.append(time.process_time() - start)
        return min(taken), len(as_json(snapshot)), snapshot

    few = snapshot_of(2 * POINTS, BARS)
    many = snapshot_of(100_000, 10_000)
    assert len(many[2]["history"]["time"]) <= POINTS
    assert len(many[2]["workers"]["rows"]) <= BARS
    assert many[2]["summary"]["workers"] == 10_000
    assert sum(many[2]["history"]["batches"]) == 100_000
    assert set(many[2]["history"]["batch_seconds"]) == {0.5}  # of one batch, however many a point covers
    assert many[1] < 1.5 * few[1]  # bytes that the browser gets
    assert many[0] < 20 * few[0]  # seconds: the last batch alone has fifty times the workers
    assert many[1] < 300_000
    bars = many[2]["workers"]
    assert bars["group"] == 50
    assert bars["rows"][:2] == [20, 10]  # the fullest of each group


def test_busy_seconds_belong_to_their_batch_and_last_run(tmp_path: Path) -> None:
    control, watched = Control(tmp_path), Watched(tmp_path)
    for run, seconds in (("a", 9.0), ("b", 1.0), ("b", 2.0)):
        control.note("busy", run=run, batch=7, worker=1, rows=5, seconds=seconds)
    control.note("busy", run="b", batch=7, worker=0, rows=5, seconds=4.0)
    control.note("batch", operator="fill-1", batch=7, rows=[3, 5], keys=1, pairs=1)
    assert watched.poll()
    assert only(watched).busy_list() == [4.0, 2.0]
    control.note("batch", operator="fill-1", batch=8, rows=[3, 5], keys=1, pairs=1)
    watched.poll()
    assert only(watched).busy_list() == []
    assert not watched.poll()


def test_a_worker_that_stays_slow_is_named(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    for number in range(4):
        seconds = [1.0, 1.0, 3.0, 1.0]
        write_log(tmp_path, [batch_note(number, rows=[100] * 4, busy=seconds)])
    watched.poll()
    assert only(watched).slow() == [{"worker": 2, "times_slower": 3.0}]
    write_log(tmp_path, [batch_note(4, rows=[100] * 4, busy=[1.0] * 4)])
    watched.poll()
    assert only(watched).slow() == []


def test_events_tell_what_moved_and_why(tmp_path: Path) -> None:
    control = Control(tmp_path)
    control.note("started", workers=3, batch=0, name="Vwap", run="r", query="q")
    control.note("batch", batch=0, rows=[1, 2, 3], keys=1, pairs=1)
    decisions = Control(tmp_path / "decisions")
    decisions.note(
        "decision", batch=1, adopted=True, reason="3 -> 5 workers: requested", workers_before=3,
        workers_after=5, b_after=1.01, relative={"state": 1.5},
    )  # fmt: skip
    decisions.note("decision", batch=1, adopted=False, reason="no", workers_before=5, workers_after=5)
    decisions.note(
        "migration", **{"batch": 2, "from": 3, "to": 5, "keys": 40, "bytes": 900, "state_keys": 100},
        part=0.4, ideal=0.4, relative_migration=1.0,
    )  # fmt: skip
    control.note("fallback", why="cannot read '/home/someone/secret/x.plan': gone")
    watched = Watched(tmp_path, "orders")
    watched.poll()
    history = only(watched)
    assert history.name == "orders: Vwap"
    assert history.kind == "state"
    titles = [event.title for event in history.events]
    assert titles == [
        "Started on 3 workers", "Fallback to hashing", "2 workers joining: 3 → 5", "Migration: 3 → 5 workers",
    ]  # fmt: skip
    assert "40 of 100 keys moved" in history.events[3].text
    assert history.events[2].numbers == {"state max/min": 1.5, "b after": 1.01}
    assert history.fallbacks == 1
    assert history.totals["migrations"] == 1
    shown = as_json(history.snapshot())
    assert "someone" not in shown
    assert str(tmp_path) not in shown


def test_a_query_that_ended_and_goes_on(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    write_log(tmp_path, [batch_note(0)])
    watched.poll()
    assert only(watched).summary()["status"] == "running"
    write_log(tmp_path, [{"time": 1.0, "event": "ended", "operator": "fill-1", "failed": "workers is 0."}])
    watched.poll()
    assert only(watched).summary()["status"] == "failed"
    write_log(tmp_path, [batch_note(1)])
    watched.poll()
    assert only(watched).summary()["status"] == "running"


def test_paths_of_all_kinds_are_found(tmp_path: Path) -> None:
    for folder in ("control", "state/_evenflow", "checkpoint/control"):
        write_log(tmp_path / folder, [batch_note(0)])
    for name in ("control", "state", "checkpoint"):
        watched = Watched(tmp_path / name)
        assert watched.poll()
        assert only(watched).name == f"{name}: fill-1"
    assert Watched(tmp_path / "state" / "_evenflow").name == "state"
    (tmp_path / "empty").mkdir()
    waiting = Watched(tmp_path / "empty")
    assert not waiting.poll()
    write_log(tmp_path / "empty", [batch_note(0)])
    assert waiting.poll()
    with pytest.raises(ef.EvenflowError, match="there is no folder at"):
        Watched(tmp_path / "nothing")


def test_the_plan_is_explained(tmp_path: Path) -> None:
    write_log(tmp_path, [batch_note(0)])
    watched = Watched(tmp_path)
    watched.poll()
    assert watched.explain(only(watched)).startswith("There is no plan")
    plan = make_plan(4, np.array([255], np.uint64), np.array([20]), total=50)
    header = {"serial": 1, "workers": 4, "plan": plan.to_json()}
    watched.control and watched.control.write("planned/fill-1.plan", "plan", header, {})
    assert watched.explain(only(watched)) == plan.explain(top=20)
