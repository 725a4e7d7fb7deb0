"""The order of rows under order="sort": only identical rows tie, whatever they hold and however they come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from pyspark.sql import types as T

from evenflow.spark import balance
from evenflow.spark.routing.row_content import row_content
from evenflow.spark.routing.row_order import has_fixed_order
from evenflow.spark.versions.known import CLIENT
from extent import ALL
from spark.tricky_rows import arriving, tricky_rows

pytestmark = pytest.mark.spark

# values of one type that all differ; null is added to each
DIFFERENT = {
    "double": ["0D", "-0D", "1D", "double('NaN')", "double('inf')", "double('-inf')"],
    "float": ["float(0)", "float('-0.0')", "float('NaN')"],
    "string": ["''", "' '", "'a'", "'A'", "'null'"],
    "binary": ["X''", "X'00'", "X'0000'"],
    "boolean": ["true", "false"],
    "decimal(38,2)": ["0.00", "-1.50"],
    "date": ["date'2024-01-01'", "date'0001-01-01'"],
    "timestamp": ["timestamp'2024-01-01 00:00:00.000001'", "timestamp'2024-01-01 00:00:00.000002'"],
    "timestamp_ntz": ["timestamp_ntz'2024-01-01 00:00:00.000001'", "timestamp_ntz'2024-01-01'"],
    "time(6)": ["time'12:00:00'", "time'12:00:00.000001'"],
    "interval year to month": ["interval '1' year", "interval '1' month"],
    "interval day to second": ["interval '1' day", "interval '24:00:01' hour to second"],
    "interval": ["make_interval(0,1)", "make_interval(0,0,0,30)", "make_interval(0,0,0,0,720)"],
    "string collate UTF8_LCASE": ["'a'", "'A'"],
    "array<string collate UTF8_LCASE>": ["array('a')", "array('A')"],
    "array<int>": ["array()", "array(1)", "array(1, null)", "array(null, 1)", "array(null)", "array(1, 1)"],
    "array<double>": ["array(0D)", "array(-0D)", "array(0D, null)", "array(double('NaN'))"],
    "array<array<int>>": [
        "array(array(1, 2))",
        "array(array(1), array(2))",
        "array(array(1), null, array(2))",
    ],
    "array<void>": ["array()", "array(null)", "array(null, null)"],
    "struct<a: int, b: int>": ["(1, null)", "(null, 1)", "(null, null)", "(1, 1)"],
    "struct<a: int, A: double>": ["(1, 0D)", "(1, -0D)", "(0, 1D)", "(1, null)"],
    "struct<s: struct<x: double>, a: array<struct<x: float>>>": [
        *("struct(struct(0D), array())", "struct(struct(-0D), array())", "struct(null, array())"),
        *("struct(struct(null), array())", "struct(struct(null), array(struct(-0D)))"),
        *("struct(struct(null), array(struct(0D)))", "struct(struct(null), array(null))"),
    ],
    "map<string, double>": [
        *("map()", "map('a', 0D)", "map('a', -0D)", "map('a', null)", "map('b', 0D)"),
        *("map('a', 0D, 'b', 1D)", "map('a', 1D, 'b', 0D)"),
    ],
    "map<int, map<string, array<int>>>": [
        *("map(1, map('a', array(1)))", "map(1, map('a', array(1, null)))", "map(1, null)", "map(1, map())"),
    ],
    "variant": [
        *("parse_json('1')", "parse_json('\"1\"')", "parse_json('null')", "parse_json('{\"a\": [1, null]}')"),
        *("parse_json('{\"a\": [1]}')", "cast(1.5BD as variant)", "cast(1.5D as variant)"),
        *("cast(date'2024-01-01' as variant)", "cast('2024-01-01' as variant)"),
    ],
    "array<variant>": ["array(parse_json('1'))", "array(parse_json('1'), null)"],
}

MISSING = {"time(6)"} if CLIENT < (4, 1) else set[str]()  # types that this Spark does not have


def in_rows(spark: Any, kind: str) -> Any:
    """Return a frame with the columns i and v: every value of a type, and null."""
    values = " union all ".join(
        f"select {i} as i, cast({value} as {kind}) as v" for i, value in enumerate([*DIFFERENT[kind], "null"])
    )
    return spark.sql(values).coalesce(1)


def orders(df: Any) -> list[tuple[list[int], list[int]]]:
    """Return for two arrival orders in which order rows come, told apart by v only, and the hashes of v."""
    found = []
    for arrival in (F.col("i"), -F.col("i")):
        content = row_content(df.sortWithinPartitions(arrival))
        content = replace(content, values=[value for value in content.values if value[0] != "`i`"])
        rows = content.frame.select("*", content.hash(0).alias("h")).sortWithinPartitions(*content.ordering())
        got = rows.select("i", "h").collect()
        found.append(([row["i"] for row in got], [row["h"] for row in got]))
    return found


@pytest.fixture
def with_time_type(spark: Any) -> Iterator[None]:
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield
    spark.conf.unset("spark.sql.timeType.enabled")


@pytest.mark.usefixtures("with_time_type")
@pytest.mark.parametrize("kind", [kind for kind in sorted(DIFFERENT) if kind not in MISSING])
def test_values_that_differ_have_an_order_and_hashes_of_their_own(spark: Any, kind: str) -> None:
    (first, hashes), (second, again) = orders(in_rows(spark, kind))
    assert first == second
    assert hashes == again
    assert len(set(hashes)) == len(first) == len(DIFFERENT[kind]) + 1


def test_maps_with_the_same_entries_share_a_hash_and_have_an_order(spark: Any) -> None:
    df = spark.sql("select 0 as i, map('a', 1, 'b', 2) as v union all select 1, map('b', 2, 'a', 1)")
    (first, hashes), (second, _) = orders(df.coalesce(1))
    assert first == second
    assert len(set(hashes)) == 1


class Point(T.UserDefinedType):
    """A point on a line, with a type that only Python knows."""

    @classmethod
    def sqlType(cls) -> T.DataType:
        return T.ArrayType(T.DoubleType())

    @classmethod
    def module(cls) -> str:
        return __name__

    def serialize(self, obj: Any) -> Any:
        return obj

    def deserialize(self, datum: Any) -> Any:
        return datum


def test_user_defined_types(spark: Any) -> None:
    fields = [T.StructField("i", T.IntegerType()), T.StructField("v", Point())]
    values = [(0, [0.0]), (1, [-0.0]), (2, [1.0, None]), (3, None)]
    points = spark.createDataFrame(values, T.StructType(fields), verifySchema=False)
    (first, _), (second, _) = orders(points.coalesce(1))
    assert first == second


@pytest.mark.skipif(CLIENT < (4, 2), reason="Spark has no shapes, or has them switched off")
def test_shapes(spark: Any) -> None:
    shape = "st_geomfromwkb(X'0101000000000000000000F03F000000000000{}40')"
    shapes = spark.sql(
        f"select 0 as i, {shape.format('00')} as v union all select 1, {shape.format('08')} "
        "union all select 2, null"
    )
    (first, hashes), (second, _) = orders(shapes.coalesce(1))
    assert first == second
    assert len(set(hashes)) == 3


def test_columns_of_one_name(spark: Any) -> None:
    df = spark.sql(
        "select 1D as x, null as X, 'a' as y union all select null, 1D, 'a' union all select 0D, -0D, 'a' "
        "union all select -0D, 0D, 'a'"
    )
    content = row_content(df)
    assert len({row[0] for row in content.frame.select(content.hash(0)).collect()}) == 4
    placed = df.transform(balance("y", 3, order="sort"))
    assert placed.columns == df.columns
    assert Counter(map(str, placed.collect())) == Counter(map(str, df.collect()))


@pytest.mark.faults
@settings(max_examples=2 if ALL else 1)
@given(seed=st.integers(0, 2**32))
@pytest.mark.parametrize(
    "options",
    [{"mode": "planned", "order": "sort"}, {"mode": "planned", "order": "content"}, {"mode": "online"}],
)
def test_rows_go_where_they_went_however_they_come(spark: Any, options: dict[str, Any], seed: int) -> None:
    df = spark.createDataFrame(tricky_rows(3000, seed))  # hundreds differ only where a plain hash ties
    found = []
    for salt in (1, 2):
        placed = arriving(df, salt).transform(balance("key", 5, **options))
        found.append(
            Counter((row[0], str(row[1:])) for row in placed.select(F.spark_partition_id(), "*").collect())
        )
    assert found[0] == found[1]
    came = Counter(str(tuple(row)) for row in df.collect())
    assert Counter(row for _, row in found[0].elements()) == came


def test_which_frames_have_a_fixed_order(spark: Any) -> None:
    rows, stream = spark.range(9), spark.readStream.format("rate").load()
    fixed = [
        rows,
        rows.union(rows),
        rows.where("id > 3").hint("broadcast"),
        rows.selectExpr("explode(array(id))"),
    ]
    fixed += [stream, stream.withWatermark("timestamp", "1 minute")]
    unknown = [rows.repartition(2), rows.groupBy("id").count(), rows.join(rows, "id"), rows.limit(3)]
    assert [has_fixed_order(frame) for frame in fixed] == [True] * len(fixed)
    assert [has_fixed_order(frame) for frame in unknown] == [False] * len(unknown)
