"""Shared by all commands: ``--json``, results on standard output, progress on standard error."""

from __future__ import annotations

import json
import math
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from evenflow.spec import read_whole

PLAIN_LINE_SECONDS = 5.0

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def print_json(value: Any) -> None:
    """Print ``value`` as JSON and nothing else."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def notify(message: str) -> None:
    """Print a message on standard error, which keeps it out of the results."""
    typer.echo(f"evenflow: {message}", err=True)


def print_paragraph(text: str) -> None:
    """Print a paragraph, wrapped on a terminal."""
    width = shutil.get_terminal_size().columns
    typer.echo("\n" + (textwrap.fill(text, width) if sys.stdout.isatty() else text))


def print_recommendation(what: str, reason: str, code: str, notes: Sequence[str]) -> None:
    """Print a recommendation with its reason, code to paste, and notes."""
    is_terminal = sys.stdout.isatty()
    heading = f"Recommended: {what}"
    typer.echo()
    typer.secho(heading if is_terminal else f"### {heading}", bold=True)
    print_paragraph(reason)
    typer.echo(f"\n{code}" if is_terminal else f"\n```python\n{code}\n```")
    for note in notes:
        print_paragraph(note)


def whole(text: str) -> int:
    """Parse a whole number written as 1000000 or 1e6 (for typer options).

    >>> whole("1e6")
    1000000
    """
    try:
        return read_whole(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number; write one such as 64 or 1e6.") from None


def number(text: str) -> float:
    """Parse a number (for typer options).

    >>> number("2e-5")
    2e-05
    """
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number; write 0.5 or 2e-5.") from None


def columns(key: list[str] | None) -> str | list[str] | None:
    """Return the key columns as `open_stream` takes them; a single one may spell several."""
    return None if not key else key[0] if len(key) == 1 else key


class Progress:
    """Progress of a long command. Call it with (done, total, what is being done)."""

    def __init__(self, title: str, bar: Any = None):
        self.title = title
        self._bar = bar
        self._task = bar.add_task(title, total=None) if bar is not None else None
        self._last = -math.inf

    def __call__(self, done: int, total: int, what: str) -> None:
        """Update the bar; without a terminal, print a line at once and then every few seconds."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, description=f"{self.title}: {what}")
            self._bar.refresh()
        elif time.monotonic() - self._last >= PLAIN_LINE_SECONDS:
            self._last = time.monotonic()
            notify(f"{self.title}: {done} of {total}, {what}")


@contextmanager
def progress(title: str) -> Iterator[Progress]:
    """Show progress on standard error: a bar on a terminal, otherwise a line every few seconds."""
    if not sys.stderr.isatty():
        yield Progress(title)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # no refresh thread: it would compete with what a benchmark measures
    with Bar(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        yield Progress(title, bar)


@contextmanager
def announce_compilation() -> Iterator[None]:
    """Print a line, once, when numba compiles a kernel instead of loading it from the cache."""
    from numba.core import event

    class Listener(event.Listener):
        def __init__(self) -> None:
            self.announced = False

        def on_start(self, event: Any) -> None:
            if not self.announced:
                self.announced = True
                notify("Compiling kernels (first run only, up to a minute); cached afterwards.")

        def on_end(self, event: Any) -> None:
            pass

    listener = Listener()
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]
