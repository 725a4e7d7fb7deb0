"""Streams from files: finding files and columns, and assigning key ids.

A folder stands for all files in it, recursively, sorted by name; names that begin with ``.`` or ``_`` are
ignored (as in Spark). Folders of Parquet files such as ``day=2026-11-16`` give a column ``day``. A folder
with a Delta log is read as the table's newest version. A glob pattern such as ``logs/*.csv`` is expanded. All
files must have the columns, with the same types. The URL of an object store, such as ``s3://bucket/logs``,
stands for the same; a part of a file is read by ranges.

Composite keys are hashed as Spark hashes several columns. Null is a key like any other, but a stream in which
every key is null is rejected at its end, since there is nothing to balance.

File formats, by suffix:

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

import glob
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from evenflow.errors import EvenflowError, nearest
from evenflow.kernels import BoolArray, Int32Array, UInt64Array
from evenflow.keys import hash_keys
from evenflow.spec import whole
from evenflow.storage import Location, locate, open_storage
from evenflow.streams.base import CHUNK, Chunk, Stream, join_chunks
from evenflow.streams.clock import Clock
from evenflow.streams.data_file import DataFile
from evenflow.streams.dataset import delta_file, partitioned_file
from evenflow.streams.numbering import KeyNumbers, fold
from evenflow.streams.tables import Arrow, Csv, Parquet, Tsv
from evenflow.streams.text import JsonLines, Text

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
KINDS: tuple[type[DataFile], ...] = (Parquet, Csv, Tsv, JsonLines, Text, Arrow)
ENDINGS = {ending: kind for kind in KINDS for ending in kind.endings}
_PATTERN = re.compile(r"/[^/]*[*?\[]")  # the first part of a URL that is a pattern
_TEXT_KINDS = (pa.large_string(), pa.string_view())
_BYTES_KINDS = (pa.large_binary(), pa.binary_view())


class FileStream(Stream):
    """The rows of one or more files.

    Parameters
    ----------
    path
        A file, folder or glob pattern, or several.
    key
        Key columns.
    time
        Time column; None for a stream without times.

    Attributes
    ----------
    late
        Rows of the last pass with an earlier time than a preceding row.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "clicks.csv"
    >>> _ = path.write_text("user,page\\nann,1\\nbob,2\\nann,3\\n")
    >>> stream = FileStream(str(path), ["user"])
    >>> next(stream.chunks()).ids.tolist(), stream.label(1)
    ([0, 1, 0], 'bob')
    """

    def __init__(
        self,
        path: str | Sequence[str],
        key: Sequence[str],
        time: str | None = None,
        files: list[DataFile] | None = None,
    ):
        self.path = path if isinstance(path, str) else ", ".join(path)
        self.key = tuple(key)
        self.time = time
        self.late = 0
        self.files = find_files(path) if files is None else files
        self._parameters = (path, self.key, time, files)
        self._wanted = [*self.key, *([time] if time is not None else [])]
        for number, file in enumerate(self.files):
            file.time = None if time in self.key else time
            if number == 0 or not file.optional_columns:
                check_columns(file, self._wanted)
        lengths = [file.rows() for file in self.files]
        self.messages = None if None in lengths else sum(length or 0 for length in lengths)
        self._numbers = KeyNumbers()
        self._hashes = np.empty(0, np.uint64)
        self._types: list[Any] = [None] * len(self.key)
        self._values: list[list[Any]] = []  # key columns of the new keys of each batch
        self._firsts: list[int] = []
        next(self._pieces(), None)  # fail early on an empty or damaged file

    @property
    def name(self) -> str:
        """The spec that opens this stream again."""
        columns = "+".join(_quoted(column) for column in self.key)
        return f"{self.path}#{columns}" + (f"@{_quoted(self.time)}" if self.time is not None else "")

    def chunks(self, size: int = CHUNK) -> Iterator[Chunk]:
        """Yield the stream from its beginning in chunks of ``size`` messages; the last may be shorter."""
        size = whole("size", size, 1, None, "it must be at least 1")
        return regrouped(self._pieces(), size)

    @property
    def hashes(self) -> UInt64Array:
        """The 64-bit hash of every key read so far, by id."""
        return self._hashes[: len(self._numbers)]

    def label(self, id: int) -> str:
        """Return the key as text; the parts of a composite key are separated by commas."""
        known = len(self._numbers)
        id = whole("id", id, 0, known - 1, f"the ids read so far are 0 to {known - 1}")
        batch = bisect_right(self._firsts, id) - 1
        return ", ".join(_text(column[id - self._firsts[batch]]) for column in self._values[batch])

    def beginnings(self, rows: Sequence[int]) -> Iterator[Chunk]:
        """Yield at most ``rows[i]`` rows of the i-th file: the first ones, or spread over the file."""
        return self._pieces(rows)

    def _pieces(self, at_most: Sequence[int] | None = None) -> Iterator[Chunk]:
        clock = Clock(self.time) if self.time is not None else None
        rows = 0
        for number, file in enumerate(self.files):
            rows_before = rows
            wanted = self._wanted
            for batch in file.batches(wanted) if at_most is None else file.part(wanted, at_most[number]):
                if batch.num_rows:
                    ids = self._number([batch.column(name) for name in self.key], file, rows - rows_before)
                    yield Chunk(ids, clock.seconds(batch.column(self.time), rows) if clock else None)
                    rows += batch.num_rows
        self.late = clock.late if clock else 0
        if not rows:
            raise EvenflowError(f"{self.path} has no rows; a stream needs at least one.")
        if len(self._numbers) == 1:
            self.refuse_null(0)

    def refuse_null(self, id: int) -> None:
        """Reject the stream if ``id``, the only key found, is null."""
        batch = bisect_right(self._firsts, id) - 1
        if not any(column[id - self._firsts[batch]].is_valid for column in self._values[batch]):
            raise EvenflowError(
                f"every key of {self.name} is null; choose another of the columns "
                f"{', '.join(self.files[0].columns())}."
            )

    def has_null(self) -> BoolArray:
        """Return for every key found so far, by id, whether a part of it is null."""
        found = [
            np.logical_or.reduce([column.is_null().to_numpy(zero_copy_only=False) for column in columns])
            for columns in self._values
        ]
        return np.concatenate([np.zeros(0, bool), *found])

    def _number(self, columns: list[Any], file: DataFile, rows_before: int) -> Int32Array:
        """Return the ids of a batch and store its new keys."""
        columns = [self._prepared(index, column, file) for index, column in enumerate(columns)]
        known_by = hash_keys(columns[0])
        for column in columns[1:]:
            fold(known_by, hash_keys(column))
        first = len(self._numbers)
        ids, fresh = self._numbers.of(known_by)
        if fresh.size:
            values = [_plain(column.take(pa.array(fresh))) for column in columns]
            _check_text(values, self.key, file, rows_before, fresh)
            self._remember(hash_keys(*values), first)
            self._values.append(values)
            self._firsts.append(first)
        return ids

    def _prepared(self, index: int, column: Any, file: DataFile) -> Any:
        """Check that the type of a column does not change."""
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if kinds.is_uint64(column.type):
            column = column.cast(pa.decimal128(20, 0))  # as Spark reads such a column
        kind = _plain_type(column.type)
        if self._types[index] is None and not kinds.is_null(kind):
            self._types[index] = kind
        elif kind != self._types[index] and not kinds.is_null(kind):
            raise EvenflowError(
                f"column {self.key[index]!r} is {kind} in {file.path} but {self._types[index]} before; "
                "cast it to one type, since the hash of a key depends on its type."
            )
        return column

    def _remember(self, hashes: UInt64Array, first: int) -> None:
        if self._hashes.size < first + hashes.size:
            grown = np.empty(max(2 * self._hashes.size, first + hashes.size), np.uint64)
            grown[:first] = self._hashes[:first]
            self._hashes = grown
        self._hashes[first : first + hashes.size] = hashes

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the parameters: another process reads the files itself."""
        return type(self), self._parameters


def find_files(path: str | Sequence[str]) -> list[DataFile]:
    """Return the files that ``path`` stands for: a file, a folder or a glob pattern, or several."""
    if not isinstance(path, str):
        if not path:
            raise EvenflowError("there is no file in an empty list; name at least one.")
        return [file for part in path for file in find_files(os.fspath(part))]
    if "://" in path:
        place = locate(path, "data")
        if not place.is_local:
            return find_objects(place)
        path = str(place)
    location = Path(os.path.expanduser(path))
    if location.is_dir():
        if (location / "_delta_log").exists():
            return [delta_file(Location(location))]
        files = sorted(
            file for file in location.rglob("*") if file.is_file() and _is_data(file.relative_to(location))
        )
        if not files:
            raise EvenflowError(f"folder {path} has no data files; give a folder with data, or a file.")
        inside = {file.relative_to(location).as_posix(): file for file in files}
        if _is_partitioned(inside):
            return [partitioned_file(str(location), {name: Parquet(file) for name, file in inside.items()})]
    elif location.exists():
        files = [location]
    else:
        matches = (Path(match) for match in glob.glob(str(location), recursive=True))
        files = sorted(match for match in matches if match.is_file() and _is_data(Path(match.name)))
        if not files:
            raise EvenflowError(f"there is no file {path!r}; {_beside(location)}")
    return [data_file(file) for file in files]


def find_objects(place: Location) -> list[DataFile]:
    """Return the objects that a URL stands for: one, all below it, or those that match a pattern."""
    magic = glob.has_magic(str(place))
    storage = open_storage(place.parent, "data")
    if not magic and storage.exists(place.name):
        return [data_file(place)]
    above = Location(_PATTERN.split(place)[0], place.options) if magic else place
    storage = open_storage(above, "data")
    names = [entry.name for entry in storage.entries()]
    if not magic and any(name.startswith("_delta_log/") for name in names):
        return [delta_file(place)]
    wanted = _as_pattern(place) if magic else None
    found = {
        name: above / name
        for name in names
        if _is_data(Path(name)) and (wanted is None or wanted.fullmatch(str(above / name)))
    }
    if not found:
        raise EvenflowError(f"there is no data at {str(place)!r}; check the URL, or list the bucket.")
    if not magic and _is_partitioned(found):
        return [partitioned_file(str(place), {name: Parquet(file) for name, file in found.items()})]
    return [data_file(file) for file in found.values()]


def _is_partitioned(names: Iterable[str]) -> bool:
    """Are these Parquet files of which some are in folders such as ``day=2026-11-16``?"""
    files = [Path(name) for name in names]
    return any("=" in part for file in files for part in file.parts[:-1]) and all(
        file.suffix.lower() in Parquet.endings for file in files
    )


def _as_pattern(url: str) -> re.Pattern[str]:
    """Return a glob pattern as a regular expression.

    >>> [bool(_as_pattern("s3://b/**/x?.*").fullmatch(url)) for url in ("s3://b/x1.csv", "s3://b/a/b/x2.csv")]
    [True, True]
    >>> _as_pattern("s3://b/*.csv").fullmatch("s3://b/a/x.csv") is None
    True
    """
    parts = re.split(r"(\*\*/|\*|\?|\[[^\]]*\])", url)
    known = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    return re.compile(
        "".join(known.get(part, part if part[:1] == "[" else re.escape(part)) for part in parts)
    )


def data_file(path: Path | Location) -> DataFile:
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


def _is_data(inside: Path) -> bool:
    return not any(part.startswith((".", "_")) for part in inside.parts)


def _beside(location: Path) -> str:
    if not location.parent.is_dir():
        return f"there is no folder {str(location.parent)!r} either."
    names = sorted(entry.name for entry in location.parent.iterdir() if not entry.name.startswith("."))
    guess = nearest(location.name, names)
    return (
        guess
        if guess.startswith("did")
        else f"{str(location.parent)!r} has {', '.join(names[:8]) or 'nothing'}."
    )


def check_columns(file: DataFile, wanted: Sequence[str]) -> None:
    """Reject a column that the file does not have exactly once."""
    names = file.columns()
    for column in wanted:
        if column not in names:
            guess = nearest(column, names)
            rest = guess if guess.startswith("did") else f"it has {', '.join(names) or 'no columns'}."
            raise EvenflowError(f"{file.path} has no column {column!r}; {rest}")
        if names.count(column) > 1:
            raise EvenflowError(
                f"{file.path} has {names.count(column)} columns named {column!r}; rename them."
            )


def regrouped(pieces: Iterator[Chunk], size: int) -> Iterator[Chunk]:
    """Yield the same messages in chunks of exactly ``size``; the last may be shorter."""
    waiting: list[Chunk] = []
    room = size
    for piece in pieces:
        begin = 0
        while piece.ids.size - begin >= room:
            yield join_chunks([*waiting, piece.part(begin, begin + room)])
            waiting, begin, room = [], begin + room, size
        if begin < piece.ids.size:
            waiting.append(piece.part(begin, piece.ids.size))
            room -= piece.ids.size - begin
    if waiting:
        yield join_chunks(waiting)


def _quoted(column: str) -> str:
    return quote(column, safe="".join(chr(code) for code in range(32, 127) if chr(code) not in "%+#@"))


def _plain_type(kind: Any) -> Any:
    if kinds.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if kind in _TEXT_KINDS:
        return pa.string()
    return pa.binary() if kind in _BYTES_KINDS else kind


def _plain(column: Any) -> Any:
    """Decode a dictionary, so that its other values are not kept in memory."""
    return column.dictionary_decode() if kinds.is_dictionary(column.type) else column


def _check_text(
    columns: list[Any], key: Sequence[str], file: DataFile, rows_before: int, fresh: Int32Array
) -> None:
    """Reject text that is not UTF-8: Spark would hash different bytes."""
    for name, column in zip(key, columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise EvenflowError(
                f"column {name!r} of {file.path} has text that is not UTF-8 after row "
                f"{rows_before + int(fresh[0])}; convert the file to UTF-8, or make the column binary."
            ) from error


def _text(value: Any) -> str:
    if not value.is_valid:
        return "null"
    try:
        return str(value.cast(pa.string()).as_py())
    except (pa.ArrowException, UnicodeDecodeError):
        return str(value.as_py())
