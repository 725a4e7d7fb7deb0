"""Claims reject broken schemes: a quick selection of the mutants here, all of them in ``make mutants``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evenflow.papers import find
from mutants.mutant import SOURCE, Edit, Mutant
from mutants.registry import MUTANTS, QUICK
from mutants.suite import Caught, Result, Suite
from mutants.table import PAGE, update, write


def test_every_mutant_is_an_edit_of_the_sources_as_they_are() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 30
    for mutant in MUTANTS:
        assert find(list(mutant.figures))
        for edit in mutant.edits:
            text = (SOURCE / "evenflow" / edit.file).read_text(encoding="utf-8")
            assert edit.applied(text) != text


def test_the_page_has_every_mutant_and_explains_survivors() -> None:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert [line.split("`")[1] for line in lines] == [mutant.name for mutant in MUTANTS]
    for line, mutant in zip(lines, MUTANTS, strict=True):
        assert ("**survives**" in line) == bool(mutant.survives)


def test_rows_are_written_anew_one_by_one(tmp_path: Path) -> None:
    page = tmp_path / "mutants.md"
    results = [Result(mutant, (), 0.0) for mutant in MUTANTS]
    write(results, page)
    assert f"0 of {len(MUTANTS)} mutants are caught" in page.read_text()
    found = Caught("choices/fig1", "a claim | of it", "holds", "differs", r"\1 of 3")
    update([Result(MUTANTS[3], (found,), 0.0)], page)
    whole = tmp_path / "whole.md"
    write([*results[:3], Result(MUTANTS[3], (found,), 0.0), *results[4:]], whole)
    assert page.read_text() == whole.read_text()
    other = replace(MUTANTS[3], name="another")
    with pytest.raises(ValueError, match="0 rows of another"):
        update([Result(other, (), 0.0)], page)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """Return a suite that keeps nothing from earlier runs."""
    return Suite(tmp_path_factory.mktemp("mutants"))


def _first_figure(mutant: Mutant) -> Mutant:
    return replace(mutant, figures=mutant.figures[:1])


@pytest.mark.parametrize("name", QUICK)
def test_a_claim_rejects_the_mutant(name: str, suite: Suite) -> None:
    mutant = _first_figure(next(mutant for mutant in MUTANTS if mutant.name == name))
    suite.measure_unmutated(list(mutant.figures))
    result = suite.run(mutant)
    assert not result.failure
    assert result.caught


def test_what_breaks_nothing_is_not_caught(suite: Suite) -> None:
    edit = Edit("schemes/dynamic_key.py", "    ideal = 100 / workers\n", "    ideal = 100.0 / workers\n")
    harmless = Mutant("harmless", "nothing", (edit,), ("dynamic/table1",), ("dynamic-key",))
    suite.measure_unmutated(list(harmless.figures))
    assert suite.run(harmless).caught == ()


def test_a_mutant_that_cannot_run_is_a_failure_not_a_catch(suite: Suite) -> None:
    edit = Edit("schemes/dynamic_key.py", "    ideal = 100 / workers\n", "    ideal = 100 / nothing\n")
    broken = Mutant("broken", "nothing", (edit,), ("dynamic/table1",), ("dynamic-key",))
    suite.measure_unmutated(list(broken.figures))
    result = suite.run(broken)
    assert "nothing" in result.failure
    assert result.caught == ()
