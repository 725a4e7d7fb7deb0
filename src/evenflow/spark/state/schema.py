"""The columns of the state table: the key, the state, and four metadata columns.

Every batch appends the keys it touched. The newest row of a key counts; a removed key has a row that marks it
as removed. All columns have types that any reader of Delta tables supports. Keep imports light: Python
workers import this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyarrow import types as kinds

from evenflow.errors import EvenflowError

HASH = "__evenflow_hash"  # xxhash64 of the key's columns
BATCH = "__evenflow_batch"  # the batch that wrote this row
EXPIRES = "__evenflow_until"  # expiry time of the key
REMOVED = "__evenflow_removed"  # whether the key was removed

METADATA_SCHEMA = pa.schema(
    [
        pa.field(HASH, pa.int64()),
        pa.field(BATCH, pa.int64()),
        pa.field(EXPIRES, pa.timestamp("us", "UTC")),
        pa.field(REMOVED, pa.bool_()),
    ]
)


@dataclass(frozen=True)
class StateLayout:
    """The columns of the key and of the state, as the user named them."""

    keys: pa.Schema
    state: pa.Schema

    def __post_init__(self) -> None:
        names = [name.lower() for name in self.keys.names]
        for name in self.keys.names:
            if names.count(name.lower()) > 1:
                raise EvenflowError(f"key has two columns named {name!r}; rename one with an alias.")
        for name in self.state.names:
            if name.lower() in names:
                raise EvenflowError(
                    f"state declares {name!r}, which is also a column of the key; rename or remove it."
                )
            if name.lower().startswith("__evenflow_"):
                raise EvenflowError(
                    f"state declares {name!r}; rename it, since the prefix __evenflow_ is reserved."
                )
        for field in [*self.keys, *self.state]:
            check_storable(field.type, field.name, "state table")

    @cached_property
    def schema(self) -> pa.Schema:
        """All columns; all are nullable, since a removed key has no state."""
        return pa.schema([field.with_nullable(True) for field in [*self.keys, *self.state, *METADATA_SCHEMA]])

    @property
    def key_names(self) -> list[str]:
        """Names of the key's columns."""
        return self.keys.names


def check_storable(kind: pa.DataType, name: str, where: str) -> None:
    """Refuse a type that Parquet files and Delta tables cannot store unchanged."""
    if kinds.is_null(kind) or kinds.is_duration(kind) or kinds.is_interval(kind) or kinds.is_time(kind):
        raise EvenflowError(
            f"column {name!r} is {kind}, which a {where} cannot store; use a number, text or a timestamp."
        )
    for index in range(kind.num_fields if kinds.is_nested(kind) else 0):
        check_storable(kind.field(index).type, name, where)
