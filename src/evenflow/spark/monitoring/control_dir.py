"""The control directory: a few small files through which a running query is steered and watched.

They are advice and may vanish at any time: a file that is missing, cut short, damaged or of another version
reads as None, and the reader says so in the log. ``log.jsonl`` is one JSON object per line for whoever wants
to watch; it is cut when it grows. Nothing here is slow to import, since Python workers do.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.blob import Array, read_blob, write_blob
from evenflow.errors import EvenflowError
from evenflow.files import replace_file

if TYPE_CHECKING:
    from evenflow.schemes.base import Scheme

LOG = "log.jsonl"
_OLD_LOG = "log.1.jsonl"
LARGEST_LOG = 200_000  # bytes; twice that in all
_SCHEME = "file:"


class Control:
    """One control directory. Writing is one rename; a write that fails is forgotten, since results need none.

    >>> import tempfile
    >>> control = Control(tempfile.mkdtemp())
    >>> control.note("hello", batch=3)
    >>> [note["event"] for note in control.notes()]
    ['hello']
    >>> control.read("plan", "plan") is None
    True
    """

    def __init__(self, folder: str | Path):
        self.folder = local_path(folder)

    def write(self, name: str, kind: str, header: dict[str, Any], arrays: dict[str, Array]) -> bool:
        """Replace a file in one step; say whether that worked."""
        path = self.folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, write_blob(kind, header, arrays))
        except OSError:
            return False
        return True

    def read(self, name: str, kind: str) -> tuple[dict[str, Any], dict[str, Array]] | None:
        """Return what ``write`` wrote, or None if there is no such file or nothing sound in it."""
        return self.read_or_why(name, kind)[0]

    def read_or_why(self, name: str, kind: str) -> tuple[tuple[dict[str, Any], dict[str, Array]] | None, str]:
        """Return what ``write`` wrote, or None and why."""
        try:
            return read_blob(kind, (self.folder / name).read_bytes()), ""
        except FileNotFoundError:
            return None, f"{name} is missing"
        except (OSError, EvenflowError, ValueError, KeyError) as error:
            return None, f"{name} cannot be read: {error}"

    def note(self, event: str, **fields: Any) -> None:
        """Add a line to the log."""
        line = json.dumps({"time": round(time.time(), 3), "event": event, **fields}, default=str) + "\n"
        path = self.folder / LOG
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size + len(line) > LARGEST_LOG:
                path.replace(self.folder / _OLD_LOG)
            # one write in append mode: lines of several processes do not mix
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(handle, line.encode())
            finally:
                os.close(handle)

    def notes(self, event: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the lines of the log, oldest first; lines that are not ours are left out."""
        for name in (_OLD_LOG, LOG):
            try:
                text = (self.folder / name).read_text(errors="replace")
            except OSError:
                continue
            for line in text.splitlines():
                with contextlib.suppress(ValueError):
                    note = json.loads(line)
                    if isinstance(note, dict) and "event" in note and event in (None, note["event"]):
                        yield note

    def clear(self, keep: tuple[str, ...] = ()) -> None:
        """Remove drafts that a killed process left behind."""
        with contextlib.suppress(OSError):
            for path in self.folder.iterdir():
                if path.name.startswith(".") and path.is_file() and path.name not in keep:
                    path.unlink(missing_ok=True)


def local_path(folder: str | Path) -> Path:
    """Return a control directory as a path that this machine can open."""
    text = str(folder)
    if text.startswith(_SCHEME):
        text = "/" + text.removeprefix(_SCHEME).lstrip("/")
    elif "://" in text:
        raise EvenflowError(
            f"control is {text!r}; give a directory of a file system that driver and executors have mounted, "
            "such as /mnt/shared/control."
        )
    if not text:
        raise EvenflowError("control is empty; give a directory, or None for one of this machine.")
    return Path(text).absolute()


def own_folder() -> str:
    """Return a new control directory of this machine, for those who name none."""
    return tempfile.mkdtemp(prefix="evenflow-control-")


def operator_name(scheme: Scheme, workers: int, keys: Sequence[str]) -> str:
    """Name an operator, so that several of one query, and a changed one, do not read each other's files."""
    identity = repr((str(scheme), workers, list(keys)))
    return f"{scheme.name}-{hashlib.blake2b(identity.encode(), digest_size=6).hexdigest()}"
