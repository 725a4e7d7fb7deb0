"""The interface of a data file, and reading text in blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from evenflow.errors import EvenflowError
from evenflow.storage import Location, open_storage
from evenflow.storage.reader import ObjectFile, open_object

BLOCK = 1 << 23  # bytes of text at a time
LONGEST = 1 << 28  # bytes of one line or word


class DataFile(ABC):
    """A file of rows."""

    kind: ClassVar[str]
    endings: ClassVar[tuple[str, ...]]
    compressible: ClassVar[bool] = True
    optional_columns: ClassVar[bool] = False  # may a row lack a column?

    def __init__(self, path: Path | Location, compression: str | None = None):
        self.path = path
        self.compression = compression
        self.time: str | None = None  # the time column, whose type does not matter since it is not hashed

    @abstractmethod
    def columns(self) -> list[str]:
        """Return the names of the columns."""

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield Arrow record batches (or tables) with at least ``columns``, in file order."""

    def part(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield at most ``rows`` rows: the first ones, or spread over the file if the format allows it."""
        yield from first_rows(self.batches(columns), rows)

    def rows(self) -> int | None:
        """Return the number of rows, or None if the file does not store it."""
        return None

    def open(self) -> Any:
        """Open the file as decompressed bytes."""
        if isinstance(self.path, Location):
            return pa.input_stream(self.source(), compression=self.compression)
        return pa.input_stream(str(self.path), compression=self.compression)

    def source(self, buffered: bool = True) -> Any:
        """Open the file as it is, for reading from any position; buffered if most of it is read."""
        if isinstance(self.path, Location):
            storage, name = open_storage(self.path.parent), self.path.name
            return pa.PythonFile(open_object(storage, name) if buffered else ObjectFile(storage, name), "r")
        return pa.OSFile(str(self.path))  # as a plain path, a colon would make it a URI

    def size(self) -> int | None:
        """Return the number of bytes; None if it is not one file."""
        if isinstance(self.path, Location):
            return open_storage(self.path.parent).size(self.path.name)
        return self.path.stat().st_size if self.path.is_file() else None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn Arrow's errors into one sentence."""
        try:
            yield
        except (pa.ArrowException, OSError, EOFError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
            raise EvenflowError(f"cannot read {self.path} as {self.kind}: {reason}.") from error


def first_rows(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    """Yield the first ``rows`` rows without reading further."""
    for batch in batches:
        if rows <= 0:
            return
        yield batch.slice(0, rows)
        rows -= batch.num_rows


def blocks_of(file: DataFile, ends: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield blocks that end with one of the bytes ``ends``, each with its first line number."""
    line = 1
    rest = b""
    with file.open() as source:
        while data := source.read(BLOCK):
            data = rest + data
            cut = 1 + max(data.rfind(end) for end in (ends[i : i + 1] for i in range(len(ends))))
            if cut == 0 and len(data) > LONGEST:
                raise EvenflowError(
                    f"{file.path} has a row of more than {LONGEST} bytes at line {line}; check that it is "
                    f"{file.kind}."
                )
            block, rest = data[:cut], data[cut:]
            if block:
                yield block, line
                line += block.count(b"\n")
    if rest:
        yield rest, line
