"""Tables: framed by rich on a terminal, aligned Markdown in a file or a pipe."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import rich.table

Cell = str | int | float | bool | None


@dataclass(frozen=True)
class Table:
    """A title, column names, rows of cells and an explanatory note.

    >>> print(Table("Schemes", ("name", "ns"), [("key", 2.5), ("shuffle", 0.6123)]).plain())
    ### Schemes
    <BLANKLINE>
    | name    |    ns |
    |:--------|------:|
    | key     |  2.50 |
    | shuffle | 0.612 |
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    def plain(self) -> str:
        """Return the table as aligned Markdown."""
        texts = [[format_cell(cell).replace("|", "\\|") for cell in row] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(self.columns, *texts, strict=True)]
        right = self.right_aligned()
        lines = [_line(self.columns, widths, right)]
        rules = [
            "-" * (width + 1) + ":" if is_right else ":" + "-" * (width + 1)
            for width, is_right in zip(widths, right, strict=True)
        ]
        lines.append("|" + "|".join(rules) + "|")
        lines += [_line(row, widths, right) for row in texts]
        parts = [f"### {self.title}", "\n".join(lines), *([self.note] if self.note else [])]
        return "\n\n".join(parts)

    def framed(self) -> rich.table.Table:
        """Return the table for a terminal."""
        import rich.table
        from rich.text import Text

        table = rich.table.Table(title=self.title, title_justify="left", caption=self.note or None)
        table.caption_justify = "left"
        for name, is_right in zip(self.columns, self.right_aligned(), strict=True):
            table.add_column(name, justify="right" if is_right else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*(Text(format_cell(cell), _style(cell)) for cell in row))
        return table

    def right_aligned(self) -> list[bool]:
        """Return for each column whether it is numeric, and so right-aligned."""
        cells = [[row[column] for row in self.rows] for column in range(len(self.columns))]
        return [
            any(cell not in (None, "") for cell in column) and all(_is_number(cell) for cell in column)
            for column in cells
        ]


def show(tables: Iterable[Table], file: TextIO | None = None) -> None:
    """Print tables, framed if ``file`` (standard output) is a terminal."""
    file = file or sys.stdout
    if not file.isatty():
        print("\n\n".join(table.plain() for table in tables), file=file)
        return
    from rich.console import Console

    console = Console(file=file)
    for table in tables:
        console.print(table.framed())


def format_cell(cell: Cell) -> str:
    """Return a cell as text; floats have three significant digits.

    >>> [format_cell(cell) for cell in (None, True, 10**7, 2.5, 1234.6, 0.000123, "all")]
    ['', 'yes', '10,000,000', '2.50', '1,235', '0.000123', 'all']
    """
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return _three_digits(cell)
    return cell


def _is_number(cell: Cell) -> bool:
    """Return whether a cell is a number, a percentage or empty."""
    if isinstance(cell, str):
        return cell == "" or cell.removesuffix("%").replace(".", "").isdecimal()
    return cell is None or (isinstance(cell, int | float) and cell is not True)


def _three_digits(value: float) -> str:
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    if not 1e-4 <= abs(value) < 1e9:
        return f"{value:.2e}"
    rounded = float(f"{value:.3g}")  # 0.009999 is 0.0100 and not 0.01000
    decimals = 2 - math.floor(math.log10(abs(rounded)))
    return f"{value:,.{max(0, decimals)}f}"


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [
        cell.rjust(width) if is_right else cell.ljust(width)
        for cell, width, is_right in zip(cells, widths, right, strict=True)
    ]
    return "| " + " | ".join(padded) + " |"


def _style(cell: Cell) -> str:
    styles = {"ok": "green", "over": "bold red", "under": "bold red"}
    return styles.get(cell, "") if isinstance(cell, str) else ""
