"""Tell people once that kernels are being compiled: after installing, the first command waits for that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from evenflow.commands.terminal import say


@contextmanager
def compiling_is_said() -> Iterator[None]:
    """Say so when numba begins to compile, instead of loading what it compiled before."""
    from numba.core import event

    class Listener(event.Listener):
        def __init__(self) -> None:
            self.announced = False

        def on_start(self, event: Any) -> None:
            if not self.announced:
                self.announced = True
                say("Compiling kernels (first run only, up to a minute); cached afterwards.")

        def on_end(self, event: Any) -> None:
            pass

    listener = Listener()
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]
