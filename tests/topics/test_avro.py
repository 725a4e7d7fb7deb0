"""Avro values: schemas from files, records by them, and what is wrong with a wrong one."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from evenflow.errors import EvenflowError
from evenflow.kafka.avro import decoder, read_schema

CLICK = {
    "type": "record",
    "name": "Click",
    "namespace": "shop",
    "fields": [
        {"name": "user", "type": "string"},
        {"name": "amount", "type": ["null", "double"]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "other", "type": ["null", "Kind"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {
            "name": "page",
            "type": {"type": "record", "name": "Page", "fields": [{"name": "url", "type": "string"}]},
        },
        {"name": "last", "type": ["null", "shop.Page"]},
    ],
}
ROW: dict[str, Any] = {
    "user": "a",
    "amount": 1.5,
    "day": date(2026, 1, 2),
    "at": datetime(2026, 1, 2, 3, 4, 5, 678, UTC),
    "price": Decimal("12.34"),
    "id": "0e3f",
    "kind": "B",
    "other": None,
    "tags": ["x", "y"],
    "counts": {"n": 3},
    "page": {"url": "/"},
    "last": {"url": "/before"},
}


def encoded(schema: Any, row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    plain = json.loads(json.dumps(schema).replace(', "logicalType": "uuid"', ""))
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain), row)
    return out.getvalue()


def written(folder: Path, schema: Any) -> str:
    file = folder / "click.avsc"
    file.write_text(schema if isinstance(schema, str) else json.dumps(schema))
    return str(file)


def test_a_record_is_decoded_whole_or_not_at_all(tmp_path: Path) -> None:
    read = decoder(read_schema(written(tmp_path, CLICK)))
    value = encoded(CLICK, ROW)
    assert read(value) == ROW
    for wrong in (None, b"", value[:-1], value + b"x", b"{}", bytes(200)):
        assert read(wrong) is None
    behind_a_registry = decoder(read_schema(written(tmp_path, CLICK)), skip=5)
    assert behind_a_registry(b"\0\0\0\0\7" + value) == ROW
    assert behind_a_registry(b"\0") is None


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ("{", "which is not an Avro schema: "),
        ('{"type": "record", "name": "r"}', "whose schema is not a record with fields"),
        ('{"type": "record", "fields": []}', "which is not an Avro schema: "),
        ('"string"', "whose schema is not a record"),
        ('["null", "string"]', "whose schema is not a record"),
        (
            '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "Other"}]}',
            "uses the type 'Other' without declaring it",
        ),
    ],
)
def test_a_wrong_schema_is_one_sentence(tmp_path: Path, schema: str, sentence: str) -> None:
    with pytest.raises(EvenflowError) as error:
        read_schema(written(tmp_path, schema))
    assert "click.avsc" in str(error.value)
    assert sentence in str(error.value)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(EvenflowError, match=r"none.avsc', which cannot be read \(No such file"):
        read_schema(str(tmp_path / "none.avsc"))
