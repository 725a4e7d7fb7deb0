"""`apply` equals groupBy(key).applyInArrow, with large groups on workers of their own."""

from __future__ import annotations

import gc
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow import EvenflowError
from evenflow.spark import aggregate, apply, balance, loads
from spark.aggregators import SCHEMA, Profile
from spark.tables import KEYS, rows_of, table, tables

pytestmark = pytest.mark.spark


@settings(max_examples=6)
@given(tables(), st.integers(1, 5))
def test_same_result_as_apply_in_arrow(spark: Any, made: tuple[str, pa.Table], workers: int) -> None:
    def describe(key: Any, group: pa.Table) -> pa.Table:
        import pyarrow.compute as pc

        total = pc.sum(group["x"]).as_py()
        users = sorted(group["user"].to_pylist())
        return pa.table(
            {
                "key": [str(key[0].as_py() == key[0].as_py())],
                "rows": [group.num_rows],
                "total": [total],
                "users": [users],
            },
            pa.schema(
                [
                    ("key", pa.string()),
                    ("rows", pa.int64()),
                    ("total", pa.float64()),
                    ("users", pa.list_(pa.int64())),
                ]
            ),
        )

    df = spark.createDataFrame(made[1])
    schema = "key string, rows long, total double, users array<long>"
    wanted = df.groupBy("k").applyInArrow(describe, schema).collect()
    assert rows_of(apply(df, "k", describe, schema, workers=workers).collect()) == rows_of(wanted)


def test_a_key_keeps_the_sign_of_its_zero_as_in_apply_in_arrow(spark: Any) -> None:
    def key_of(key: Any, group: pa.Table) -> pa.Table:
        return pa.table({"key": [str([part.as_py() for part in key])], "n": [group.num_rows]})

    rows = [(value,) for value in [-0.0, 1.5, float("nan"), None] * 5]
    df = spark.createDataFrame(rows, "d double").selectExpr(
        "d", "float(d) as f", "named_struct('x', d) as s", "array(named_struct('x', d)) as a"
    )
    for key in (["d"], ["f", "s"], ["a"]):
        wanted = df.groupBy(*key).applyInArrow(key_of, "key string, n long").collect()
        found = apply(df, key, key_of, "key string, n long", workers=3).collect()
        assert sorted(map(str, found)) == sorted(map(str, wanted))
        assert any("-0.0" in row["key"] for row in found)


@pytest.mark.parametrize("kind", sorted(KEYS))
def test_every_key_is_seen_once_and_whole(spark: Any, kind: str) -> None:
    def count(group: pa.Table) -> pa.Table:
        return pa.table({"k": group["k"].slice(0, 1), "n": [group.num_rows]})

    df = spark.createDataFrame(table(kind, 100, 1.0, 3))
    schema = f"k {df.schema['k'].dataType.simpleString()}, n long"
    wanted = df.groupBy("k").count().withColumnRenamed("count", "n").collect()
    assert rows_of(apply(df, "k", count, schema, workers=3).collect()) == rows_of(wanted)


def test_equal_groups_fill_every_worker_and_giants_have_one_each(spark: Any) -> None:
    from pyspark.sql import functions as F

    def where(group: pa.Table) -> pa.Table:
        from evenflow.spark.task import current_worker

        return pa.table({"k": group["k"].slice(0, 1), "n": [group.num_rows], "worker": [current_worker()]})

    schema = "k long, n long, worker int"
    equal = spark.range(800).select((F.col("id") % 40).alias("k"))
    rows = apply(equal, "k", where, schema, workers=40).collect()
    assert sorted(row.worker for row in rows) == list(range(40))
    giants = spark.range(4000).select(
        F.when(F.col("id") < 3000, F.col("id") % 3).otherwise(F.col("id")).alias("k")
    )
    seen: list[Any] = []
    rows = apply(giants, "k", where, schema, workers=4, on_placed=seen.append).collect()
    assert len({row.worker for row in rows if row.n == 1000}) == 3
    loads = {worker: sum(row.n for row in rows if row.worker == worker) for worker in range(4)}
    assert max(loads.values()) <= 1000 + 20
    assert seen[0].plan.splits == 0


def test_pandas_several_keys_windows_and_dotted_names(spark: Any) -> None:
    from pyspark.sql import functions as F

    def count(key: Any, group: Any) -> Any:
        import pandas as pd

        assert list(group.columns) == ["k", "user", "word", "x", "ts", "a.b"]
        return pd.DataFrame({"minute": [key[0]["start"].minute], "user": [key[1]], "n": [len(group)]})

    df = spark.createDataFrame(table("string", 120, 1.0, 4)).withColumn("a.b", F.col("user") % 3)
    window = F.window("ts", "20 minutes")
    wanted = (
        df.groupBy(window, F.col("`a.b`").alias("user"))
        .count()
        .select(F.minute("window.start").cast("long").alias("minute"), "user", F.col("count").alias("n"))
    )
    found = apply(df, [window, "a.b"], count, "minute long, user long, n long", workers=3, rows="pandas")
    assert rows_of(found.collect()) == rows_of(wanted.collect())


def test_one_exchange(spark: Any, capsys: Any) -> None:
    df = spark.range(10).toDF("k")
    apply(df, "k", lambda group: group, "k long", workers=3).explain()
    assert capsys.readouterr().out.count("Exchange ") == 1


def test_an_exception_names_the_key_and_the_function(spark: Any) -> None:
    def fit_model(group: pa.Table) -> pa.Table:
        if group["k"][0].as_py() == 7:
            raise ZeroDivisionError("no spread")
        return group

    df = spark.range(10).toDF("k")
    with pytest.raises(Exception, match="fit_model failed for key k=7: ZeroDivisionError: no spread"):
        apply(df, "k", fit_model, "k long", workers=2).collect()
    with pytest.raises(Exception, match="fit_model returned no column 'mape' for key k="):
        apply(df, "k", fit_model, "k long, mape double", workers=2).collect()


def annotated() -> dict[str, Any]:
    """Return functions over groups; local ones, since Spark's Python workers do not have this module."""

    def takes_frame(group: pd.DataFrame) -> pd.DataFrame:
        return group

    def takes_key_and_frame(key: tuple[Any, ...], group: pd.DataFrame) -> Any:
        return group

    def returns_frame(group) -> pd.DataFrame:  # type: ignore[no-untyped-def]
        return group

    def takes_unknown_name(group: pd.DataFrame, other: Missing = None) -> Any:  # type: ignore[name-defined]  # noqa: F821
        return group

    def takes_table(group: pa.Table) -> pa.Table:
        return group

    functions = (takes_frame, takes_key_and_frame, returns_frame, takes_unknown_name, takes_table)
    return {function.__name__: function for function in functions}


@pytest.mark.parametrize("name", sorted(annotated().keys() - {"takes_table"}))
def test_a_function_annotated_with_pandas_is_told_of_rows(spark: Any, name: str) -> None:
    df, function = spark.range(4).toDF("k"), annotated()[name]
    with pytest.raises(EvenflowError, match=rf'{name} .*DataFrame.*; pass rows="pandas"'):
        apply(df, "k", function, "k long", workers=2)
    assert apply(df, "k", function, "k long", workers=2, rows="pandas").count() == 4


def test_a_function_annotated_with_arrow_is_told_of_rows(spark: Any) -> None:
    df = spark.range(4).toDF("k")
    with pytest.raises(EvenflowError, match=r'takes_table .*pyarrow.Table.*; pass rows="arrow"'):
        apply(df, "k", annotated()["takes_table"], "k long", workers=2, rows="pandas")


USED_AS_PANDAS: dict[str, Any] = {
    "attribute of a frame": lambda group: group.groupby("k").sum(),
    "indexer": lambda group: group.iloc[:1],
    "column as attribute": lambda group: group.k,
    "attribute of a column": lambda group: group["k"].mean(),
    "operator": lambda group: group["k"] + 1,
    "list of columns": lambda group: group[["k"]],
    "returned frame": lambda group: group.to_pandas(),
}


@pytest.mark.parametrize("use", sorted(USED_AS_PANDAS))
def test_a_function_that_takes_arrow_for_pandas_is_told_of_rows(spark: Any, use: str) -> None:
    df = spark.range(4).toDF("k")
    with pytest.raises(Exception, match=r'for key k=.*pass rows="pandas"'):
        apply(df, "k", USED_AS_PANDAS[use], "k long", workers=1).collect()


def test_other_failures_are_not_blamed_on_pandas(spark: Any) -> None:
    df = spark.range(4).toDF("k")
    with pytest.raises(Exception, match="no attribute 'misspelt'") as caught:
        apply(df, "k", lambda group: group.misspelt, "k long", workers=1).collect()
    assert "pandas" not in str(caught.value).split("misspelt'")[1].splitlines()[0]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no column": ({"key": "j"}, "there is no column 'j'"),
    "no workers": ({"workers": 0}, "workers is 0"),
    "no function": ({"using": 3}, "using is 3; pass a function"),
    "three arguments": ({"using": lambda a, b, c: a}, "<lambda> takes 3 arguments"),
    "bad schema": ({"schema": "k lung"}, "schema is 'k lung'; declare columns as in"),
    "type for schema": ({"schema": "long"}, "schema is "),
    "column twice": ({"schema": "k long, K long"}, "schema has the column 'k' twice; rename one."),
    "bad rows": ({"rows": "polars"}, "rows is 'polars'"),
    "not planned": ({"scheme": "d-choices"}, "d-choices decides row by row and cannot be planned"),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_bad_input_is_a_sentence(spark: Any, name: str) -> None:
    changed, sentence = BAD[name]
    options: dict[str, Any] = {"key": "k", "using": lambda group: group, "schema": "k long", "workers": 2}
    with pytest.raises(EvenflowError) as raised:
        apply(spark.range(3).toDF("k"), **{**options, **changed})
    assert sentence in str(raised.value)


def test_a_stream_is_refused(spark: Any) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(EvenflowError, match="df is a stream"):
        apply(stream, "value", lambda group: group, "value long", workers=2)


INTERVAL = "make_ym_interval(0, cast(id % 7 as int))"
NOT_FOR_PYTHON = {
    "year-month interval": (INTERVAL, "interval year to month"),
    "interval in an array": (f"array({INTERVAL})", "array<interval year to month>"),
    "calendar interval": ("make_interval(0, cast(id % 7 as int))", "of type interval"),
    "a name twice": ("named_struct('a', id % 7, 'a', id % 3)", "the field 'a' twice"),
}


@pytest.mark.parametrize("kind", sorted(NOT_FOR_PYTHON))
def test_keys_that_python_cannot_take_are_balanced_and_refused_elsewhere(spark: Any, kind: str) -> None:
    from pyspark.sql import functions as F

    made, sentence = NOT_FOR_PYTHON[kind]
    df = spark.range(1000).selectExpr(f"{made} as k", "id")
    for mode in ("planned", "online"):
        found = loads(df.transform(balance("k", 3, mode=mode)), "k", workers=3)
        assert (sum(found.rows), found.keys) == (1000, df.select("k").distinct().count())
    with pytest.raises(EvenflowError, match=sentence):
        apply(df, "k", one_row, "id long")
    with pytest.raises(EvenflowError, match=sentence):
        apply(df.select("id"), F.expr(made), one_row, "id long", workers=3)
    with pytest.raises(EvenflowError, match=sentence):
        aggregate(df, "k", Profile(), SCHEMA)


def one_row(group: Any) -> Any:
    return group.slice(0, 1)


def test_what_a_python_worker_has_loaded_is_left_out_of_its_collections(spark: Any) -> None:
    """Spark collects garbage after every task; over all that is loaded, it takes longer than many a task."""

    def left_out(group: pa.Table) -> pa.Table:
        return pa.table({"k": group["k"].slice(0, 1), "objects": [gc.get_freeze_count()]})

    df = spark.range(100).selectExpr("id % 5 as k", "id")
    objects = [row["objects"] for row in apply(df, "k", left_out, "k long, objects long", 3).collect()]
    assert len(objects) == 5
    assert min(objects) > 10_000
