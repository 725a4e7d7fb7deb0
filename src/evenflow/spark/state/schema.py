"""What a row of the state table holds: the key, the state, and four columns of ours.

The table is a history: every batch adds the keys that it touched, the newest row of a key counts, and a key
that was forgotten has a row that says so. All columns have types of their own that any reader of Delta tables
knows. Light to import: a Python worker does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyarrow import types as kinds

from evenflow.errors import EvenflowError

HASH = "__evenflow_hash"  # xxhash64 of the key's columns
BATCH = "__evenflow_batch"  # the batch that wrote this row
UNTIL = "__evenflow_until"  # when the key expires
REMOVED = "__evenflow_removed"  # the key was forgotten

OURS = pa.schema(
    [
        pa.field(HASH, pa.int64()),
        pa.field(BATCH, pa.int64()),
        pa.field(UNTIL, pa.timestamp("us", "UTC")),
        pa.field(REMOVED, pa.bool_()),
    ]
)


@dataclass(frozen=True)
class StateLayout:
    """Columns of the key and of the state, under the names that the user gave them."""

    keys: pa.Schema
    state: pa.Schema

    def __post_init__(self) -> None:
        names = [name.lower() for name in self.keys.names]
        for name in self.keys.names:
            if names.count(name.lower()) > 1:
                raise EvenflowError(f"key has two columns named {name!r}; give one an alias.")
        for name in self.state.names:
            if name.lower() in names:
                raise EvenflowError(
                    f"state declares {name!r}, which is a column of the key too and stored anyway; rename it."
                )
            if name.lower().startswith("__evenflow_"):
                raise EvenflowError(f"state declares {name!r}; names that begin with __evenflow_ are ours.")
        for field in [*self.keys, *self.state]:
            check_kept(field.type, field.name, "state table")

    @cached_property
    def schema(self) -> pa.Schema:
        """All columns; all may be null, since a forgotten key has no state."""
        return pa.schema([field.with_nullable(True) for field in [*self.keys, *self.state, *OURS]])

    @property
    def key_names(self) -> list[str]:
        """Names of the key's columns."""
        return self.keys.names


def check_kept(kind: pa.DataType, name: str, where: str) -> None:
    """Refuse a type that no parquet file or Delta table keeps as it is."""
    if kinds.is_null(kind) or kinds.is_duration(kind) or kinds.is_interval(kind) or kinds.is_time(kind):
        raise EvenflowError(
            f"column {name!r} is {kind}, which a {where} does not keep; use a number, text or a timestamp."
        )
    for place in range(kind.num_fields if kinds.is_nested(kind) else 0):
        check_kept(kind.field(place).type, name, where)
