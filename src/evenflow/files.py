"""Atomic writes: readers see the old content or the new, never a part of it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from uuid import uuid4


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
