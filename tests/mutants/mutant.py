"""What a mutant is: one idea of one scheme, broken by a few replacements of text in a copy of the sources."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


@dataclass(frozen=True)
class Edit:
    """A replacement of text that occurs exactly once in a file of the package."""

    file: str  # below src/evenflow
    old: str
    new: str

    def applied(self, text: str) -> str:
        """Return the text of the file with the replacement made."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {text.count(self.old)} times {self.old!r}; it must occur once")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Mutant:
    """A broken idea, and the figures whose claims must notice it."""

    name: str
    idea: str  # what is broken, for the table
    edits: tuple[Edit, ...]
    figures: tuple[str, ...]
    touches: tuple[str, ...] = ()  # schemes and symbols it changes; (): every point is measured again
    survives: str = ""  # why no claim can notice it

    @property
    def digest(self) -> str:
        """Return what kept measurements of this mutant depend on, besides the sources."""
        return hashlib.sha256(repr((self.edits, self.touches)).encode()).hexdigest()[:12]

    def apply(self, source: Path) -> None:
        """Break the idea in a copy of the sources."""
        for edit in self.edits:
            file = source / "evenflow" / edit.file
            file.write_text(edit.applied(file.read_text(encoding="utf-8")), encoding="utf-8")
