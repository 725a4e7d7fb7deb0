"""One query per state path: a lock that the operating system lets go when its process ends, however it ends.

Taken by the process that commits: the one that called ``start``, or, on Spark Connect, the server's process
for the batch function, when its first batch comes.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evenflow.errors import EvenflowError

LOCK = "_evenflow/lock"


@dataclass
class Held:
    """A lock that this process has, for whom, and whether that one still runs."""

    handle: int
    token: str
    is_active: Callable[[], bool]


_HELD: dict[str, Held] = {}


def take_lock(root: Path, token: str, is_active: Callable[[], bool] = lambda: True) -> None:
    """Take the lock of a state path for the query with this token, or say who has it."""
    path = root / LOCK
    name = str(path.absolute())
    held = _HELD.get(name)
    if held is not None and held.token == token:
        return
    if held is not None:
        if held.is_active():
            raise _refusal(root, f"this process ({os.getpid()})")
        release_lock(root, held.token)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.pread(handle, 64, 0).decode(errors="replace").strip()
        os.close(handle)
        raise _refusal(root, f"process {owner}" if owner else "another process") from error
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}".encode(), 0)
    _HELD[name] = Held(handle, token, is_active)


def watch_lock(root: Path, token: str, is_active: Callable[[], bool]) -> None:
    """Say how to ask whether the query that has the lock still runs."""
    held = _HELD.get(str((root / LOCK).absolute()))
    if held is not None and held.token == token:
        held.is_active = is_active


def release_lock(root: Path, token: str) -> None:
    """Let the lock go if the query with this token has it."""
    name = str((root / LOCK).absolute())
    held = _HELD.get(name)
    if held is not None and held.token == token:
        os.close(held.handle)
        del _HELD[name]


def _refusal(root: Path, who: str) -> EvenflowError:
    return EvenflowError(
        f"another query works on the state at {root} ({who}); a state has one query at a time: stop that "
        "one, or give this one a path of its own."
    )
