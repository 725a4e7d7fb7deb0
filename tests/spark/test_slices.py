"""Slices: runs of equal keys, equal as Spark's groupBy sees it; typed records; user code that fails."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow import EvenflowError
from evenflow.spark import Aggregator
from evenflow.spark.grouped.aggregate_task import MergePass, ReducePass
from evenflow.spark.grouped.apply_task import WholeGroups
from evenflow.spark.grouped.record_columns import Records, to_array, to_values
from evenflow.spark.grouped.runs import Layout, canonical, equal_keys, sorted_by_hash, split_runs
from evenflow.spark.grouped.state_encoding import keys_to_text, restore, store, text_to_keys

NAN = float("nan")
floats = st.sampled_from([0.0, -0.0, 1.5, NAN, math.inf, None])
texts = st.sampled_from(["", "a", "b", "ab", None])
POINT = pa.struct([("x", pa.float64()), ("s", pa.string())])
KINDS: dict[str, tuple[Any, Any]] = {
    "long": (pa.int64(), st.sampled_from([0, 1, -1, None])),
    "double": (pa.float64(), floats),
    "float": (pa.float32(), floats),
    "string": (pa.string(), texts),
    "binary": (pa.binary(), st.sampled_from([b"", b"\0", b"a", None])),
    "bool": (pa.bool_(), st.sampled_from([True, False, None])),
    "date": (pa.date32(), st.sampled_from([date(2020, 1, 1), date(2020, 1, 2), None])),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        st.sampled_from(
            [datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 0, 0, 0, 1, tzinfo=UTC), None]
        ),
    ),
    "decimal": (pa.decimal128(9, 2), st.sampled_from([Decimal("1.50"), Decimal("-1.50"), None])),
    "interval": (pa.duration("us"), st.sampled_from([timedelta(1), timedelta(2), None])),
    "struct": (POINT, st.one_of(st.none(), st.fixed_dictionaries({"x": floats, "s": texts}))),
    "array": (pa.list_(pa.float64()), st.one_of(st.none(), st.lists(floats, max_size=3))),
    "array of structs": (
        pa.list_(POINT),
        st.one_of(
            st.none(),
            st.lists(st.one_of(st.none(), st.fixed_dictionaries({"x": floats, "s": texts})), max_size=2),
        ),
    ),
}


def as_spark_sees(value: Any) -> Any:
    """Return something hashable that is equal where Spark's groupBy calls keys equal."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((name, as_spark_sees(inner)) for name, inner in value.items())
    if isinstance(value, list):
        return ("list", *map(as_spark_sees, value))
    return (type(value).__name__, value)


@st.composite
def columns(draw: Any) -> list[pa.Array]:
    """One or two key columns of a random type each, sliced so that offsets are not zero."""
    rows = draw(st.integers(1, 12))
    made = []
    for name in draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=2)):
        kind, values = KINDS[name]
        made.append(
            pa.array(draw(st.lists(values, min_size=rows + 2, max_size=rows + 2)), kind).slice(1, rows)
        )
    return made


def layout_of(keys: int, rows: int = 1) -> Layout:
    return Layout(
        keys=tuple(range(keys)),
        key_names=tuple(f"k{place}" for place in range(keys)),
        rows=tuple(range(keys, keys + rows)),
        row_names=tuple(f"v{place}" for place in range(rows)),
    )


def batches_of(keys: list[pa.Array], sizes: list[int]) -> list[pa.RecordBatch]:
    """Return keys and the rows' numbers as batches of some sizes."""
    rows = len(keys[0])
    names = [*(f"k{place}" for place in range(len(keys))), "v0"]
    whole = pa.RecordBatch.from_arrays([*keys, pa.array(range(rows))], names=names)
    made, start = [], 0
    for size in sizes:
        made.append(whole.slice(start, size))
        start += size
    return [*made, whole.slice(start)]


def runs_of(keys: list[pa.Array]) -> list[list[int]]:
    """Return the numbers of the rows of every run, the plain way."""
    values = [tuple(map(as_spark_sees, row)) for row in zip(*(key.to_pylist() for key in keys), strict=True)]
    return [[row for row, _ in run] for _, run in groupby(enumerate(values), key=lambda pair: pair[1])]


@given(columns())
def test_same_is_spark_s_equality(keys: list[pa.Array]) -> None:
    for key in keys:
        shifted = pa.concat_arrays([key.slice(1), key.slice(0, 1)])
        plain = [
            as_spark_sees(one) == as_spark_sees(other)
            for one, other in zip(key.to_pylist(), shifted.to_pylist(), strict=True)
        ]
        assert equal_keys(key, shifted).tolist() == plain


@given(columns(), st.lists(st.integers(0, 4), max_size=4))
def test_groups_are_the_runs_of_equal_keys(keys: list[pa.Array], sizes: list[int]) -> None:
    seen: list[list[int]] = []

    def gather(group: pa.Table) -> pa.Table:
        seen.append(group["v0"].to_pylist())
        return group

    schema = pa.schema([("v0", pa.int64())])
    work = WholeGroups(layout_of(len(keys)), gather, "gather", False, "arrow", schema)
    written = [row for batch in work(batches_of(keys, sizes)) for row in batch.column(0).to_pylist()]
    assert seen == runs_of(keys)
    assert written == list(range(len(keys[0])))


class Rows(Aggregator):
    """The rows of a key, in order: shows what was reduced and merged."""

    buffer = "numbers array<long>"

    def zero(self) -> list[Any]:
        return [[]]

    def reduce(self, state: list[Any], rows: pa.Table) -> list[Any]:
        assert rows.num_rows
        return [[*state[0], *rows["v0"].to_pylist()]]

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        return [[*a[0], *b[0]]]

    def finish(self, state: list[Any]) -> list[Any]:
        return state


NUMBERS = Records("Rows", pa.schema([("numbers", pa.list_(pa.int64()))]), "buffer")


def names_of(keys: list[pa.Array]) -> tuple[str, ...]:
    return (*(f"k{place}" for place in range(len(keys))), "numbers")


@given(columns(), st.lists(st.integers(0, 4), max_size=4))
def test_reduce_folds_every_run_into_one_state(keys: list[pa.Array], sizes: list[int]) -> None:
    work = ReducePass(Rows(), layout_of(len(keys)), NUMBERS, NUMBERS, names_of(keys))
    written = pa.Table.from_batches(work(batches_of(keys, sizes)))
    assert written.column(len(keys)).to_pylist() == runs_of(keys)
    firsts = [run[0] for run in runs_of(keys)]
    for place, key in enumerate(keys):
        assert str(written.column(place).to_pylist()) == str(canonical(key).take(firsts).to_pylist())


@given(columns(), st.lists(st.integers(0, 4), max_size=4))
def test_merge_joins_the_states_of_a_run(keys: list[pa.Array], sizes: list[int]) -> None:
    layout = layout_of(len(keys))
    batches = [
        batch.set_column(len(keys), "v0", pa.array([[row] for row in batch.column(len(keys)).to_pylist()]))
        for batch in batches_of(keys, sizes)
    ]
    work = MergePass(Rows(), layout, NUMBERS, NUMBERS, names_of(keys))
    written = pa.Table.from_batches(work(batches))
    assert written.column(len(keys)).to_pylist() == runs_of(keys)


@given(columns())
def test_keys_of_any_type_become_text_and_come_back(keys: list[pa.Array]) -> None:
    keys = [canonical(key) for key in keys]
    texts = keys_to_text(keys).to_pylist()
    plain = [tuple(map(as_spark_sees, row)) for row in zip(*(key.to_pylist() for key in keys), strict=True)]
    assert len(set(texts)) == len(set(plain))
    back = text_to_keys(texts, [key.type for key in keys])
    assert [str(key.to_pylist()) for key in back] == [str(key.to_pylist()) for key in keys]
    restored = restore(store(keys), pa.schema([(str(place), key.type) for place, key in enumerate(keys)]))
    assert [str(key.to_pylist()) for key in restored] == [str(key.to_pylist()) for key in keys]


@given(columns())
def test_values_of_any_type_become_columns_and_come_back(keys: list[pa.Array]) -> None:
    for key in keys:
        assert str(to_array(to_values(key), key.type).to_pylist()) == str(key.to_pylist())


ODD = [
    0,
    -1,
    2**63 - 1,
    2**63,
    -(2**63),
    -(2**63) - 1,
    True,
    0.5,
    -0.0,
    NAN,
    "",
    "a",
    "é",
    "\ud800",
    None,
    b"a",
]
SIMPLE = [pa.int64(), pa.int32(), pa.float64(), pa.float32(), pa.string(), pa.bool_(), pa.binary()]


@given(
    st.lists(st.tuples(st.sampled_from(SIMPLE), st.booleans(), st.sampled_from(ODD)), min_size=1, max_size=3)
)
def test_a_plain_record_comes_back_from_columns_as_it_is(made: list[tuple[pa.DataType, bool, Any]]) -> None:
    fields = [pa.field(f"c{place}", kind, nullable) for place, (kind, nullable, _) in enumerate(made)]
    records, record = Records("zero", pa.schema(fields), "buffer"), tuple(value for *_, value in made)
    if records.is_plain(record):
        [back] = records.to_records(records.columns([record], str))
        assert [(type(value), str(value)) for value in back] == [
            (type(value), str(value)) for value in record
        ]


@given(st.lists(st.sampled_from([3, 1, 2, -5]), max_size=20), st.integers(1, 200))
def test_sorting_by_hash_keeps_rows_and_joins_equal_hashes(hashes: list[int], limit: int) -> None:
    batches = batches_of([pa.array(hashes, pa.int64())], [3, 0, 4]) if hashes else []
    ordered = list(sorted_by_hash(batches, 0, limit))
    rows = [row for batch in ordered for row in batch.to_pylist()]
    assert sorted(row["v0"] for row in rows) == list(range(len(hashes)))
    assert all(hashes[row["v0"]] == row["k0"] for row in rows)
    for batch in ordered:
        runs = [key for key, _ in groupby(batch.column(0).to_pylist())]
        assert len(runs) == len(set(runs))


def test_a_cut_without_rows_is_left_out() -> None:
    empty = pa.record_batch({"k0": pa.array([], pa.string()), "v0": pa.array([], pa.int64())})
    assert list(split_runs([empty], layout_of(1))) == []


def run_reduce(aggregator: Any, schema: pa.Schema | None = None) -> list[pa.RecordBatch]:
    batch = pa.record_batch({"k0": ["a", "b"], "v0": [1, 0]})
    shape = Records(f"{type(aggregator).__name__}.finish", schema or NUMBERS.schema, "schema")
    work = ReducePass(aggregator, layout_of(1), NUMBERS, shape, ("k0", *shape.names))
    return list(work([batch]))


@pytest.mark.parametrize("method", ["zero", "reduce", "finish"])
def test_an_exception_names_the_key_the_class_and_the_line(method: str) -> None:
    class Poisoned(Rows):
        pass

    def fail(self: Any, *given: Any) -> Any:
        if method == "reduce" and given[1]["v0"].to_pylist() != [0]:
            return Rows.reduce(self, *given)
        if method == "finish" and given[0] != [[0]]:
            return Rows.finish(self, *given)
        raise ZeroDivisionError("no luck")

    setattr(Poisoned, method, fail)
    with pytest.raises(EvenflowError) as raised:
        run_reduce(Poisoned())
    key = "a" if method == "zero" else "b"
    said = str(raised.value)
    assert said.startswith(f"Poisoned.{method} failed for key k0='{key}': ZeroDivisionError: no luck")
    assert "test_slices.py, line " in said


BAD_RESULTS = {
    "a number": (7, "Odd.finish returned 7 for key k0='a'; return a dict or a tuple"),
    "nothing": (None, "Odd.finish returned None for key k0='a'"),
    "too few": (
        (1,),
        "returned 1 values for key k0='a', but the schema has 2 columns (n, s)",
    ),
    "name missing": ({"n": 1}, "without the column 's' of the schema; add it"),
    "name wrong": ({"n": 1, "text": ""}, "without the column 's' of the schema but with 'text'; rename it."),
    "name more": ({"n": 1, "s": "", "t": 2}, "with 't', which is not a column of the schema; "),
    "text for long": (
        ("x", "y"),
        "returned 'x' for column 'n' of key k0='a', which the schema declares as int64",
    ),
    "digits for long": (("1", "y"), "returned '1' for column 'n'"),
    "half for long": ((1.5, "y"), "Float value 1.5"),
    "too large": ((2**70, "y"), "returned 1180591620717411303424 for column 'n'"),
    "number for text": ((1, 2), "returned 2 for column 's' of key k0='a'"),
}


@pytest.mark.parametrize("name", sorted(BAD_RESULTS))
def test_a_result_that_does_not_fit_the_schema_is_a_sentence(name: str) -> None:
    value, sentence = BAD_RESULTS[name]

    class Odd(Rows):
        def finish(self, state: list[Any]) -> Any:
            return value

    with pytest.raises(EvenflowError) as raised:
        run_reduce(Odd(), pa.schema([("n", pa.int64()), ("s", pa.string())]))
    assert sentence in str(raised.value)


def test_not_null_is_kept() -> None:
    class Odd(Rows):
        def finish(self, state: list[Any]) -> Any:
            return (None,)

    with pytest.raises(EvenflowError, match="returned None for column 'n' of key k0='a'"):
        run_reduce(Odd(), pa.schema([pa.field("n", pa.int64(), nullable=False)]))


def test_numpy_and_arrow_values_fit() -> None:
    import numpy as np

    class Fine(Rows):
        def finish(self, state: list[Any]) -> Any:
            return {"n": np.int32(3), "x": np.float64(1.5), "l": np.array([1, 2]), "m": {"a": np.int64(1)}}

    schema = pa.schema(
        [
            ("n", pa.int64()),
            ("x", pa.float64()),
            ("l", pa.list_(pa.int64())),
            ("m", pa.map_(pa.string(), pa.int64())),
        ]
    )
    first = run_reduce(Fine(), schema)[0]
    assert first.to_pylist() == [{"k0": "a", "n": 3, "x": 1.5, "l": [1, 2], "m": [("a", 1)]}]


def groups(function: Any, rows: str = "arrow", takes_key: bool = False) -> pa.Table:
    batch = pa.record_batch({"k0": ["a", "a", "b"], "v0": pa.array([1, None, 3], pa.int64())})
    schema = pa.schema([("k", pa.string()), ("n", pa.int64())])
    layout = Layout((0,), ("k0",), (0, 1), ("k0", "v0"))
    work = WholeGroups(layout, function, "work", takes_key, rows, schema)
    return pa.Table.from_batches(work([batch.slice(0, 1), batch.slice(1)]), schema)


def test_a_group_comes_with_its_key_as_scalars_or_as_values() -> None:
    def arrow(key: Any, group: pa.Table) -> pa.Table:
        assert isinstance(key[0], pa.StringScalar)
        return pa.table({"n": [group.num_rows], "k": [key[0].as_py()]})

    def pandas(key: Any, group: Any) -> Any:
        import pandas as pd

        assert list(group.index) == list(range(len(group)))
        return pd.DataFrame({"n": [len(group)], "k": [key[0]]})

    wanted = [{"k": "a", "n": 2}, {"k": "b", "n": 1}]
    assert groups(arrow, takes_key=True).to_pylist() == wanted
    assert groups(pandas, "pandas", takes_key=True).to_pylist() == wanted


def test_pandas_columns_have_the_type_of_their_own_group() -> None:
    import pandas as pd

    def pandas(group: Any) -> Any:
        return pd.DataFrame({"k": [str(group["v0"].dtype)], "n": [0]})

    assert groups(pandas, "pandas")["k"].to_pylist() == ["float64", "int64"]


BAD_GROUPS: dict[str, tuple[Any, str]] = {
    "a list": (
        lambda group: [1],
        "work returned a list for key k0='a'; return a pyarrow Table with the columns k, n.",
    ),
    "column missing": (
        lambda group: group,
        "work returned no column 'k' for key k0='a', but the schema declares it; ",
    ),
    "column more": (
        lambda group: pa.table({"k": ["x"], "n": [1], "m": [2]}),
        "returned a column 'm' for key k0='a' that the schema does not declare; drop it",
    ),
    "wrong type": (
        lambda group: pa.table({"k": ["x"], "n": ["many"]}),
        "returned a column 'n' for key k0='a' that does not fit its declared type int64",
    ),
    "cut off": (lambda group: pa.table({"k": ["x"], "n": [1.5]}), "does not fit its declared type int64"),
}


@pytest.mark.parametrize("name", sorted(BAD_GROUPS))
def test_a_group_s_result_that_does_not_fit_is_a_sentence(name: str) -> None:
    function, sentence = BAD_GROUPS[name]
    with pytest.raises(EvenflowError) as raised:
        groups(function)
    assert sentence in str(raised.value)


def test_a_result_is_matched_by_name_and_converted_where_nothing_is_lost() -> None:
    result = groups(lambda group: pa.table({"n": pa.array([1.0], pa.float32()), "k": ["x"]}).slice(0, 1))
    assert result.to_pylist() == [{"k": "x", "n": 1}] * 2
    assert groups(lambda group: group.slice(0, 0)).num_rows == 0
