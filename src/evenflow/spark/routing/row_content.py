"""The content of a row as SQL: a hash, and a total order in which only identical rows tie.

``xxhash64`` ignores nulls, the sign of zero and the boundaries of arrays, and rejects maps and variants; what
it ignores is hashed in addition. Hashes may collide, so ``ordering`` compares the values themselves, in forms
that Spark can order and that are equal only if the values are identical.

* A map is hashed as a set of entries, because their order may change when it is recomputed; the ordering does
  distinguish maps by the order of their entries.
* A variant is compared by its JSON text and schema, and all NaNs are equal: Spark's expressions see no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from evenflow.spark.routing.draws import CONTENT, salt_for
from evenflow.spark.routing.key_columns import (
    first_collation,
    first_unhashable,
    helper_name,
    inner_types,
    quoted,
)

_JSON_OPTIONS = (  # microseconds and nulls included
    "map('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS XXX', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
)


@dataclass(frozen=True)
class RowContent:
    """The values of a frame's rows; ``frame`` is the frame with helper columns ``added``."""

    frame: DataFrame
    added: list[str]
    values: list[tuple[str, T.DataType, bool]]  # SQL, type, nullable

    def hash(self, seed: int) -> Column:
        """Return a 64-bit hash of the whole row, nulls included."""
        parts = [part for value in self.values for part in _hashed(*value)]
        return F.expr(f"xxhash64({', '.join([f'{salt_for(seed, CONTENT)}L', *parts])})")

    def ordering(self) -> list[Column]:
        """Return the sort keys under which only identical rows tie."""
        return [F.expr(part) for value, kind, _ in self.values for part in _ordered(value, kind)]


def row_content(df: DataFrame) -> RowContent:
    """Return the content of the rows of ``df``.

    Columns with ambiguous names (their own or those of nested fields) and strings with a collation are copied
    to a helper column.
    """
    fields = df.schema.fields
    copy_all = _names_repeat(fields)
    copied = [field for field in fields if copy_all or _needs_copy(field.dataType)]
    if not copied:
        return RowContent(df, [], [(quoted(f.name), f.dataType, f.nullable) for f in fields])
    copy = helper_name(df, "content_copy")
    kind = T.StructType([T.StructField(f"c{i}", _plain_type(f.dataType)) for i, f in enumerate(copied)])
    columns = [F.col("*")] if copy_all else [F.col(quoted(field.name)) for field in copied]
    values = [(f"{quoted(copy)}.{f.name}", f.dataType, True) for f in kind.fields]
    values += [(quoted(f.name), f.dataType, f.nullable) for f in fields if f not in copied]
    return RowContent(df.select("*", F.struct(*columns).cast(kind).alias(copy)), [copy], values)


def _needs_copy(kind: T.DataType) -> bool:
    """Return whether the parts of a value can only be reached through a copy."""
    if isinstance(kind, T.UserDefinedType):
        return False  # opaque: see _json
    if isinstance(kind, T.StructType) and _names_repeat(kind.fields):
        return True
    if not inner_types(kind):
        return first_collation(kind) is not None
    return any(_needs_copy(inner) for inner in inner_types(kind))


def _names_repeat(fields: list[T.StructField]) -> bool:
    return len({field.name.lower() for field in fields}) < len(fields)


def _plain_type(kind: T.DataType) -> T.DataType:
    """Return the type with numbered fields and binary collation."""
    if isinstance(kind, T.StringType):
        return T.StringType()
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_plain_type(kind.elementType), kind.containsNull)
    if isinstance(kind, T.MapType):
        return T.MapType(_plain_type(kind.keyType), _plain_type(kind.valueType), kind.valueContainsNull)
    if isinstance(kind, T.StructType):
        return T.StructType(
            [T.StructField(f"c{i}", _plain_type(f.dataType), f.nullable) for i, f in enumerate(kind.fields)]
        )
    return kind


def _hashed(value: str, kind: T.DataType, nullable: bool, depth: int = 0) -> Iterator[str]:
    """Yield arguments for xxhash64 under which different values have different hashes, barring collisions."""
    element, below = f"e{depth}", depth + 1
    if nullable:
        yield f"{value} is null"
    if isinstance(kind, T.StructType):
        for field in kind.fields:
            yield from _hashed(f"{value}.{quoted(field.name)}", field.dataType, field.nullable, depth)
    elif isinstance(kind, T.ArrayType):
        parts = list(_hashed(element, kind.elementType, kind.containsNull, below))
        yield f"size({value})"
        yield value if parts == [element] else f"transform({value}, {element} -> {_xxhash64(parts)})"
    elif isinstance(kind, T.MapType):
        parts = [
            *_hashed(f"{element}.key", kind.keyType, False, below),
            *_hashed(f"{element}.value", kind.valueType, kind.valueContainsNull, below),
        ]
        yield f"size({value})"
        yield f"array_sort(transform(map_entries({value}), {element} -> {_xxhash64(parts)}))"
    elif isinstance(kind, T.FloatType | T.DoubleType):
        yield from (value, _sign_of_zero(value))
    elif isinstance(kind, T.UserDefinedType):
        yield value if first_unhashable(kind) is None else _json(value)
    elif isinstance(kind, T.VariantType):
        yield from _variant(value)
    elif _is_geospatial(kind):
        yield from _geospatial(value)
    elif not isinstance(kind, T.NullType):
        yield value


def _xxhash64(parts: list[str]) -> str:
    return f"xxhash64({', '.join(parts)})" if parts else "0L"


def _ordered(value: str, kind: T.DataType, depth: int = 0) -> Iterator[str]:
    """Yield sort keys that are equal for two values only if the values are identical."""
    element, below = f"e{depth}", depth + 1
    if isinstance(kind, T.FloatType | T.DoubleType):
        yield from (value, _sign_of_zero(value))
    elif isinstance(kind, T.CalendarIntervalType):
        yield f"string({value})"
    elif isinstance(kind, T.UserDefinedType):
        yield _json(value)
    elif isinstance(kind, T.VariantType):
        yield from _variant(value)
    elif _is_geospatial(kind):
        yield from _geospatial(value)
    elif isinstance(kind, T.MapType):
        pair = (
            _as_one_value(f"{element}.key", kind.keyType, below),
            _as_one_value(f"{element}.value", kind.valueType, below),
        )
        yield f"transform(map_entries({value}), {element} -> struct({', '.join(pair)}))"
    elif _orders_exactly(kind):
        yield value
    elif isinstance(kind, T.StructType):
        yield f"{value} is null"
        for field in kind.fields:
            yield from _ordered(f"{value}.{quoted(field.name)}", field.dataType, depth)
    elif isinstance(kind, T.ArrayType):
        yield f"transform({value}, {element} -> {_as_one_value(element, kind.elementType, below)})"


def _as_one_value(value: str, kind: T.DataType, depth: int) -> str:
    """Return the sort keys of a value as a single expression, null if the value is null."""
    parts = list(_ordered(value, kind, depth))
    if parts == [value]:
        return value
    return f"if({value} is null, null, struct({', '.join(parts or ['true'])}))"


def _orders_exactly(kind: T.DataType) -> bool:
    """Return whether Spark orders values of this type, and no two different values tie."""
    if isinstance(kind, T.ArrayType | T.StructType):
        return all(map(_orders_exactly, inner_types(kind)))
    inexact = (T.FloatType, T.DoubleType, T.CalendarIntervalType, T.UserDefinedType, T.VariantType, T.MapType)
    return not (isinstance(kind, (*inexact, T.NullType)) or _is_geospatial(kind))


def _sign_of_zero(value: str) -> str:
    return f"if({value} = 0, string({value}), null)"


def _variant(value: str) -> tuple[str, str]:
    return f"to_json({value})", f"schema_of_variant({value})"


def _json(value: str) -> str:
    """Return a user-defined type as JSON, because SQL cannot name its fields."""
    return f"to_json(struct({value}), {_JSON_OPTIONS})"


def _is_geospatial(kind: T.DataType) -> bool:
    return type(kind).__name__ in {"GeometryType", "GeographyType"}  # not in every Spark


def _geospatial(value: str) -> tuple[str, str]:
    return f"st_asbinary({value})", f"st_srid({value})"
