"""Self-contained HTML pages: no scripts, no external links, all text escaped.

Pages are Jinja templates in ``templates/`` with autoescaping, so a key named ``<script>`` stays text; a
content security policy also forbids running or loading anything. Markdown pages are templates too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from evenflow.files import check_output, write_output
from evenflow.report.tables import format_cell

SUFFIXES = (".html", ".htm")
_TEMPLATES = Environment(
    loader=PackageLoader("evenflow.report"),
    autoescape=lambda name: name is not None and name.endswith(".html"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATES.filters["cell"] = format_cell


def render(template: str, **content: Any) -> str:
    """Render a template of ``templates/``."""
    return _TEMPLATES.get_template(template).render(**content)


def write_page(text: str, path: Path) -> None:
    """Write a page to a file."""
    check_output(path, SUFFIXES)
    write_output(path, text.encode())
