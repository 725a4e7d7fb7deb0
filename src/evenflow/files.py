"""Output files: paths checked before the work, and content that readers see whole or not at all."""

from __future__ import annotations

import contextlib
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


def check_folder(path: Path) -> None:
    """Reject a path that is a folder, or whose folder does not exist."""
    if not path.parent.is_dir():
        raise EvenflowError(f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}.")
    if path.is_dir():
        raise EvenflowError(f"{str(path)!r} is a folder; give a file name.")
