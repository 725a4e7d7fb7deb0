"""The verdicts of the short run are those of docs/reproduction.md.

Here for figures whose points are quick and need no stream from outside; ``make reproduce`` measures every
figure (minutes), those on real streams only if ``EVENFLOW_DATA`` names their folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from benchmarks.causes import CAUSES
from evenflow.papers import experiments, find
from evenflow.papers.data import data_sets
from evenflow.papers.experiment import DIFFERS, VERDICTS, RunConfig
from evenflow.papers.reproduce import reproduce
from evenflow.papers.scales import read_summary, summary_beside
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
def test_verdicts_are_as_committed(figure: str, out: Path) -> None:
    (experiment,) = find([figure])
    if _streams(figure) and not os.environ.get("EVENFLOW_DATA"):
        pytest.skip("the page was written with real streams, and EVENFLOW_DATA names no folder of them")
    outcome = reproduce([experiment], RunConfig("small", data_sets()), out)
    assert not outcome.failures
    page = committed()
    measured = {claim["claim"]: claim["verdict"] for claim in outcome.claims}
    assert measured == {claim.text: page[figure, claim.text][0] for claim in experiment.claims}
