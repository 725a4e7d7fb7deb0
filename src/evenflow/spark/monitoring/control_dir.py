"""The control directory: small files with the plans, snapshots and log of a running query.

The files are advisory and may disappear at any time: a file that is missing, truncated, corrupt or of another
version reads as None, and the reader logs a fallback. ``log.jsonl`` holds one JSON object per line and is
rotated by size. Keep imports light: Python workers import this module.
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
_ROTATED_LOG = "log.1.jsonl"
MAX_LOG_BYTES = 200_000  # of each of the two files
_FILE_SCHEME = "file:"


class Control:
    """One control directory; writes are atomic, and failed writes are ignored since results do not need them.

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
        """Replace a file atomically; return whether that succeeded."""
        path = self.folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, write_blob(kind, header, arrays))
        except OSError:
            return False
        return True

    def read(self, name: str, kind: str) -> tuple[dict[str, Any], dict[str, Array]] | None:
        """Return the header and arrays of a file, or None if it is missing or corrupt."""
        return self.read_with_reason(name, kind)[0]

    def read_with_reason(
        self, name: str, kind: str
    ) -> tuple[tuple[dict[str, Any], dict[str, Array]] | None, str]:
        """Return the header and arrays of a file, or None and the reason."""
        try:
            return read_blob(kind, (self.folder / name).read_bytes()), ""
        except FileNotFoundError:
            return None, f"{name} is missing"
        except (OSError, EvenflowError, ValueError, KeyError) as error:
            return None, f"{name} cannot be read: {error}"

    def note(self, event: str, **fields: Any) -> None:
        """Append an event to the log."""
        line = json.dumps({"time": round(time.time(), 3), "event": event, **fields}, default=str) + "\n"
        path = self.folder / LOG
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size + len(line) > MAX_LOG_BYTES:
                path.replace(self.folder / _ROTATED_LOG)
            # a single write in append mode, so that lines of several processes do not interleave
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(handle, line.encode())
            finally:
                os.close(handle)

    def notes(self, event: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the events of the log, oldest first; malformed lines are skipped."""
        for name in (_ROTATED_LOG, LOG):
            try:
                text = (self.folder / name).read_text(errors="replace")
            except OSError:
                continue
            for line in text.splitlines():
                with contextlib.suppress(ValueError):
                    note = json.loads(line)
                    if isinstance(note, dict) and "event" in note and event in (None, note["event"]):
                        yield note

    def remove_drafts(self) -> None:
        """Remove the temporary files of killed processes."""
        with contextlib.suppress(OSError):
            for path in self.folder.iterdir():
                if path.name.startswith(".") and path.is_file():
                    path.unlink(missing_ok=True)


def local_path(folder: str | Path, argument: str = "control") -> Path:
    """Return a path or ``file:`` URL as an absolute local path."""
    text = str(folder)
    if text.startswith(_FILE_SCHEME):
        text = "/" + text.removeprefix(_FILE_SCHEME).lstrip("/")
    elif "://" in text:
        raise EvenflowError(
            f"{argument} is {text!r}; use a directory mounted on the driver and on every executor, such as "
            f"/mnt/shared/{argument}."
        )
    if not text:
        raise EvenflowError(f"{argument} is empty; pass the path of a directory.")
    return Path(text).absolute()


def temporary_control_dir() -> str:
    """Return a new local control directory, the default where the caller passes none."""
    return tempfile.mkdtemp(prefix="evenflow-control-")


def operator_name(scheme: Scheme, workers: int, keys: Sequence[str]) -> str:
    """Return a name that separates the files of several operators, and of earlier versions of one."""
    identity = repr((str(scheme), workers, list(keys)))
    return f"{scheme.name}-{hashlib.blake2b(identity.encode(), digest_size=6).hexdigest()}"
