"""Tables for terminals and for files."""

from __future__ import annotations

import io

import pytest

from evenflow.report.tables import Table, format_cell, show

TABLE = Table(
    "Two", ("name", "value", "limit", ""), [("a|b", 1.0, None, "ok"), ("c", None, "at most 3", "over")]
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_is_markdown() -> None:
    out = io.StringIO()
    show([TABLE], out)
    assert out.getvalue() == (
        "### Two\n\n"
        "| name | value | limit     |      |\n"
        "|:-----|------:|:----------|:-----|\n"
        "| a\\|b |  1.00 |           | ok   |\n"
        "| c    |       | at most 3 | over |\n"
    )


def test_a_terminal_gets_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    show([TABLE], out)
    frame, names, _, first, second, *_ = out.getvalue().splitlines()[1:]
    assert frame.startswith("┏━━")
    assert "name" in names
    assert "a|b" in first
    assert "\x1b[32mok" in first
    assert "\x1b[1;31mover" in second


def test_square_brackets_are_text_not_markup() -> None:
    out = Terminal()
    show([Table("Types", ("type",), [("list[int]",), ("[red]",)])], out)
    assert "list[int]" in out.getvalue()
    assert "[red]" in out.getvalue()


def test_a_table_without_rows() -> None:
    assert Table("None", ("a", "b"), []).plain() == "### None\n\n| a | b |\n|:--|:--|"


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (0.0, "0"),
        (-12.345, "-12.3"),
        (999.9, "1,000"),
        (0.009999, "0.0100"),
        (1e12, "1.00e+12"),
        (1.5e-7, "1.50e-07"),
        (float("nan"), "nan"),
        (False, "no"),
        (-1234, "-1,234"),
    ],
)
def test_cells(cell: float, text: str) -> None:
    assert format_cell(cell) == text
