"""What two frames are joined on: pairs of equal keys, and the rest of the condition.

A condition such as ``(left.user == right.id) & (left.ts < right.until)`` is taken apart: equalities between a
column of the left and one of the right are the keys, everything else is the residual condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from evenflow.errors import EvenflowError, nearest
from evenflow.spark.routing.key_columns import quoted

On: TypeAlias = "str | Column | Sequence[str | Column]"


@dataclass(frozen=True)
class JoinOn:
    """The keys of a join."""

    left: list[str | Column]  # in the type in which Spark compares them
    right: list[str | Column]
    names: list[str] | None  # columns that both sides have and the result has once
    condition: Column | None  # the equalities of the keys, unless there are names
    residual: Column | None


def resolve_on(left: DataFrame, right: DataFrame, on: On, residual: Column | None) -> JoinOn:
    """Return the keys in ``on``: names that both frames have, or a condition with equalities."""
    parts = [on] if isinstance(on, str | Column) else list(on or [])
    if not parts or not all(isinstance(part, str | Column) for part in parts):
        raise EvenflowError(
            f"on is {on!r}; pass column names that both sides have, or equalities of columns."
        )
    if residual is not None and not isinstance(residual, Column):
        raise EvenflowError(f"condition is {residual!r}; pass a Column, such as left.ts < right.until.")
    if all(isinstance(part, str) for part in parts):
        return _by_names(left, right, [str(part) for part in parts], residual)
    pairs: list[tuple[Column, Column]] = []
    rest: list[Column] = [] if residual is None else [residual]
    equalities: list[Column] = []
    for part in parts:
        if isinstance(part, str):
            raise EvenflowError(
                f"on mixes the name {part!r} with conditions; pass either names or conditions."
            )
        for conjunct in _conjuncts(part):
            pair = _key_pair(left, right, conjunct)
            if pair is None:
                rest.append(conjunct)
            else:
                pairs.append(pair)
                equalities.append(conjunct)
    if not pairs:
        raise EvenflowError(
            "on has no equality between a column of the left and one of the right, such as left.user == "
            "right.id; rows can only be placed by a key."
        )
    columns = [_same_type(left, right, *pair) for pair in pairs]
    ours, theirs = ([*side] for side in zip(*columns, strict=True))
    return JoinOn(ours, theirs, None, all_of(equalities), all_of(rest) if rest else None)


def _by_names(left: DataFrame, right: DataFrame, names: list[str], residual: Column | None) -> JoinOn:
    if len(set(names)) < len(names):
        raise EvenflowError(f"on is {names}; name every column once.")
    for frame, side in ((left, "left"), (right, "right")):
        for name in names:
            count = frame.columns.count(name)
            if count == 0:
                raise EvenflowError(f"the {side} has no column {name!r}; {nearest(name, frame.columns)}")
            if residual is not None and len(set(frame.columns)) < len(frame.columns):
                raise EvenflowError(
                    f"the {side} has columns of one name ({', '.join(frame.columns)}), which cannot be told "
                    "apart beside a condition; rename them."
                )
            if count > 1:
                raise EvenflowError(
                    f"on is {name!r}, but {count} columns of the {side} have that name; rename one."
                )
    columns = [_same_type(left, right, name, name) for name in names]
    ours, theirs = ([*side] for side in zip(*columns, strict=True))
    return JoinOn(ours, theirs, names, None, residual)


def all_of(conditions: list[Column]) -> Column:
    """Return the conditions combined with ``&``."""
    found = conditions[0]
    for condition in conditions[1:]:
        found = found & condition
    return found


def _conjuncts(condition: Column) -> Iterator[Column]:
    """Yield the conditions that ``&`` combines."""
    name, arguments = _call(condition)
    if name == "and":
        for argument in arguments:
            yield from _conjuncts(argument)
    else:
        yield condition


def _key_pair(left: DataFrame, right: DataFrame, condition: Column) -> tuple[Column, Column] | None:
    """Return the columns of the left and of the right that ``condition`` equates, or None."""
    name, arguments = _call(condition)
    if name == "<=>" and any(_resolves(left, a) and _resolves(right, b) for a, b in _both(arguments)):
        raise EvenflowError(
            "on contains eqNullSafe, under which nulls match; replace null by a value with coalesce on both "
            "sides, and compare with ==."
        )
    if name not in ("=", "=="):
        return None
    for a, b in _both(arguments):
        if _resolves(left, a) and _resolves(right, b) and not (_resolves(left, b) or _resolves(right, a)):
            return a, b
    return None


def _both(arguments: list[Column]) -> list[tuple[Column, Column]]:
    return [(arguments[0], arguments[1]), (arguments[1], arguments[0])]


def _call(column: Column) -> tuple[str, list[Column]]:
    """Return the name and the arguments of the function that a Column calls, or an empty name."""
    parts: dict[str, Any] = vars(column)  # a Column answers to every other name with a field
    if "_jc" not in parts:  # Spark Connect
        expression, make = parts["_expr"], type(column)
        arguments = getattr(expression, "_args", None)
        return ("", []) if arguments is None else (str(expression._name), [make(part) for part in arguments])
    node = parts["_jc"].node()
    if node.getClass().getSimpleName() != "UnresolvedFunction":
        return "", []
    context: Any = SparkContext._active_spark_context
    java_column, given = context._jvm.org.apache.spark.sql.Column, node.arguments()
    columns: Any = [Column(java_column(given.apply(number))) for number in range(given.size())]
    return str(node.functionName()).lower(), columns


def _resolves(df: DataFrame, column: Column) -> bool:
    try:
        return bool(df.select(column).schema.fields)
    except PySparkException:
        return False


def _same_type(
    left: DataFrame, right: DataFrame, a: str | Column, b: str | Column
) -> tuple[str | Column, str | Column]:
    """Return both keys in the type in which Spark compares them, so that equal keys have equal hashes."""
    columns = [F.col(quoted(key)) if isinstance(key, str) else key for key in (a, b)]
    first, second = left.select(columns[0]).schema[0], right.select(columns[1]).schema[0]
    kinds = first.dataType, second.dataType
    if _nullable(kinds[0]) == _nullable(kinds[1]):
        return a, b
    if not all(isinstance(kind, T.NumericType) for kind in kinds):
        raise EvenflowError(
            f"the key {first.name!r} is {kinds[0].simpleString()} on the left and {kinds[1].simpleString()} "
            "on the right; cast one to the type of the other."
        )
    nulls = [F.lit(None).cast(kind) for kind in kinds]
    wider = left.sparkSession.range(1).select(F.array(*nulls).alias("both")).schema[0].dataType
    assert isinstance(wider, T.ArrayType)
    return columns[0].cast(wider.elementType), columns[1].cast(wider.elementType)


def _nullable(kind: T.DataType) -> T.DataType:
    anything: Any = kind
    nullable: T.DataType = anything._as_nullable()
    return nullable
