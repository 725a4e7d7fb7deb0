"""Announce kernel compilation, which delays the first command after an installation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from evenflow.commands.terminal import notify


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
