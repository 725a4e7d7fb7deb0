"""The kinds of files that are streams, by the ending of their names; each is read as Arrow batches.

What a kind leaves open, and what holds here:

* Every row of a file is one message. A damaged row ends the reading with a sentence that names its line; none
  is skipped.
* CSV has a header and no types: keys are text, as Spark reads it by default. An empty field is null, a quoted
  empty one is the empty text. Lines without any character are no rows.
* JSON has types: a key is text, a number, true or false, and stays of the type it has first (1.5 after 1 is
  refused). Text that looks like a time stays text. A row without the field has null there; a blank line is no
  row.
* Text is one column named ``word``: what stands between ASCII white space, as it stands there (as Spark's
  ``split(line, "\\\\s+")``).
* Memory is bounded: Parquet and Arrow by the batches and pages of their writer, the others by blocks of some
  megabytes.
"""

from __future__ import annotations

from pathlib import Path

from evenflow.errors import EvenflowError
from evenflow.streams.data_file import DataFile
from evenflow.streams.tables import Arrow, Csv, Parquet, Tsv
from evenflow.streams.text import JsonLines, Text

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
KINDS: tuple[type[DataFile], ...] = (Parquet, Csv, Tsv, JsonLines, Text, Arrow)
ENDINGS = {ending: kind for kind in KINDS for ending in kind.endings}


def data_file(path: Path) -> DataFile:
    """Return the reader that the ending of ``path`` asks for."""
    name = path.name.lower()
    outer = next((ending for ending in COMPRESSIONS if name.endswith(ending)), None)
    if outer:
        name = name.removesuffix(outer)
    kind = ENDINGS.get(Path(name).suffix)
    if kind is None:
        known = ", ".join(ENDINGS)
        raise EvenflowError(
            f"{path} has an ending that says nothing about its kind; evenflow reads {known}, "
            f"and most of them with {', '.join(COMPRESSIONS)} after it."
        )
    if outer and not kind.compressible:
        raise EvenflowError(
            f"{path} is {kind.kind} inside {outer}; unpack it, {kind.kind} compresses by itself."
        )
    return kind(path, COMPRESSIONS[outer] if outer else None)
