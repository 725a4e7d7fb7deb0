"""The caller's key resolved to columns that Spark can hash.

``xxhash64`` of the key's columns identifies the key throughout evenflow, and equals `evenflow.hash_keys` bit
for bit. Null is a key like any other, and so is NaN.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from evenflow.errors import EvenflowError, first_line, nearest

Key: TypeAlias = "str | Column | Sequence[str | Column]"

PREFIX = "__ef_"  # short, since explained plans have it some thirty times
_TIME_WINDOW = "spark.timeWindow"


@dataclass(frozen=True)
class KeyColumn:
    """One column of a key."""

    name: str  # in results
    frame_name: str
    type: T.DataType
    is_helper: bool  # the column was added to the frame
    is_window: bool  # Spark's window(), which drops rows with a null time and may duplicate others


def with_keys(df: DataFrame, key: Key) -> tuple[DataFrame, list[KeyColumn]]:
    """Return ``df`` with a column for each part of ``key``, and a description of these columns.

    Top-level columns are used as they are; nested fields and expressions are added as helper columns.
    """
    parts = _parts(key)
    names = set(df.columns)
    columns: list[KeyColumn] = []
    added: list[Column] = []
    for part in parts:
        field = _resolve(df, part)
        _check_type(field.dataType, field.name)
        if isinstance(part, str) and part in names:
            columns.append(KeyColumn(field.name, part, field.dataType, False, False))
            continue
        frame_name = helper_name(
            [*df.columns, *(column.frame_name for column in columns)], f"key_{len(columns)}"
        )
        window = bool((field.metadata or {}).get(_TIME_WINDOW))
        columns.append(KeyColumn(field.name, frame_name, field.dataType, True, window))
        added.append(_column(part).alias(frame_name))
    return (df.select("*", *added) if added else df), columns


def constant_floats(df: DataFrame, key: Key, columns: Iterable[KeyColumn]) -> dict[str, Column]:
    """Return, by name in the frame, the key columns with floats that Spark's optimizer finds constant.

    ``groupBy`` returns 0.0 for -0.0 in stored rows, but drops a constant from its keys and returns it as it
    was written, -0.0 included. On a stream it drops none. Only the optimized plan shows which keys are
    constant; Spark Connect has none to show, and there such a key comes out as a stored one does.
    """
    floats = [column for column in columns if _holds_floats(column.type)]
    constants: dict[str, Column] = {}
    if not floats or df.isStreaming or getattr(df, "_jdf", None) is None:
        return constants
    frame, _ = with_keys(df, key)
    for column in floats:
        keys: Any = frame.select(quoted(column.frame_name)).distinct()
        expressions = keys._jdf.queryExecution().optimizedPlan().expressions()
        shown = expressions.apply(expressions.size() - 1) if expressions.size() else None
        if shown is not None and shown.getClass().getSimpleName() == "Alias" and shown.child().foldable():
            constants[column.frame_name] = F.expr(shown.child().sql()).cast(column.type._as_nullable())
    return constants


def _holds_floats(kind: T.DataType) -> bool:
    if isinstance(kind, T.StructType):
        return any(_holds_floats(field.dataType) for field in kind.fields)
    if isinstance(kind, T.ArrayType):
        return _holds_floats(kind.elementType)
    return isinstance(kind, T.FloatType | T.DoubleType)


def helper_name(taken: DataFrame | Iterable[str], name: str) -> str:
    """Return a name for a helper column that is not taken, ignoring case as Spark does.

    >>> helper_name(["a", "__EF_worker"], "worker")
    '__ef_worker_1'
    """
    names = {str(column).lower() for column in (taken.columns if isinstance(taken, DataFrame) else taken)}
    chosen, number = f"{PREFIX}{name}", 0
    while chosen.lower() in names:
        number += 1
        chosen = f"{PREFIX}{name}_{number}"
    return chosen


def hash_partition(columns: Iterable[KeyColumn], workers: int) -> str:
    """Return SQL for the partition that ``df.repartition(workers, key)`` puts a row on."""
    return f"pmod(hash({', '.join(quoted(column.frame_name) for column in columns)}), {workers})"


def key_hash(columns: Iterable[KeyColumn]) -> str:
    """Return SQL for the key's 64-bit hash: a LONG, never null.

    It is text, because building a Column costs one call to the JVM per part.
    """
    return f"xxhash64({', '.join(quoted(column.frame_name) for column in columns)})"


def key_struct(columns: Iterable[KeyColumn]) -> str:
    """Return SQL for the key's values; `key_label` turns the JSON of them into text for people to read."""
    fields = (f"{quoted(column.frame_name)} as {quoted(column.name)}" for column in columns)
    return f"struct({', '.join(fields)})"


def key_label(text: str) -> str:
    """Return the value of a single-column key, or the JSON of a key with several columns.

    >>> key_label('{"k":"to"}'), key_label('{"a":1,"b":2}'), key_label('{}'), key_label('{"k":"cut o')
    ('to', '{"a":1,"b":2}', 'null', '{"k":"cut o')
    """
    try:
        values = json.loads(text)
    except ValueError:  # only the beginning of a long one
        return text
    if len(values) == 1:
        return str(next(iter(values.values())))
    return text if values else "null"


def quoted(name: str) -> str:
    """Return a column name in backquotes.

    >>> quoted("a.b`c")
    '`a.b``c`'
    """
    return "`" + name.replace("`", "``") + "`"


def _parts(key: Key) -> list[str | Column]:
    parts = [key] if isinstance(key, str | Column) else list(key or [])
    if not parts:
        raise EvenflowError("key is empty; name at least one column.")
    for part in parts:
        if not isinstance(part, str | Column):
            raise EvenflowError(f"key contains {part!r}; pass column names or Columns.")
        if isinstance(part, str) and sum(isinstance(other, str) and other == part for other in parts) > 1:
            raise EvenflowError(f"key names {part!r} twice; name every column once.")
    return parts


def _column(part: str | Column) -> Column:
    return F.col(part) if isinstance(part, str) else part


def _is_unknown(name: str, columns: list[str]) -> bool:
    """Return whether Spark would not find a name either, and log that it did not; fields are left to it."""
    is_plain = name[:1].isalpha() and not any(mark in name for mark in ".`*")
    return is_plain and name.lower() not in {column.lower() for column in columns}


def _resolve(df: DataFrame, part: str | Column) -> T.StructField:
    """Return the field of ``df`` that a part of the key refers to."""
    if isinstance(part, str) and df.columns.count(part) > 1:
        raise EvenflowError(
            f"key is {part!r}, but {df.columns.count(part)} columns have that name; rename one."
        )
    if isinstance(part, str) and _is_unknown(part, df.columns):
        raise EvenflowError(f"there is no column {part!r}; {nearest(part, df.columns)}")
    try:
        chosen = df.select(
            F.col(quoted(part)) if isinstance(part, str) and part in df.columns else _column(part)
        )
        fields = chosen.schema.fields
    except AnalysisException as error:
        if isinstance(part, str):
            raise EvenflowError(f"there is no column {part!r}; {nearest(part, df.columns)}") from error
        raise EvenflowError(
            f"key contains a Column that this DataFrame cannot resolve ({first_line(error)}); use one of its "
            f"columns: {', '.join(df.columns)}."
        ) from error
    if len(fields) != 1:
        raise EvenflowError(
            f"key contains {part!r}, which expands to {len(fields)} columns; name them individually."
        )
    return fields[0]


def _check_type(kind: T.DataType, name: str) -> None:
    found = first_unhashable(kind)
    if found is not None:
        raise EvenflowError(
            f"key {name!r} contains a {found}, which Spark cannot hash; use fields of it, or convert it to "
            f"text with to_json."
        )
    collation = first_collation(kind)
    if collation is not None:
        raise EvenflowError(
            f"key {name!r} has the collation {collation}, under which equal strings have different hashes; "
            f"cast it to plain STRING, or use lower() of it."
        )


def first_unhashable(kind: T.DataType) -> str | None:
    """Return the name of a type within ``kind`` that xxhash64 does not support, or None."""
    if isinstance(kind, T.MapType | T.VariantType):
        return kind.typeName()
    if isinstance(kind, T.NullType) or not inner_types(kind):
        unknown = type(kind).__name__ in {"GeometryType", "GeographyType"}
        return kind.typeName() if unknown else None
    return next((found for inner in inner_types(kind) if (found := first_unhashable(inner))), None)


def first_collation(kind: T.DataType) -> str | None:
    """Return the collation of a string type within ``kind`` that is not binary, or None."""
    if isinstance(kind, T.StringType):
        name = getattr(kind, "collation", "UTF8_BINARY")
        return None if name == "UTF8_BINARY" else str(name)
    return next((found for inner in inner_types(kind) if (found := first_collation(inner))), None)


def inner_types(kind: T.DataType) -> list[T.DataType]:
    """Return the element, field, or key and value types of ``kind``."""
    if isinstance(kind, T.ArrayType):
        return [kind.elementType]
    if isinstance(kind, T.StructType):
        return [field.dataType for field in kind.fields]
    if isinstance(kind, T.UserDefinedType):
        return [kind.sqlType()]
    if isinstance(kind, T.MapType):
        return [kind.keyType, kind.valueType]
    return []
