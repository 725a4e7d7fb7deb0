"""A run in parts: nothing finished is measured twice, and what changed is measured again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evenflow.papers import points
from evenflow.papers.experiment import DIFFERS, HOLDS, Claim, Experiment, RunConfig
from evenflow.papers.measures import measure_data
from evenflow.papers.page import stand_ins, write_markdown
from evenflow.papers.reproduce import Outcome, Part, reproduce
from evenflow.papers.rules import at_most, each, largest
from evenflow.papers.scales import changed, of_figure, read_summary, summary_beside, write_summary
from evenflow.papers.spread import spread
from extent import in_make_faults

FAKE = """
import os, signal
from pathlib import Path
from evenflow import papers
from evenflow.cli import main
from evenflow.papers.experiment import Claim, Experiment
from evenflow.papers.rules import at_most, largest

def measure(value):
    with Path("log").open("a") as log:
        log.write(f"{value} ")
    if value == 3 and not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)  # in the middle of a point
    return [{"value": value, "square": value * value}]

def figure(name, values):
    points = lambda config: [{"value": config.pick(0, 1) * value} for value in values]
    claims = (Claim("1", "squares are small", "16", at_most(largest("square"), 16)),)
    return Experiment("choices", name, "A title", "A caption", points, measure, None, claims)

papers.experiments = lambda paper=None, on="simulator": [figure("one", [1, 2, 3]), figure("two", [3, 4])]
main()
"""


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "fake.py").write_text(FAKE)
    program = [sys.executable, "fake.py", "reproduce", "--scale=paper", "--out=out", "--jobs=1", *arguments]
    return subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)


def test_killed_in_the_middle_it_goes_on_and_runs_nothing_twice(tmp_path: Path) -> None:
    assert _run(tmp_path, "--resume").returncode == -signal.SIGKILL
    assert (tmp_path / "log").read_text() == "1 2 3 "
    done = _run(tmp_path, "--resume", "--summary=page-paper.json")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "log").read_text() == "1 2 3 3 4 ", "only the point that was cut short runs again"
    assert not [file for file in (tmp_path / "out" / "points").iterdir() if file.suffix != ".json"]
    found = read_summary(tmp_path / "page-paper.json")
    assert {name: own["claims"][0]["verdict"] for name, own in found.items()} == {
        "choices/one": HOLDS,
        "choices/two": HOLDS,
    }
    assert all(own["dates"] and own["commits"] for own in found.values())


@pytest.mark.faults
@in_make_faults
def test_a_part_of_it_says_what_is_left(tmp_path: Path) -> None:
    (tmp_path / "killed").touch()
    first = _run(tmp_path, "--resume", "--only=choices/two", "--summary=s.json")
    assert first.returncode == 0, first.stderr
    assert (tmp_path / "log").read_text() == "3 4 "
    assert "choices/one 2 of 3" in first.stderr
    assert set(read_summary(tmp_path / "s.json")) == {"choices/two"}, "what is not finished is not judged"
    none = _run(tmp_path, "--resume", "--minutes=0")
    assert none.returncode == 0
    assert (tmp_path / "log").read_text() == "3 4 ", "the time is up at once"
    assert "choices/one 2 of 3" in none.stderr
    rest = _run(tmp_path, "--resume", "--minutes=50")
    assert (tmp_path / "log").read_text() == "3 4 1 2 "
    assert "left" not in rest.stderr.splitlines()[-1]
    assert _run(tmp_path, "--minutes=-1").returncode == 2


CALLS: Counter[int] = Counter()


def _measure(value: int) -> list[dict[str, Any]]:
    CALLS[value] += 1
    return [{"value": value}]


def _other_measure(value: int) -> list[dict[str, Any]]:
    CALLS[value] += 100
    return [{"value": value}]


def _experiment(**more: Any) -> Experiment:
    claims = (Claim("1", "small", "2", at_most(largest("value"), 2)),)
    points = lambda config: [{"value": value} for value in (1, 2)]  # noqa: E731
    return Experiment("choices", "one", "A title", "A caption", points, _measure, None, claims, **more)


def test_what_changed_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CALLS.clear()
    resumed = Part(resume=True)

    def run(experiment: Experiment, part: Part) -> int:
        CALLS.clear()
        outcome = reproduce([experiment], RunConfig(), tmp_path, part=part)
        assert not outcome.failures
        return CALLS.total()

    assert run(_experiment(), resumed) == 2
    assert run(_experiment(), resumed) == 0
    assert run(_experiment(version=2), resumed) == 2, "another version"
    _other_measure.__qualname__, _other_measure.__module__ = _measure.__qualname__, _measure.__module__
    assert run(replace(_experiment(), measure=_other_measure), resumed) == 200, (
        "the measurement itself changed"
    )
    assert run(replace(_experiment(), measure=_other_measure), resumed) == 0
    monkeypatch.setattr(points, "source_digest", lambda: "other sources")
    assert run(replace(_experiment(), measure=_other_measure), resumed) == 0, "resumed: other commits count"
    assert run(replace(_experiment(), measure=_other_measure), Part()) == 200, "a run of its own: they do not"


def test_a_damaged_point_is_measured_again(tmp_path: Path) -> None:
    reproduce([_experiment()], RunConfig(), tmp_path)
    for file, text in zip((tmp_path / "points").iterdir(), ("{}", '{"rows": ['), strict=True):
        file.write_text(text)
    CALLS.clear()
    assert not reproduce([_experiment()], RunConfig(), tmp_path).failures
    assert CALLS.total() == 2


def test_both_scales_stand_side_by_side(tmp_path: Path) -> None:
    experiment = _experiment()
    page = tmp_path / "page.md"
    small = reproduce([experiment], RunConfig(), tmp_path)
    write_markdown(small, [experiment], page, "small")
    alone = page.read_text()
    assert "at paper scale" not in alone
    assert summary_beside(page) == tmp_path / "page-paper.json"
    large = Outcome(made={experiment.name: {"dates": ["2026-01-01", "2026-01-02"], "commits": ["abc"],
                                            "seconds": 90.0}})  # fmt: skip
    large.claims = [
        dict(small.claims[0]) | {"measured": "7", "verdict": DIFFERS, "spread": "2 seeds: 6 to 8"}
    ]
    write_summary(large, [experiment], summary_beside(page))
    write_markdown(small, [experiment], page, "small")
    text = page.read_text()
    assert "2026-01-01 to 2026-01-02, commit abc, 1.5 processor minutes" in text
    assert "7 (2 seeds: 6 to 8): **differs**" in text
    assert "| choices/one | small | holds | differs |" in text
    assert "1 of 1 figures have also been measured" in text
    assert "Not measured there" not in text
    kept = read_summary(summary_beside(page))
    assert changed(small, [experiment], kept)[0]["paper"] == DIFFERS
    alike = {experiment.name: kept[experiment.name] | {"claims": [kept[experiment.name]["claims"][0] | {
        "verdict": HOLDS}]}}  # fmt: skip
    assert changed(small, [experiment], alike) == [], "the same verdict at both scales"
    assert of_figure(kept, replace(experiment, version=2)) is None, "of another version: not shown"
    write_markdown(small, [experiment], page, "small")
    assert page.read_text() == text
    other = replace(experiment, figure="two")
    both = reproduce([experiment, other], RunConfig(), tmp_path)
    empty = Outcome(made={other.name: {"dates": [], "commits": [], "seconds": 0.0}})
    write_summary(empty, [other], summary_beside(page))
    write_markdown(both, [experiment, other], page, "small")
    assert "1 of 2 figures" in page.read_text(), "a figure without points was not measured"
    assert "commit. Not measured there: choices/two.\n\nClaims" in page.read_text()


def test_the_spread_is_that_of_each_seed_alone() -> None:
    number = Claim("1", "c", "2", at_most(largest("x"), 2, text="{:.1f}x"))
    rows = [{"seed": 1, "x": 1.0}, {"seed": 2, "x": 3.0}, {"seed": 3, "x": 2.0}]
    assert spread(number, rows) == "3 seeds: 1.0x to 3.0x; 2 holds, 1 differs"
    assert spread(number, [row | {"x": 1.5} for row in rows]) == "3 seeds: 1.5x"
    assert spread(number, rows[:1]) == ""
    assert spread(number, [{"x": 1.0}, {"x": 2.0}]) == ""
    checks = Claim("1", "c", "2", each(lambda t: t["x"] < 2.5, "of them"))
    assert spread(checks, rows) == "3 seeds: 2 holds, 1 differs"
    common = [*rows, {"x": 9.0}]
    assert spread(number, common) == "3 seeds: 9.0x", "rows without a seed belong to all"
    json.dumps(spread(number, rows))


def test_the_table_of_streams_has_the_papers_numbers_and_ours() -> None:
    def row(data: str, p1: float) -> dict[str, Any]:
        counted = {"messages": 2_000_000, "keys": 1000, "hottest": 3, "p1_within": 0.07}
        return {"data": data, "p1": p1, **counted}

    rows = [row("CT", 0.05), row("CT-made", 0.03), row("country-skew-r10", 0.1), {"data": "WP", "p1": 1.0}]
    lines = stand_ins(Outcome(rows={"choices/table1": rows})).splitlines()
    assert len(lines) == 4, "no countries, and only streams that were counted"
    for line, name, p1 in zip(lines[2:], ("CT", "CT-made"), ("5.00%", "3.00%"), strict=True):
        paper = f"| {name} | 0.69 M | 238 | 3.29% | drifts |"
        assert line == f"{paper} 2 M | 2,000 | {p1} | 3 of 10, 7.00% |"
    assert stand_ins(Outcome()) == ""


def test_drift_is_counted() -> None:
    still = measure_data("a", "zipf:z=1.5,keys=100,messages=10000,seed=1")[0]
    moving = measure_data("b", "drift:z=0.5,keys=100,messages=10000,share=0.5,steps=10,seed=1")[0]
    assert (still["hottest"], moving["hottest"]) == (1, 10)
    assert still["p1_within"] == pytest.approx(still["p1"], rel=0.05)
    assert moving["p1_within"] == pytest.approx(0.5, abs=0.05)
    assert moving["p1"] < 0.1


def test_other_seconds_do_not_change_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"

    def written(experiment: Experiment, measured: str, verdict: str = HOLDS) -> str:
        outcome = reproduce([experiment], RunConfig(), tmp_path)
        outcome.claims = [claim | {"measured": measured, "verdict": verdict} for claim in outcome.claims]
        write_markdown(outcome, [experiment], page, "small")
        return page.read_text()

    timed = _experiment(timed=True)
    first = written(timed, "0.5 s")
    assert written(timed, "0.7 s") == first
    assert "0.5 s" in first
    assert "0.9 s" in written(timed, "0.9 s", DIFFERS), "another verdict is another line"
    assert "0.8 s" in written(_experiment(), "0.8 s"), "a number that is no time"
