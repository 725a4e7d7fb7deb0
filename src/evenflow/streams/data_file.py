"""What a file of rows is, and the pieces in which its text is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from evenflow.errors import EvenflowError

BLOCK = 1 << 23  # bytes of text at a time
LONGEST = 1 << 28  # bytes of one line or word


class DataFile(ABC):
    """One file of rows."""

    kind: ClassVar[str]
    endings: ClassVar[tuple[str, ...]]
    compressible: ClassVar[bool] = True
    optional_columns: ClassVar[bool] = False  # may a row lack a column?

    def __init__(self, path: Path, compression: str | None = None):
        self.path = path
        self.compression = compression
        self.time: str | None = None  # the column that is read for its value alone, not hashed by its type

    @abstractmethod
    def columns(self) -> list[str]:
        """Return the names of the columns."""

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield Arrow record batches (or tables) that have at least ``columns``, in the order of the file."""

    def part(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield at most ``rows`` rows: the first, or spread over the file where its kind allows that."""
        yield from first_rows(self.batches(columns), rows)

    def rows(self) -> int | None:
        """Return the number of rows, where the file says it."""
        return None

    def open(self) -> Any:
        """Open the file as bytes, unpacked."""
        return pa.input_stream(str(self.path), compression=self.compression)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn what Arrow says of a damaged file into a sentence."""
        try:
            yield
        except (pa.ArrowException, OSError, EOFError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
            raise EvenflowError(f"{self.path} cannot be read as {self.kind}: {reason}.") from error


def first_rows(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    """Yield the first ``rows`` rows of some batches, and read no further."""
    for batch in batches:
        if rows <= 0:
            return
        yield batch.slice(0, rows)
        rows -= batch.num_rows


def blocks_of(file: DataFile, ends: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the file in pieces that end with one of the bytes ``ends``, and the line on which each begins."""
    line = 1
    rest = b""
    with file.open() as source:
        while data := source.read(BLOCK):
            data = rest + data
            cut = 1 + max(data.rfind(end) for end in (ends[i : i + 1] for i in range(len(ends))))
            if cut == 0 and len(data) > LONGEST:
                raise EvenflowError(
                    f"{file.path} has a row of more than {LONGEST} bytes at line {line}; is it {file.kind}?"
                )
            block, rest = data[:cut], data[cut:]
            if block:
                yield block, line
                line += block.count(b"\n")
    if rest:
        yield rest, line
