"""`aggregate` in batch: keys of any type, windows, giant groups, exchanges, sentences for what is wrong."""

from __future__ import annotations

import sys
from typing import Any, ClassVar, NamedTuple

import pytest
from pyspark import cloudpickle

from evenflow import EvenflowError
from evenflow.spark import Aggregator, aggregate
from extent import long
from spark.aggregators import SCHEMA, Declared, Profile, plain
from spark.tables import KEYS, rows_of, table

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

SPLITS: dict[str, Any] = {"order": "sort"}  # rows that are identical are split as well


@pytest.mark.parametrize("kind", sorted(KEYS))
def test_keys_of_any_type_several_at_once_and_windows(spark: Any, kind: str) -> None:
    from pyspark.sql import functions as F

    df = spark.createDataFrame(table(kind, 150, 1.0, 2)).withColumn("a.b", F.struct(F.col("user").alias("c")))
    key: list[Any] = ["k", F.window("ts", "30 minutes", "15 minutes"), F.col("`a.b`.c").alias("user")]
    wanted = plain(df.groupBy(*key))
    found = aggregate(df, key, Declared(), SCHEMA, workers=3, **SPLITS)
    assert found.columns == wanted.columns
    assert rows_of(found.collect()) == rows_of(wanted.collect())


FLOATS = {
    "double": "d",
    "float": "float(d)",
    "struct": "if(d is null, null, named_struct('x', d, 'y', named_struct('z', float(d))))",
    "array": "array(d, null)",
    "structs in arrays": "array(named_struct('x', d))",
    "arrays in structs": "named_struct('x', array(d))",
}


@pytest.mark.parametrize(
    "form", ["double", "array", "arrays in structs", *map(long, ("float", "struct", "structs in arrays"))]
)
def test_zeros_and_nan_in_keys_come_out_as_from_spark(spark: Any, form: str) -> None:
    """Spark's groupBy returns 0.0 for -0.0, at every depth; compared as text, which shows the sign."""
    values = [-0.0, -0.0, -0.0, 1.5, float("nan"), None]
    for zeros in ([], [0.0]):  # only -0.0, then both
        rows = [(value,) for value in [*values, *zeros] * 40]
        df = spark.createDataFrame(rows, "d double").selectExpr(f"{FLOATS[form]} as k")
        wanted = sorted(map(str, df.groupBy("k").count().withColumnRenamed("count", "rows").collect()))
        got: list[Any] = []
        found = aggregate(df, "k", Rows(), "rows long", workers=3, on_placed=got.append, **SPLITS)
        assert sorted(map(str, found.collect())) == wanted
        assert got[0].plan.splits  # the zeros are on several workers and merged
        whole = aggregate(df, "k", Rows(), "rows long", workers=3, plan=None, scheme="key")
        assert sorted(map(str, whole.collect())) == wanted


@pytest.mark.parametrize("form", sorted(FLOATS))
def test_a_constant_key_comes_out_as_it_was_written(spark: Any, form: str) -> None:
    """Spark's optimizer takes constants out of groupBy's keys, so that -0.0 stays -0.0."""
    for value in ("-0.0D", "double(null)") if form == "struct" else ("-0.0D",):
        df = (
            spark.range(200)
            .selectExpr(f"{value} as d", "id % 3 as user")
            .selectExpr(f"{FLOATS[form]} as k", "user")
        )
        wanted = df.groupBy("k", "user").count().withColumnRenamed("count", "rows")
        for merges in (Rows.merges, None) if form == "struct" else (Rows.merges,):
            using = type("Rows", (Rows,), {"merges": merges})()
            found = aggregate(df, ["k", "user"], using, "rows long", workers=3, **SPLITS)
            assert found.select("k").dtypes == wanted.select("k").dtypes
            assert sorted(map(str, found.collect())) == sorted(map(str, wanted.collect()))
        if value == "-0.0D":
            assert "-0.0" in str(found.first())


class Sums(NamedTuple):
    """A state with names."""

    n: int
    total: float


class Means(Aggregator):
    """Means with rows as pandas and a NamedTuple as state."""

    buffer = "n int, total float"
    rows = "pandas"

    def zero(self) -> Sums:
        return Sums(0, 0.0)

    def reduce(self, state: Sums, rows: Any) -> Sums:
        return Sums(state.n + int(rows["x"].count()), state.total + rows["x"].sum())

    def merge(self, a: Sums, b: Sums) -> Sums:
        return Sums(a.n + b.n, a.total + b.total)

    def finish(self, state: Sums) -> Any:
        return [state.total / state.n if state.n else None]


def test_rows_as_pandas_and_states_as_named_tuples(spark: Any) -> None:
    from pyspark.sql import functions as F

    df = spark.createDataFrame(table("string", 300, 2.0, 6))
    found = aggregate(df, "k", Means(), "mean double", workers=4, **SPLITS)
    assert rows_of(found.collect()) == rows_of(df.groupBy("k").agg(F.avg("x").alias("mean")).collect())


class Rows(Aggregator):
    """Counts; the state is the result."""

    buffer = "rows long"
    merges: ClassVar[Any] = {"rows": "sum"}

    def zero(self) -> Any:
        return {"rows": 0}

    def reduce(self, state: Any, rows: Any) -> Any:
        return {"rows": state["rows"] + rows.num_rows}

    def merge(self, a: Any, b: Any) -> Any:
        return {"rows": a["rows"] + b["rows"]}


@pytest.mark.parametrize("merges", [Rows.merges, None])
@pytest.mark.parametrize("schema", ["rows long", "rows long not null"])
def test_without_finish_the_state_is_the_result(spark: Any, merges: Any, schema: str) -> None:
    df = spark.createDataFrame(table("string", 300, 2.0, 6))
    using = type("Rows", (Rows,), {"merges": merges})()
    found = aggregate(df, "k", using, schema, workers=4, **SPLITS)
    assert found.schema["rows"].nullable == ("not null" not in schema)
    wanted = df.groupBy("k").count().withColumnRenamed("count", "rows")
    assert rows_of(found.collect()) == rows_of(wanted.collect())


def test_no_row_enters_python_to_be_finished_as_it_is(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    df = spark.createDataFrame(table("string", 300, 2.0, 6))
    aggregate(df, "k", Rows(), "rows long", workers=4, **SPLITS).explain()
    assert capsys.readouterr().out.count("MapInArrow") == 1


def test_a_giant_group_is_reduced_piece_by_piece(spark: Any) -> None:
    class Largest(Aggregator):
        buffer = "n long, calls int, most int"

        def zero(self) -> Any:
            return (0, 0, 0)

        def reduce(self, state: Any, rows: Any) -> Any:
            return state[0] + rows.num_rows, state[1] + 1, max(state[2], rows.num_rows)

        def merge(self, a: Any, b: Any) -> Any:
            return a[0] + b[0], a[1] + b[1], max(a[2], b[2])

    df = spark.range(25_000).selectExpr("'one' as k", "id")
    [row] = aggregate(df, "k", Largest(), "n long, calls int, most int", workers=1).collect()
    assert row.n == 25_000
    assert row.calls >= 3
    assert row.most <= 10_000


def exchanges(frame: Any, capsys: Any) -> int:
    frame.explain()
    return int(capsys.readouterr().out.count("Exchange "))


def test_exchanges(spark: Any, capsys: Any) -> None:
    df = spark.createDataFrame(table("string", 50, 50.0, 1))
    for using in (Profile(), Declared()):
        hot = aggregate(df, "k", using, SCHEMA, workers=3, order="content")
        assert exchanges(hot, capsys) == 2
        one_home = aggregate(df, "k", using, SCHEMA, workers=3, scheme="key")
        assert exchanges(one_home, capsys) == 1


def failing(method: str) -> Aggregator:
    def fail(self: Any, *given: Any) -> Any:
        raise ZeroDivisionError("poison")

    return type("Poisoned", (Profile,), {method: fail})()


@pytest.mark.parametrize("method", ["reduce", "merge", "finish"])
def test_an_exception_names_the_key_and_the_class(spark: Any, method: str) -> None:
    df = spark.createDataFrame(table("string", 60, 50.0, 1))
    found = aggregate(df, "k", failing(method), SCHEMA, workers=3, **SPLITS)
    with pytest.raises(
        Exception, match=rf"Poisoned.{method} failed for key k='hot': ZeroDivisionError: poison \(test_"
    ):
        found.collect()


def test_reduce_that_takes_arrow_for_pandas_is_told_of_rows(spark: Any) -> None:
    def reduce(self: Any, state: Any, rows: Any) -> Any:
        return rows.groupby("k")

    df = spark.createDataFrame(table("string", 20, 50.0, 1))
    using = type("Pandas", (Profile,), {"reduce": reduce})()
    with pytest.raises(
        Exception, match=r'Pandas\.reduce failed for key k=.*set rows = "pandas" in the class'
    ):
        aggregate(df, "k", using, SCHEMA, workers=2).collect()


def test_a_result_that_does_not_fit_names_column_and_class(spark: Any) -> None:
    df = spark.createDataFrame(table("string", 20, 50.0, 1))
    with pytest.raises(
        Exception, match=r"Profile\.finish returned a dict for key k='hot' without the column 'score'"
    ):
        aggregate(df, "k", Profile(), "score double", workers=2).collect()
    with pytest.raises(
        Exception, match=r"Profile\.finish returned .* for column 'last' of key k='hot', which the schema"
    ):
        aggregate(df, "k", Profile(), "n long, total double, words int, last int", workers=2).collect()


def changed(**declared: Any) -> Aggregator:
    return type("Changed", (Profile,), declared)()


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "class": ({"using": Profile}, "using is the class Profile; pass an instance, Profile()."),
    "other": (
        {"using": len},
        "using is a builtin_function_or_method; pass an instance of a subclass of Aggregator.",
    ),
    "no buffer": (
        {"using": type("Bare", (Aggregator,), {})()},
        "Bare has no buffer; declare the columns of the state",
    ),
    "bad buffer": ({"using": changed(buffer="n lang")}, "Changed.buffer is 'n lang'; declare columns as in"),
    "zero does not fit": (
        {"using": changed(buffer="n long")},
        "Changed.zero returned a dict for a key without rows",
    ),
    "no merge": (
        {
            "using": type(
                "Half", (Aggregator,), {"buffer": "n long", "zero": len, "reduce": len, "finish": len}
            )()
        },
        "Half has no merge; define it, or declare in merges",
    ),
    "no finish": (
        {"using": Rows(), "schema": "rows int"},
        "Rows has no finish, so its buffer (struct<rows:bigint>) is the result, but the schema is "
        "struct<rows:int>; make them equal or define finish.",
    ),
    "merges lacks": (
        {"using": changed(merges={"n": "sum"})},
        "Changed.merges has no aggregate for 'total'",
    ),
    "merges more": (
        {"using": type("More", (Declared,), {"merges": {**Declared.merges, "z": "sum"}})()},
        "More.merges names 'z', which is not a column of the buffer",
    ),
    "merges number": (
        {"using": type("More", (Declared,), {"merges": {**Declared.merges, "n": 1}})()},
        "More.merges has 1 for 'n'; use the name",
    ),
    "rows": ({"using": changed(rows="polars")}, "Changed.rows is 'polars'"),
    "name twice": ({"schema": "K long"}, "the result would have the column 'K' twice"),
    "key is a map": ({"key": "m"}, "contains a map"),
    "no column": ({"key": "j"}, "there is no column 'j'"),
    "output mode": ({"output_mode": "update"}, "output_mode is 'update', but df is not a stream"),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_bad_input_is_a_sentence(spark: Any, name: str) -> None:
    change, sentence = BAD[name]
    df = spark.range(3).selectExpr("id as k", "map('a', id) as m")
    options: dict[str, Any] = {"key": "k", "using": Profile(), "schema": SCHEMA, "workers": 2}
    with pytest.raises(EvenflowError) as raised:
        aggregate(df, **{**options, **change})
    assert sentence in str(raised.value)


def test_a_session_window_is_refused(spark: Any) -> None:
    from pyspark.sql import functions as F

    df = spark.createDataFrame(table("string", 5, 1.0, 1))
    with pytest.raises(EvenflowError, match="session window"):
        aggregate(df, [F.session_window("ts", "5 minutes"), "k"], Profile(), SCHEMA, workers=2)
