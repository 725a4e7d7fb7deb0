"""The runner: it resumes, isolates failures, judges by rules, and writes everything where it says."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import evenflow as ef
from evenflow import papers
from evenflow.cli import main
from evenflow.papers import PAPERS, experiments, find
from evenflow.papers.data import GENERATED, data_sets, described
from evenflow.papers.experiment import (
    DIFFERS,
    DIRECTION,
    HOLDS,
    UNTESTED,
    Claim,
    Experiment,
    Judgement,
    RunConfig,
    judge,
)
from evenflow.papers.page import summary, write_html, write_markdown
from evenflow.papers.reproduce import reproduce
from evenflow.papers.rules import Rule, at_least, at_most, each, near
from evenflow.papers.table import Table
from extent import in_make_faults

CALLS: list[int] = []
PROGRAM = [sys.executable, "-c", "from evenflow.cli import main; main()", "reproduce"]


def _measure(value: int) -> list[dict[str, Any]]:
    CALLS.append(value)
    if value < 0:
        raise ValueError("a point that cannot be measured")
    return [{"value": value, "square": value * value}]


def _plot(figure: Any, rows: Any) -> None:
    figure.subplots().plot([row["value"] for row in rows], [row["square"] for row in rows])


def _experiment(figure: str, values: list[int], **more: Any) -> Experiment:
    claims = (
        Claim("1", "squares grow <fast>", "9", at_most(lambda t: t["square"].iloc[-1], 9)),
        Claim("2", "a point that nobody measured", "1", at_most(lambda t: t["missing"].iloc[0], 1)),
    )
    defaults: dict[str, Any] = {"measure": _measure, "plot": _plot, "claims": claims}
    return Experiment(
        "choices",
        figure,
        "A title",
        "A caption",
        lambda setting: [{"value": v} for v in values],
        **defaults | more,
    )


def test_a_run_writes_keeps_and_resumes(tmp_path: Path) -> None:
    CALLS.clear()
    experiment, other = _experiment("one", [1, 2, 3]), _experiment("other", [3, 4])
    outcome = reproduce([experiment, other], RunConfig(), tmp_path)
    assert sorted(CALLS) == [1, 2, 3, 4], "a point that two figures need is measured once"
    assert not outcome.failures
    assert (tmp_path / "choices-one.csv").read_text().splitlines()[0] == "value,square"
    assert (tmp_path / "choices-one.png").stat().st_size > 1000
    claims = json.loads((tmp_path / "claims.json").read_text())
    assert [claim["verdict"] for claim in claims] == [HOLDS, UNTESTED, DIFFERS, UNTESTED]
    assert set(claims[0]) >= {
        "paper",
        "figure",
        "section",
        "claim",
        "expected",
        "measured",
        "verdict",
        "note",
    }
    reproduce([experiment, _experiment("other", [3, 4, 5])], RunConfig(), tmp_path)
    assert sorted(CALLS) == [1, 2, 3, 4, 5], "what was kept is not measured again"


def test_a_failing_figure_does_not_stop_the_others(tmp_path: Path) -> None:
    outcome = reproduce([_experiment("bad", [1, -1]), _experiment("good", [2])], RunConfig(), tmp_path)
    assert "cannot be measured" in outcome.failures["choices/bad"]
    assert outcome.rows["choices/good"] == [{"value": 2, "square": 4}]
    page = write_html(outcome, [_experiment("bad", [1]), _experiment("good", [2])], tmp_path, "small")
    text = page.read_text(encoding="utf-8")
    assert "squares grow &lt;fast&gt;" in text
    assert "data:image/png;base64," in text
    assert "://" not in text, "the page works offline"
    HTMLParser().feed(text)
    links = re.findall(r'href="([^"]+)"', text)
    assert "#choices/good" in links
    assert "choices-good.csv" in links
    for link in links:
        assert f'id="{link[1:]}"' in text if link.startswith("#") else (tmp_path / link).is_file()
    both = [_experiment("bad", [1]), _experiment("good", [2])]
    write_markdown(outcome, both, tmp_path / "page.md", "small")
    text = (tmp_path / "page.md").read_text()
    assert "| 1 | squares grow <fast> | 9 |  | 4 | **holds** |" in text
    assert "Failed in this run." in text


def _verdict(rule: Rule) -> str:
    return rule(Table()).verdict


def test_rules() -> None:
    assert _verdict(at_most(lambda t: 1, 1)) == HOLDS
    assert _verdict(at_most(lambda t: 2, 1, loosely=2)) == DIRECTION
    assert _verdict(at_most(lambda t: 3, 1, loosely=2)) == DIFFERS
    assert _verdict(at_least(lambda t: 3, 2)) == HOLDS
    assert _verdict(at_least(lambda t: 1, 2, loosely=1)) == DIRECTION
    assert _verdict(near(lambda t: 2.1, 2, within=0.1)) == HOLDS
    assert _verdict(near(lambda t: 1.3, 2, within=0.1, beyond=1)) == DIRECTION
    assert _verdict(near(lambda t: 1.2, 2, within=0.1, beyond=1)) == DIFFERS  # a quarter of the effect
    assert _verdict(near(lambda t: 0.9, 2, within=0.1, beyond=1)) == DIFFERS
    assert _verdict(each(lambda t: [True] * 3 + [False], "x")) == DIRECTION
    assert _verdict(each(lambda t: [], "x")) == UNTESTED
    with pytest.raises(ef.EvenflowError, match="not a verdict"):
        judge(Claim("1", "c", "e", lambda table: Judgement("maybe", "")), [{}])
    assert judge(Claim("1", "c", "e", at_most(lambda t: 2, 1), why="so"), [{}]).note == "so"
    assert summary([{"verdict": HOLDS}, {"verdict": DIFFERS}, {"verdict": HOLDS}]) == "2 holds, 1 differs"


def test_every_experiment_is_complete() -> None:
    everything = experiments()
    assert {experiment.paper for experiment in everything} == set(PAPERS)
    names = [experiment.name for experiment in everything]
    assert len(names) == len(set(names))
    setting = RunConfig("small", data_sets())
    large = RunConfig("paper", data_sets())
    for experiment in everything:
        assert experiment.claims, experiment.name
        assert experiment.caption
        for scale in (setting, large):
            json.dumps(experiment.points(scale))


def test_the_issue_names_every_figure() -> None:
    wanted = {
        "choices": ["fig1", *(f"fig{i}" for i in range(3, 15)), "table1"],
        "heterogeneous": [*(f"fig{i}" for i in range(4, 15)), "table1", "table2"],
        "functions": ["fig1", *(f"fig{i}" for i in range(3, 15))],
        "evolving": [*(f"fig{i}" for i in (2, 3, 4)), *(f"fig{i}" for i in range(9, 21)), "table2"],
        "dynamic": [*(f"fig{i}" for i in range(9, 14)), "table1", "table2", "table3"],
    }
    for paper, figures in wanted.items():
        assert {experiment.figure for experiment in experiments(paper)} >= set(figures), paper


def test_names_and_data() -> None:
    assert [experiment.name for experiment in find(["choices/fig3", "choices/fig3"])] == ["choices/fig3"]
    with pytest.raises(ef.EvenflowError, match="no figure 'choices/fig77'"):
        find(["choices/fig77"])
    assert data_sets(given={"WP": "mine.csv#page"})["WP"] == "mine.csv#page"
    with pytest.raises(ef.EvenflowError, match="which no paper uses; did you mean"):
        data_sets(given={"WPP": "x"})
    assert RunConfig(data=GENERATED).stream("TW").startswith("zipf:")
    assert RunConfig(joining=("fill",)).schemes("key", "fill") == ["key", "fill"]


def test_the_command(tmp_path: Path) -> None:
    runner = CliRunner()
    listed = runner.invoke(main, ["reproduce", "--list", "--json"])
    assert any(row["figure"] == "choices/fig4" for row in json.loads(listed.stdout))
    result = runner.invoke(
        main,
        ["reproduce", "choices/fig3", "dynamic/table1", "--out", str(tmp_path), "--jobs", "1", "--json",
         "--page", str(tmp_path / "page.md")],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert {claim["verdict"] for claim in json.loads(result.stdout)} == {HOLDS}
    assert (tmp_path / "index.html").exists()
    assert "24.47" in (tmp_path / "page.md").read_text()
    for arguments in (
        ["--scale", "huge"],
        ["--data", "WP"],
        ["--with", "d-choice"],
        ["--scheme", "nowhere:Thing"],
    ):
        bad = runner.invoke(main, ["reproduce", "choices/fig3", "--out", str(tmp_path), *arguments])
        assert bad.exit_code == 2


@pytest.mark.faults
@in_make_faults
def test_a_scheme_of_the_users_own_joins(tmp_path: Path) -> None:
    (tmp_path / "their_scheme.py").write_text(
        "from dataclasses import dataclass\n"
        "from evenflow.schemes.shuffle import Shuffle\n"
        "@dataclass(frozen=True)\n"
        "class Mine(Shuffle):\n"
        "    name = 'mine'\n"
        "    aliases = ()\n"
    )
    # in a process of its own: a registered scheme stays registered
    program = [*PROGRAM, "choices/fig8"]
    options = ["--out=out", "--jobs=2", "--with=mine", "--scheme=their_scheme:Mine"]
    result = subprocess.run([*program, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "mine" in (tmp_path / "out" / "choices-fig8.csv").read_text()


def _running(tmp_path: Path) -> subprocess.Popen[str]:
    """Start a run with two processes and wait until it has measured some points."""
    options = ["choices/fig10", "evolving/fig10", "--out=out", "--jobs=2"]
    running = subprocess.Popen([*PROGRAM, *options], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 200
    while len(list((tmp_path / "out" / "points").glob("*.json"))) < 3:
        assert running.poll() is None, running.stderr.read() if running.stderr else ""
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return running


def _children(pid: int) -> list[int]:
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(line) for line in found.stdout.split()]


def test_interrupted_it_ends_at_once_and_goes_on_where_it_was(tmp_path: Path) -> None:
    running = _running(tmp_path)
    running.send_signal(signal.SIGINT)
    _, texts = running.communicate(timeout=300)
    assert running.returncode == 130, texts
    assert "finished points are in out/points; run the same command again" in texts
    assert "Traceback" not in texts
    points = tmp_path / "out" / "points"
    kept = {file.name: file.stat().st_mtime_ns for file in points.glob("*.json")}
    assert len(kept) >= 3
    program = [*PROGRAM, "choices/fig10", "--out=out", "--jobs=1"]
    again = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    now = {file.name: file.stat().st_mtime_ns for file in points.glob("*.json")}
    assert {name: now[name] for name in kept} == kept, "what was finished is not measured again"
    assert "choices/fig10" in again.stdout


@pytest.mark.faults
@in_make_faults
def test_killed_it_leaves_no_process_behind(tmp_path: Path) -> None:
    running = _running(tmp_path)
    workers = _children(running.pid)
    assert len(workers) >= 2
    running.kill()
    running.communicate(timeout=300)
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < deadline, "a worker process outlives its parent"
        time.sleep(0.1)


def test_a_failed_figure_is_told_at_the_end_with_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        papers,
        "experiments",
        lambda paper=None, on=None: [_experiment("bad", [-1]), _experiment("good", [2])],
    )
    result = CliRunner().invoke(main, ["reproduce", "--out", str(tmp_path), "--jobs", "1"])
    assert result.exit_code == 1
    assert "choices/bad failed: ValueError: a point that cannot be measured" in result.output
    assert "choices/good" in result.output
    assert "choices/bad" in (tmp_path / "index.html").read_text()


def test_captions_say_what_stands_for_a_paper_s_stream(tmp_path: Path) -> None:
    experiment = find(["choices/table1"])[0]
    mine = "zipf:z=1,keys=10,messages=100,seed=1"
    given = dict.fromkeys(("WP", "TW", "CT"), mine) | {"TW": "real/congress_words.parquet#key"}
    outcome = reproduce([experiment], RunConfig("small", {**GENERATED, **given}), tmp_path)
    caption = outcome.captions["choices/table1"]
    assert f"WP from {mine}" in caption
    assert "congress_words stands in for TW" in caption
    assert "choices/table1" in outcome.failures, "there is no such file"
    assert described("WP", GENERATED["WP"]) == "a generated stream (zipf) stands in for WP"


def test_progress_says_what_runs_and_how_long_is_left(tmp_path: Path) -> None:
    texts: list[tuple[int, int, str]] = []
    reproduce([_experiment("one", [1, 2, 3])], RunConfig(), tmp_path, 1, lambda *line: texts.append(line))
    assert texts[0] == (0, 3, "choices/one")
    assert texts[1] == (1, 3, "choices/one, about 0 s left")
    assert texts[-1] == (3, 3, "done")


def test_labels_are_added_not_measured(tmp_path: Path) -> None:
    CALLS.clear()
    points = [{"value": 2, "labels": {"series": name}} for name in ("a", "b")]
    experiment = replace(_experiment("one", []), points=lambda setting: points)
    rows = reproduce([experiment], RunConfig(), tmp_path).rows["choices/one"]
    assert rows == [{"value": 2, "square": 4, "series": name} for name in ("a", "b")]
    assert CALLS == [2]
    assert experiment.rows(points[0]) == rows[:1]


ALONE = {
    "choices": {"fig3", "fig4", "fig9", "head", "table1"},
    "heterogeneous": {"fig5", "fig6", "fig10", "fig11", "table2", "bound", "seeds"},
    "functions": {
        "fig1",
        "fig1-run",
        "thresholds",
        "tolerance",
        "channels",
        "removal",
        "lookup",
        "window",
        *(f"fig{number}" for number in range(9, 15)),
    },
    "evolving": {"fig4", "fig17", "table2"},
    "dynamic": {"table1", "table2", "widths"},
}  # formulas, tables of streams, and figures about one scheme


@pytest.mark.parametrize("experiment", experiments(), ids=lambda experiment: experiment.name)
def test_a_scheme_joins_every_figure_that_compares_schemes(experiment: Experiment) -> None:
    name = "fill" if experiment.paper == "functions" else "bounded-load"  # `functions` keeps keys whole
    points = experiment.points(RunConfig("small", GENERATED, joining=(name,)))
    before = experiment.points(RunConfig("small", GENERATED))
    joined = [json.dumps(point) for point in points if point not in before]
    assert bool(joined) == (experiment.figure not in ALONE[experiment.paper])
    assert all(name in text for text in joined)
