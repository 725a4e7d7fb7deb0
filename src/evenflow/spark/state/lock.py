"""The lock that allows one query per state path; the operating system releases it when the process ends.

It is held by the process that commits: the one that called ``start`` or, on Spark Connect, the server's
process for the batch function, from its first batch on.
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
class HeldLock:
    """A lock held by this process, with the token of its query and a check whether that query is active."""

    handle: int
    token: str
    is_active: Callable[[], bool]


_HELD: dict[str, HeldLock] = {}


def take_lock(root: Path, token: str) -> None:
    """Acquire the lock of a state path for the query with this token."""
    path = root / LOCK
    name = str(path.absolute())
    held = _HELD.get(name)
    if held is not None and held.token == token and _is_at(held.handle, path):
        return
    is_active: Callable[[], bool] = lambda: True  # noqa: E731
    if held is not None:
        if held.token == token:
            is_active = held.is_active
        if held.token != token and held.is_active():
            raise _in_use(root, f"this process ({os.getpid()})")
        release_lock(root, held.token)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(handle, 64, 0).decode(errors="replace").strip()
        os.close(handle)
        raise _in_use(root, f"process {holder}" if holder else "another process") from error
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}".encode(), 0)
    _HELD[name] = HeldLock(handle, token, is_active)


def _is_at(handle: int, path: Path) -> bool:
    """Return whether a lock is on the file at ``path``: if that was deleted, others would lock a new one."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except OSError:
        return False


def track_lock_holder(root: Path, token: str, is_active: Callable[[], bool]) -> None:
    """Set the check whether the query that holds the lock is still active."""
    held = _HELD.get(str((root / LOCK).absolute()))
    if held is not None and held.token == token:
        held.is_active = is_active


def release_lock(root: Path, token: str) -> None:
    """Release the lock if the query with this token holds it."""
    name = str((root / LOCK).absolute())
    held = _HELD.get(name)
    if held is not None and held.token == token:
        os.close(held.handle)
        del _HELD[name]


def _in_use(root: Path, holder: str) -> EvenflowError:
    return EvenflowError(
        f"the state at {root} is in use by another query ({holder}), and a state allows one query at a time; "
        "stop that query, or use another path for this one."
    )
