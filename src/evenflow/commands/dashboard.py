"""``evenflow dashboard``: the balance of running queries in a browser."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.commands.terminal import notify

if TYPE_CHECKING:
    from evenflow.dashboard.server import Dashboard

Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")]


def dashboard(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Control directories, states of `stateful`, or checkpoints of `evenflow run`: paths or URLs."
        ),
    ],
    port: Port = 8700,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 shows the dashboard to the network.")
    ] = "127.0.0.1",
    save: Annotated[
        Path | None, typer.Option(help="Write the page to this HTML file and exit, without a server.")
    ] = None,
    allow_actions: Annotated[
        bool,
        typer.Option(
            "--allow-actions", help="Let holders of a token rescale and rebalance stateful queries."
        ),
    ] = False,
) -> None:
    """Show the balance of running or finished queries in a browser.

    Example: `evenflow dashboard checkpoint/control`

    Example: `evenflow dashboard path/state --save report.html`

    Example: `evenflow dashboard s3://bucket/control`
    """
    require_dashboard("evenflow dashboard")
    from evenflow.dashboard.page import SUFFIXES
    from evenflow.dashboard.page import save as save_page
    from evenflow.dashboard.queries import Queries
    from evenflow.dashboard.server import Dashboard, new_token
    from evenflow.files import check_output

    queries = Queries(paths)
    if save is not None:
        check_output(save, SUFFIXES)
        queries.poll()
        save_page(queries, save)
        notify(f"wrote {save}")
        return
    token = new_token() if allow_actions else None
    with Dashboard(queries, host, port, token).running() as running:
        announce(running)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


def require_dashboard(purpose: str) -> None:
    """Raise an error with the install command unless the extra is there."""
    from evenflow.extras import require

    for package in ("starlette", "uvicorn", "jinja2"):
        require(package, "dashboard", purpose)


def announce(running: Dashboard, until: str = "until Ctrl-C") -> None:
    """Print the address, with the token of actions where browsers keep it to themselves."""
    token = "" if running.token is None else f"#token={running.token}"
    notify(f"dashboard: {running.url}{token} ({until})")


@contextlib.contextmanager
def beside(wanted: bool, port: int, purpose: str) -> Iterator[Any]:
    """Serve a dashboard beside a run, if wanted; yield the function that adds a path to it."""
    if not wanted:
        yield lambda path, name: None
        return
    require_dashboard(purpose)
    from evenflow.dashboard.queries import Queries
    from evenflow.dashboard.server import Dashboard

    queries = Queries([])
    with Dashboard(queries, port=port).running() as running:
        announce(running, "while the run lasts")
        yield queries.watch
