"""Self-contained HTML pages: no external links, no scripts but those of charts, all text escaped.

Pages are Jinja templates in ``templates/`` with autoescaping, so a key named ``<script>`` stays text; a
content security policy also forbids running or loading anything else. Markdown pages are templates too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from evenflow.charts.assets import SCRIPTS, STYLES, as_json, asset, script_policy
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


def render(template: str, charts: Mapping[str, Mapping[str, Any]] | None = None, **content: Any) -> str:
    """Render a template of ``templates/``; ``charts`` are the data of the page's charts, by their ids."""
    scripts = [asset(name) for name in SCRIPTS] if charts else []
    return _TEMPLATES.get_template(template).render(
        charts={name: as_json(chart) for name, chart in (charts or {}).items()},
        scripts=scripts,
        chart_styles=[asset(name) for name in STYLES],
        script_policy=script_policy(scripts),
        **content,
    )


def write_page(text: str, path: Path) -> None:
    """Write a page to a file."""
    check_output(path, SUFFIXES)
    write_output(path, text.encode())
