"""What a row holds, as SQL: a hash that tells rows apart, and an order in which no two rows that differ tie.

``xxhash64`` skips nulls, joins -0.0 with 0.0, and sees neither where an array ends nor maps and variants; so
what it misses is hashed beside the values. A hash may still clash: ``ordering`` follows it with the values
themselves, in forms that Spark orders and that are equal only where the values are.

* A map is hashed as a set of entries, since their order may change when it is computed again; the ordering
  then tells apart maps whose entries come in another order.
* A variant counts as its JSON text and its schema, and NaN as one value: Spark's expressions see no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from evenflow.spark.routing.draws import CONTENT, own_constant
from evenflow.spark.routing.key_columns import first_collation, first_unhashable, helper, inner_types, quoted

_JSON = (  # to the microsecond, and with nulls
    "map('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS XXX', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
)


@dataclass(frozen=True)
class RowContent:
    """The values of a frame's rows; ``frame`` has the columns ``added`` beside its own to reach them."""

    frame: DataFrame
    added: list[str]
    values: list[tuple[str, T.DataType, bool]]  # SQL, type, nullable

    def hash(self, seed: int) -> Column:
        """Return 64 bits of all that the row holds, nulls included."""
        parts = [part for value in self.values for part in _hashed(*value)]
        return F.expr(f"xxhash64({', '.join([f'{own_constant(seed, CONTENT)}L', *parts])})")

    def ordering(self) -> list[Column]:
        """Return what to sort by, so that only identical rows tie."""
        return [F.expr(part) for value, kind, _ in self.values for part in _ordered(value, kind)]


def row_content(df: DataFrame) -> RowContent:
    """Return what the rows of ``df`` hold.

    Columns that cannot be named, since their names or those of their fields come twice, and text that is
    compared by a collation are reached through a copy.
    """
    fields = df.schema.fields
    everything = _names_repeat(fields)
    copied = [field for field in fields if everything or _needs_copy(field.dataType)]
    if not copied:
        return RowContent(df, [], [(quoted(f.name), f.dataType, f.nullable) for f in fields])
    inside = helper(df, "content_copy")
    kind = T.StructType([T.StructField(f"c{i}", _plain_type(f.dataType)) for i, f in enumerate(copied)])
    columns = [F.col("*")] if everything else [F.col(quoted(field.name)) for field in copied]
    values = [(f"{quoted(inside)}.{f.name}", f.dataType, True) for f in kind.fields]
    values += [(quoted(f.name), f.dataType, f.nullable) for f in fields if f not in copied]
    return RowContent(df.select("*", F.struct(*columns).cast(kind).alias(inside)), [inside], values)


def _needs_copy(kind: T.DataType) -> bool:
    """Return whether a value cannot be taken apart as it is."""
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
    """Return the type with numbers for the names of fields, and text that is compared by its bytes."""
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
    """Yield what xxhash64 takes so that values that differ have different hashes, but for chance."""
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
    elif _is_shape(kind):
        yield from _shape(value)
    elif not isinstance(kind, T.NullType):
        yield value


def _xxhash64(parts: list[str]) -> str:
    return f"xxhash64({', '.join(parts)})" if parts else "0L"


def _ordered(value: str, kind: T.DataType, depth: int = 0) -> Iterator[str]:
    """Yield what Spark can order and what is equal for two values only if these are identical."""
    element, below = f"e{depth}", depth + 1
    if isinstance(kind, T.FloatType | T.DoubleType):
        yield from (value, _sign_of_zero(value))
    elif isinstance(kind, T.CalendarIntervalType):
        yield f"string({value})"
    elif isinstance(kind, T.UserDefinedType):
        yield _json(value)
    elif isinstance(kind, T.VariantType):
        yield from _variant(value)
    elif _is_shape(kind):
        yield from _shape(value)
    elif isinstance(kind, T.MapType):
        pair = (_one(f"{element}.key", kind.keyType, below), _one(f"{element}.value", kind.valueType, below))
        yield f"transform(map_entries({value}), {element} -> struct({', '.join(pair)}))"
    elif _orders_as_it_is(kind):
        yield value
    elif isinstance(kind, T.StructType):
        yield f"{value} is null"
        for field in kind.fields:
            yield from _ordered(f"{value}.{quoted(field.name)}", field.dataType, depth)
    elif isinstance(kind, T.ArrayType):
        yield f"transform({value}, {element} -> {_one(element, kind.elementType, below)})"


def _one(value: str, kind: T.DataType, depth: int) -> str:
    """Return what _ordered yields as one value, null where the value is."""
    parts = list(_ordered(value, kind, depth))
    if parts == [value]:
        return value
    return f"if({value} is null, null, struct({', '.join(parts or ['true'])}))"


def _orders_as_it_is(kind: T.DataType) -> bool:
    """Return whether Spark orders values of this type, with no two that differ as equals."""
    if isinstance(kind, T.ArrayType | T.StructType):
        return all(map(_orders_as_it_is, inner_types(kind)))
    apart = (T.FloatType, T.DoubleType, T.CalendarIntervalType, T.UserDefinedType, T.VariantType, T.MapType)
    return not (isinstance(kind, (*apart, T.NullType)) or _is_shape(kind))


def _sign_of_zero(value: str) -> str:
    return f"if({value} = 0, string({value}), null)"


def _variant(value: str) -> tuple[str, str]:
    return f"to_json({value})", f"schema_of_variant({value})"


def _json(value: str) -> str:
    """Return the text of a user-defined type, which has no fields that SQL could name."""
    return f"to_json(struct({value}), {_JSON})"


def _is_shape(kind: T.DataType) -> bool:
    return type(kind).__name__ in {"GeometryType", "GeographyType"}  # not in every Spark


def _shape(value: str) -> tuple[str, str]:
    return f"st_asbinary({value})", f"st_srid({value})"
