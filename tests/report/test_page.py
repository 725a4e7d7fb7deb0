"""A page: well formed, everything escaped, nothing loaded from anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evenflow.errors import EvenflowError
from evenflow.report import page as html
from evenflow.report.tables import Table

EVIL = "</p><script>alert(1)</script>&\"'"
SAFE = "&lt;/p&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;&#34;&#39;"


@pytest.fixture
def pieces() -> Any:
    return html._TEMPLATES.get_template("pieces.html").module


def test_every_piece_escapes_its_text(pieces: Any) -> None:
    for piece in (
        pieces.paragraph(EVIL, EVIL),
        pieces.code(EVIL),
        pieces.facts([(EVIL, EVIL)]),
        pieces.figure("<svg></svg>", EVIL),
        pieces.section(EVIL, kind=EVIL, caller=lambda: ""),
        pieces.table(Table(EVIL, (EVIL, "n"), [(EVIL, 1)], note=EVIL), [EVIL]),
        html.render("page.html", title=EVIL, lead=EVIL, footer=EVIL),
    ):
        assert "<script" not in piece
        assert "alert(1)" in piece
        assert EVIL not in piece
        assert SAFE in piece


def test_a_page_forbids_scripts_and_loading() -> None:
    page = html.render("page.html", title="Title", lead="lead", footer="footer")
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert "default-src 'none'" in page
    assert "http://" not in page
    assert "https://" not in page


def test_numbers_stand_to_the_right_and_rows_have_their_kind(pieces: Any) -> None:
    rows = [("a", 1000, "5%"), ("b", 2, "")]
    table = pieces.table(Table("", ("key", "rows", "share"), rows), ["chosen", ""])
    assert '<th>key</th><th class="number">rows</th><th class="number">share</th>' in table
    assert (
        '<tr class="chosen"><td>a</td><td class="number">1,000</td><td class="number">5%</td></tr>' in table
    )
    assert '<tr><td>b</td><td class="number">2</td><td class="number"></td></tr>' in table


def test_a_page_is_written_as_utf8(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    html.write_page("東京", path)
    assert path.read_bytes() == "東京".encode()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("page.txt", "use .html"),
        ("none/page.html", "there is no folder"),
        ("folder.html", "is a folder"),
    ],
)
def test_a_page_that_cannot_be_written_is_refused(tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(EvenflowError, match=sentence):
        html.write_page("", tmp_path / name)
