"""Where reports go: complain about a path before the work, not after it."""

from __future__ import annotations

from pathlib import Path

from evenflow.errors import EvenflowError


def check_folder(path: Path) -> None:
    """Refuse a file whose folder does not exist, or that is a folder itself."""
    if not path.parent.is_dir():
        raise EvenflowError(f"{str(path)!r} cannot be written: there is no folder {str(path.parent)!r}.")
    if path.is_dir():
        raise EvenflowError(f"{str(path)!r} is a folder; name a file in it.")
