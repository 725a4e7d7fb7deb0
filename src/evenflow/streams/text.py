"""Line-based files: plain text and JSON lines, read in blocks of complete words or lines."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.types as kinds

from evenflow.errors import EvenflowError
from evenflow.streams.data_file import DataFile, blocks_of

_FIRST_LINES = 1000  # expected to contain every field of a file
_TYPES = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}


class Text(DataFile):
    """Words separated by white space."""

    kind = "text"
    endings = (".txt", ".text")

    def columns(self) -> list[str]:
        """Return the only column, ``word``."""
        return ["word"]

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the words of each block."""
        with self.reading():
            for block, _ in blocks_of(self, b" \n\t\r"):
                text = pa.Array.from_buffers(
                    pa.large_string(), 1, [None, _offsets(len(block)), pa.py_buffer(block)]
                )
                words = pc.ascii_split_whitespace(text).flatten()
                yield pa.record_batch({"word": words.filter(pc.not_equal(words, ""))})


class JsonLines(DataFile):
    """One JSON object per line; for unused fields only the syntax is checked."""

    kind = "JSON lines"
    endings = (".jsonl", ".ndjson", ".json")
    optional_columns = True

    def columns(self) -> list[str]:
        """Return the fields of the first lines."""
        with self.reading():
            for block, line in blocks_of(self, b"\n"):
                rows = (self._row(number, text) for number, text in _lines(block, line))
                if names := dict.fromkeys(
                    name for row in itertools.islice(rows, _FIRST_LINES) for name in row
                ):
                    return list(names)
        return []

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield blocks of lines; a column keeps its first type."""
        types: dict[str, Any] = dict.fromkeys(columns, pa.null())
        with self.reading():
            for block, line in blocks_of(self, b"\n"):
                self._learn(types, block, line)
                try:
                    yield _parsed(block, types)
                except pa.ArrowInvalid as error:
                    raise EvenflowError(self._damage(block, line, types, str(error))) from error

    def _learn(self, types: dict[str, Any], block: bytes, line: int) -> None:
        """Infer the types of columns that have been null so far, usually from the first line of a file."""
        unknown = [name for name, kind in types.items() if kinds.is_null(kind)]
        for number, text in _lines(block, line) if unknown else ():
            row = self._row(number, text)
            for name in unknown:
                if row.get(name) is not None:
                    types[name] = self._type(row[name], name, number)
            unknown = [name for name in unknown if kinds.is_null(types[name])]
            if not unknown:
                break

    def _type(self, value: Any, name: str, number: int) -> Any:
        if type(value) not in _TYPES:
            raise EvenflowError(
                f"line {number} of {self.path} has {json.dumps(value)[:40]} in {name!r}; "
                "keys and times must be text, numbers, true or false."
            )
        kind = _TYPES[type(value)]
        return pa.float64() if name == self.time and kind == pa.int64() else kind

    def _row(self, number: int, text: bytes) -> dict[str, Any]:
        try:
            row = json.loads(text)
        except ValueError:
            row = None
        if isinstance(row, dict):
            return row
        rule = 'every line must be an object such as {"key": 1}'
        raise EvenflowError(f"line {number} of {self.path} is not a JSON object; {rule}.")

    def _damage(self, block: bytes, line: int, types: dict[str, Any], reason: str) -> str:
        """Return which line of a block is damaged, and how."""
        lines = list(_lines(block, line))
        for number, text in lines:
            row = self._row(number, text)
            for name, kind in types.items():
                if not _fits(row.get(name), kind):
                    rule = f"in {name!r}, which was {kind} before; use one type"
                    return f"line {number} of {self.path} has {row[name]!r} {rule}."
        if found := re.search(r"in row (\d+)", reason):
            where = f"line {lines[int(found[1])][0]}"
        else:
            where = f"one of lines {lines[0][0]} to {lines[-1][0]}"
        return f"{where} of {self.path} cannot be read: {reason.splitlines()[0].rstrip('.')}."


def _lines(block: bytes, line: int) -> Iterator[tuple[int, bytes]]:
    """Yield the non-blank lines of a block with their numbers."""
    for number, text in enumerate(block.split(b"\n"), line):
        if text.strip():
            yield number, text


def _fits(value: Any, kind: Any) -> bool:
    if value is None:
        return True
    if kind == pa.float64():
        return type(value) in (int, float)
    return _TYPES.get(type(value)) == kind and (type(value) is not int or -(2**63) <= value < 2**63)


def _parsed(block: bytes, types: dict[str, Any]) -> Any:
    return pyarrow.json.read_json(
        pa.BufferReader(block),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(block) + 1),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=pa.schema(list(types.items())), unexpected_field_behavior="ignore"
        ),
    )


def _offsets(length: int) -> Any:
    return pa.array([0, length], pa.int64()).buffers()[1]
