"""Keys as columns: what the caller named becomes columns that Spark can hash, or a sentence.

``xxhash64`` of the key's columns is the key everywhere in evenflow, bit for bit what `evenflow.hash_keys`
gives. A null leaves the hash as it is, so nulls are one key like any other; NaN is another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from evenflow.errors import EvenflowError, nearest

Key: TypeAlias = "str | Column | Sequence[str | Column]"

PREFIX = "__evenflow_"
_TIME_WINDOW = "spark.timeWindow"


@dataclass(frozen=True)
class KeyColumn:
    """One column of a key: the name it has in results, the name it has in the frame, its type."""

    name: str
    inside: str
    type: T.DataType
    is_helper: bool  # ``inside`` was added to the frame
    is_window: bool  # Spark's window(): it drops rows without a time and may repeat others


def with_keys(df: DataFrame, key: Key) -> tuple[DataFrame, list[KeyColumn]]:
    """Return ``df`` with every column of ``key`` as a column of its own, and what they are.

    A plain column stays where it is; nested fields and expressions are added under names of ours.
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
        inside = helper([*df.columns, *(column.inside for column in columns)], f"key_{len(columns)}")
        window = bool((field.metadata or {}).get(_TIME_WINDOW))
        columns.append(KeyColumn(field.name, inside, field.dataType, True, window))
        added.append(_column(part).alias(inside))
    return (df.select("*", *added) if added else df), columns


def constant_floats(df: DataFrame, key: Key, columns: Iterable[KeyColumn]) -> dict[str, Column]:
    """Return, by their names inside, the key's columns with floats that Spark's optimizer finds constant.

    ``groupBy`` returns 0.0 for -0.0 in stored rows, but drops a constant from its keys and returns it as it
    was written, -0.0 included. Only the optimized plan shows which keys are constant; Spark Connect has none
    to show, and there such a key comes out as a stored one does.
    """
    floats = [column for column in columns if _holds_floats(column.type)]
    constants: dict[str, Column] = {}
    if not floats or getattr(df, "_jdf", None) is None:
        return constants
    frame, _ = with_keys(df, key)
    for column in floats:
        keys: Any = frame.select(quoted(column.inside)).distinct()
        expressions = keys._jdf.queryExecution().optimizedPlan().expressions()
        shown = expressions.apply(expressions.size() - 1) if expressions.size() else None
        if shown is not None and shown.getClass().getSimpleName() == "Alias" and shown.child().foldable():
            constants[column.inside] = F.expr(shown.child().sql()).cast(column.type._as_nullable())
    return constants


def _holds_floats(kind: T.DataType) -> bool:
    if isinstance(kind, T.StructType):
        return any(_holds_floats(field.dataType) for field in kind.fields)
    if isinstance(kind, T.ArrayType):
        return _holds_floats(kind.elementType)
    return isinstance(kind, T.FloatType | T.DoubleType)


def helper(taken: DataFrame | Iterable[str], name: str) -> str:
    """Return a column name of ours that is not taken; Spark compares names without regard to case.

    >>> helper(["a", "__EVENFLOW_worker"], "worker")
    '__evenflow_worker_1'
    """
    names = {str(column).lower() for column in (taken.columns if isinstance(taken, DataFrame) else taken)}
    chosen, number = f"{PREFIX}{name}", 0
    while chosen.lower() in names:
        number += 1
        chosen = f"{PREFIX}{name}_{number}"
    return chosen


def key_hash(columns: Iterable[KeyColumn]) -> str:
    """Return the key's 64 bits as SQL: a LONG, never null.

    A text and not a Column, each part of which would be a message to the JVM.
    """
    return f"xxhash64({', '.join(quoted(column.inside) for column in columns)})"


def quoted(name: str) -> str:
    """Return a column name as Spark reads it when it may hold dots.

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
            raise EvenflowError(f"key holds {part!r}; pass names of columns or Columns.")
        if isinstance(part, str) and sum(isinstance(other, str) and other == part for other in parts) > 1:
            raise EvenflowError(f"key names {part!r} twice; name every column once.")
    return parts


def _column(part: str | Column) -> Column:
    return F.col(part) if isinstance(part, str) else part


def _resolve(df: DataFrame, part: str | Column) -> T.StructField:
    """Return the field that a part of the key is in ``df``, or say why it is none."""
    if isinstance(part, str) and df.columns.count(part) > 1:
        raise EvenflowError(
            f"key is {part!r}, and {df.columns.count(part)} columns have that name; rename one."
        )
    try:
        chosen = df.select(
            F.col(quoted(part)) if isinstance(part, str) and part in df.columns else _column(part)
        )
        fields = chosen.schema.fields
    except AnalysisException as error:
        if isinstance(part, str):
            raise EvenflowError(f"there is no column {part!r}; {nearest(part, df.columns)}") from error
        raise EvenflowError(
            f"key holds a column that this frame does not give ({_first_line(error)}); it has "
            f"{', '.join(df.columns)}."
        ) from error
    if len(fields) != 1:
        raise EvenflowError(
            f"key holds {part!r}, which stands for {len(fields)} columns; name them one by one."
        )
    return fields[0]


def _check_type(kind: T.DataType, name: str) -> None:
    found = first_unhashable(kind)
    if found is not None:
        raise EvenflowError(
            f"key {name!r} holds a {found}, which Spark does not hash; take fields from it, or make text "
            f"of it with to_json."
        )
    collation = first_collation(kind)
    if collation is not None:
        raise EvenflowError(
            f"key {name!r} is text of collation {collation}, whose equal words have different hashes; use "
            f"a column cast to plain STRING (or lower() of it) as the key."
        )


def first_unhashable(kind: T.DataType) -> str | None:
    """Return the name of a type inside ``kind`` that xxhash64 does not take, or None."""
    if isinstance(kind, T.MapType | T.VariantType):
        return kind.typeName()
    if isinstance(kind, T.NullType) or not inner_types(kind):
        unknown = type(kind).__name__ in {"GeometryType", "GeographyType"}
        return kind.typeName() if unknown else None
    return next((found for inner in inner_types(kind) if (found := first_unhashable(inner))), None)


def first_collation(kind: T.DataType) -> str | None:
    """Return the collation of a text inside ``kind`` that is not compared by its bytes, or None."""
    if isinstance(kind, T.StringType):
        name = getattr(kind, "collation", "UTF8_BINARY")
        return None if name == "UTF8_BINARY" else str(name)
    return next((found for inner in inner_types(kind) if (found := first_collation(inner))), None)


def inner_types(kind: T.DataType) -> list[T.DataType]:
    """Return the types of which ``kind`` is made."""
    if isinstance(kind, T.ArrayType):
        return [kind.elementType]
    if isinstance(kind, T.StructType):
        return [field.dataType for field in kind.fields]
    if isinstance(kind, T.UserDefinedType):
        return [kind.sqlType()]
    if isinstance(kind, T.MapType):
        return [kind.keyType, kind.valueType]
    return []


def _first_line(error: Any) -> str:
    return str(error).strip().splitlines()[0]
