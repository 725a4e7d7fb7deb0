"""Tables in memory, partitioned folders and Delta tables as files of rows, through ``pyarrow.dataset``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from evenflow.errors import EvenflowError
from evenflow.extras import require
from evenflow.storage import Location
from evenflow.storage.delta import delta_options
from evenflow.streams.data_file import DataFile, first_rows

ROWS = 1 << 17  # of a batch
_BLOCKS = 100  # of a table in memory
_WHOLE = re.compile(r"-?\d{1,9}")  # of 32 bits
_NULL = "__HIVE_DEFAULT_PARTITION__"


class Dataset(DataFile):
    """The fragments of a dataset, one after the other."""

    kind = "a table"
    endings = ()

    def __init__(self, dataset: Any, name: str):
        super().__init__(Path(name))
        self.dataset = dataset

    def size(self) -> None:
        """Return None: a dataset is not one file."""

    def columns(self) -> list[str]:
        """Return the column names, those of partitions included."""
        return list(self.dataset.schema.names)

    def rows(self) -> int:
        """Return the number of rows."""
        with self.reading():
            return int(self.dataset.count_rows())

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield batches of every fragment."""
        with self.reading():
            names = list(dict.fromkeys(columns))
            yield from self.dataset.to_batches(columns=names, batch_size=ROWS, use_threads=False)

    def part(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield the beginning of every fragment."""
        names, total, done = list(dict.fromkeys(columns)), self.rows(), 0
        with self.reading():
            for fragment in self.dataset.get_fragments():
                upto = done + fragment.count_rows()
                share = rows * upto // total - rows * done // total
                found = fragment.to_batches(self.dataset.schema, names, batch_size=ROWS, use_threads=False)
                yield from first_rows(found, share)
                done = upto


def table_file(data: Any, columns: Sequence[str]) -> TableFile:
    """Return a frame of pandas, Polars, Arrow or Spark as a file.

    >>> file = table_file(pa.table({"user": ["ann", "bob", "ann"], "page": [1, 2, 3]}), ["user"])
    >>> file.columns(), file.rows()
    (['user'], 3)
    """
    try:
        chosen = data.select(list(columns)) if isinstance(data, pa.Table) else data[list(columns)]
        table = chosen.toArrow() if hasattr(chosen, "toArrow") else pa.table(chosen)
    except pa.ArrowException as error:
        raise EvenflowError(
            f"the columns {', '.join(columns)} cannot be read as Arrow ({error}); give each one type."
        ) from error
    return TableFile(table, f"a {type(data).__name__}")


class TableFile(Dataset):
    """A table in memory, in blocks from each of which a sample takes the beginning."""

    def __init__(self, table: pa.Table, name: str):
        size = max(1, -(-table.num_rows // _BLOCKS))
        blocks = [ds.dataset(table.slice(start, size)) for start in range(0, max(1, table.num_rows), size)]
        super().__init__(ds.dataset(blocks), name)
        self.table = table

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the table: a dataset cannot be."""
        return TableFile, (self.table, str(self.path))


def delta_file(path: Location) -> Dataset:
    """Return the newest version of a Delta table as a file."""
    require("deltalake", "state", f"reading the Delta table {path}")
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        table = DeltaTable(path.url, storage_options=delta_options(path))
        return Dataset(table.to_pyarrow_dataset(), str(path))
    except DeltaError as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise EvenflowError(f"cannot read the Delta table {path}: {reason}.") from error


def partitioned_file(path: str, files: Mapping[str, DataFile]) -> Dataset:
    """Return Parquet files in folders such as ``day=2026-11-16`` as one file with a column ``day``.

    ``files`` are named by their paths below ``path``.
    """
    partitions = _partitions(files)
    form = ds.ParquetFileFormat()
    fragments = [
        form.make_fragment(
            file.source(buffered=False) if isinstance(file.path, Location) else str(file.path),
            filesystem=None if isinstance(file.path, Location) else LocalFileSystem(),
            partition_expression=partitions.parse(name),
        )
        for name, file in files.items()
    ]
    with next(iter(files.values())).reading():
        first = fragments[0].physical_schema
    for field in partitions.schema:
        if field.name not in first.names:
            first = first.append(field)
    return Dataset(ds.FileSystemDataset(fragments, first, form), path)


def _partitions(names: Iterable[str]) -> Any:
    """Return what the names of folders mean: whole numbers if all values of a column are, otherwise text.

    >>> _partitions(["day=2026-11-16/hour=7/a.parquet", "day=2026-11-17/hour=08/b.parquet"]).schema.types
    [DataType(string), DataType(int32)]
    """
    values: dict[str, set[str]] = {}
    for name in names:
        for folder in name.split("/")[:-1]:
            column, sign, value = folder.partition("=")
            if sign:
                values.setdefault(unquote(column), set()).add(unquote(value))
    return ds.partitioning(
        pa.schema({column: _kind(found - {_NULL}) for column, found in values.items()}), flavor="hive"
    )


def _kind(values: set[str]) -> Any:
    return pa.int32() if values and all(map(_WHOLE.fullmatch, values)) else pa.string()
