"""State files: parquet, sorted by the key's hash, never changed; read in pieces that stay in memory.

A file holds the keys that one worker touched in one batch, or what several such files became when they were
merged. Its footer says which batches, which buckets of the hash, and the earliest time-out in it, so most
files need not be opened. What was read stays in the Python process, by file name: names are never used twice,
so a version needs no more than the list of its files, and a batch reads what the one before wrote.
"""

from __future__ import annotations

import base64
import json
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.plan.table import bucket_of
from evenflow.spark.grouped.runs import equal_keys
from evenflow.spark.state.owner_lookup import STATE_BUCKETS, Bools, Hashes
from evenflow.spark.state.schema import BATCH, HASH, REMOVED, UNTIL

FOLDER = "data"
GROUP_ROWS = 16_384  # rows that are read together
CACHE_BYTES = 256 << 20  # of decoded rows that a Python process keeps
NEVER = np.iinfo(np.int64).max
_FOOTER = b"evenflow"


class DamagedFile(Exception):  # noqa: N818 - it becomes a sentence where the last whole batch is known
    """A state file is missing or does not hold what was written."""

    def __init__(self, name: str, why: str):
        super().__init__(name, why)
        self.name = name
        self.why = why


@dataclass(frozen=True)
class StateFile:
    """What is known of a file without opening it."""

    name: str  # below the table's folder
    bytes: int
    rows: int
    first: int  # the batches whose rows are in it
    last: int
    worker: int
    earliest: int | None  # time-out, in microseconds
    bits: str  # which buckets

    @cached_property
    def buckets(self) -> Bools:
        """Which buckets of the hash have rows in it."""
        packed = np.frombuffer(base64.b85decode(self.bits), np.uint8)
        return np.unpackbits(packed, count=STATE_BUCKETS).astype(np.bool_)


def write_state(root: Path, rows: pa.Table, first: int, last: int, worker: int) -> StateFile:
    """Write rows of distinct keys, sorted by hash, under a name that nobody else has."""
    hashes = rows.column(HASH).to_numpy()
    buckets = np.zeros(STATE_BUCKETS, np.bool_)
    buckets[bucket_of(hashes, STATE_BUCKETS)] = True
    until = _until(rows)
    earliest = int(until.min(initial=NEVER))
    known = {
        "rows": rows.num_rows,
        "first": first,
        "last": last,
        "worker": worker,
        "earliest": None if earliest == NEVER else earliest,
        "bits": base64.b85encode(np.packbits(buckets).tobytes()).decode(),
    }
    name = f"{FOLDER}/{last:010}-{worker:05}-{uuid4().hex}.parquet"
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as handle:
        schema = rows.schema.with_metadata({_FOOTER: json.dumps(known)})
        with pq.ParquetWriter(
            handle, schema, compression="zstd", write_page_checksum=True, use_dictionary=False
        ) as writer:
            writer.write_table(rows.replace_schema_metadata(schema.metadata), row_group_size=GROUP_ROWS)
        handle.flush()
        os.fsync(handle.fileno())
        size = handle.tell()
    return StateFile(name=name, bytes=size, **known)


def read_footer(root: Path, name: str, size: int) -> StateFile:
    """Return what the footer of a file says of it."""
    metadata = _open(root, name, size).metadata
    try:
        known = json.loads((metadata.metadata or {})[_FOOTER])
        found = StateFile(name=name, bytes=size, **known)
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFile(name, f"its footer is not evenflow's ({error})") from error
    return found


def _open(root: Path, name: str, size: int) -> pq.ParquetFile:
    path = root / name
    try:
        found = path.stat().st_size
        if found != size:
            raise DamagedFile(name, f"it has {found} bytes, {size} were written")
        return pq.ParquetFile(path, page_checksum_verification=True)
    except FileNotFoundError as error:
        raise DamagedFile(name, "it is missing") from error
    except (OSError, pa.ArrowException) as error:
        raise DamagedFile(name, _first_line(error)) from error


def _until(rows: pa.Table | pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return when each key expires, in microseconds."""
    column = rows.column(UNTIL)
    if column.null_count == len(column):
        return np.full(len(column), NEVER, np.int64)
    return column.cast(pa.int64()).fill_null(NEVER).to_numpy()


@dataclass
class Piece:
    """Some thousand rows of a file, decoded."""

    hashes: Hashes
    rows: pa.RecordBatch
    until: npt.NDArray[np.int64]  # NEVER also where it became known that a newer row of the key exists


@dataclass(frozen=True)
class Opened:
    """The smallest and the largest hash of every piece of a file."""

    metadata: Any
    lowest: Hashes
    highest: Hashes


class Cache:
    """What a Python process keeps of state files; the pieces that were used last stay."""

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self.limit = limit
        self.bytes = 0
        self.opened: OrderedDict[str, Opened] = OrderedDict()
        self.pieces: OrderedDict[tuple[str, int], Piece] = OrderedDict()

    def open(self, root: Path, file: StateFile) -> Opened:
        """Return the bounds of a file's pieces."""
        where = str(root / file.name)
        if where not in self.opened:
            metadata = _open(root, file.name, file.bytes).metadata
            place = _leaf(metadata)
            bounds = [
                metadata.row_group(number).column(place).statistics
                for number in range(metadata.num_row_groups)
            ]
            self.opened[where] = Opened(
                metadata,
                np.array([bound.min for bound in bounds], np.int64),
                np.array([bound.max for bound in bounds], np.int64),
            )
            while len(self.opened) > 4096:
                self.opened.popitem(last=False)
        return self.opened[where]

    def keep_only(self, root: Path, files: Iterable[StateFile]) -> None:
        """Forget files of a table that are no longer in it: they were merged into others."""
        kept = {str(root / file.name) for file in files}
        folder = str(root / FOLDER) + os.sep
        for where in [where for where in self.opened if where.startswith(folder) and where not in kept]:
            del self.opened[where]
        for name, number in [*self.pieces]:
            if name.startswith(folder) and name not in kept:
                self.bytes -= self.pieces.pop((name, number)).rows.nbytes

    def piece(self, root: Path, file: StateFile, number: int) -> tuple[Piece, int]:
        """Return a piece, and the bytes that had to be read for it."""
        where = (str(root / file.name), number)
        found = self.pieces.get(where)
        if found is not None:
            self.pieces.move_to_end(where)
            return found, 0
        opened = self.open(root, file)
        try:
            table = _open(root, file.name, file.bytes).read_row_group(number).combine_chunks()
        except (OSError, pa.ArrowException) as error:
            raise DamagedFile(file.name, _first_line(error)) from error
        rows = table.to_batches()[0]
        piece = Piece(rows.column(HASH).to_numpy(), rows, np.array(_until(rows)))
        self.pieces[where] = piece
        self.bytes += rows.nbytes
        while self.bytes > self.limit and len(self.pieces) > 1:
            self.bytes -= self.pieces.popitem(last=False)[1].rows.nbytes
        group = opened.metadata.row_group(number)
        return piece, sum(group.column(place).total_compressed_size for place in range(group.num_columns))


def _leaf(metadata: Any) -> int:
    """Return the place of the hash among the leaves of a parquet schema: nested columns have several."""
    return next(leaf for leaf in range(metadata.num_columns) if metadata.schema.column(leaf).path == HASH)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


_CACHE = Cache()


class StateReader:
    """Finds the newest row of keys among some files; counts what that makes it read."""

    def __init__(
        self, root: Path, files: Sequence[StateFile], keys: Sequence[str], cache: Cache | None = None
    ):
        self.root = root
        self.files = sorted(files, key=lambda file: -file.last)
        self.keys = list(keys)
        self.cache = cache or _CACHE
        self.bytes_read = 0

    def find(self, hashes: Hashes, keys: Sequence[pa.Array]) -> Found:
        """Return where the newest rows of some keys are."""
        found = Found(len(hashes))
        buckets = bucket_of(hashes, STATE_BUCKETS)
        missing = np.arange(len(hashes))
        for file in self.files:
            if not missing.size:
                break
            here = missing[file.buckets[buckets[missing]]]
            for piece, rows, places in self._matches(file, hashes, keys, here):
                found.add(piece, rows, places)
            missing = missing[found.piece[missing] < 0]
        return found

    def _matches(
        self, file: StateFile, hashes: Hashes, keys: Sequence[pa.Array], wanted: npt.NDArray[np.int64]
    ) -> Iterator[tuple[Piece, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Yield pieces of a file, which of the wanted keys they hold, and at which of their rows."""
        if not wanted.size:
            return
        opened = self.cache.open(self.root, file)
        number = np.searchsorted(opened.highest, hashes[wanted])
        inside = number < opened.highest.size
        wanted, number = wanted[inside], number[inside]
        inside = opened.lowest[number] <= hashes[wanted]
        wanted, number = wanted[inside], number[inside]
        for piece_number in np.unique(number):
            looked = wanted[number == piece_number]
            piece = self._piece(file, int(piece_number))
            at = np.searchsorted(piece.hashes, hashes[looked])
            hit = piece.hashes[np.minimum(at, piece.hashes.size - 1)] == hashes[looked]
            looked, at = looked[hit], at[hit]
            if not looked.size:
                continue
            equal = self._same_keys(piece, at, keys, looked)
            yield piece, looked[equal], at[equal]
            for row in looked[~equal]:  # another key with the same 64 bits
                yield from self._beside(file, int(piece_number), int(row), hashes, keys)

    def _beside(
        self, file: StateFile, number: int, row: int, hashes: Hashes, keys: Sequence[pa.Array]
    ) -> Iterator[tuple[Piece, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Look through all rows with one hash, which may go on in the next piece."""
        opened, wanted = self.cache.open(self.root, file), np.array([row])
        while number < opened.lowest.size and opened.lowest[number] <= hashes[row]:
            piece = self._piece(file, number)
            for at in np.flatnonzero(piece.hashes == hashes[row]):
                if self._same_keys(piece, np.array([at]), keys, wanted)[0]:
                    yield piece, wanted, np.array([at])
                    return
            number += 1

    def _same_keys(
        self,
        piece: Piece,
        at: npt.NDArray[np.int64],
        keys: Sequence[pa.Array],
        rows: npt.NDArray[np.int64],
    ) -> Bools:
        equal = np.ones(rows.size, np.bool_)
        for name, key in zip(self.keys, keys, strict=True):
            equal &= equal_keys(piece.rows.column(name).take(pa.array(at)), key.take(pa.array(rows)))
        return equal

    def _piece(self, file: StateFile, number: int) -> Piece:
        piece, read = self.cache.piece(self.root, file, number)
        self.bytes_read += read
        return piece

    def pieces(self, file: StateFile, buckets: Bools | None = None) -> Iterator[Piece]:
        """Yield the pieces of a file; those only that may have rows of some buckets."""
        opened = self.cache.open(self.root, file)
        for number in range(opened.lowest.size):
            if buckets is None or _overlaps(opened.lowest[number], opened.highest[number], buckets):
                yield self._piece(file, number)

    def newest(self, of: Bools | None, wanted: Any) -> pa.Table | None:
        """Return the newest rows of all keys that ``wanted`` (hashes -> which) names, sorted by hash."""
        parts = []
        for file in self.files:
            if of is not None and not (file.buckets & of).any():
                continue
            for piece in self.pieces(file, of):
                chosen = wanted(piece.hashes)
                if chosen.all():
                    parts.append(piece.rows)
                elif chosen.any():
                    parts.append(piece.rows.take(pa.array(np.flatnonzero(chosen))))
        if not parts:
            return None
        return newest_rows(pa.Table.from_batches(parts), self.keys)


def newest_rows(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return one row for each key, the newest, sorted by hash."""
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
    return ordered.take(pa.array(_first_of_each(ordered, hashes, keys)))  # two keys with the same 64 bits


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
    return bool(buckets[first:].any() or buckets[: last + 1].any())  # signed order begins in the middle


class Found:
    """Which piece, and which row of it, holds each of some keys."""

    def __init__(self, number: int) -> None:
        self.pieces: list[Piece] = []
        self.piece = np.full(number, -1, np.int64)
        self.row = np.zeros(number, np.int64)

    def add(self, piece: Piece, which: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> None:
        """Note keys that were found."""
        if which.size:
            self.piece[which] = len(self.pieces)
            self.row[which] = rows
            self.pieces.append(piece)

    def states(self, names: Sequence[str]) -> list[tuple[Any, ...] | None]:
        """Return the states of the keys in order; None where there is none."""
        states: list[tuple[Any, ...] | None] = [None] * self.piece.size
        for number, piece in enumerate(self.pieces):
            which = np.flatnonzero(self.piece == number)
            rows = piece.rows.take(pa.array(self.row[which]))
            removed = rows.column(REMOVED).to_pylist()
            columns = [rows.column(name).to_pylist(maps_as_pydicts="strict") for name in names]
            for place, gone, state in zip(which.tolist(), removed, zip(*columns, strict=True), strict=True):
                if not gone:
                    states[place] = state
        return states
