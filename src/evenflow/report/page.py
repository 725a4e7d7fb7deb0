"""Self-contained HTML pages: no scripts, no external links, all text escaped.

Pages are Jinja templates in ``templates/`` with autoescaping, so a key named ``<script>`` stays text; a
content security policy also forbids running or loading anything. The functions below return pieces of HTML
for pages assembled in Python.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from evenflow.errors import EvenflowError
from evenflow.report.paths import check_folder
from evenflow.report.tables import Table, format_cell

_TEMPLATES = Environment(
    loader=PackageLoader("evenflow.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATES.filters["cell"] = format_cell


def render(template: str, **content: Any) -> str:
    """Render a template of ``templates/``."""
    return _TEMPLATES.get_template(template).render(**content)


def page(title: str, lead: str, sections: Iterable[str], footer: str) -> str:
    """Return a complete page; ``sections`` are HTML, the rest is text.

    >>> "<h1>&lt;script&gt;</h1>" in page("<script>", "", [], "")
    True
    """
    return render("page.html", title=title, lead=lead, sections=Markup("\n".join(sections)), footer=footer)


def _piece(macro: str, *content: Any, **options: Any) -> str:
    return getattr(_TEMPLATES.get_template("pieces.html").module, macro)(*content, **options)


def section(heading: str, *pieces: str, kind: str = "", anchor: str = "") -> str:
    """Return a box with a heading; ``pieces`` are HTML, ``anchor`` is the link target."""
    return _piece("section", heading, kind, anchor, caller=lambda: Markup("\n".join(pieces)))


def heading(text: str, anchor: str = "") -> str:
    """Return a heading inside a box."""
    return _piece("heading", text, anchor)


def links(targets: Iterable[tuple[str, str]]) -> str:
    """Return links as (text, address)."""
    return _piece("links", targets)


def folded(summary: str, content: str) -> str:
    """Return HTML in a collapsed section."""
    return _piece("folded", summary, caller=lambda: Markup(content))


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph of text."""
    return _piece("paragraph", text, kind)


def code(text: str) -> str:
    """Return lines of code."""
    return _piece("code", text)


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """Return (name, value) pairs as small boxes."""
    return _piece("facts", pairs)


def figure(picture: str, caption: str) -> str:
    """Return a figure with its caption; ``picture`` comes from ``as_svg`` or ``png``."""
    return _piece("figure", picture, caption)


def png(path: Path, title: str) -> str:
    """Return an image file, embedded in the page."""
    return _piece("png", title, base64.b64encode(path.read_bytes()).decode())


def table(content: Table, kinds: Sequence[str] | None = None, targets: Sequence[str] | None = None) -> str:
    """Return a table; ``kinds`` are CSS classes of its rows, ``targets`` the links of their first cells."""
    return _piece("table", content, kinds, targets)


def write_page(text: str, path: str | Path) -> None:
    """Write a page to a file."""
    path = Path(path)
    check_page_path(path)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise EvenflowError(f"cannot write {path}: {error.strerror}.") from None


def check_page_path(path: str | Path) -> None:
    """Reject an unusable path before the work starts."""
    path = Path(path)
    if path.suffix.lower() not in {".html", ".htm"}:
        raise EvenflowError(f"unsupported file type {str(path)!r}; use .html.")
    check_folder(path)
