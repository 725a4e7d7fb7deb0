"""Output files: paths checked before the work, and content that readers see whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from evenflow.errors import EvenflowError


def replace_file(path: Path, content: bytes) -> None:
    """Replace ``path`` atomically by writing a temporary file and renaming it; a failed write leaves no file.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "note.txt"
    >>> replace_file(path, b"first"); replace_file(path, b"second")
    >>> path.read_bytes(), len(list(path.parent.iterdir()))
    (b'second', 1)
    """
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def create_exclusive(path: Path, content: bytes) -> bool:
    """Create a file atomically unless it exists; return whether this call created it."""
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    draft.write_bytes(content)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True


def check_output(path: Path, suffixes: Sequence[str]) -> None:
    """Reject a path of another file type, that is a folder, or whose folder does not exist."""
    if path.suffix.lower() not in suffixes:
        *others, last = suffixes
        known = f"{', '.join(others)} or {last}" if others else last
        raise EvenflowError(f"unsupported file type {str(path)!r}; use {known}.")
    if not path.parent.is_dir():
        raise EvenflowError(f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}.")
    if path.is_dir():
        raise EvenflowError(f"{str(path)!r} is a folder; give a file name.")


def write_output(path: Path, content: bytes) -> None:
    """Write a file; an error is one sentence."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise EvenflowError(f"cannot write {path}: {error.strerror}.") from None
