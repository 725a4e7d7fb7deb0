"""File formats by suffix; all are read as Arrow batches.

Rules:

* Every row of a file is one message. A damaged row raises an error that names its line; no row is skipped.
* CSV has a header and no types: keys are text, as in Spark by default. An empty field is null, a quoted empty
  field is the empty string. Empty lines are ignored.
* JSON has types: a key is text, a number, true or false, and its first type is kept (1.5 after 1 is an
  error). Text that looks like a time stays text. A missing field is null; blank lines are ignored.
* Text has one column, ``word``: tokens separated by ASCII white space, unchanged (as Spark's
  ``split(line, "\\\\s+")``).
* Memory is bounded: for Parquet and Arrow by the batches and pages of the writer, otherwise by blocks of some
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
    """Return the reader for the suffix of ``path``."""
    name = path.name.lower()
    outer = next((ending for ending in COMPRESSIONS if name.endswith(ending)), None)
    if outer:
        name = name.removesuffix(outer)
    kind = ENDINGS.get(Path(name).suffix)
    if kind is None:
        known = ", ".join(ENDINGS)
        raise EvenflowError(
            f"unsupported file type {str(path)!r}; evenflow reads {known}, "
            f"most of them also compressed ({', '.join(COMPRESSIONS)})."
        )
    if outer and not kind.compressible:
        raise EvenflowError(
            f"{path} is {kind.kind} compressed as {outer}; decompress it ({kind.kind} compresses itself)."
        )
    return kind(path, COMPRESSIONS[outer] if outer else None)
