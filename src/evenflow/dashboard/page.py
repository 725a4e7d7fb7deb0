"""The page of the dashboard: served with its scripts beside it, or saved with all of it in one file."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from evenflow import __version__
from evenflow.charts.assets import SCRIPTS, STYLES, asset, content_policy
from evenflow.dashboard.queries import Queries
from evenflow.files import check_output, write_output
from evenflow.history.watch import as_json

SUFFIXES = (".html", ".htm")
_TEMPLATES = Environment(
    loader=PackageLoader("evenflow.dashboard"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@cache
def static_files() -> dict[str, str]:
    """Return the scripts and styles by name, in the order in which a page loads them."""
    own = files("evenflow.dashboard").joinpath("static")
    found = {name: asset(name) for name in (*STYLES, *SCRIPTS)}
    return found | {
        name: own.joinpath(name).read_text(encoding="utf-8") for name in ("dashboard.css", "dashboard.js")
    }


def live_page(actions: bool) -> str:
    """Return the page that follows running queries."""
    return _render(actions=actions, inline=False, saved="", policy="", data="", title="evenflow dashboard")


def saved_page(queries: Queries) -> str:
    """Return the page of this moment as one file that needs no server."""
    texts = static_files()
    data = as_json(
        [
            {"id": query.id, "summary": snapshot["summary"], "snapshot": snapshot}
            for query in queries.all()
            for snapshot in [queries.snapshot(query)]
        ]
    )
    return _render(
        actions=False,
        inline=True,
        saved=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        policy=content_policy(
            [text for name, text in texts.items() if name.endswith(".js")],
            [text for name, text in texts.items() if name.endswith(".css")],
        ),
        data=data,
        title="evenflow report",
    )


def save(queries: Queries, path: Path) -> None:
    """Write the page of this moment to a file."""
    check_output(path, SUFFIXES)
    write_output(path, saved_page(queries).encode())


def _render(**content: object) -> str:
    texts = static_files()
    return _TEMPLATES.get_template("dashboard.html").render(
        scripts=[(name, text) for name, text in texts.items() if name.endswith(".js")],
        styles=[(name, text) for name, text in texts.items() if name.endswith(".css")],
        version=__version__,
        **content,
    )
