"""Tabular files: Parquet, Arrow IPC, CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet
import pyarrow.types as kinds

from evenflow.streams.data_file import DataFile, first_rows

ROWS = 1 << 19  # of a batch of Parquet
BLOCK = 1 << 21  # bytes of CSV per block; Arrow buffers about forty blocks


class Parquet(DataFile):
    """Parquet; text is read as dictionaries, so that each value is hashed once per batch."""

    kind = "Parquet"
    endings = (".parquet", ".pq")
    compressible = False

    def columns(self) -> list[str]:
        """Return the column names of the schema."""
        with self.reading(), self._file() as file:
            return list(file.schema_arrow.names)

    def rows(self) -> int:
        """Return the number of rows from the footer."""
        with self.reading(), self._file() as file:
            return int(file.metadata.num_rows)

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield parts of row groups."""
        with self._columns(columns) as (file, options):
            yield from file.iter_batches(ROWS, **options)

    def part(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield the beginning of every row group."""
        with self._columns(columns) as (file, options):
            done, total = 0, file.metadata.num_rows
            for group in range(file.num_row_groups):
                upto = done + file.metadata.row_group(group).num_rows
                share = rows * upto // total - rows * done // total if total else 0
                yield from first_rows(file.iter_batches(ROWS, row_groups=[group], **options), share)
                done = upto

    @contextmanager
    def _columns(self, columns: Sequence[str]) -> Iterator[tuple[Any, dict[str, Any]]]:
        with self.reading():
            with self._file() as file:
                text = [name for name in columns if _is_text(file.schema_arrow.field(name).type)]
            with self._file(text) as file:
                yield file, {"columns": list(dict.fromkeys(columns)), "use_threads": False}

    def _file(self, as_dictionaries: Sequence[str] = ()) -> Any:
        return pyarrow.parquet.ParquetFile(
            self.source(buffered=False), read_dictionary=as_dictionaries, buffer_size=1 << 20
        )


class Arrow(DataFile):
    """Arrow IPC, in the file or stream format, detected by the first bytes."""

    kind = "Arrow IPC"
    endings = (".arrow", ".feather", ".ipc", ".arrows")

    def columns(self) -> list[str]:
        """Return the column names of the schema."""
        with self.reading(), self._reader(None) as reader:
            return list(reader.schema.names)

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the batches as written."""
        names = self.columns()
        with self.reading(), self._reader(sorted({names.index(name) for name in columns})) as reader:
            if hasattr(reader, "num_record_batches"):
                for number in range(reader.num_record_batches):
                    yield reader.get_batch(number)
            else:
                yield from reader

    def _reader(self, fields: list[int] | None) -> Any:
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        if self.compression is None:
            local = isinstance(self.path, Path)
            source = pa.memory_map(str(self.path)) if local else self.source()
            if source.read(6) == b"ARROW1":
                return pa.ipc.open_file(source, options=options)
            source.seek(0)
        else:
            source = self.open()
        return pa.ipc.open_stream(source, options=options)


class Csv(DataFile):
    """Comma-separated values with a header."""

    kind = "CSV"
    endings = (".csv",)
    delimiter: ClassVar[str] = ","

    def columns(self) -> list[str]:
        """Return the header."""
        with self.reading(), self._reader(None) as reader:
            return list(reader.schema.names)

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield blocks of rows, every column as text."""
        with self.reading(), self._reader(columns) as reader:
            yield from reader

    def _reader(self, columns: Sequence[str] | None) -> Any:
        return pyarrow.csv.open_csv(
            self.open(),
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=BLOCK),
            parse_options=pyarrow.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=list(dict.fromkeys(columns)) if columns else None,
                column_types={name: pa.string() for name in columns or ()},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )


class Tsv(Csv):
    """Tab-separated values with a header."""

    kind = "TSV"
    endings = (".tsv",)
    delimiter = "\t"


def _is_text(kind: Any) -> bool:
    return bool(
        kinds.is_string(kind)
        or kinds.is_large_string(kind)
        or kinds.is_binary(kind)
        or kinds.is_large_binary(kind)
    )
