"""One self-contained HTML page: no script, no link to anywhere, every text escaped.

A page is made of pieces of HTML. Text becomes HTML only through ``escape`` here, so a key named
``<script>`` stays text; the page also tells the browser to run nothing and to load nothing.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from pathlib import Path

from evenflow.errors import EvenflowError
from evenflow.report.paths import check_folder
from evenflow.report.tables import Table, format_cell

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_CSS = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #f4f5f7; color: #20242b;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 0 0 .75rem; }
section { background: #fff; border: 1px solid #e1e4e8; border-radius: .6rem; padding: 1.25rem 1.4rem;
  margin: 1.25rem 0; }
section.answer { border-left: .35rem solid #1f5fbf; }
p { margin: .5rem 0; }
.lead { color: #565b64; overflow-wrap: anywhere; }
.note { color: #565b64; font-size: .92rem; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem;
  margin: 0 0 1rem; }
.facts div { background: #f4f5f7; border-radius: .45rem; padding: .6rem .8rem; }
.facts dt { color: #565b64; font-size: .82rem; }
.facts dd { margin: 0; font-size: 1.25rem; font-weight: 600; overflow-wrap: anywhere; }
pre { background: #20242b; color: #eef0f3; padding: .9rem 1.1rem; border-radius: .45rem; overflow-x: auto;
  font: .88rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid #e8eaee; text-align: left; vertical-align: top;
  overflow-wrap: anywhere; }
th { color: #565b64; font-weight: 600; border-bottom-width: 2px; overflow-wrap: normal; }
td:first-child { min-width: 6.5rem; }
th.number, td.number { text-align: right; white-space: nowrap; }
tr.chosen td { background: #eaf1fb; font-weight: 600; }
tr.muted td { color: #83888f; }
tr.good td.verdict { color: #12703c; }
tr.fair td.verdict { color: #8a6100; }
tr.poor td.verdict { color: #b3261e; }
td.verdict { font-weight: 600; white-space: nowrap; }
h3 { font-size: 1.02rem; margin: 2rem 0 .5rem; }
nav a { margin-right: 1rem; }
figure { margin: 0; }
figure svg { display: block; width: 100%; height: auto; }
figure img { display: block; max-width: 100%; height: auto; }
figcaption { color: #565b64; font-size: .92rem; margin-top: .4rem; }
footer { color: #83888f; font-size: .85rem; }
@media print { body { background: #fff; } section { break-inside: avoid; } }
""".strip()


def escape(text: str) -> str:
    """Return text as HTML.

    >>> escape("<script>")
    '&lt;script&gt;'
    """
    return html.escape(text, quote=True)


def page(title: str, lead: str, sections: Iterable[str], footer: str) -> str:
    """Return a whole page; ``sections`` are HTML, the rest is text."""
    body = "\n".join(sections)
    return (
        "<!DOCTYPE html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_CSS}\n</style>\n</head>\n<body>\n<main>\n"
        f'<h1>{escape(title)}</h1>\n<p class="lead">{escape(lead)}</p>\n'
        f"{body}\n<footer>{escape(footer)}</footer>\n</main>\n</body>\n</html>\n"
    )


def section(heading: str, *pieces: str, kind: str = "", anchor: str = "") -> str:
    """Return a box with a heading; ``pieces`` are HTML, links lead to ``anchor``."""
    attributes = _attribute("class", kind) + _attribute("id", anchor)
    return f"<section{attributes}>\n<h2>{escape(heading)}</h2>\n" + "\n".join(pieces) + "\n</section>"


def heading(text: str, anchor: str = "") -> str:
    """Return a heading inside a box."""
    return f"<h3{_attribute('id', anchor)}>{escape(text)}</h3>"


def links(targets: Iterable[tuple[str, str]]) -> str:
    """Return links as (text, address)."""
    return "<nav>" + "".join(f'<a href="{escape(to)}">{escape(text)}</a>' for text, to in targets) + "</nav>"


def folded(summary: str, content: str) -> str:
    """Return HTML that shows when one asks for it."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def _attribute(name: str, value: str) -> str:
    return f' {name}="{escape(value)}"' if value else ""


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph of text."""
    return f"<p{_attribute('class', kind)}>{escape(text)}</p>"


def code(text: str) -> str:
    """Return lines of code."""
    return f"<pre><code>{escape(text)}</code></pre>"


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """Return small boxes of (what, value)."""
    boxes = "".join(f"<div><dt>{escape(what)}</dt><dd>{escape(value)}</dd></div>" for what, value in pairs)
    return f'<dl class="facts">{boxes}</dl>'


def figure(picture: str, caption: str) -> str:
    """Return a picture with its caption; ``picture`` comes from ``as_svg`` or ``png``."""
    return f"<figure>\n{picture}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"


def png(path: Path, title: str) -> str:
    """Return a picture from a file, which is then inside the page."""
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{escape(title)}" src="data:image/png;base64,{data}">'


def table(content: Table, kinds: Sequence[str] | None = None, targets: Sequence[str] | None = None) -> str:
    """Return a table; ``kinds`` are the classes of its rows, ``targets`` what their first cells link to."""
    right = content.right_aligned()
    sides = [
        _attribute("class", "number" if is_right else "verdict" if name == "verdict" else "")
        for is_right, name in zip(right, content.columns, strict=True)
    ]
    head = "".join(
        f"<th{side}>{escape(name)}</th>" for side, name in zip(sides, content.columns, strict=True)
    )
    rows = []
    for number, row in enumerate(content.rows):
        texts = [escape(format_cell(cell)) for cell in row]
        if targets:
            texts[0] = f'<a href="{escape(targets[number])}">{texts[0]}</a>'
        cells = "".join(f"<td{side}>{text}</td>" for side, text in zip(sides, texts, strict=True))
        rows.append(f"<tr{_attribute('class', kinds[number] if kinds else '')}>{cells}</tr>")
    note = paragraph(content.note, "note") if content.note else ""
    body = "\n".join(rows)
    inside = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>"
    return f'<div class="scroll"><table>\n{inside}\n</table></div>{note}'


def write_page(text: str, path: str | Path) -> None:
    """Write a page into a file."""
    path = Path(path)
    check_page_path(path)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise EvenflowError(f"{path} cannot be written: {error.strerror}.") from None


def check_page_path(path: str | Path) -> None:
    """Refuse a file that a page cannot be written to, before the work is done."""
    path = Path(path)
    if path.suffix.lower() not in {".html", ".htm"}:
        raise EvenflowError(f"a page cannot be written to {str(path)!r}; end it with .html.")
    check_folder(path)
