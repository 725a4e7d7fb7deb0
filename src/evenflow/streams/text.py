"""Files of lines: plain text and JSON, read in blocks of whole words and whole lines."""

from __future__ import annotations

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

_LARGEST_EXACT = 2.0**53


class Text(DataFile):
    """Words between white space."""

    kind = "text"
    endings = (".txt", ".text")

    def columns(self) -> list[str]:
        """Return the one column that a text has."""
        return ["word"]

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the words of one block after another."""
        with self.reading():
            for block, _ in blocks_of(self, b" \n\t\r"):
                text = pa.Array.from_buffers(
                    pa.large_string(), 1, [None, _offsets(len(block)), pa.py_buffer(block)]
                )
                words = pc.ascii_split_whitespace(text).flatten()
                yield pa.record_batch({"word": words.filter(pc.not_equal(words, ""))})


class JsonLines(DataFile):
    """One JSON object per line."""

    kind = "JSON lines"
    endings = (".jsonl", ".ndjson", ".json")
    optional_columns = True

    def columns(self) -> list[str]:
        """Return the fields of the first block of lines."""
        with self.reading():
            for block, line in blocks_of(self, b"\n"):
                names = self._parsed(block, line, None).column_names
                if names:
                    return list(names)
        return []

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield blocks of lines; a column keeps the type that it has first."""
        types: dict[str, Any] = dict.fromkeys(columns)
        with self.reading():
            for block, line in blocks_of(self, b"\n"):
                table = self._parsed(block, line, types)
                for name in columns:
                    if name not in table.column_names:
                        table = table.append_column(name, pa.nulls(table.num_rows))
                    if types[name] is None and not kinds.is_null(table.schema.field(name).type):
                        types[name] = table.schema.field(name).type
                yield table

    def _parsed(self, block: bytes, line: int, types: dict[str, Any] | None) -> Any:
        known = {name: kind for name, kind in (types or {}).items() if kind is not None}
        ignore = types is not None and len(known) == len(types)
        try:
            table = _parse_json(block, known, ignore)
            # Arrow reads text that looks like a time as one; a key is what the file says.
            looks = {
                f.name: pa.string()
                for f in table.schema
                if f.name not in known and kinds.is_timestamp(f.type)
            }
            if looks and types is not None:
                table = _parse_json(block, known | looks, ignore)
        except pa.ArrowInvalid as error:
            raise EvenflowError(self._damage(block, line, known, str(error))) from error
        for name in types or ():
            if name in table.column_names and kinds.is_floating(table.schema.field(name).type):
                self._check_exact(table[name], name)
        return table

    def _check_exact(self, column: Any, name: str) -> None:
        """Refuse whole numbers too long for JSON's, which would fall together."""
        if (pc.max(pc.abs(column)).as_py() or 0) >= _LARGEST_EXACT:
            raise EvenflowError(
                f"{self.path} has numbers in {name!r} that are too long to be told apart; write them as text."
            )

    def _damage(self, block: bytes, line: int, types: dict[str, Any], reason: str) -> str:
        """Say which line is damaged, and how; only this one block is looked at line by line."""
        lines = [(n, text) for n, text in enumerate(block.split(b"\n"), line) if text.strip()]
        for number, text in lines:
            try:
                row = json.loads(text)
            except ValueError:
                row = None
            if not isinstance(row, dict):
                rule = 'every line is one object such as {"key": 1}'
                return f"line {number} of {self.path} is not a JSON object; {rule}."
            for name, kind in types.items():
                if not _fits(row.get(name), kind):
                    was = f"but {name!r} has been {kind} until there; make it one type"
                    return f"line {number} of {self.path} has {row.get(name)!r}, {was}."
        if found := re.search(r"in row (\d+)", reason):
            where = f"line {lines[int(found[1])][0]}"
        else:
            where = f"one of the lines {lines[0][0]} to {lines[-1][0]}"
        return f"{where} of {self.path} cannot be read: {reason.splitlines()[0].rstrip('.')}."


def _fits(value: Any, kind: Any) -> bool:
    try:
        pa.array([value], kind)
    except (pa.ArrowException, TypeError, ValueError):
        return False
    return True


def _parse_json(block: bytes, types: dict[str, Any], ignore_others: bool) -> Any:
    return pyarrow.json.read_json(
        pa.BufferReader(block),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(block) + 1),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=pa.schema(list(types.items())) if types else None,
            unexpected_field_behavior="ignore" if ignore_others else "infer",
        ),
    )


def _offsets(length: int) -> Any:
    return pa.array([0, length], pa.int64()).buffers()[1]
