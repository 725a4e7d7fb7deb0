"""The verdicts of the short run are those of docs/reproduction.md.

Here for figures whose points are quick and need no stream from outside; ``make reproduce`` measures every
figure (minutes), those on real streams only if ``EVENFLOW_DATA`` names their folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from numbers import Real
from pathlib import Path
from typing import Any

import pytest

from benchmarks.causes import CAUSES
from evenflow.papers import experiments, find, rules
from evenflow.papers.data import data_sets
from evenflow.papers.experiment import DIFFERS, DIRECTION, HOLDS, VERDICTS, Claim, Row, RunConfig, judge
from evenflow.papers.reproduce import reproduce
from evenflow.papers.scales import read_summary, summary_beside
from evenflow.papers.table import SUBJECTS
from mutants.registry import MUTANTS

PAGE = Path(__file__).parents[2] / "docs" / "reproduction.md"
QUICK = [
    *(f"choices/fig{number}" for number in (3, 4, 7, 8, 10, 13, 14)),
    "choices/head",
    *(f"heterogeneous/{figure}" for figure in ("fig4", "bound", "tree", "hitters")),
    *(f"functions/{figure}" for figure in ("fig1", "fig1-run", "thresholds", "fig8", "fig11", "window")),
    *(f"functions/{figure}" for figure in ("tolerance", "removal")),
    *(f"evolving/fig{number}" for number in (12, 14, 17)),
    "evolving/epochs",
    *(f"dynamic/{figure}" for figure in ("table1", "widths", "table3")),
]
EXPERIMENT = re.compile(r"\b(study|mutant|figure) `([^`]+)`", re.IGNORECASE)
ALL = os.environ.get("EVENFLOW_REPRODUCE") == "all"
FALLING = (HOLDS, DIRECTION, DIFFERS)  # from good to bad
SCALED: tuple[Callable[[Any], Any], ...] = (
    lambda value: 1000 * value,
    lambda value: value / 1000,
    lambda value: not value if isinstance(value, bool) else -value,
    lambda value: 0 * value,
)


def committed() -> dict[tuple[str, str], tuple[str, str]]:
    """Return verdict and note of every claim on the page, by figure and claim."""
    found = {}
    figure = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("### "):
            figure = line[4:].partition(":")[0]
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)][1:-1]
        if figure and len(cells) in (6, 7) and cells[5].startswith("**"):  # the seventh is at paper scale
            verdict, _, note = cells[5].strip("*").partition("**")
            found[figure, cells[1]] = (verdict, note.removeprefix(": "))
    return found


def test_the_page_has_every_claim_and_explains_what_differs() -> None:
    page = committed()
    assert list(page) == [
        (experiment.name, claim.text) for experiment in experiments() for claim in experiment.claims
    ]
    assert {verdict for verdict, _ in page.values()} <= set(VERDICTS)
    unexplained = [place for place, (verdict, note) in page.items() if verdict == DIFFERS and len(note) < 20]
    assert not unexplained


def test_paper_scale_is_of_the_figures_as_they_are() -> None:
    kept = read_summary(summary_beside(PAGE))
    known = {experiment.name: experiment for experiment in experiments()}
    text = PAGE.read_text(encoding="utf-8")
    assert kept
    for name, found in kept.items():
        assert [claim["claim"] for claim in found["claims"]] == [claim.text for claim in known[name].claims]
        assert {claim["verdict"] for claim in found["claims"]} <= set(VERDICTS)
        assert f"commit {', '.join(found['commits'])}" in text
    assert f"{len(kept)} of {len(known)} figures have also been measured" in text
    missing = ", ".join(name for name in known if name not in kept)
    assert not missing or f"Not measured there: {missing}." in text


def test_what_differs_names_an_experiment_that_shows_the_cause() -> None:
    claims = {(own.name, claim.text): claim for own in experiments() for claim in own.claims}
    known = {
        "study": set(CAUSES),
        "mutant": {mutant.name for mutant in MUTANTS},
        "figure": {name for name, _ in claims},
    }
    kept = read_summary(summary_beside(PAGE))
    large = {(name, own["claim"]): own["verdict"] for name, found in kept.items() for own in found["claims"]}
    small = {place: verdict for place, (verdict, _) in committed().items()}
    for place, claim in claims.items():
        if DIFFERS in (small[place], large.get(place)):
            named = EXPERIMENT.findall(claim.why)
            assert named, f"{place} differs, and its reason names no experiment"
            assert all(name in known[kind.lower()] for kind, name in named), (place, named)


def test_the_page_of_causes_has_every_study() -> None:
    text = (PAGE.parent / "causes.md").read_text(encoding="utf-8")
    assert re.findall("^### (.*)$", text, re.MULTILINE) == list(CAUSES)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one folder for all figures, so that they share points."""
    return tmp_path_factory.mktemp("small")


def _streams(figure: str) -> set[str]:
    """Return the data sets that a figure needs from outside."""
    setting = RunConfig("small", data_sets())
    find([figure])[0].points(setting)
    return set(setting.asked) - {"twitter-election"}


def test_quick_figures_need_no_stream_from_outside() -> None:
    assert not set().union(*(_streams(figure) for figure in QUICK))


@pytest.mark.parametrize("figure", [experiment.name for experiment in experiments()] if ALL else QUICK)
def test_verdicts_are_as_committed_and_could_be_worse(figure: str, out: Path) -> None:
    (experiment,) = find([figure])
    if _streams(figure) and not os.environ.get("EVENFLOW_DATA"):
        pytest.skip("the page was written with real streams, and EVENFLOW_DATA names no folder of them")
    outcome = reproduce([experiment], RunConfig("small", data_sets()), out)
    assert not outcome.failures
    page = committed()
    measured = {claim["claim"]: claim["verdict"] for claim in outcome.claims}
    assert measured == {claim.text: page[figure, claim.text][0] for claim in experiment.claims}
    for claim in experiment.claims:
        if measured[claim.text] in (HOLDS, DIRECTION):
            assert can_fail(claim, outcome.rows[figure]), f"no numbers make it worse: {claim.text}"


def can_fail(claim: Claim, rows: list[Row]) -> bool:
    """Return whether other numbers, of all subjects or of one, give the claim a worse verdict."""
    verdict = judge(claim, rows).verdict
    return any(FALLING.index(other) > FALLING.index(verdict)
               for other in (judge(claim, changed).verdict for changed in _disturbed(rows))
               if other in FALLING)  # fmt: skip


def _disturbed(rows: list[Row]) -> Iterator[list[Row]]:
    """Yield the rows with a column turned around, or scaled in all, in half of them, or for one subject."""
    subject = next((name for name in SUBJECTS if any(name in row for row in rows)), "")
    columns = {name for row in rows for name, value in row.items() if isinstance(value, Real)}
    for column in sorted(columns - {"seed", "workers", "sources"}):
        places = [place for place, row in enumerate(rows) if isinstance(row.get(column), Real)]
        values = [rows[place][column] for place in places]
        yield _with(rows, column, zip(places, reversed(values), strict=True))
        subjects = dict.fromkeys(rows[place].get(subject) for place in places)
        parts = [[place for place in places if rows[place].get(subject) == name] for name in subjects]
        for own in (places, places[len(places) // 2 :], *parts):
            for scaled in SCALED:
                yield _with(rows, column, [(place, scaled(rows[place][column])) for place in own])


def _with(rows: list[Row], column: str, values: Iterable[tuple[int, Any]]) -> list[Row]:
    changed = list(rows)
    for place, value in values:
        changed[place] = {**rows[place], column: value}
    return changed


def test_a_rule_that_cannot_fail_is_found() -> None:
    rows = [{"scheme": name, "load": load} for name, load in (("key", 4.0), ("fill", 1.0))]
    assert can_fail(Claim("", "", "", rules.at_most(rules.ratio("load", "fill", "key"), 1)), rows)
    assert not can_fail(Claim("", "", "", rules.at_least(rules.largest("load"), -1e9)), rows)
