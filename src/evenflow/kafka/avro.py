"""Avro values of records, by a schema in a file. Without PySpark.

A value is one Avro datum in binary encoding, without the header of an Avro file. Serializers of a schema
registry write five bytes before it, which ``skip=5`` leaves out.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evenflow.errors import EvenflowError, first_line
from evenflow.extras import require

ENDING = ".avsc"
LOGICAL = {  # the others are read as the type below them
    "date",
    "decimal",
    "timestamp-millis",
    "timestamp-micros",
    "local-timestamp-millis",
    "local-timestamp-micros",
}

Schema = dict[str, Any]


def read_schema(path: str) -> Schema:
    """Return the record that a schema file describes, as JSON; an error names the file."""
    require("fastavro", "kafka", f"value={path}")
    import fastavro

    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        schema = _plain(found)
        fastavro.parse_schema(schema)
    except OSError as error:
        raise EvenflowError(
            f"value is {path!r}, which cannot be read ({error.strerror}); give the path of the Avro schema."
        ) from error
    except fastavro.schema.UnknownType as error:
        raise EvenflowError(
            f"value is {path!r}, which uses the type {error.name!r} without declaring it; put it in the file."
        ) from error
    except (ValueError, KeyError, fastavro.schema.SchemaParseException) as error:
        raise EvenflowError(
            f"value is {path!r}, which is not an Avro schema: {first_line(error)}; check it."
        ) from error
    if not isinstance(schema, dict) or schema.get("type") != "record" or not schema.get("fields"):
        raise EvenflowError(
            f"value is {path!r}, whose schema is not a record with fields; only these become columns."
        )
    return schema


def decoder(schema: Schema, skip: int = 0) -> Callable[[bytes | None], dict[str, Any] | None]:
    """Return the function that decodes a value; it returns None for one that is not of this schema."""
    import fastavro

    parsed = fastavro.parse_schema(schema)

    def decode(value: bytes | None) -> dict[str, Any] | None:
        if value is None or len(value) < skip:
            return None
        source = io.BytesIO(value)
        source.seek(skip)
        try:
            found = fastavro.schemaless_reader(source, parsed, None)
        except (EOFError, ValueError, IndexError, KeyError, OverflowError, StopIteration, TypeError):
            return None
        whole = source.tell() == len(value)  # what is left over was not written with this schema
        return found if whole and isinstance(found, dict) else None

    return decode


def _plain(schema: Any) -> Any:
    """Return a schema without the logical types that are read as the type below them."""
    if isinstance(schema, list):
        return [_plain(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _plain(part) if name in ("type", "items", "values", "fields") else part
        for name, part in schema.items()
        if name != "logicalType" or part in LOGICAL
    }
