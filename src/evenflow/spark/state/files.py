"""State files: immutable Parquet files, sorted by the key's hash, whose row groups are cached in memory.

A file holds the keys that one worker touched in one batch, or the result of merging several such files. Its
footer records the range of batches, the buckets of the hash and the earliest expiry time, so most files need
not be opened. Decoded row groups are cached in the Python process by file name. Names are never reused, so
the list of files alone identifies a version, and a batch finds in the cache what the previous one read.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.errors import first_line
from evenflow.plan.table import bucket_of
from evenflow.spark.grouped.record_columns import to_values
from evenflow.spark.grouped.runs import equal_keys
from evenflow.spark.state.owner_lookup import STATE_BUCKETS, Bools, Hashes
from evenflow.spark.state.schema import BATCH, EXPIRES, HASH, REMOVED
from evenflow.storage import Storage, StorageError
from evenflow.storage.local_copies import local_copies
from evenflow.storage.reader import ObjectFile

FOLDER = "data"
GROUP_ROWS = 16_384  # per row group
CACHE_BYTES = 256 << 20  # of decoded rows per Python process
MAX_OPEN_FILES = 4096  # whose bounds are cached
WHOLE_BYTES = 1 << 20  # up to which a file is read by one request
NEVER = np.iinfo(np.int64).max
_FOOTER = b"evenflow"


class DamagedFile(Exception):  # noqa: N818 - turned into an error where the last intact batch is known
    """A state file is missing or corrupt."""

    def __init__(self, name: str, reason: str):
        super().__init__(name, reason)
        self.name = name
        self.reason = reason


@dataclass(frozen=True)
class StateFile:
    """The description of a file, available without opening it."""

    name: str  # relative to the table's directory
    bytes: int
    rows: int
    first: int  # of the range of batches
    last: int
    worker: int
    earliest: int | None  # expiry time, in microseconds
    bits: str  # bit set of the buckets, base85

    @cached_property
    def buckets(self) -> Bools:
        """Which buckets of the hash have rows in the file."""
        packed = np.frombuffer(base64.b85decode(self.bits), np.uint8)
        return np.unpackbits(packed, count=STATE_BUCKETS).astype(np.bool_)


def write_state(
    storage: Storage, rows: pa.Table, first: int, last: int, worker: int, epoch: int = 0
) -> StateFile:
    """Write rows of distinct keys, sorted by hash, under a unique name."""
    hashes = rows.column(HASH).to_numpy()
    buckets = np.zeros(STATE_BUCKETS, np.bool_)
    buckets[bucket_of(hashes, STATE_BUCKETS)] = True
    expires = _expiries(rows)
    earliest = int(expires.min(initial=NEVER))
    description = {
        "rows": rows.num_rows,
        "first": first,
        "last": last,
        "worker": worker,
        "earliest": None if earliest == NEVER else earliest,
        "bits": base64.b85encode(np.packbits(buckets).tobytes()).decode(),
    }
    name = unique_name(FOLDER, last, worker, epoch)
    schema = rows.schema.with_metadata({_FOOTER: json.dumps(description)})
    options = {"compression": "zstd", "write_page_checksum": True, "use_dictionary": False}
    with ParquetObject(storage, name, schema, **options) as file:
        file.write(rows.replace_schema_metadata(schema.metadata), GROUP_ROWS)
    return StateFile(name=name, bytes=file.size, **description)


def unique_name(folder: str, batch: int, worker: int, epoch: int) -> str:
    """Return a name that is used once; it says which holder of the state wrote it."""
    return f"{folder}/{batch:010}-{worker:05}-{epoch:06}-{uuid4().hex}.parquet"


def batch_of(name: str) -> int:
    """Return the batch in a unique name.

    >>> batch_of(unique_name("data", 7, 1, 12))
    7
    """
    return int(name.rpartition("/")[2].partition("-")[0])


def epoch_of(name: str) -> int:
    """Return the epoch in a unique name; 0 if it has none.

    >>> epoch_of(unique_name("data", 7, 1, 12)), epoch_of("data/0000000007-00001-5e1f.parquet")
    (12, 0)
    """
    parts = name.rpartition("/")[2].split("-")
    return int(parts[2]) if len(parts) == 4 else 0


class ParquetObject:
    """A Parquet file that is there when the block ends without an error, and lasts."""

    def __init__(self, storage: Storage, name: str, schema: pa.Schema, **options: Any):
        copies = local_copies(storage)
        self.sink = (
            storage.open_sink(name) if copies is None else copies.beside(storage.open_sink(name), name)
        )
        self.size = 0
        self.writer = pq.ParquetWriter(self.sink, schema, **options)

    def __enter__(self) -> ParquetObject:
        return self

    def write(self, rows: pa.Table, group_rows: int | None = None) -> None:
        """Add rows."""
        self.writer.write_table(rows, row_group_size=group_rows)

    def __exit__(self, kind: Any, *raised: object) -> None:
        if kind is not None:
            self.abort()
            return
        try:
            self.writer.close()
            self.size = self.sink.tell()
        except BaseException:
            self.abort()
            raise
        self.sink.close()

    def abort(self) -> None:
        """Leave no file."""
        self.sink.abort()


def read_footer(storage: Storage, name: str, size: int) -> StateFile:
    """Return the description of a file from its footer."""
    metadata = open_parquet(storage, name, size).metadata
    try:
        description = json.loads((metadata.metadata or {})[_FOOTER])
        found = StateFile(name=name, bytes=size, **description)
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFile(name, f"its footer was not written by evenflow ({error})") from error
    return found


def open_parquet(
    storage: Storage, name: str, size: int, content: bytes | None = None, metadata: Any = None
) -> pq.ParquetFile:
    """Open a Parquet file of a known size: a copy, or a small one read whole, or a large one by ranges."""
    try:
        copies = local_copies(storage)
        copy = None if copies is None else copies.find(name, size)
        source: Any = ObjectFile(storage, name, size)
        if copy is not None and content is None:
            source = pa.OSFile(str(copy))
        elif size <= WHOLE_BYTES:
            source = pa.BufferReader(read_whole(storage, name, size) if content is None else content)
        return pq.ParquetFile(source, metadata=metadata, page_checksum_verification=True, pre_buffer=True)
    except StorageError:
        raise
    except FileNotFoundError as error:
        raise DamagedFile(name, "it is missing") from error
    except (OSError, pa.ArrowException) as error:
        raise DamagedFile(name, first_line(error)) from error


def read_whole(storage: Storage, name: str, size: int) -> bytes:
    """Return the content of a file of a known size."""
    copies = local_copies(storage)
    copy = None if copies is None else copies.find(name, size)
    if copy is not None:
        with contextlib.suppress(OSError):
            return copy.read_bytes()
    try:
        content = storage.read(name)
    except FileNotFoundError as error:
        raise DamagedFile(name, "it is missing") from error
    if len(content) != size:
        raise DamagedFile(name, f"it has {len(content)} bytes instead of {size}")
    if copies is not None:
        copies.save(name, content)
    return content


def forget_copies(storage: Storage, files: Iterable[StateFile], batch: int) -> None:
    """Remove what this executor copied of files that are no longer in the table when a batch begins."""
    copies = local_copies(storage)
    if copies is not None:
        kept = {file.name for file in files}
        copies.retain(lambda name: name in kept or batch_of(name) >= batch - 1)  # tasks may be writing them


def _expiries(rows: pa.Table | pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return the expiry time of each key, in microseconds."""
    column = rows.column(EXPIRES)
    if column.null_count == len(column):
        return np.full(len(column), NEVER, np.int64)
    return column.cast(pa.int64()).fill_null(NEVER).to_numpy()


@dataclass
class RowGroup:
    """A decoded row group of a file."""

    hashes: Hashes
    rows: pa.RecordBatch
    expires: npt.NDArray[np.int64]  # set to NEVER for rows found to be superseded by a newer one


@dataclass(frozen=True)
class RowGroupBounds:
    """The smallest and the largest hash of each row group of a file."""

    metadata: Any
    lowest: Hashes
    highest: Hashes


class Cache:
    """An LRU cache of the row groups of state files, one per Python process."""

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self.limit = limit
        self.bytes = 0
        self.bounds: OrderedDict[str, RowGroupBounds] = OrderedDict()
        self.row_groups: OrderedDict[tuple[str, int], RowGroup] = OrderedDict()
        self.content: tuple[str, bytes] = ("", b"")  # of the small file that was read last

    def _open(self, storage: Storage, file: StateFile, path: str, metadata: Any = None) -> pq.ParquetFile:
        if file.bytes > WHOLE_BYTES:
            return open_parquet(storage, file.name, file.bytes, None, metadata)
        if self.content[0] != path:
            self.content = (path, read_whole(storage, file.name, file.bytes))
        return open_parquet(storage, file.name, file.bytes, self.content[1], metadata)

    def open(self, storage: Storage, file: StateFile) -> RowGroupBounds:
        """Return the bounds of a file's row groups."""
        path = str(storage.location / file.name)
        if path not in self.bounds:
            metadata = self._open(storage, file, path).metadata
            column = _hash_column(metadata)
            statistics = [
                metadata.row_group(number).column(column).statistics
                for number in range(metadata.num_row_groups)
            ]
            self.bounds[path] = RowGroupBounds(
                metadata,
                np.array([bound.min for bound in statistics], np.int64),
                np.array([bound.max for bound in statistics], np.int64),
            )
            while len(self.bounds) > MAX_OPEN_FILES:
                self.bounds.popitem(last=False)
        return self.bounds[path]

    def retain(self, storage: Storage, files: Iterable[StateFile]) -> None:
        """Evict the files of a table that are no longer in it, because they were merged."""
        kept = {str(storage.location / file.name) for file in files}
        folder = f"{storage.location / FOLDER}/"
        for path in [path for path in self.bounds if path.startswith(folder) and path not in kept]:
            del self.bounds[path]
        for name, number in [*self.row_groups]:
            if name.startswith(folder) and name not in kept:
                self.bytes -= self.row_groups.pop((name, number)).rows.nbytes

    def row_group(self, storage: Storage, file: StateFile, number: int) -> tuple[RowGroup, int]:
        """Return a row group, and the number of bytes read for it."""
        cached = (str(storage.location / file.name), number)
        found = self.row_groups.get(cached)
        if found is not None:
            self.row_groups.move_to_end(cached)
            return found, 0
        bounds = self.open(storage, file)
        try:
            opened = self._open(storage, file, cached[0], bounds.metadata)
            table = opened.read_row_group(number).combine_chunks()
        except StorageError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise DamagedFile(file.name, first_line(error)) from error
        rows = table.to_batches()[0]
        row_group = RowGroup(rows.column(HASH).to_numpy(), rows, np.array(_expiries(rows)))
        self.row_groups[cached] = row_group
        self.bytes += rows.nbytes
        while self.bytes > self.limit and len(self.row_groups) > 1:
            self.bytes -= self.row_groups.popitem(last=False)[1].rows.nbytes
        group = bounds.metadata.row_group(number)
        sizes = (group.column(index).total_compressed_size for index in range(group.num_columns))
        return row_group, sum(sizes)


def _hash_column(metadata: Any) -> int:
    """Return the index of the hash among the leaf columns of a Parquet schema."""
    return next(leaf for leaf in range(metadata.num_columns) if metadata.schema.column(leaf).path == HASH)


_CACHE = Cache()


class StateReader:
    """Finds the newest rows of keys in a set of files, and counts the bytes read."""

    def __init__(
        self, storage: Storage, files: Sequence[StateFile], keys: Sequence[str], cache: Cache | None = None
    ):
        self.storage = storage
        self.files = sorted(files, key=lambda file: -file.last)
        self.keys = list(keys)
        self.cache = cache or _CACHE
        self.bytes_read = 0

    def find(self, hashes: Hashes, keys: Sequence[pa.Array]) -> Matches:
        """Return the positions of the newest rows of keys."""
        found = Matches(len(hashes))
        buckets = bucket_of(hashes, STATE_BUCKETS)
        missing = np.arange(len(hashes))
        for file in self.files:
            if not missing.size:
                break
            wanted = missing[file.buckets[buckets[missing]]]
            for row_group, indices, rows in self._matches(file, hashes, keys, wanted):
                found.add(row_group, indices, rows)
            missing = missing[found.group_index[missing] < 0]
        return found

    def _matches(
        self, file: StateFile, hashes: Hashes, keys: Sequence[pa.Array], wanted: npt.NDArray[np.int64]
    ) -> Iterator[tuple[RowGroup, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Yield row groups of a file with the indices of the wanted keys in them, and the rows of these."""
        if not wanted.size:
            return
        bounds = self.cache.open(self.storage, file)
        number = np.searchsorted(bounds.highest, hashes[wanted])
        inside = number < bounds.highest.size
        wanted, number = wanted[inside], number[inside]
        inside = bounds.lowest[number] <= hashes[wanted]
        wanted, number = wanted[inside], number[inside]
        for group_number in np.unique(number):
            candidates = wanted[number == group_number]
            row_group = self._row_group(file, int(group_number))
            at = np.searchsorted(row_group.hashes, hashes[candidates])
            hit = row_group.hashes[np.minimum(at, row_group.hashes.size - 1)] == hashes[candidates]
            candidates, at = candidates[hit], at[hit]
            if not candidates.size:
                continue
            equal = self._same_keys(row_group, at, keys, candidates)
            yield row_group, candidates[equal], at[equal]
            for row in candidates[~equal]:  # another key with the same hash
                yield from self._find_collision(file, int(group_number), int(row), hashes, keys)

    def _find_collision(
        self, file: StateFile, number: int, row: int, hashes: Hashes, keys: Sequence[pa.Array]
    ) -> Iterator[tuple[RowGroup, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Search all rows with the hash of a key, which may continue in the next row group."""
        bounds, wanted = self.cache.open(self.storage, file), np.array([row])
        while number < bounds.lowest.size and bounds.lowest[number] <= hashes[row]:
            row_group = self._row_group(file, number)
            for at in np.flatnonzero(row_group.hashes == hashes[row]):
                if self._same_keys(row_group, np.array([at]), keys, wanted)[0]:
                    yield row_group, wanted, np.array([at])
                    return
            number += 1

    def _same_keys(
        self,
        row_group: RowGroup,
        at: npt.NDArray[np.int64],
        keys: Sequence[pa.Array],
        rows: npt.NDArray[np.int64],
    ) -> Bools:
        equal = np.ones(rows.size, np.bool_)
        for name, key in zip(self.keys, keys, strict=True):
            equal &= equal_keys(row_group.rows.column(name).take(pa.array(at)), key.take(pa.array(rows)))
        return equal

    def _row_group(self, file: StateFile, number: int) -> RowGroup:
        row_group, read = self.cache.row_group(self.storage, file, number)
        self.bytes_read += read
        return row_group

    def row_groups(self, file: StateFile, buckets: Bools | None = None) -> Iterator[RowGroup]:
        """Yield the row groups of a file, or only those that may have rows of the given buckets."""
        bounds = self.cache.open(self.storage, file)
        for number in range(bounds.lowest.size):
            if buckets is None or _overlaps(bounds.lowest[number], bounds.highest[number], buckets):
                yield self._row_group(file, number)

    def newest(self, buckets: Bools | None, selects: Callable[[Hashes], Bools]) -> pa.Table | None:
        """Return the newest rows, sorted by hash, of the keys in ``buckets`` whose hash is selected."""
        parts = []
        for file in self.files:
            if buckets is not None and not (file.buckets & buckets).any():
                continue
            for row_group in self.row_groups(file, buckets):
                chosen = selects(row_group.hashes)
                if chosen.all():
                    parts.append(row_group.rows)
                elif chosen.any():
                    parts.append(row_group.rows.take(pa.array(np.flatnonzero(chosen))))
        if not parts:
            return None
        return newest_rows(pa.Table.from_batches(parts), self.keys)


def newest_rows(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the newest row of each key, sorted by hash."""
    hashes = rows.column(HASH).to_numpy()
    order = np.lexsort((-rows.column(BATCH).to_numpy(), hashes))
    ordered = rows.take(pa.array(order)).combine_chunks()
    hashes = hashes[order]
    repeated = np.zeros(hashes.size, np.bool_)
    repeated[1:] = hashes[1:] == hashes[:-1]
    if not repeated.any():
        return ordered
    equal = repeated.copy()
    for name in keys:
        column = ordered.column(name).chunk(0)
        equal[1:] &= equal_keys(column.slice(0, len(column) - 1), column.slice(1))
    if not (repeated & ~equal).any():
        return ordered.take(pa.array(np.flatnonzero(~equal)))
    return ordered.take(pa.array(_first_of_each(ordered, hashes, keys)))  # two keys with the same hash


def _first_of_each(ordered: pa.Table, hashes: Hashes, keys: Sequence[str]) -> list[int]:
    kept: list[int] = []
    columns = [ordered.column(name).chunk(0) for name in keys]
    for row in range(ordered.num_rows):
        before = len(kept) - 1
        seen = False
        while before >= 0 and hashes[kept[before]] == hashes[row] and not seen:
            seen = all(
                equal_keys(column.slice(kept[before], 1), column.slice(row, 1))[0] for column in columns
            )
            before -= 1
        if not seen:
            kept.append(row)
    return kept


def _overlaps(lowest: int, highest: int, buckets: Bools) -> bool:
    first, last = bucket_of(np.array([lowest, highest], np.int64), STATE_BUCKETS)
    if first <= last:
        return bool(buckets[first : last + 1].any())
    return bool(buckets[first:].any() or buckets[: last + 1].any())  # signed order starts with the upper half


class Matches:
    """The row group and row of each key that was found."""

    def __init__(self, number: int) -> None:
        self.row_groups: list[RowGroup] = []
        self.group_index = np.full(number, -1, np.int64)
        self.row = np.zeros(number, np.int64)

    def add(self, row_group: RowGroup, indices: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> None:
        """Record keys that were found in a row group."""
        if indices.size:
            self.group_index[indices] = len(self.row_groups)
            self.row[indices] = rows
            self.row_groups.append(row_group)

    def states(self, names: Sequence[str]) -> list[tuple[Any, ...] | None]:
        """Return the states of the keys in order; None for keys without state."""
        states: list[tuple[Any, ...] | None] = [None] * self.group_index.size
        for number, row_group in enumerate(self.row_groups):
            indices = np.flatnonzero(self.group_index == number)
            rows = row_group.rows.take(pa.array(self.row[indices]))
            removed = rows.column(REMOVED).to_pylist()
            columns = [to_values(rows.column(name)) for name in names]
            records = zip(*columns, strict=True)
            for index, is_removed, state in zip(indices.tolist(), removed, records, strict=True):
                if not is_removed:
                    states[index] = state
        return states
