"""Validation of output paths, before the work rather than after it."""

from __future__ import annotations

from pathlib import Path

from evenflow.errors import EvenflowError


def check_folder(path: Path) -> None:
    """Reject a path that is a folder, or whose folder does not exist."""
    if not path.parent.is_dir():
        raise EvenflowError(f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}.")
    if path.is_dir():
        raise EvenflowError(f"{str(path)!r} is a folder; give a file name.")
